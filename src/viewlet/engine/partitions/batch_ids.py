"""Which batches have been applied: for each source the number of its last one, for ever.

    (source, number)    number <= the source's last number    -> applied already, a repetition
                        else                                  -> new, and the last from now on

A source is whatever numbers its batches upwards: a streaming query with what it feeds, say. That is
all that foreachBatch promises, and it needs one entry for each source, however many batches come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from viewlet.errors import DataError


class BatchId(NamedTuple):
    """The name of a batch: where it comes from, and its number there."""

    source: tuple[str, ...]
    number: int

    def __str__(self) -> str:
        return f"batch {self.number} of {source_text(self.source)}"


def source_text(source: tuple[str, ...]) -> str:
    """A source as messages name it."""
    return " ".join(part for part in source if part) or "the caller"


def batch_id_of(value: Any) -> BatchId | None:
    """A user's id: a number, or (name of the query, number)."""
    if value is None:
        return None
    query, number = value if isinstance(value, tuple) and len(value) == 2 else ("", value)
    if not isinstance(query, str) or not isinstance(number, int) or isinstance(number, bool):
        raise DataError(
            f"{value!r:.80} is not the id of a batch",
            hint='give (query, number), as in ("orders", 7); the numbers of a query grow',
        )
    return BatchId((query,), number)


@dataclass(frozen=True)
class AppliedBatches:
    """Source -> the number of its last batch, and the version that this made. Never changed."""

    last: Mapping[tuple[str, ...], tuple[int, int]]

    @classmethod
    def decode(cls, plain: Iterable[Any]) -> AppliedBatches:
        """The reverse of encode."""
        return cls({tuple(source): (number, version) for source, number, version in plain})

    def encode(self) -> list[tuple[tuple[str, ...], int, int]]:
        """As JSON has it."""
        return [(source, *made) for source, made in self.last.items()]

    def __contains__(self, batch: BatchId) -> bool:
        last = self.last.get(batch.source)
        return last is not None and batch.number <= last[0]

    def version_of(self, batch: BatchId) -> int | None:
        """The version that a batch made; None where it is not the last of its source."""
        number, version = self.last.get(batch.source, (None, None))
        return version if number == batch.number else None

    def with_batch(self, batch: BatchId, version: int) -> AppliedBatches:
        """The same after one batch more."""
        return AppliedBatches({**self.last, batch.source: (batch.number, version)})

    def missing_from(self, older: AppliedBatches) -> Iterator[str]:
        """What must come again for a state that has only the older ones, a text for each source."""
        for source, (number, _) in self.last.items():
            before = older.last.get(source)
            if before is None or before[0] < number:
                after = f"after {before[0]} " if before is not None else ""
                yield f"{source_text(source)}: batches {after}to {number}"


NO_BATCHES = AppliedBatches({})
