"""A distributed program as native code: what each side runs, stage by stage.

Both sides, the workers and the driver, get a program whose triggers are *pieces*: the
statements of one stage that read one relation's batch, as one kernel. Between pieces nothing is
emptied by itself; a buffer lives until its trigger ends.

    stage 0   s += Δr ..., t += Δs ...      ->   piece t0_j0_s0_0 over Δr, piece t0_j0_s0_1 over Δs

A buffer that is filled and used in one stage only never needs to outlive the task: it is
*transient*. All others are part of a partition's state, because the next stage may run in another
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viewlet.calculus.expr import Delta, Expr, transform, walk
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Operation,
    Transfer,
    maps_touched,
    sites,
)
from viewlet.distributed.jobs import Job, Route, jobs_of, route_of
from viewlet.distributed.location import Dist
from viewlet.errors import ProgramError
from viewlet.kernels.emit import Module
from viewlet.kernels.jit import compile_program
from viewlet.program.ir import Map, Program, Statement, Trigger
from viewlet.schema import Relation
from viewlet.storage.columns import Layout


@dataclass(frozen=True)
class Piece:
    """One kernel over the batch of one relation, or over no batch."""

    kernel: str
    relation: str | None


@dataclass(frozen=True)
class StagePlan:
    """What one stage runs on every partition, and where its results go."""

    pieces: tuple[Piece, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True)
class JobPlan:
    """`before`: pieces, and the routes of what is scattered then."""

    before: tuple[Piece | Route, ...]
    stages: tuple[StagePlan, ...]
    after: tuple[Piece, ...]

    @property
    def involves_driver(self) -> bool:
        """Whether the driver has anything to do in this job."""
        gathers = any(route.driver for stage in self.stages for route in stage.routes)
        return bool(self.before or self.after or gathers)


@dataclass(frozen=True)
class TriggerPlan:
    """`opening`: the constant maps that the first stage reads, where it needs no other state.

    Such a stage only pre-aggregates what came: it can run wherever the rows of the batch are, in
    any number of parts, and again (engine/spark/opening_stage.py). None: it needs its partition.
    """

    relations: tuple[str, ...]
    jobs: tuple[JobPlan, ...]
    opening: tuple[str, ...] | None = None

    @property
    def reads_batch_late(self) -> bool:
        """Whether a stage after the first reads the batch."""
        stages = [stage for job in self.jobs for stage in job.stages]
        return any(piece.relation is not None for stage in stages[1:] for piece in stage.pieces)


@dataclass(frozen=True)
class NodePlan:
    """What one side compiles and keeps; `module` is without its loops, so that it travels light.

    `homes` are the lasting maps with the key positions that say where a row is, None for copies;
    `used` the columns that kernels read of each relation's batch.
    """

    module: Module
    transient: frozenset[str]
    homes: Mapping[str, tuple[int, ...] | None]
    used: Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class StagedProgram:
    """Everything that running a distributed program needs to know."""

    distributed: DistributedProgram
    workers: NodePlan
    driver: NodePlan
    triggers: tuple[TriggerPlan, ...]

    @property
    def stages(self) -> int:
        """The most that a job has."""
        return max((len(j.stages) for t in self.triggers for j in t.jobs), default=1) or 1

    def layout(self, map: str) -> Layout:
        """How a map's rows of words look: the same on both sides."""
        layouts = self.workers.module.frame.layouts
        return layouts[map] if map in layouts else self.driver.module.frame.layouts[map]

    def trigger_for(self, relations: Iterable[str]) -> int | None:
        """The trigger of a batch of these relations; None if nothing depends on them."""
        single = {t.relations[0]: n for n, t in enumerate(self.triggers) if len(t.relations) == 1}
        triggered = [name for name in relations if name in single]
        if len(triggered) > 1:
            return len(self.triggers) - 1
        return single[triggered[0]] if triggered else None


