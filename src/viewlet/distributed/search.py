"""The cheapest placement of all: branch and bound over the maps of a program.

Paper 003 section 4: a statement reads some maps and writes one, so that where maps are kept
is a problem over those dependencies alone. Candidates of a map are the driver, a copy on every node
and each of its key columns; the cost of a statement depends on the candidates of its own maps:

    bound of a partial placement    stages: the most that a statement needs whose maps are placed
                                    bytes and work: the sums over those statements
    a complete placement            the statements of each trigger in order, as the compiler takes
                                    them, each starting when what it reads is complete

Best first: the first complete placement whose cost is not above the bound of any open one is the
cheapest in this model. The driver and copies are candidates of maps that are known to be small, or
that have no other candidate: a join map on the driver would save a stage today and the cluster
tomorrow.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count as numbers

from viewlet.calculus.expr import Expr, MapRef, walk
from viewlet.calculus.typing import Slot
from viewlet.distributed.column_classes import ColumnClasses
from viewlet.distributed.hints import Hints
from viewlet.distributed.ir import sites
from viewlet.distributed.items import AtomLocations
from viewlet.distributed.location import LOCAL, RANDOM, REPLICATED, Dist, Location
from viewlet.distributed.placement import buffer_locations
from viewlet.distributed.simplify import Clock, advance, best, cost_of, signature
from viewlet.distributed.traffic import (
    BATCH_ROWS,
    JOB_MS,
    STAGE_MS,
    Traffic,
    width_of,
)
from viewlet.distributed.transformers import StatementPlan, plans
from viewlet.program.ir import KeyColumn, Map, Program, Statement, Trigger
from viewlet.schema import Physical

Locations = Mapping[str, Location]
Placement = tuple[tuple[str, Location], ...]

EXPANSIONS = 3_000
LEAVES = 150
"""What a search may look at; the cheapest so far is taken then. TPC-H needs less."""


CHOICES = 3
"""How many of the cheapest are compiled: what they share with each other only that shows."""


@dataclass(frozen=True)
class Ranking:
    """The cheapest placements, in order, and whether all others were ruled out."""

    placements: tuple[Locations, ...]
    is_exact: bool


@dataclass(frozen=True)
class _Entry:
    """What is known of a statement once its maps are placed."""

    layout: AtomLocations
    plans: tuple[StatementPlan, ...]
    work: tuple[float, ...]
    """With each plan, the time of what it does where its result is kept."""
    moves: tuple[Mapping[str, float], ...]
    """With each plan, the time of its moves: statements of a trigger share equal ones."""
    stages: int
    """The fewest stages with any plan."""

    @cached_property
    def least_moves(self) -> Mapping[str, float]:
        """The moves that every plan makes."""
        shared = set.intersection(*({*moves} for moves in self.moves))
        return {move: self.moves[0][move] for move in shared}


@dataclass(frozen=True)
class _Least:
    """What a trigger costs at least, from its statements whose maps are placed."""

    stages: int = 0
    work: float = 0.0
    moves: Mapping[str, float] = field(default_factory=dict)

    def plus(self, entry: _Entry) -> _Least:
        """With one statement more."""
        moves = {**self.moves, **entry.least_moves}
        return _Least(max(self.stages, entry.stages), self.work + min(entry.work), moves)


@dataclass(frozen=True)
class _Node:
    """A partial placement, and what its triggers cost at least."""

    chosen: Locations
    triggers: tuple[_Least, ...]


class PlacementSearch:
    """The placements of one program."""

    def __init__(self, program: Program, hints: Hints, baseline: Locations) -> None:
        self._program = program
        self._hints = hints
        self._baseline = baseline
        self.columns = ColumnClasses(program, hints)
        self.traffic = Traffic(program, self.columns)
        self._maps = {m.name: m for m in program.maps}
        constants = {m.name for m in program.constants}
        self._free = [m for m in program.maps if not m.buffer and m.name not in constants]
        self._fixed = dict.fromkeys(constants, REPLICATED)
        self.candidates = {m.name: self._candidates_of(m) for m in self._free}
        self._statements = list(self._with_their_maps())
        self._entries: dict[tuple[int, Placement], _Entry] = {}
        self._trigger_costs: dict[tuple[int, Placement], tuple[float, float, float]] = {}
        self._order = sorted(
            (m.name for m in self._free if len(self.candidates[m.name]) > 1),
            key=lambda name: -sum(name in needed for _, _, needed in self._statements),
        )
        self._settled = {
            m.name: self.candidates[m.name][0]
            for m in self._free
            if len(self.candidates[m.name]) == 1
        }
        depths = {name: depth for depth, name in enumerate(self._order)}
        self._completed_at: dict[int, list[int]] = {}
        for at, (_, _, needed) in enumerate(self._statements):
            last = max((depths.get(name, -1) for name in needed), default=-1)
            self._completed_at.setdefault(last, []).append(at)
        self._buffer_rows = [dict(self._rows_of_buffers(t)) for t in program.triggers]

    def choose(self) -> Ranking:
        """The cheapest placements, in order."""
        ticket = numbers()
        start = self._with_statements(_Node(dict(self._settled), self._triggers_without_cost()), -1)
        frontier = [(self._bound(start), 0, next(ticket), start)]
        complete: list[tuple[float, int, Locations]] = []
        expansions = 0
        while frontier:
            bound, _, _, node = heapq.heappop(frontier)
            if complete and bound >= min(complete)[0]:
                return self._choice(complete, is_exact=True)
            if expansions >= EXPANSIONS or len(complete) >= LEAVES:
                return self._choice(complete, is_exact=False)
            depth = len(node.chosen) - len(self._settled)
            if depth == len(self._order):
                complete.append((self.cost(node.chosen), next(ticket), node.chosen))
                continue
            expansions += 1
            name = self._order[depth]
            for location in self.candidates[name]:
                further = _Node({**node.chosen, name: location}, node.triggers)
                further = self._with_statements(further, depth)
                entry = (self._bound(further), -depth, next(ticket), further)
                heapq.heappush(frontier, entry)
        return self._choice(complete, is_exact=True)

    def _triggers_without_cost(self) -> tuple[_Least, ...]:
        return tuple(_Least() for _ in self._program.triggers)

    def _with_statements(self, node: _Node, depth: int) -> _Node:
        """With the statements whose last map was placed at this depth."""
        triggers = list(node.triggers)
        for at in self._completed_at.get(depth, ()):
            trigger = self._statements[at][0]
            triggers[trigger] = triggers[trigger].plus(self._entry(at, node.chosen))
        return _Node(node.chosen, tuple(triggers))

    def _choice(self, complete: list[tuple[float, int, Locations]], *, is_exact: bool) -> Ranking:
        return Ranking(
            tuple(self._all(chosen) for _, _, chosen in sorted(complete)[:CHOICES]), is_exact
        )

    def _all(self, chosen: Locations) -> dict[str, Location]:
        """With constants and buffers."""
        return buffer_locations(self._program, {**self._fixed, **chosen})

    # Candidates.

    def _candidates_of(self, map: Map) -> list[Location]:
        hinted = self._hints.place(map.name)
        if hinted is not None:
            return [hinted]
        baseline = self._baseline[map.name]
        options: list[Location] = [baseline]
        hidden = self.columns.hidden
        shown = [k for i, k in enumerate(map.key_names) if (map.name, i) not in hidden]
        large = [key for key in shown if not self.columns.is_few(map, key)]
        if self.columns.is_small(map):
            options += [LOCAL, REPLICATED]
        elif not large:
            options += [LOCAL, REPLICATED] if not map.keys or not shown else [REPLICATED]
        distinct = {self.columns.group(map, key): key for key in reversed(large)}
        keys = list(reversed(list(distinct.values())))
        if not keys and map.keys and not self.columns.is_small(map):
            keys = [max(shown or map.key_names, key=lambda key: self.columns.values(map, key))]
        options += [Dist((key,)) for key in keys]
        return list(dict.fromkeys(options))

    def _with_their_maps(self) -> Iterator[tuple[int, Statement, frozenset[str]]]:
        """Each statement with its trigger's number and the maps that decide its cost.

        A buffer is where the maps are that vote for it.
        """
        lasting = {m.name for m in self._free}
        buffers = {m.name for m in self._program.maps if m.buffer}
        beside: dict[str, set[str]] = {name: set() for name in buffers}
        for trigger in self._program.triggers:
            for statement in trigger.statements:
                touched = {statement.target, *statement.reads}
                for name in touched & buffers:
                    beside[name] |= touched & lasting
        for name in buffers:
            of = self._maps[name].change_of
            if of in lasting:
                beside[name] = {of}
        for number, trigger in enumerate(self._program.triggers):
            for statement in trigger.statements:
                touched = {statement.target, *statement.reads}
                needed = touched & lasting
                for name in touched & buffers:
                    needed = needed | beside[name]
                yield number, statement, frozenset(needed)

    # Costs.

    def _bound(self, node: _Node) -> float:
        """At most the cost of any placement that goes on from this one."""
        stages = [trigger.stages for trigger in node.triggers]
        ms = [trigger.work + sum(trigger.moves.values()) for trigger in node.triggers]
        return self._average(stages, ms, [0] * len(stages)) + self._memory(node.chosen)

    def _memory(self, chosen: Locations) -> float:
        maps = self._maps
        return sum(
            self.traffic.memory_ms(maps[name], location) for name, location in chosen.items()
        )

    def _average(
        self, stages: Sequence[float], ms: Sequence[float], trips: Sequence[float]
    ) -> float:
        """Over a batch of each relation, and one of all where there are several."""
        totals = [STAGE_MS * s + JOB_MS * t + m for s, t, m in zip(stages, trips, ms, strict=True)]
        if len(totals) > 1:
            totals.append(STAGE_MS * max(stages) + JOB_MS * max(trips) + sum(ms))
        return sum(totals) / max(len(totals), 1)

    def cost(self, chosen: Locations) -> float:
        """The statements of each trigger on its clock."""
        parts = [self._trigger_cost(number, chosen) for number in range(len(self._buffer_rows))]
        stages, ms, trips = ([part[i] for part in parts] for i in range(3))
        return self._average(stages, ms, trips) + self._memory(chosen)

    def _trigger_cost(self, number: int, chosen: Locations) -> tuple[float, float, float]:
        """Stages, time for data and round trips of one trigger."""
        own = [at for at, (trigger, _, _) in enumerate(self._statements) if trigger == number]
        needed = sorted(frozenset().union(*(self._statements[at][2] for at in own)))
        key = number, tuple((name, chosen[name]) for name in needed)
        if key not in self._trigger_costs:
            clock, end, work, trips = Clock(), -1, 0.0, 0
            moves: dict[str, float] = {}
            for at in own:
                entry = self._entry(at, chosen)
                plan = best(entry.plans, clock, entry.layout)
                cost = advance(plan, clock, entry.layout)
                end = max(end, cost.stages - clock.closed)
                trips = max(trips, cost.round_trips)
                position = entry.plans.index(plan)
                work += entry.work[position]
                moves |= entry.moves[position]
            stages = max(end, 0) + clock.closed
            self._trigger_costs[key] = stages, work + sum(moves.values()), trips
        return self._trigger_costs[key]

    def _entry(self, at: int, chosen: Locations) -> _Entry:
        trigger, statement, needed = self._statements[at]
        key = at, tuple((name, chosen[name]) for name in sorted(needed))
        if key not in self._entries:
            rows = self._buffer_rows[trigger]
            self._entries[key] = self._evaluated(statement, dict(key[1]), rows)
        return self._entries[key]

    def _rows_of_buffers(self, trigger: Trigger) -> Iterator[tuple[str, float]]:
        """About how many rows the program's own buffers have in a trigger."""
        rows: dict[str, float] = {}
        for statement in trigger.statements:
            name = statement.target
            if self._maps[name].buffer:
                added = self.traffic.rows(statement.loop, statement.keys, self._maps, rows)
                rows[name] = rows.get(name, 0.0) + added
        yield from rows.items()

    def _evaluated(
        self, statement: Statement, own: Locations, buffer_rows: Mapping[str, float]
    ) -> _Entry:
        layout = AtomLocations(self._program, self._all(own), RANDOM)
        statement_plans = tuple(plans(statement, layout))
        costs = [cost_of(plan, Clock(), layout) for plan in statement_plans]
        chosen = [p for p, c in zip(statement_plans, costs, strict=True) if not c.grows]
        usable = tuple(chosen or statement_plans)
        prices = [self._plan_ms(plan, layout, buffer_rows) for plan in usable]
        stages = min(max(c.stages, 0) for c in costs)
        work, moves = tuple(w for w, _ in prices), tuple(m for _, m in prices)
        return _Entry(layout, usable, work, moves, stages)

    def _plan_ms(
        self, plan: StatementPlan, layout: AtomLocations, buffer_rows: Mapping[str, float]
    ) -> tuple[float, Mapping[str, float]]:
        """The time of a plan's result, and of each of its moves."""
        buffers = dict(buffer_rows)
        maps = dict(layout.maps)
        moves: dict[str, float] = {}
        for name in {name for expr in _expressions(plan) for name in _copied(expr, layout)}:
            copy = layout.copies[name]
            is_lasting = isinstance(copy.source, str) and not self._maps[copy.source].buffer
            rows = float(BATCH_ROWS)
            if isinstance(copy.source, str):
                rows = buffer_rows.get(copy.source, rows)
            if is_lasting:
                rows = float(self.traffic.records(self._maps[str(copy.source)]))
            buffers[name] = rows
            width = width_of(copy.map.keys, copy.map.columns)
            moves[name] = self.traffic.transfer_ms(rows, width, copy.to)[0]
        for move in plan.moves:
            read = self.traffic.rows(move.loop, None, maps, buffers)
            rows = self.traffic.rows(move.loop, move.keys, maps, buffers)
            ms = self.traffic.work_ms(read, (move.mode,), None)
            ms += self.traffic.transfer_ms(rows, width_of(move.keys, move.updates), move.to)[0]
            moves[signature(move)] = ms
            buffers[move.name] = rows
            maps[move.name] = _moved_map(move.name, move.keys)
        target = layout.locations[plan.final.target]
        rows = self.traffic.rows(plan.final.loop, None, maps, buffers)
        everywhere = target if len(sites(target)) > 1 else None
        return self.traffic.work_ms(rows, plan.modes, everywhere), moves


def _expressions(plan: StatementPlan) -> Iterator[Expr]:
    for move in plan.moves:
        yield move.loop
        yield from (update for _, update in move.updates)
    yield plan.final.loop
    yield from (update for _, update in plan.final.updates)


def _copied(expr: Expr, layout: AtomLocations) -> Iterator[str]:
    """The copies of whole maps that an expression reads."""
    return (n.name for n in walk(expr) if isinstance(n, MapRef) and n.name in layout.copies)


def _moved_map(name: str, keys: Sequence[str]) -> Map:
    """What stands for a moved product; only the number of its keys matters here."""
    return Map(name, tuple(KeyColumn(k, Slot(Physical.INT)) for k in keys), (), buffer=True)
