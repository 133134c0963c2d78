"""The stream of a benchmark as a user gives it: Arrow tables to `apply`, or tuples to `insert`.

What `replay` measures is the engine's work on coded batches. Here rows are converted, checked and
coded in the measured time as well. Relations are streams, as the engine alone keeps no rows either.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import viewlet
from viewlet_bench.feed import RowFeed, Span
from viewlet_bench.output import Row
from viewlet_bench.workload import query_text, schema_text

if TYPE_CHECKING:
    import pyarrow as pa

_LOAD = 100_000
_BLOCK = 64
_WARM = 2


def end_to_end(feed: RowFeed, batch: str, limit: float) -> Row:
    """Rows per second and the mean time of a batch, from call to return."""
    user = User(feed)
    size = 1 if batch == "single" else int(batch)
    rows, seconds = 0, 0.0
    coming = feed.spans(size)
    with user.database() as db:
        while seconds < limit and (block := list(itertools.islice(coming, _BLOCK))):
            for changes in [user.changes(spans, size) for spans in block]:
                started = time.perf_counter()
                rows += _apply_single(db, *changes) if size == 1 else db.apply(changes)
                seconds += time.perf_counter() - started
                if seconds >= limit:
                    break
    return {"user_per_s": rows / seconds, "user_ms": 1e3 * seconds * size / rows}


def _apply_single(db: viewlet.Database, change: viewlet.Change) -> int:
    """One row as a user inserts or deletes it."""
    if change.weights == 1:
        return db.insert(change.relation, change.rows)
    return db.delete(change.relation, change.rows)


class User:
    """All rows of a feed's relations as Arrow has them."""

    def __init__(self, feed: RowFeed) -> None:
        self._feed = feed
        program = feed.compiled.program
        names = (*feed.compiled.static, *feed.compiled.streamed)
        self._tables: dict[str, pa.Table] = {
            name: feed.source.table(name, program.relation(name).names).combine_chunks()
            for name in names
        }

    def database(self) -> viewlet.Database:
        """A database with the query's views and all that is there before the stream.

        Its triggers have run once: machine code is made.
        """
        feed, compiled = self._feed, self._feed.compiled
        schema = schema_text(compiled.workload)
        for name in compiled.streamed:
            schema = re.sub(rf"CREATE TABLE {name}\b", f"CREATE STREAM {name}", schema)
        db = viewlet.connect()
        db.execute(schema)
        for name in compiled.static:
            db.insert(name, self._tables[name])
        db.execute(query_text(compiled.workload, compiled.query))
        for name in compiled.streamed:
            few = self._tables[name][:_WARM]
            for weight in (1, -1):
                db.apply([viewlet.Change(name, few, weight)])
        for spans in _spans(feed.begin()):
            db.apply(self.changes(spans, _LOAD))
        return db

    def changes(self, spans: Sequence[Span], size: int) -> list[viewlet.Change]:
        """One batch of the stream; single rows as tuples."""
        return [self._change(*span, is_single=size == 1) for span in spans if span[1] < span[2]]

    def _change(self, name: str, low: int, high: int, *, is_single: bool) -> viewlet.Change:
        weights = self._feed.source.weights(name)
        part: Any = self._tables[name].slice(low, high - low)
        if is_single:
            part = tuple(column[0].as_py() for column in part.columns)
            return viewlet.Change(name, part, 1 if weights is None else int(weights[low]))
        return viewlet.Change(name, part, 1 if weights is None else weights[low:high])


def _spans(ends: dict[str, int]) -> Iterator[list[Span]]:
    for name, end in ends.items():
        for low in range(0, end, _LOAD):
            yield [(name, low, min(low + _LOAD, end))]
