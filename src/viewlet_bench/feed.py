"""All rows of a query's relations in memory, and the order in which they come.

Relations come round-robin, batch by batch, as one stream (paper 000 section 6); the order book has
an order of its own. Strings are coded once, before anything is timed, and only the columns that
some trigger reads are kept.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.values.batching import Batch, make_batch
from viewlet.engine.values.strings import Dictionary
from viewlet.storage.columns import Arrays
from viewlet_bench.data import generated, read
from viewlet_bench.orderbook import OrderBook
from viewlet_bench.workload import CompiledQuery

if TYPE_CHECKING:
    import pyarrow as pa

Span = tuple[str, int, int]
"""A relation and the rows of it that one batch takes."""


class RowSource(Protocol):
    """Where rows come from and in which order."""

    def table(self, relation: str, columns: Sequence[str]) -> pa.Table: ...

    def weights(self, relation: str) -> Any:
        """One for each row; None where all are inserts."""
        ...

    def begin(self, lengths: Mapping[str, int]) -> dict[str, int]:
        """How many rows of each relation are there before the stream begins."""
        ...

    def spans(self, lengths: Mapping[str, int], size: int) -> Iterator[list[Span]]:
        """The stream in batches of at most `size` rows."""
        ...


class GeneratedTables:
    """The tables of tpcgen-cli, all of them inserts.

    `last`: the stream is only the last so many rows of these relations, and all the rest is there
    before; without it everything comes with the stream.
    """

    def __init__(
        self,
        workload: str,
        sf: float,
        tables: Sequence[str],
        last: Mapping[str, int] | None = None,
    ) -> None:
        self._directory = generated(workload, sf, tables)
        self._last = last

    def table(self, relation: str, columns: Sequence[str]) -> pa.Table:
        return read(self._directory, relation, columns)

    def weights(self, relation: str) -> Any:
        return None

    def begin(self, lengths: Mapping[str, int]) -> dict[str, int]:
        if self._last is None:
            return dict.fromkeys(lengths, 0)
        return {name: max(0, length - self._last.get(name, 0)) for name, length in lengths.items()}

    def spans(self, lengths: Mapping[str, int], size: int) -> Iterator[list[Span]]:
        return round_robin(lengths, size, self.begin(lengths))


class Book:
    """The order book: its resting orders are there before, and a batch takes changes of both sides.

    Changes to a side that the query does not read are left out and not counted.
    """

    def __init__(self, book: OrderBook) -> None:
        self._book = book

    def table(self, relation: str, columns: Sequence[str]) -> pa.Table:
        return self._book.tables[relation].select(list(columns))

    def weights(self, relation: str) -> Any:
        return self._book.weights[relation]

    def begin(self, lengths: Mapping[str, int]) -> dict[str, int]:
        return {name: int(self._book.upto[name][self._book.resting]) for name in lengths}

    def spans(self, lengths: Mapping[str, int], size: int) -> Iterator[list[Span]]:
        upto = {name: self._book.upto[name] for name in lengths}
        total = np.sum(list(upto.values()), axis=0)
        first, last = int(total[self._book.resting]), int(total[-1])
        ends = np.searchsorted(total, np.append(np.arange(first, last, size), last))
        for low, high in itertools.pairwise(ends.tolist()):
            yield [(name, int(counts[low]), int(counts[high])) for name, counts in upto.items()]


def round_robin(
    lengths: Mapping[str, int], size: int, begin: Mapping[str, int]
) -> Iterator[list[Span]]:
    """Batch after batch of each relation in turn, until the longest is at its end."""
    longest = max((length - begin[name] for name, length in lengths.items()), default=0)
    for offset in range(0, longest, size):
        for name, length in lengths.items():
            low = begin[name] + offset
            if low < length:
                yield [(name, low, min(low + size, length))]


@dataclass
class RowFeed:
    """Coded rows of one query, ready to be replayed any number of times."""

    source: RowSource
    compiled: CompiledQuery
    static: dict[str, Batch]
    rows: dict[str, Batch]
    dictionary: Dictionary
    code_s: float
    lengths: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = {name: len(batch) for name, batch in self.rows.items()}

    def engine(self, single: bool = False, arrays: Arrays | None = None) -> LocalEngine:
        """An engine over this feed's strings; the static tables are loaded unless it takes up."""
        new = arrays is None or not arrays.names()
        program, dictionary = self.compiled.program, self.dictionary
        engine = LocalEngine(program, single=single, arrays=arrays, dictionary=dictionary)
        if new:
            engine.load(self.static)
        return engine

    def spans(self, size: int) -> Iterator[list[Span]]:
        """The stream in steps of `size` rows: of which relation, from which row to which."""
        return self.source.spans(self.lengths, size)

    def begin(self) -> dict[str, int]:
        """Relation -> how many of its rows are there before the stream begins."""
        return self.source.begin(self.lengths)

    def changes(self, spans: Sequence[Span]) -> list[tuple[str, Batch]]:
        """The rows of a step, as batches."""
        return [(name, self.rows[name].rows(low, high)) for name, low, high in spans]


def make_feed(compiled: CompiledQuery, source: RowSource) -> RowFeed:
    """Read and code what the query's triggers use; code_s is the time that coding took."""
    program, dictionary = compiled.program, Dictionary()
    coder = LocalEngine(program, dictionary=dictionary)
    static = {
        name: make_batch(program.relation(name), source.table(name, program.relation(name).names))
        for name in compiled.static
    }
    rows, seconds = {}, 0.0
    for name in compiled.streamed:
        relation = program.relation(name)
        used = sorted(coder.module.loops.columns.get(name, set()))
        names = [relation.columns[i].name for i in used]
        table = source.table(name, names)
        started = time.perf_counter()
        part = make_batch(
            replace(relation, columns=tuple(relation.columns[i] for i in used), key=()),
            table,
            source.weights(name),
        )
        rows[name] = coder.code(name, _widened(part, used, len(relation.columns)))
        seconds += time.perf_counter() - started
    return RowFeed(source, compiled, static, rows, dictionary, seconds)


def _widened(part: Batch, used: Sequence[int], width: int) -> Batch:
    """The batch with all columns of its relation; those that no trigger reads are empty."""
    columns: list[Any] = [np.empty(0, np.int64)] * width
    nulls: list[Any] = [None] * width
    for i, column, gaps in zip(used, part.columns, part.nulls, strict=True):
        columns[i], nulls[i] = column, gaps
    return Batch(columns, nulls, part.weights)
