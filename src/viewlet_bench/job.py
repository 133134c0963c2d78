"""`viewlet bench job`: a query of each of the 33 families of the Join Order Benchmark.

The tables are those of `imdb`. All but the last hundredth of their rows is loaded, then that comes
in batches, an old row being deleted for every new one; a batch has changes of all tables that a
query joins, each by its size. DuckDB evaluates the query again beside it (`ratio`), and its answer
is compared with the view's at the end.

`state_ratio` is the bytes of all maps, with their indexes and free places, over those of the joined
columns at eight bytes a value. Where the recursive plan could be made as well, a second row has it.

The last hundredth of small tables is less than a batch: `rows` says how many changes there were. An
answer that is NULL, because nothing joins at that scale, is equal too. DuckDB reserves `at`,
by which the published query 15a calls a table; here it is akt.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.calculus.query import Plan
from viewlet.pipeline.compile_file import compile_text
from viewlet.planner.viewlets import plan_choice
from viewlet_bench.feed import RowFeed, Span, make_feed
from viewlet_bench.imdb import KINDS, ImdbTables
from viewlet_bench.output import Row
from viewlet_bench.replay import Replay, prepared, replay, warm_up
from viewlet_bench.views import against_duckdb, batch_row
from viewlet_bench.workload import CompiledQuery, chosen, query_text, schema_text

if TYPE_CHECKING:
    import pyarrow as pa

WORKLOAD = "job"
OPTIONS = frozenset({"sf", "queries", "batches", "seconds", "progress"})
COLUMNS = (
    *("query", "engine", "relations", "batch", "tuples_per_s", "p50_ms", "p99_ms"),
    *("reference_ms", "ratio", "equal", "maps", "memory_mb", "state_ratio", "plan_s", "jit_s"),
)
SCALE = 0.01
QUICK_SCALE = 0.001
QUICK_QUERIES = ("q3a", "q1a", "q8a", "q17a", "q13a", "q33a")
_STREAM = 0.01
"""The part of every table that comes after the load."""
_BUDGET = 25.0
"""Seconds after which a quick run begins no other query."""


class JobStream:
    """Most rows of each table, then the others one by one, each with the deletion of a loaded row.

    A table is its rows in this order, the deleted ones again with weight -1.
    """

    def __init__(self, tables: ImdbTables, seed: int = 2013) -> None:
        self._tables = tables
        self._seed = seed

    def _loaded(self, relation: str) -> int:
        length = self._tables.length(relation)
        return length if relation in KINDS else length - max(1, int(_STREAM * length))

    def _order(self, relation: str) -> Any:
        """The rows as they come: those that are loaded, then new and deleted ones in turns."""
        loaded, length = self._loaded(relation), self._tables.length(relation)
        new = np.arange(loaded, length)
        random = np.random.default_rng((self._seed, length))
        deleted = random.choice(loaded, len(new), replace=False)
        return np.concatenate([np.arange(loaded), np.stack([new, deleted], axis=1).ravel()])

    def table(self, relation: str, columns: Sequence[str]) -> pa.Table:
        return self._tables.table(relation, columns).take(self._order(relation))

    def weights(self, relation: str) -> Any:
        weights = np.ones(len(self._order(relation)), np.int64)
        weights[self._loaded(relation) + 1 :: 2] = -1
        return weights

    def begin(self, lengths: Mapping[str, int]) -> dict[str, int]:
        return {name: self._loaded(name) for name in lengths}

    def spans(self, lengths: Mapping[str, int], size: int) -> Iterator[list[Span]]:
        """Batches of about `size` changes, each with its share of every table's."""
        begin = self.begin(lengths)
        total = sum(lengths[name] - begin[name] for name in lengths)
        count = max(1, round(total / size))
        for number in range(count):
            ends = [
                (
                    name,
                    low + (length - low) * number // count,
                    low + (length - low) * (number + 1) // count,
                )
                for name, length, low in ((n, lengths[n], begin[n]) for n in lengths)
            ]
            yield [span for span in ends if span[1] < span[2]]


