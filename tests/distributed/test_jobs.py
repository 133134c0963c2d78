"""Jobs run by isolated workers that see their own state and what the last shuffle brought.

This is the scheme of the stateful-partition service: stage after stage, a worker gets messages and
gives messages by destination, and the driver gets its own at the job's end.
"""

from __future__ import annotations

import random

import pytest

import viewlet
from tests.distributed.streams import database, program_of, stream
from tests.oracle.harness import REGRESSIONS, Case
from viewlet.calculus.ring import Gmr, Key, Weight
from viewlet.distributed import (
    DistributedProgram,
    SimulatedCluster,
    compile_all,
    compile_distributed,
)
from viewlet.distributed.ir import Compute, Mode, Transfer, sites
from viewlet.distributed.jobs import JobStage, jobs_of, route_of
from viewlet.distributed.location import LOCAL, RANDOM, Location, node_of
from viewlet.engine.interpreter import ReferenceEngine
from viewlet.program.interpret import Interpreter, MapStore

DRIVER = -1
Message = tuple[str, str, Key, Weight]
Messages = dict[int, list[Message]]


def receive(site: MapStore, messages: list[Message]) -> None:
    for relation, column, key, weight in messages:
        site.store[relation, column].add(key, weight)


def send(site: MapStore, transfer: Transfer, program: DistributedProgram, workers: int) -> Messages:
    route = route_of(transfer, program)
    found: Messages = {}
    for old, new in zip(
        program.map(route.source).columns, program.map(route.target).columns, strict=True
    ):
        for key, weight in site.store[route.source, old.name].items():
            nodes = [*route.workers(lambda values: node_of(values, workers), key, workers)]
            for node in (*nodes, DRIVER) if route.driver else nodes:
                found.setdefault(node, []).append((route.target, new.name, key, weight))
    return found


def run_stage(
    site: MapStore,
    stage: JobStage,
    inputs: list[Message],
    program: DistributedProgram,
    workers: int,
) -> Messages:
    receive(site, inputs)
    for compute in stage.statements:
        site.run(compute.statement)
    found: Messages = {}
    for transfer in stage.sends:
        for node, messages in send(site, transfer, program, workers).items():
            found.setdefault(node, []).extend(messages)
    return found


def run_trigger(cluster: SimulatedCluster, relation: str) -> None:
    """The jobs of a trigger; the batch is in the sites already."""
    program, workers = cluster.program, len(cluster.workers)
    trigger = program.trigger(relation)
    assert trigger is not None
    for job in jobs_of(trigger):
        inputs: Messages = {}
        for operation in job.before:
            if isinstance(operation, Compute):
                cluster.driver.run(operation.statement)
                continue
            for node, messages in send(cluster.driver, operation, program, workers).items():
                if node == DRIVER:
                    receive(cluster.driver, messages)
                else:
                    inputs.setdefault(node, []).extend(messages)
        collected: list[Message] = []
        for stage in job.stages:
            outputs: Messages = {}
            for number, site in enumerate(cluster.workers):
                sent = run_stage(site, stage, inputs.get(number, []), program, workers)
                for node, messages in sent.items():
                    outputs.setdefault(node, []).extend(messages)
            collected += outputs.pop(DRIVER, [])
            inputs = outputs
        assert not inputs, "the last stage sends to the driver only"
        receive(cluster.driver, collected)
        for compute in job.after:
            cluster.driver.run(compute.statement)


@pytest.mark.parametrize("batch", [RANDOM, LOCAL], ids=str)
@pytest.mark.parametrize(
    "query", ["tpch/q3", "tpch/q5", "tpch/q15", "tpch/q16", "tpch/q22", "finance/bsp"]
)
def test_isolated_workers(query: str, batch: Location) -> None:
    program = program_of(query)
    distributed = compile_distributed(program, batch=batch)
    static, events = database(query, 6)
    reference, cluster = Interpreter(program), SimulatedCluster(distributed, 3)
    reference.load(static)
    cluster.load(static)
    maker = random.Random(6)
    for changes in stream(events, 6, 9):
        for relation, delta in changes.items():
            if program.trigger(relation) is None:
                continue
            reference.apply(relation, delta)
            for site in (cluster.driver, *cluster.workers):
                site.clear_buffers()
                site.deltas = {relation: Gmr()}
            for key, weight in delta.items():
                arrives = cluster.driver if batch == LOCAL else maker.choice(cluster.workers)
                arrives.deltas[relation].add(key, weight)
            run_trigger(cluster, relation)
            for kept in program.state:
                for column in kept.columns:
                    expected = reference.store[kept.name, column.name]
                    assert cluster.column(kept.name, column.name) == expected, kept.name


def test_a_shuffle_before_the_next_job_is_received() -> None:
    """What workers send each other while the driver computes what the next job needs."""
    case = Case.load(REGRESSIONS / "domain-behind-another.json")
    with viewlet.connect("interpreter") as database:
        for table in case.tables:
            database.execute(table)
        database.execute(f"CREATE VIEW v AS {case.select}")
        engine = database._engine
        assert isinstance(engine, ReferenceEngine)
        triggers = compile_all(engine.program).triggers
    jobs = [job for trigger in triggers for job in jobs_of(trigger) if job.stages]
    for job in jobs:
        sent = [transfer.to for transfer in job.stages[-1].sends]
        assert all(Mode.DISTRIBUTED not in sites(place) for place in sent)
    assert any(not job.stages[-1].statements and len(job.stages) > 1 for job in jobs)
