"""Simulated clusters hold the same views as the reference interpreter after every batch."""

import random
from dataclasses import replace

import pytest

from tests.distributed.streams import FINANCE, TPCH, compare, program_of
from viewlet.distributed import Hints, Level, compile_batch, compile_distributed
from viewlet.distributed.ir import DistributedTrigger
from viewlet.distributed.jobs import jobs_of
from viewlet.distributed.location import LOCAL, RANDOM, REPLICATED, Dist, Location
from viewlet.distributed.statement_blocks import single_blocks
from viewlet.program.ir import Program


@pytest.mark.parametrize("query", TPCH + FINANCE)
def test_optimized(query: str) -> None:
    compare(query, compile_distributed(program_of(query)), (1, 2, 3, 7), seed=1)


@pytest.mark.parametrize("level", [Level.NAIVE, Level.SIMPLIFIED, Level.FUSED])
@pytest.mark.parametrize("query", ["tpch/q3", "tpch/q5", "tpch/q16", "tpch/q20", "tpch/q22"])
def test_levels(query: str, level: Level) -> None:
    compare(query, compile_distributed(program_of(query), level=level), (3,), seed=2)


@pytest.mark.parametrize("query", ["tpch/q2", "tpch/q3", "tpch/q15", "tpch/q18", "finance/axf"])
def test_batches_on_the_driver(query: str) -> None:
    compare(query, compile_distributed(program_of(query), batch=LOCAL), (3,), seed=3)


@pytest.mark.parametrize("batch", [LOCAL, RANDOM])
@pytest.mark.parametrize("query", ["tpch/q3", "tpch/q4", "tpch/q15", "tpch/q20", "finance/psp"])
def test_one_trigger_for_all_relations(query: str, batch: Location) -> None:
    program = program_of(query)
    relations = [trigger.relation for trigger in program.triggers]
    compare(query, compile_batch(program, relations, batch=batch), (2, 3), seed=4, size=12)


@pytest.mark.parametrize("query", ["tpch/q3", "tpch/q15", "tpch/q16", "tpch/q21", "tpch/q22"])
@pytest.mark.parametrize("batch", [LOCAL, RANDOM])
def test_order_of_jobs(query: str, batch: Location) -> None:
    """Running the jobs one after the other does what the blocks do."""
    program = compile_distributed(program_of(query), batch=batch)
    scheduled = replace(program, triggers=tuple(map(in_order_of_jobs, program.triggers)))
    compare(query, scheduled, (3,), seed=5)


def in_order_of_jobs(trigger: DistributedTrigger) -> DistributedTrigger:
    """The same trigger with each operation a block of its own, in the order of its jobs."""
    operations = [operation for job in jobs_of(trigger) for operation in job.operations()]
    return replace(trigger, blocks=tuple(single_blocks(operations)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "query",
    ["tpch/q3", "tpch/q11", "tpch/q15", "tpch/q17", "tpch/q20", "finance/bsp", "finance/mst"],
)
def test_any_placement(query: str, seed: int) -> None:
    """Whatever the places of maps, whatever the level: only the costs differ."""
    maker = random.Random(f"{query} {seed}")
    program = program_of(query)
    hints = Hints(maps=random_places(program, maker), placement="heuristic")
    level, batch = maker.choice(list(Level)), maker.choice([LOCAL, RANDOM])
    distributed = compile_distributed(program, hints, level=level, batch=batch)
    compare(query, distributed, (maker.choice([2, 3, 7]),), seed=seed)


def random_places(program: Program, maker: random.Random) -> dict[str, Location]:
    places: dict[str, Location] = {}
    for kept in program.maps:
        if not kept.buffer and maker.random() < 0.8:
            choices: list[Location] = [LOCAL, REPLICATED]
            choices += [Dist((key,)) for key in kept.key_names] * 2
            choices += [Dist(kept.key_names[:2])] if len(kept.keys) > 1 else []
            places[kept.name] = maker.choice(choices)
    return places