def run(
    quick: bool = False,
    *,
    sf: float | None = None,
    queries: Sequence[str] | None = None,
    batches: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Callable[[Row], None] | None = None,
) -> list[Row]:
    """All families, or those that were asked for; a quick run ends when its time is over."""
    names = queries if queries is not None or not quick else QUICK_QUERIES
    tables = ImdbTables(sf if sf is not None else QUICK_SCALE if quick else SCALE)
    sizes = [int(batch) for batch in batches or ("1000",)]
    limit = seconds if seconds is not None else 1.0 if quick else 10.0
    started = time.monotonic()
    rows: list[Row] = []
    asked = chosen(WORKLOAD, names)
    for number, query in enumerate(asked):
        if quick and time.monotonic() - started > _BUDGET:
            print(f"no time left for {', '.join(asked[number:])}", file=sys.stderr)
            break
        for compiled, plan in _candidates(query, both=not quick):
            for row in _measured(compiled, plan, JobStream(tables), sizes, limit):
                rows.append(row)
                if progress is not None:
                    progress(row)
            gc.collect()
    return rows


def _candidates(query: str, both: bool) -> Iterator[tuple[CompiledQuery, Plan]]:
    """The query under the plan that it has, and under the other one if that was made too."""
    text = query_text(WORKLOAD, query)
    started = time.perf_counter()
    definitions, program = compile_text(schema_text(WORKLOAD) + text)
    seconds = time.perf_counter() - started
    choice = plan_choice(definitions.planning_catalog(), definitions.queries()[0])
    yield CompiledQuery(WORKLOAD, query, program, ((query, text),), seconds), choice.plan
    if both and choice.recursive is not None and choice.tree is not None:
        other = Plan.TREE if choice.plan is Plan.RECURSIVE else Plan.RECURSIVE
        asked = text.replace(" AS\n", f" WITH (plan = '{other.value}') AS\n", 1)
        _, second = compile_text(schema_text(WORKLOAD) + asked)
        yield CompiledQuery(WORKLOAD, query, second, ((query, text),), seconds), other


def _measured(
    compiled: CompiledQuery, plan: Plan, stream: JobStream, sizes: Sequence[int], limit: float
) -> Iterator[Row]:
    feed = make_feed(compiled, stream)
    jit_s = warm_up(feed, single=False)
    for size in sizes:
        started = time.perf_counter()
        engine = prepared(feed)
        load_s = time.perf_counter() - started
        assert engine is not None
        done = replay(feed, engine, size, limit=limit)
        row = batch_row(compiled.query, str(size), done)
        row |= against_duckdb(feed, done, single=False, limit=max(10.0, 3 * limit))
        row |= {
            "workload": WORKLOAD,
            "engine": f"viewlet {plan.value}",
            "relations": _joined(compiled),
            "joined_mb": joined_bytes(feed, done) / 2**20,
            "plan_s": compiled.plan_s,
            "jit_s": jit_s,
            "load_s": load_s,
        }
        row["state_ratio"] = row["memory_mb"] / row["joined_mb"]
        yield row


def _joined(compiled: CompiledQuery) -> int:
    """The tables that the query names in FROM, each time that it does."""
    ((_, text),) = compiled.views
    clause = text.split("\nFROM", 1)[1].split("\nWHERE", 1)[0]
    return 1 + clause.count(",")


def joined_bytes(feed: RowFeed, done: Replay) -> int:
    """The columns that some trigger reads, of the rows that are there, at 8 bytes a value."""
    total = 0
    for name, batch in feed.rows.items():
        columns = sum(len(column) > 0 for column in batch.columns)
        weights = feed.source.weights(name)[: done.done[name]]
        total += 8 * columns * int(weights.sum())
    return total