def staged(distributed: DistributedProgram) -> StagedProgram:
    """The jobs of every trigger as stages, with the kernels of both sides."""
    workers, driver = _Side(distributed, Mode.DISTRIBUTED), _Side(distributed, Mode.LOCAL)
    triggers = []
    for number, trigger in enumerate(distributed.triggers):
        jobs = jobs_of(trigger)
        triggers.append(
            TriggerPlan(
                trigger.relations,
                tuple(
                    _job(job, f"t{number}_j{at}", distributed, workers, driver)
                    for at, job in enumerate(jobs)
                ),
            )
        )
    on_workers = workers.plan()
    constant = _constant(distributed, on_workers)
    opened = tuple(
        replace(plan, opening=_opening(trigger, plan, on_workers, constant))
        for trigger, plan in zip(distributed.triggers, triggers, strict=True)
    )
    return StagedProgram(distributed, on_workers, driver.plan(), opened)


def _constant(distributed: DistributedProgram, workers: NodePlan) -> frozenset[str]:
    """The maps that every worker has a copy of and no trigger changes."""
    changed = {
        name
        for trigger in distributed.triggers
        for block in trigger.blocks
        for operation in block.operations
        for _, name in operation.writes
    }
    return frozenset(name for name, by in workers.homes.items() if by is None) - changed


def _opening(
    trigger: DistributedTrigger, plan: TriggerPlan, workers: NodePlan, constant: frozenset[str]
) -> tuple[str, ...] | None:
    job = jobs_of(trigger)[0]
    if job.before or not job.stages or plan.reads_batch_late:
        return None
    stage = job.stages[0]
    used = {name for compute in stage.statements for _, name in maps_touched(compute)}
    used |= {send.source for send in stage.sends}
    lasting = (used & workers.module.frame.layouts.keys()) - workers.transient
    return tuple(sorted(lasting)) if lasting <= constant else None


def _job(
    job: Job, name: str, program: DistributedProgram, workers: _Side, driver: _Side
) -> JobPlan:
    before: list[Piece | Route] = []
    for at, (statements, transfer) in enumerate(_runs(job.before)):
        before += driver.pieces(f"{name}_b{at}", statements)
        if transfer is not None:
            before.append(route_of(transfer, program))
    stages = tuple(
        StagePlan(
            tuple(workers.pieces(f"{name}_s{at}", [c.statement for c in stage.statements])),
            tuple(route_of(send, program) for send in stage.sends),
        )
        for at, stage in enumerate(job.stages)
    )
    after = driver.pieces(f"{name}_a", [compute.statement for compute in job.after])
    return JobPlan(tuple(before), stages, tuple(after))


def _runs(
    operations: Sequence[Operation],
) -> Iterator[tuple[list[Statement], Transfer | None]]:
    """Statements up to each scatter, and those behind the last."""
    statements: list[Statement] = []
    for operation in operations:
        if isinstance(operation, Compute):
            statements.append(operation.statement)
        else:
            yield statements, operation
            statements = []
    if statements:
        yield statements, None


