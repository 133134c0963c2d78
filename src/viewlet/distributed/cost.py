"""What one batch costs in coordination, and the text that explains it.

stages   are distributed blocks
jobs     are 1 + the number of times that a scatter has to wait for a gather
rounds   are shuffles, gathers and scatters: once each for all transfers that go together
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viewlet.distributed.ir import (
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Operation,
    Transfer,
    TransferKind,
)
from viewlet.distributed.jobs import Job, jobs_of
from viewlet.distributed.text import operation_text


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
    """Jobs, stages and rounds of one trigger."""
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


def effort(program: DistributedProgram) -> tuple[int, int]:
    """Stages of a batch of all relations, and of a batch of each: smaller is better."""
    state = _changing_state(program)
    stage_counts = [_stages(jobs_of(trigger), state) for trigger in program.triggers]
    return (stage_counts[-1], sum(stage_counts)) if stage_counts else (0, 0)


def stages_beside_rows(program: DistributedProgram, trigger: DistributedTrigger) -> int:
    """The trigger's stages without a first one that reads no state.

    That one runs where the rows are (engine/spark/opening_stage.py) and is free.
    """
    return _stages(jobs_of(trigger), _changing_state(program))


def _changing_state(program: DistributedProgram) -> set[str]:
    operations = [o for t in program.triggers for block in t.blocks for o in block.operations]
    changed = {name for operation in operations for _, name in operation.writes}
    return changed & {m.name for m in program.program.maps if not m.buffer}


def _stages(jobs: Sequence[Job], state: set[str]) -> int:
    stages = sum(len(job.stages) for job in jobs)
    if not jobs or jobs[0].before or not jobs[0].stages:
        return stages
    reads = {name for c in jobs[0].stages[0].statements for _, name in c.reads}
    return stages - state.isdisjoint(reads)


def worst(program: DistributedProgram) -> Count:
    """The trigger that costs most: stages first, then jobs. Paper 000 Table 3 is compared."""
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
    if program.verdict:
        lines.append(program.verdict)
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
        for kind in (TransferKind.REPART, TransferKind.GATHER):
            sends = [send for send in stage.sends if send.kind is kind]
            yield from _section(f"{kind.value} after stage {at}", sends)
    yield from _section("after, on the driver", job.after)


def _section(title: str, operations: Sequence[Operation], *, always: bool = False) -> Iterator[str]:
    if operations or always:
        yield f"    {title}"
        for operation in operations:
            yield "\n".join("  " + line for line in operation_text(operation).split("\n"))
