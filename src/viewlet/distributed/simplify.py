"""The choice among well-formed statements, and simpler transformers (paper 000 section 4.3.1).

The cost order is the paper's: rounds first, then deltas rather than views, then fewer gathers.
A round is counted where it hurts, in the stages of the whole trigger: a statement's cost is the
stage in which its target is complete, given what the statements before it have computed. Stage 0 is
free as long as it reads the batch and constants alone: it then runs where the rows are.

One thing comes before rounds: a statement over the batch moves no view where it can move the delta.
A round costs the same for ever, a view grows; the paper would take the view to save the round.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from viewlet.calculus.expr import ONE, PRESENCE, Expr, MapRef
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import Names
from viewlet.distributed.ir import (
    Compute,
    Mode,
    Operation,
    RelationBatch,
    Resource,
    Source,
    Transfer,
    TransferKind,
    sites,
)
from viewlet.distributed.items import AtomLocations
from viewlet.distributed.location import Local, Location, Replicated, in_variables
from viewlet.distributed.transformers import Move, StatementPlan
from viewlet.program.ir import Map

BEFORE = -1
"""The driver's time before the first stage."""


@dataclass
class Clock:
    """When the contents of one trigger are complete, in stages.

    A worker reads in stage t what was moved to it after stage t - 1; the driver's time t is the
    end of stage t. `existing_moves` are already made: taking one again is free. `closed` says that
    stage 0 reads state.
    """

    ready: dict[Resource, int] = field(default_factory=dict)
    read: dict[Resource, int] = field(default_factory=dict)
    existing_moves: set[str] = field(default_factory=set)
    closed: bool = False

    def start(self, mode: Mode, sources: Iterable[Source]) -> int:
        """The earliest time at which a statement that reads these can run."""
        first = BEFORE if mode is Mode.LOCAL else 0
        return max((self.ready.get((mode, source), first) for source in sources), default=first)


@dataclass(frozen=True, order=True)
class Cost:
    """Smaller is better, field by field."""

    grows: bool
    stages: int
    round_trips: int
    views_moved: int
    gathers: int
    new_moves: int
    replicated: int
    keys: int


def best(candidates: Iterable[StatementPlan], clock: Clock, layout: AtomLocations) -> StatementPlan:
    """The cheapest of the plans for a statement."""
    return min(candidates, key=lambda plan: cost_of(plan, clock, layout))


def cost_of(plan: StatementPlan, clock: Clock, layout: AtomLocations) -> Cost:
    """What a plan would cost, after what is planned already."""
    trial = Clock(dict(clock.ready), dict(clock.read), set(clock.existing_moves), clock.closed)
    return advance(plan, trial, layout)


def advance(plan: StatementPlan, clock: Clock, layout: AtomLocations) -> Cost:
    """Run the plan on the clock; what it cost."""
    copies = sorted(plan.maps_read & layout.copies.keys())
    trips = gathers = fresh = replicated = 0
    views = len(copies)
    deltas = set(layout.batch_buffers)
    for name in copies:
        copy = layout.copies[name]
        side = sites(layout.source_location(copy.source))[-1]
        _arrive(clock, name, copy.to, clock.start(side, [copy.source]))
    reads_batch = _is_delta(plan.sources, layout.batch_buffers)
    for move in plan.moves:
        time = _run(clock, move.mode, move.sources, layout.state)
        _arrive(clock, move.name, move.to, time)
        trips += move.mode is Mode.LOCAL and time > BEFORE
        gathers += isinstance(move.to, Local)
        replicated += isinstance(move.to, Replicated)
        reads_batch |= _is_delta(move.sources, layout.batch_buffers)
        if _is_delta(move.loop_sources, deltas):
            deltas.add(move.name)
        else:
            views += 1
        text = signature(move)
        fresh += text not in clock.existing_moves
        clock.existing_moves.add(text)
    end = BEFORE
    for mode in plan.modes:
        time = _run(clock, mode, plan.sources, layout.state)
        time = max(time, clock.read.get((mode, plan.final.target), BEFORE))
        clock.ready[mode, plan.final.target] = max(
            time, clock.ready.get((mode, plan.final.target), BEFORE)
        )
        end = max(end, time)
    keys = sum(len(move.keys) for move in plan.moves)
    grows = views > 0 and reads_batch
    return Cost(grows, end + clock.closed, trips, views, gathers, fresh, replicated, keys)


