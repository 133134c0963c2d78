"""From blocks to what a cluster runs: jobs, their stages, and how relations leave a stage.

A distributed block is a stage; every worker runs it once over its own contents. Reparts that follow
it are the shuffle to the next stage, gathers are part of what the job returns to the driver. A job
goes on as long as no worker needs what the driver computes from this job's gathers: the driver's
statements wait until its end. Scatters travel with the job's input.

A received relation lives until the trigger ends: a later stage than the next one may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from viewlet.calculus.ring import Key
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Operation,
    Resource,
    Transfer,
    TransferKind,
    sites,
)
from viewlet.distributed.location import Dist
from viewlet.distributed.statement_blocks import commute


@dataclass
class JobStage:
    """What every worker does between two shuffles, and what it sends afterwards.

    `sends` with one kind are one compound request: reparts go to the next stage, gathers and the
    driver's share of replicated relations to the driver.
    """

    statements: list[Compute] = field(default_factory=list)
    sends: list[Transfer] = field(default_factory=list)


@dataclass
class Job:
    """`before` runs on the driver, its scatters are the job's input; then the stages run.

    What was gathered is complete when the job ends; `after` runs on the driver then.
    """

    before: list[Operation] = field(default_factory=list)
    stages: list[JobStage] = field(default_factory=list)
    after: list[Compute] = field(default_factory=list)

    def operations(self) -> Iterator[Operation]:
        """Everything in the order in which the job does it."""
        yield from self.before
        for stage in self.stages:
            yield from stage.statements
            yield from stage.sends
        yield from self.after


def jobs_of(trigger: DistributedTrigger) -> list[Job]:
    """The trigger's blocks as jobs, in order. Without workers' work there is one with no stage."""
    jobs = [Job()]
    waiting: set[Resource] = set()  # what the driver knows only when the job has ended
    for block in trigger.blocks:
        if block.mode is Mode.DISTRIBUTED:
            statements = [o for o in block.operations if isinstance(o, Compute)]
            jobs[-1].stages.append(JobStage(statements))
            continue
        for operation in block.operations:
            if isinstance(operation, Compute):
                _add_driver_statement(operation, jobs[-1], waiting)
            elif operation.kind is TransferKind.SCATTER:
                if operation.reads & waiting:
                    _receive(jobs[-1])
                    jobs.append(Job())
                    waiting = set()
                jobs[-1].before.append(operation)
            else:
                if not jobs[-1].stages:
                    jobs[-1].stages.append(JobStage())
                jobs[-1].stages[-1].sends.append(operation)
                waiting |= {r for r in operation.writes if r[0] is Mode.LOCAL}
    return jobs


def _receive(job: Job) -> None:
    """A shuffle at the end of a job that others follow ends in a stage which only receives it."""
    sends = job.stages[-1].sends if job.stages else []
    if any(Mode.DISTRIBUTED in sites(transfer.to) for transfer in sends):
        job.stages.append(JobStage())


def _add_driver_statement(statement: Compute, job: Job, waiting: set[Resource]) -> None:
    """Before the job where it can be, else after it with all that follows from it."""
    late = bool(statement.reads & waiting) or bool(statement.writes & waiting)
    if late or not all(commute(statement, other) for other in job.after):
        job.after.append(statement)
        waiting |= statement.writes
    else:
        job.before.append(statement)


@dataclass(frozen=True)
class Route:
    """Where a relation's records go: by these positions of their key, to every worker, or to none.

    Receivers add up what arrives under one key.
    """

    source: str
    target: str
    by: tuple[int, ...]
    everywhere: bool
    driver: bool

    def workers(self, owner: Callable[[Key], int], key: Key, count: int) -> Iterable[int]:
        """The workers that get the record; `owner` gives the node of partitioning values."""
        if self.by:
            return (owner(tuple(key[position] for position in self.by)),)
        return range(count) if self.everywhere else ()


def route_of(transfer: Transfer, program: DistributedProgram) -> Route:
    """repart[a](s) -> by the position of a in s's key"""
    keys = program.map(transfer.target).key_names
    by = transfer.to.columns if isinstance(transfer.to, Dist) else ()
    target_sites = sites(transfer.to)
    return Route(
        transfer.source,
        transfer.target,
        tuple(keys.index(column) for column in by),
        everywhere=Mode.DISTRIBUTED in target_sites and not by,
        driver=Mode.LOCAL in target_sites,
    )
