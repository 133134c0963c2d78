"""What the driver asks of partitions: orders change them, requests read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum


class Action(Enum):
    """What a step does in a partition."""

    BATCH = "batch"  # run a trigger's job over the rows that came, which tables take in first
    TABLES = "tables"  # take rows into tables; no view depends on them
    LOAD = "load"  # run a trigger's job over the rows that came; nothing of it is undone later
    PUT = "put"  # add rows to maps and tables as they are


@dataclass(frozen=True)
class Order:
    """One step. `begin`: it is the first of its batch, and undoing the batch undoes it.

    `skip`: so many stages of the job were run before it, where the batch was.
    """

    action: Action
    trigger: int = 0
    job: int = 0
    begin: bool = True
    skip: int = 0

    def pack(self) -> bytes:
        """As bytes, for the broadcast of a step."""
        parts = (self.action.value, self.trigger, self.job, self.begin, self.skip)
        return json.dumps(parts).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Order:
        """The reverse of pack."""
        action, *fields = json.loads(data)
        return cls(Action(action), *fields)


class ReadKind(Enum):
    """What a read asks of a partition."""

    NOW = "now"  # the rows of maps
    BEFORE = "before"  # the rows that they had before the last batch
    CHANGED = "changed"  # the rows that it touched, before and after: two parts for each map
    SIZES = "sizes"  # one row for each map: records, bytes
    TABLES = "tables"  # the rows of tables
    TABLE_SIZES = "table sizes"


@dataclass(frozen=True)
class Request:
    """`names` are maps or tables; of maps that are copied everywhere, partition 0 answers."""

    kind: ReadKind
    names: tuple[str, ...]

    def pack(self) -> bytes:
        """As bytes, for the request of a read."""
        return json.dumps((self.kind.value, self.names)).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Request:
        """The reverse of pack."""
        kind, names = json.loads(data)
        return cls(ReadKind(kind), tuple(names))
