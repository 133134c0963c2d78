"""What a durable database writes before it says that something is done.

reserve   before anything changes: there is room for the record, or nothing is done
record    after the engine and every callback have agreed; a ticket to wait with
wait      without the database's lock, so that writers share one sync
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewlet.engine.durable.log import Log
from viewlet.engine.values.batch_codec import changes_to_bytes, row_to_bytes
from viewlet.engine.values.batching import Batch
from viewlet.schema import Scalar

STATEMENT, CHANGES = 1, 2
"""Kinds of records: the text of a statement that defines something; rows that came and went."""


class DatabaseJournal:
    """The log of one database; its callers hold the database's lock but for `wait`."""

    def __init__(self, log: Log, has_grown: Callable[[], None]) -> None:
        """`has_grown` is called after each record: it may be time for a snapshot."""
        self.log = log
        self._has_grown = has_grown

    def prepare_row(self, relation: str, row: Sequence[Scalar], weight: int) -> bytes:
        """The record of one row, with room for it reserved."""
        return self._reserved(row_to_bytes(relation, row, weight))

    def prepare(self, changes: Sequence[tuple[str, Batch]]) -> bytes:
        """The record of a batch, with room for it reserved."""
        return self._reserved(changes_to_bytes(changes))

    def prepare_statements(self, texts: Sequence[str]) -> bytes:
        """The record of definitions, with room for it reserved."""
        return self._reserved(";\n".join(texts).encode())

    def _reserved(self, payload: bytes) -> bytes:
        self.log.reserve(len(payload))
        return payload

    def record(self, kind: int, payload: bytes) -> int:
        """Append what was prepared; what to `wait` for."""
        ticket = self.log.append(kind, payload)
        self._has_grown()
        return ticket

    def wait(self, ticket: int) -> None:
        """Return when the record is as durable as the database was asked to be."""
        if ticket:
            self.log.wait(ticket)
