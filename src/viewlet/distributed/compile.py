"""Trigger program -> distributed program: the passes in order, and how many of them run.

Paper 000 section 4, thesis chapter 5. The levels are those of paper 000 Figure 13:

naive        well-formed statements in the order of their factors, a block for each operation
simplified   the cheapest well-formed statement each, transformers composed
fused        and blocks fused
full         and common subexpressions and dead code eliminated
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum

from viewlet.calculus.expr import Expr, MapRef, transform
from viewlet.distributed.check import check
from viewlet.distributed.cost import effort
from viewlet.distributed.hints import Hints
from viewlet.distributed.ir import DistributedProgram, DistributedTrigger
from viewlet.distributed.items import AtomLocations
from viewlet.distributed.location import RANDOM, Location
from viewlet.distributed.placement import partition
from viewlet.distributed.price import verdict
from viewlet.distributed.redundancy import eliminate_common, eliminate_dead
from viewlet.distributed.search import PlacementSearch
from viewlet.distributed.simplify import Clock, advance, best, compose
from viewlet.distributed.single import Emitter
from viewlet.distributed.statement_blocks import fuse, single_blocks
from viewlet.distributed.traffic import price_of
from viewlet.distributed.transformers import naive, plans
from viewlet.distributed.unions import unite
from viewlet.program.ir import Map, Program, Statement

MARGIN = 0.1
"""Rows are estimated and stages are counted: for less than this the heuristic's placement stays."""


class Level(IntEnum):
    """How much of the optimizer runs, for comparisons."""

    NAIVE = 0
    SIMPLIFIED = 1
    FUSED = 2
    FULL = 3


def compile_distributed(
    program: Program,
    hints: Hints | None = None,
    *,
    level: Level = Level.FULL,
    batch: Location = RANDOM,
) -> DistributedProgram:
    """The program with a trigger for each relation."""
    return _compile(program, [(t.relation,) for t in program.triggers], hints, level, batch)


def compile_batch(
    program: Program,
    relations: Sequence[str],
    hints: Hints | None = None,
    *,
    level: Level = Level.FULL,
    batch: Location = RANDOM,
) -> DistributedProgram:
    """The program with one trigger for a batch that changes all the relations.

    Any order of relations is right, because each one's statements leave all maps right. Those that
    recompute a map come last: the others then need not wait for what is recomputed.
    """
    ordered = sorted(relations, key=lambda relation: _recomputes(program, relation))
    return _compile(program, [tuple(ordered)], hints, level, batch)


def compile_all(
    program: Program, hints: Hints | None = None, *, level: Level = Level.FULL
) -> DistributedProgram:
    """A trigger for each relation and, last, one for batches that change several of them."""
    names = [trigger.relation for trigger in program.triggers]
    bundles: list[tuple[str, ...]] = [(name,) for name in names]
    if len(names) > 1:
        bundles.append(tuple(sorted(names, key=lambda name: _recomputes(program, name))))
    return _compile(program, bundles, hints, level, RANDOM)


def _recomputes(program: Program, relation: str) -> bool:
    trigger = program.trigger(relation)
    return trigger is not None and any(s.op == ":=" for s in trigger.statements)


def _compile(
    program: Program,
    bundles: Sequence[tuple[str, ...]],
    hints: Hints | None,
    level: Level,
    batch: Location,
) -> DistributedProgram:
    """The heuristic's placement, or with hints one that is clearly cheaper (search.py)."""
    hints = hints or Hints(placement="heuristic")
    baseline = _by_heuristic(program, bundles, hints, level, batch)
    placed_by_hand = all(m.name in hints.maps for m in program.maps if not m.buffer)
    if hints.placement == "heuristic" or level < Level.FULL or batch != RANDOM or placed_by_hand:
        return baseline
    search = PlacementSearch(program, hints, baseline.locations)
    choice = search.choose()
    trials = [_placed(program, bundles, locations, level, batch) for locations in choice.placements]
    return _cheapest(baseline, trials, search, is_exact=choice.is_exact)


