"""Programs of the named workloads and random streams of inserts and deletes for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from tests.frontend.workloads import SIZES, random_rows
from tests.planner.support import workload
from viewlet.calculus.ring import Gmr, Key
from viewlet.distributed import DistributedProgram, SimulatedCluster
from viewlet.planner.viewlets import compile_program
from viewlet.program.interpret import Interpreter
from viewlet.program.ir import Program
from viewlet.schema import Catalog, encode

TPCH = [f"tpch/q{number}" for number in range(1, 23)]
FINANCE = [f"finance/{name}" for name in ("axf", "bsp", "bsv", "mst", "psp", "vwap")]

Batch = dict[str, Gmr]
Event = tuple[str, Key]


@cache
def _compiled(query: str) -> tuple[Catalog, Program]:
    catalog, lowered = workload(*query.split("/"))
    return catalog, compile_program(catalog, [lowered], keyed=False)


def program_of(query: str) -> Program:
    """The trigger program of a query, such as tpch/q3."""
    return _compiled(query)[1]


def database(query: str, seed: int) -> tuple[Batch, list[Event]]:
    """The static tables' contents, and the rows of the others as events."""
    relations = _compiled(query)[0]
    rows = random_rows(relations, seed, SIZES)
    static: Batch = {}
    events: list[Event] = []
    for relation in relations:
        for row in rows[relation.name]:
            key = tuple(encode(v, c) for v, c in zip(row, relation.columns, strict=True))
            if relation.static:
                static.setdefault(relation.name, Gmr()).add(key, 1)
            else:
                events.append((relation.name, key))
    return static, events


def stream(events: list[Event], seed: int, size: int) -> Iterator[Batch]:
    """Batches over several relations; a quarter of the changes take an earlier row away."""
    maker = random.Random(seed)
    coming, live = list(events), list[Event]()
    maker.shuffle(coming)
    while coming:
        batch: Batch = {}
        for _ in range(size):
            if live and maker.random() < 0.25:
                name, key = live.pop(maker.randrange(len(live)))
                batch.setdefault(name, Gmr()).add(key, -1)
            elif coming:
                name, key = coming.pop()
                live.append((name, key))
                batch.setdefault(name, Gmr()).add(key, 1)
        yield batch


def compare(
    query: str, distributed: DistributedProgram, nodes: tuple[int, ...], *, seed: int, size: int = 7
) -> None:
    """Run a stream on the reference and on simulated clusters; equal after every batch.

    A program with one trigger for all relations gets whole batches, others one relation at a
    time. Tuples of a batch arrive at random workers.
    """
    program = program_of(query)
    static, events = database(query, seed)
    reference = Interpreter(program)
    reference.load(static)
    clusters = [SimulatedCluster(distributed, number) for number in nodes]
    for cluster in clusters:
        cluster.load(static)
    maker = random.Random(seed)
    whole = len(distributed.triggers[0].relations) > 1
    for batch in stream(events, seed, size):
        order = distributed.triggers[0].relations if whole else tuple(batch)
        for relation in order:
            reference.apply(relation, batch.get(relation, Gmr()))
        for cluster in clusters:
            spread = iter(lambda: maker.randrange(1000), None)
            if whole:
                deltas = {relation: batch.get(relation, Gmr()) for relation in order}
                cluster.apply_all(distributed.triggers[0], deltas, spread)
            else:
                for relation in order:
                    cluster.apply(relation, batch[relation], spread)
            for kept in program.state:
                for column in kept.columns:
                    found = cluster.column(kept.name, column.name)
                    assert found == reference.store[kept.name, column.name], kept.name
    for cluster in clusters:
        for view in program.views:
            assert sorted(map(repr, cluster.rows(view))) == sorted(map(repr, reference.rows(view)))
