"""From blocks to what a cluster runs: jobs, their stages, and what is counted.

A distributed block is a stage; every worker runs it once over its own contents. Reparts that follow
it are the shuffle to the next stage, gathers are part of what the job returns to the driver. A job
goes on as long as no worker needs what the driver computes from this job's gathers: the driver's
statements wait until its end. Scatters travel with the job's input. So

    stages   are distributed blocks
    jobs     are 1 + the number of times that a scatter has to wait for a gather
    rounds   are shuffles, gathers and scatters: once each for all transfers that go together
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from viewlet.distributed.blocks import commute, single_blocks
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Kind,
    Mode,
    Operation,
    Resource,
    Transfer,
)
from viewlet.distributed.text import operation_text


@dataclass
class Stage:
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
    stages: list[Stage] = field(default_factory=list)
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
            jobs[-1].stages.append(Stage(statements))
            continue
        for operation in block.operations:
            if isinstance(operation, Compute):
                _add_driver_statement(operation, jobs[-1], waiting)
            elif operation.kind is Kind.SCATTER:
                if operation.reads & waiting:
                    jobs.append(Job())
                    waiting = set()
                jobs[-1].before.append(operation)
            else:
                if not jobs[-1].stages:
                    jobs[-1].stages.append(Stage())
                jobs[-1].stages[-1].sends.append(operation)
                waiting |= {r for r in operation.writes if r[0] is Mode.LOCAL}
    return jobs


def _add_driver_statement(statement: Compute, job: Job, waiting: set[Resource]) -> None:
    """Before the job where it can be, else after it with all that follows from it."""
    late = bool(statement.reads & waiting) or bool(statement.writes & waiting)
    if late or not all(commute(statement, other) for other in job.after):
        job.after.append(statement)
        waiting |= statement.writes
    else:
        job.before.append(statement)


@dataclass(frozen=True)
class Count:
    """What one batch costs in coordination."""

    jobs: int
    stages: int
    rounds: int
    local_blocks: int
    distributed_blocks: int
    transfers: int

    def __str__(self) -> str:
        return (
            f"jobs {self.jobs}, stages {self.stages}, rounds {self.rounds}, "
            f"transfers {self.transfers}, blocks {self.local_blocks} local and "
            f"{self.distributed_blocks} distributed"
        )


def count(trigger: DistributedTrigger) -> Count:
    jobs = jobs_of(trigger)
    modes = [block.mode for block in trigger.blocks]
    transfers = [o for b in trigger.blocks for o in b.operations if isinstance(o, Transfer)]
    requests = 0
    for job in jobs:
        requests += any(isinstance(operation, Transfer) for operation in job.before)
        requests += sum(len({send.kind for send in stage.sends}) for stage in job.stages)
    return Count(
        jobs=sum(bool(job.stages) for job in jobs),
        stages=sum(len(job.stages) for job in jobs),
        rounds=requests,
        local_blocks=modes.count(Mode.LOCAL),
        distributed_blocks=modes.count(Mode.DISTRIBUTED),
        transfers=len(transfers),
    )


def worst(program: DistributedProgram) -> Count:
    """The trigger that costs most: stages first, then jobs. Table 3 is compared with this."""
    return max(
        (count(trigger) for trigger in program.triggers),
        key=lambda c: (c.stages, c.jobs, c.rounds),
    )


def explain(program: DistributedProgram) -> str:
    """Places, then for each trigger its jobs with stages and transfers, and the counts."""
    lines = ["places"]
    for map in program.program.maps:
        kind = "buffer" if map.buffer else "map"
        keys = ", ".join(map.key_names)
        lines.append(f"  {kind} {map.name}[{keys}] {program.locations[map.name]}")
    lines.append(f"  batches {program.batch}")
    for trigger in program.triggers:
        lines += ["", f"on {trigger.name}: {count(trigger)}"]
        for number, job in enumerate(jobs_of(trigger), 1):
            lines += _job_lines(number, job)
    return "\n".join(lines) + "\n"


def _job_lines(number: int, job: Job) -> Iterator[str]:
    yield f"  job {number}" if job.stages else "  driver"
    yield from _section("before, on the driver", job.before)
    for at, stage in enumerate(job.stages):
        yield from _section(f"stage {at}, on every worker", stage.statements, always=True)
        for kind in (Kind.REPART, Kind.GATHER):
            sends = [send for send in stage.sends if send.kind is kind]
            yield from _section(f"{kind.value} after stage {at}", sends)
    yield from _section("after, on the driver", job.after)


def _section(title: str, operations: Sequence[Operation], *, always: bool = False) -> Iterator[str]:
    if operations or always:
        yield f"    {title}"
        for operation in operations:
            yield "\n".join("  " + line for line in operation_text(operation).split("\n"))


def as_scheduled(trigger: DistributedTrigger) -> DistributedTrigger:
    """The same trigger with its operations in the order of its jobs, for checking that order."""
    operations = [o for job in jobs_of(trigger) for o in job.operations()]
    return replace(trigger, blocks=tuple(single_blocks(operations)))