def _cheapest(
    baseline: DistributedProgram,
    trials: Sequence[DistributedProgram],
    search: PlacementSearch,
    *,
    is_exact: bool,
) -> DistributedProgram:
    """The cheapest as compiled; the heuristic's unless another is cheaper by MARGIN."""
    programs = {placement_of(trial): trial for trial in (baseline, *trials)}
    prices = {key: price_of(trial, search.traffic) for key, trial in programs.items()}
    ranked = sorted(prices, key=lambda key: prices[key])
    first = placement_of(baseline)
    if prices[ranked[0]].ms < (1 - MARGIN) * prices[first].ms:
        first = ranked[0]
    second = next((key for key in ranked if key != first), None)
    other = None if second is None else (prices[second], dict(second))
    text = verdict(prices[first], dict(first), other, is_exact=is_exact)
    return replace(programs[first], verdict=text)


def placement_of(program: DistributedProgram) -> tuple[tuple[str, Location], ...]:
    """Where the lasting maps are."""
    return tuple((m.name, program.locations[m.name]) for m in program.program.maps if not m.buffer)


def _by_heuristic(
    program: Program,
    bundles: Sequence[tuple[str, ...]],
    hints: Hints,
    level: Level,
    batch: Location,
) -> DistributedProgram:
    """Small tables are copied to every node where that saves a stage, smallest first."""
    copied: frozenset[str] = frozenset()
    best = _placed(program, bundles, partition(program, hints), level, batch)
    changing = {trigger.relation for trigger in program.triggers}
    for table in hints.small:
        if table not in changing:
            continue
        more = partition(program, hints, copied | {table})
        trial = _placed(program, bundles, more, level, batch)
        if effort(trial) < effort(best):
            best, copied = trial, copied | {table}
    return best


def _placed(
    program: Program,
    bundles: Sequence[tuple[str, ...]],
    locations: Mapping[str, Location],
    level: Level,
    batch: Location,
) -> DistributedProgram:
    names = program.names()
    placed = dict(locations)
    buffers: list[Map] = []
    triggers: list[DistributedTrigger] = []
    for relations in bundles:
        layout = AtomLocations(program, locations, batch, names)
        emitter = Emitter("_".join(relations) if len(relations) == 1 else "batch", layout)
        trigger = _trigger(program, relations, layout, emitter, level)
        used = {name for b in trigger.blocks for o in b.operations for _, name in o.writes}
        maps_by_name = {**emitter.renamed, **emitter.buffers.maps}
        buffers += [map for name, map in maps_by_name.items() if name in used]
        all_locations = {**layout.locations, **emitter.buffers.locations}
        placed |= {name: all_locations[name] for name in maps_by_name if name in used}
        triggers.append(trigger)
    source = replace(program, triggers=())
    return check(DistributedProgram(source, placed, tuple(buffers), tuple(triggers), batch))


def _trigger(
    program: Program,
    relations: tuple[str, ...],
    layout: AtomLocations,
    emitter: Emitter,
    level: Level,
) -> DistributedTrigger:
    clock = Clock()
    for statement in _statements(program, relations, emitter):
        if level is Level.NAIVE:
            emitter.emit(naive(statement, layout))
        else:
            plan = best(plans(statement, layout), clock, layout)
            advance(plan, clock, layout)
            emitter.emit(plan)
    operations = emitter.operations
    if level >= Level.SIMPLIFIED:
        operations = compose(operations, layout.maps, emitter.buffers.maps)
    if level >= Level.FULL:
        operations = eliminate_common(operations, emitter.buffers)
        operations = eliminate_dead(operations, emitter.buffers)
        operations = unite(operations, emitter.buffers)
    blocks = single_blocks(operations)
    if level >= Level.FUSED:
        blocks = fuse(blocks)
    return DistributedTrigger(relations, tuple(blocks))


def _statements(program: Program, relations: tuple[str, ...], emitter: Emitter) -> list[Statement]:
    """All statements in order. Each relation has its own buffers: they are empty at its start."""
    statements: list[Statement] = []
    for number, relation in enumerate(relations):
        trigger = program.trigger(relation)
        if trigger is None:
            continue
        names = emitter.own_buffers(relation, trigger.statements) if number else {}
        statements += [_with_maps_renamed(s, names) for s in trigger.statements]
    return statements


def _with_maps_renamed(statement: Statement, names: dict[str, str]) -> Statement:
    def rule(node: Expr) -> Expr:
        if isinstance(node, MapRef):
            return replace(node, name=names.get(node.name, node.name))
        return node

    return replace(
        statement,
        target=names.get(statement.target, statement.target),
        loop=transform(statement.loop, rule),
        updates=tuple((column, transform(e, rule)) for column, e in statement.updates),
    )