class _Side:
    """Collects one side's pieces, and the maps that they need."""

    def __init__(self, program: DistributedProgram, mode: Mode) -> None:
        self._program = program
        self._mode = mode
        self._relations: list[Relation] = []
        self._triggers: list[Trigger] = []
        self._pieces: list[Piece] = []

    def pieces(self, name: str, statements: Sequence[Statement]) -> list[Piece]:
        """A new piece begins where a statement reads another batch than the ones before it."""
        groups: list[tuple[str | None, list[Statement]]] = []
        for statement in statements:
            read = _batch_of(statement)
            if groups and (read is None or groups[-1][0] in (None, read)):
                groups[-1] = (groups[-1][0] or read, [*groups[-1][1], statement])
            else:
                groups.append((read, [statement]))
        pieces = []
        for number, (relation, group) in enumerate(groups):
            piece = Piece(f"{name}_{number}", relation)
            self._add(piece, group)
            pieces.append(piece)
        return pieces

    def _add(self, piece: Piece, statements: list[Statement]) -> None:
        self._pieces.append(piece)
        if piece.relation is None:
            self._relations.append(Relation(piece.kernel, ()))
        else:
            source = self._program.program.relation(piece.relation)
            self._relations.append(replace(source, name=piece.kernel))
        renamed = tuple(_with_batch_renamed(s, piece.kernel) for s in statements)
        self._triggers.append(Trigger(piece.kernel, renamed))

    def plan(self) -> NodePlan:
        maps = tuple(m for m in self._program.maps if m.name in self._names())
        # The base relations too: their keys say what determines a map's records.
        relations = (*self._relations, *self._program.program.relations)
        program = Program(relations, maps, tuple(self._triggers))
        module = compile_program(program, keep_buffers=True)
        module.loops.steps.clear()
        own = frozenset(module.loops.maps) - {m.name for m in maps}  # made by the kernels
        homes = {m.name: self._home(m) for m in maps if not m.buffer}
        used: dict[str, frozenset[int]] = {}
        for piece in self._pieces:
            if piece.relation is not None:
                read = module.loops.columns[piece.kernel]
                used[piece.relation] = used.get(piece.relation, frozenset()) | read
        return NodePlan(module, own | self._transient(), homes, used)

    def _home(self, map: Map) -> tuple[int, ...] | None:
        location = self._program.locations[map.name]
        if not isinstance(location, Dist):
            return None
        return tuple(map.key_names.index(column) for column in location.columns)

    def _names(self) -> set[str]:
        """The maps that have contents on this side."""
        program = self._program
        map_names = {
            map.name
            for map in program.program.maps
            if not map.buffer and self._mode in sites(program.locations[map.name])
        }
        for trigger in program.triggers:
            for block in trigger.blocks:
                for operation in block.operations:
                    if isinstance(operation, Compute) and operation.mode is not self._mode:
                        continue
                    used = maps_touched(operation)
                    map_names |= {name for mode, name in used if mode is self._mode}
        return map_names & {map.name for map in program.maps}

    def _transient(self) -> frozenset[str]:
        """Buffers that no trigger uses in more than one stage."""
        names = {m.name for m in self._program.maps if m.buffer}
        for trigger in self._program.triggers:
            uses: dict[str, set[tuple[int, int]]] = {}
            for stage, name in _uses(trigger, self._mode):
                uses.setdefault(name, set()).add(stage)
            names -= {name for name, stages in uses.items() if len(stages) > 1}
        return frozenset(names)


def _uses(trigger: DistributedTrigger, mode: Mode) -> Iterator[tuple[tuple[int, int], str]]:
    """Every (job, stage) in which a side writes, receives, reads or sends a map.

    The driver's work in one batch is one stage: it never changes its process in between.
    """
    for number, job in enumerate(jobs_of(trigger)):
        if mode is Mode.LOCAL:
            for operation in job.operations():
                yield from (((0, 0), name) for m, name in maps_touched(operation) if m is mode)
            continue
        for operation in job.before:
            yield from (((number, 0), name) for m, name in operation.writes if m is mode)
        for at, stage in enumerate(job.stages):
            for compute in stage.statements:
                yield from (((number, at), name) for _, name in maps_touched(compute))
            for send in stage.sends:
                yield (number, at), send.source
                if mode in sites(send.to):
                    yield (number, at + 1), send.target


def _batch_of(statement: Statement) -> str | None:
    parts: tuple[Expr, ...] = (statement.loop, *(update for _, update in statement.updates))
    relations = {n.name for part in parts for n in walk(part) if isinstance(n, Delta)}
    if len(relations) > 1:
        raise ProgramError(
            f"a statement reads the batches of {', '.join(sorted(relations))} at once"
        )
    return relations.pop() if relations else None


def _with_batch_renamed(statement: Statement, name: str) -> Statement:
    def rule(node: Expr) -> Expr:
        return Delta(name, node.variables) if isinstance(node, Delta) else node

    return replace(
        statement,
        loop=transform(statement.loop, rule),
        updates=tuple((column, transform(e, rule)) for column, e in statement.updates),
    )


def route_to(source: str, map: str, plan: StagedProgram) -> Route:
    """The way of a relation's rows to wherever a program keeps a map."""
    by = plan.workers.homes.get(map)
    everywhere = map in plan.workers.homes and by is None
    return Route(source, map, by or (), everywhere, map in plan.driver.homes)