def _run(clock: Clock, mode: Mode, sources: frozenset[Source], state: Names) -> int:
    time = clock.start(mode, sources)
    if mode is Mode.DISTRIBUTED and time == 0:
        clock.closed |= not state.isdisjoint(s for s in sources if isinstance(s, str))
    for source in sources:
        clock.read[mode, source] = max(time, clock.read.get((mode, source), BEFORE))
    return time


def _arrive(clock: Clock, name: str, to: Location, time: int) -> None:
    for mode in sites(to):
        clock.ready[mode, name] = time + (mode is Mode.DISTRIBUTED)


def _is_delta(sources: Iterable[Source], deltas: Container[str]) -> bool:
    """Made from the batch, itself or through one of the buffers and moves that are deltas."""
    return any(isinstance(source, RelationBatch) or source in deltas for source in sources)


@lru_cache(maxsize=1 << 14)
def signature(move: Move) -> str:
    """Equal for moves that carry the same rows to the same place."""
    form = canonical(move.loop, move.keys)
    to = in_variables(move.to, move.keys, tuple(form.names[k] for k in move.keys))
    return f"{move.mode.value} {form.text} [{[form.names[k] for k in move.keys]}] {to}"


# --- transformers over transformers ---------------------------------------------------------------

COMPOSED: dict[tuple[TransferKind, TransferKind], TransferKind | None] = {
    (TransferKind.REPART, TransferKind.REPART): TransferKind.REPART,
    (TransferKind.REPART, TransferKind.SCATTER): TransferKind.SCATTER,
    (TransferKind.GATHER, TransferKind.REPART): TransferKind.GATHER,
    (TransferKind.GATHER, TransferKind.SCATTER): None,
    (TransferKind.SCATTER, TransferKind.GATHER): TransferKind.REPART,
}
"""Paper 000 Figure 4: the outer and the inner transformer -> the one that does both.

None: Gather(Scatter(q)) is q itself, which is on the driver already.
"""


def compose(
    operations: list[Operation], maps: Mapping[str, Map], buffers: Container[str]
) -> list[Operation]:
    """Paper 000 Figure 4 over single transformer form, until nothing changes.

    s[k] += M[k].* | M's columns; r := t[p](s)   ->   r := t[p](M)      (M[k] where it has one)
    a := t1[p](q); r := t2[p'](a)                ->   r := (t2 t1)[p'](q)

    Only where the contents of M or q do not change in between, and for `buffers` only, which are
    written once. A buffer that nobody reads any more is left to dead code elimination.
    """
    done: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Transfer):
            operation = _composed(operation, done, maps, buffers)
        done.append(operation)
    return done


def _composed(
    transfer: Transfer,
    before: list[Operation],
    maps: Mapping[str, Map],
    buffers: Container[str],
) -> Transfer:
    if transfer.source not in buffers:
        return transfer
    for at in range(len(before) - 1, -1, -1):
        earlier = before[at]
        if all(name != transfer.source for _, name in earlier.writes):
            continue
        source, kind = _origin(earlier, transfer, maps)
        if source is None or kind is None:
            return transfer
        side = Mode.LOCAL if kind is TransferKind.SCATTER else Mode.DISTRIBUTED
        if any((side, source) in o.writes for o in before[at:]):
            return transfer
        shorter = replace(transfer, kind=kind, source=source)
        return _composed(shorter, before[:at], maps, buffers)
    return transfer


def _origin(
    earlier: Operation, transfer: Transfer, maps: Mapping[str, Map]
) -> tuple[str | None, TransferKind | None]:
    """What the transfer's source is a plain copy of, and the transformer from there."""
    if isinstance(earlier, Transfer):
        if isinstance(earlier.to, Replicated):
            return None, None
        return earlier.source, COMPOSED[transfer.kind, earlier.kind]
    copied = _copied_map(earlier, maps)
    return copied, transfer.kind if copied else None


def _copied_map(compute: Compute, maps: Mapping[str, Map]) -> str | None:
    """The map whose records the statement copies unchanged, column by column."""
    statement = compute.statement
    loop, values = statement.loop, [update for _, update in statement.updates]
    if not isinstance(loop, MapRef) or loop.keys != statement.keys:
        return None
    if len({*loop.keys}) < len(loop.keys):
        return None
    columns: list[Expr] = [replace(loop, column=c.name) for c in maps[loop.name].columns]
    is_copy = values == [ONE] and columns == [loop]
    return loop.name if is_copy or (loop.column == PRESENCE and values == columns) else None
