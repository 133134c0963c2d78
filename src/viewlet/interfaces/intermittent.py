"""What intermittent views keep between refreshes (paper 002), and what complete relations free.

    whole program       every map of every view
    running program     without the maps that are dropped now (program/live_maps.py)

    refresh   predict what changes next; choose what to keep for that, within the budget
              build what this refresh needs and is not there: tables' rows without what is pending
              apply what is pending
              drop what is not to be kept, build what is to be kept besides

Maps over streams stay, since their rows are nowhere else, until nothing can change that needs them.
A map is known by what it holds: names of maps change with every definition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from viewlet.engine.contract import LeftOut
from viewlet.engine.values.batching import Batch
from viewlet.errors import StateError
from viewlet.frontend.maintenance_options import MaintenanceMode
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.upkeep import ViewUpkeep
from viewlet.interfaces.view_modes import Modes, later_names
from viewlet.planner.keep import BuildCosts, build_costs, choose
from viewlet.planner.prediction import Predictions
from viewlet.program.ir import Map, Program
from viewlet.program.live_maps import (
    droppable_maps,
    lasting_maps,
    needed_maps,
    with_live_maps,
    without_changes_of,
)
from viewlet.program.prune import maps_of
from viewlet.program.reshape import NO_RESHAPES, Reshapes

_MOST_CHOICES = 4

Contents = object
"""What a map holds, by which it is known under any name."""


def contents_of(map: Map) -> Contents:
    """The definitions of a map's columns over its keys."""
    return map.key_names, tuple(column.definition for column in map.columns)


@dataclass
class KeptStates:
    """Of one intermittent view: what is not there now, and what was last known of sizes."""

    dropped: frozenset[Contents] = frozenset()
    sizes: dict[Contents, int] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    """By map, the records that building it touches; for `explain`."""


class IntermittentStates:
    """The maps of a database that come and go. Callers hold the database's lock."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self._whole = state.engine.program
        self._views: dict[str, KeptStates] = {}
        self.predictions = Predictions(time.time)
        self.memory: int | None = None
        """What all intermittent views together may keep."""

    @property
    def whole(self) -> Program:
        """The program with all maps."""
        return self._whole

    # --- programs ---------------------------------------------------------------------------------

    def install(
        self,
        definitions: Definitions,
        modes: Modes,
        whole: Program,
        without: str = "",
        reshapes: Reshapes = NO_RESHAPES,
    ) -> None:
        """Give the engine a program, without the maps that are not there now.

        The table `without` loses its rows.
        """
        state = self._state
        tables = [table for table in definitions.stored_tables() if table.name != without]
        views = self._states_of(modes)
        program = whole
        for name, states in views.items():
            own = _own_relations(name, definitions)
            names = {m.name for m in lasting_maps(whole, own) if contents_of(m) in states.dropped}
            program = with_live_maps(program, own, names)
        program = without_changes_of(program, self._complete(definitions))
        left = LeftOut(None if program is whole else whole, self._pending_changes())
        state.engine.install(program, tables, definitions.ended(), left, reshapes)
        self._whole, self._views = whole, views

    def took(self, whole: Program, modes: Modes) -> None:
        """The engine has the whole program, from a checkpoint."""
        self._whole, self._views = whole, self._states_of(modes)

    def _states_of(self, modes: Modes) -> dict[str, KeptStates]:
        return {
            name: self._views.get(name, KeptStates())
            for name, mode in modes.items()
            if mode.mode is MaintenanceMode.INTERMITTENT
        }

    def _complete(self, definitions: Definitions) -> frozenset[str]:
        """The relations of which nothing will come any more, by all that programs call them.

        What a deferred view has still to see of one is yet to come. Spark keeps all it has.
        """
        if self._state.engine_name == "spark":
            return frozenset()
        complete = {
            name for relation in definitions.complete for name in definitions.epochs[relation]
        }
        waiting = {
            pending.relation.name
            for upkeep in self._state.upkeeps.values()
            for pending in upkeep.pending.values()
            if len(pending)
        }
        later = {
            pending.relation.name
            for upkeep in self._state.upkeeps.values()
            for pending in upkeep.pending.values()
            if pending.relation.original in complete
        }
        return frozenset(complete | (later - waiting))

    def _pending_changes(self) -> dict[str, list[Batch]]:
        return {
            pending.relation.name: pending.changes()
            for upkeep in self._state.upkeeps.values()
            if upkeep.mode.mode is MaintenanceMode.INTERMITTENT
            for pending in upkeep.pending.values()
            if len(pending)
        }

    # --- refreshes --------------------------------------------------------------------------------

    def refresh(self, upkeep: ViewUpkeep, apply: Callable[[], None]) -> None:
        """Make a view's maps fit for what is pending, apply it, and keep what is worth it."""
        view = upkeep.view
        whole, own = self._whole, _own_relations(view, self._state.definitions)
        chosen = self._chosen_to_drop(view, own)
        absent = self._absent(view, own)
        changed = {p.relation.name for p in upkeep.pending.values() if len(p)}
        maps = {m.name for m in lasting_maps(whole, own)}
        if needed_maps(whole, maps - absent, changed) & absent:
            self._refuse_while_delivering(view)
            targets = maps - (absent | chosen)
            self._drop(view, maps - needed_maps(whole, targets, changed))
        arrived = {p.relation.original: len(p) for p in upkeep.pending.values()}
        apply()
        for relation, rows in arrived.items():
            if relation is not None:
                self.predictions.saw(view, relation, rows)
        if not self._state.is_delivering:
            self.trim(view)
            self._make_room(view)

    def _make_room(self, view: str) -> None:
        """Where one view has grown beyond what is left of the whole budget, others shrink."""
        for other in self._views:
            taken = sum(sum(self.present_sizes(name).values()) for name in self._views)
            if self.memory is None or taken <= self.memory:
                return
            if other != view:
                self.trim(other)

    def trim(self, view: str) -> None:
        """Drop what is not worth its memory until the next refresh, build what is.

        What is built may be larger than when it was dropped: then the choice is made again.
        """
        own = _own_relations(view, self._state.definitions)
        for _ in range(_MOST_CHOICES):
            self._remember_sizes(view)
            chosen = self._chosen_to_drop(view, own)
            if chosen == self._absent(view, own):
                return
            self._drop(view, chosen)

    def expect(self, relation: str, rows: float, seconds: float | None) -> None:
        """Somebody says what will come: what is kept follows."""
        self.predictions.expect(relation, rows, seconds)
        for view in self._views:
            self.trim(view)

    def free_complete(self) -> None:
        """What only changes of complete relations need goes."""
        state = self._state
        self.predictions.complete = state.definitions.complete
        if state.definitions.complete:
            self.install(state.definitions, state.modes, self._whole)
        for view in self._views:
            self.trim(view)

    def _drop(self, view: str, names: frozenset[str] | set[str]) -> None:
        states = self._views[view]
        before = states.dropped
        states.dropped = frozenset(contents_of(self._whole.map(name)) for name in names)
        try:
            self.install(self._state.definitions, self._state.modes, self._whole)
        except BaseException:
            states.dropped = before
            raise

    def _refuse_while_delivering(self, view: str) -> None:
        if self._state.is_delivering:
            raise StateError(
                f"view {view} is intermittent and cannot be refreshed within a callback",
                hint="read it after the batch, or make it deferred",
            )

    # --- choices ----------------------------------------------------------------------------------

    def _chosen_to_drop(self, view: str, own: Mapping[str, str]) -> frozenset[str]:
        """The maps of a view that are not to be kept until its next refresh."""
        whole = self._whole
        answer = maps_of(next(v for v in whole.views if v.name == view))
        lasting = {m.name for m in lasting_maps(whole, own)}
        complete = self._state.definitions.complete
        open_relations = {later for later, name in own.items() if self._stem(name) not in complete}
        useful = needed_maps(whole, answer, open_relations)
        useless = frozenset(lasting - useful)
        budget = self.budget(view)
        if budget is None:
            return useless
        sizes = self._sizes(view)
        if sum(sizes.get(name, 0) for name in lasting - useless) <= budget:
            return useless
        tables = {t.name for t in self._state.definitions.stored_tables()}
        stored = {later for later, name in own.items() if name in tables}
        droppable = droppable_maps(whole, own, view, stored)
        expected = self._expected(view, own)
        needed = needed_maps(whole, answer, expected)
        candidates = {name: sizes.get(name, 0) for name in needed & droppable - useless}
        fixed = sum(sizes.get(name, 0) for name in lasting - droppable - useless)
        costs = self.costs(view, own, droppable)
        best = choose(candidates, budget - fixed, costs.of)
        return droppable - best | useless

    def _expected(self, view: str, own: Mapping[str, str]) -> frozenset[str]:
        """The relations, as the program calls them, that are expected to change next."""
        names = {later: self._stem(name) for later, name in own.items()}
        changing = self.predictions.changing(view, sorted(set(names.values())))
        return frozenset(later for later, name in names.items() if name in changing)

    def costs(self, view: str, own: Mapping[str, str], maps: frozenset[str]) -> BuildCosts:
        """What it takes to build each of some maps anew."""
        rows = self._state.engine.table_sizes()
        counts = {later: float(rows[n].records) for later, n in own.items() if n in rows}
        records = {n: float(size.records) for n, size in self._state.engine.sizes().items()}
        costs = build_costs(self._whole, maps, counts, records)
        self._views[view].costs = {name: costs.of((name,)) for name in maps}
        return costs

    def budget(self, view: str) -> int | None:
        """The bytes that a view may have between refreshes; None if nobody has said."""
        own = self._state.definitions.views[view].options.memory
        if self.memory is None:
            return own
        others = sum(
            sum(self.present_sizes(other).values()) for other in self._views if other != view
        )
        left = max(self.memory - others, 0)
        return left if own is None else min(own, left)

    def check_budget(self, view: str, definitions: Definitions) -> None:
        """StateError if the answer of a view alone has more bytes than all of it may have."""
        memory = definitions.views[view].options.memory
        limits = [limit for limit in (memory, self.memory) if limit is not None]
        answer = maps_of(next(v for v in self._whole.views if v.name == view))
        sizes = self._state.engine.sizes()
        taken = sum(sizes[name].bytes for name in answer if name in sizes)
        if limits and taken > min(limits):
            raise StateError(
                f"view {view} alone takes {taken} bytes, and its budget is {min(limits)}",
                hint="give it more memory, or leave memory out",
            )

    # --- what is there ----------------------------------------------------------------------------

    def _absent(self, view: str, own: Mapping[str, str]) -> frozenset[str]:
        dropped = self._views[view].dropped
        return frozenset(
            m.name for m in lasting_maps(self._whole, own) if contents_of(m) in dropped
        )

    def present_sizes(self, view: str) -> dict[str, int]:
        """The bytes of the maps of an intermittent view that are there; nothing of others."""
        if view not in self._views:
            return {}
        own = _own_relations(view, self._state.definitions)
        sizes = self._state.engine.sizes()
        return {
            m.name: sizes[m.name].bytes for m in lasting_maps(self._whole, own) if m.name in sizes
        }

    def _remember_sizes(self, view: str) -> None:
        for name, size in self.present_sizes(view).items():
            self._views[view].sizes[contents_of(self._whole.map(name))] = size

    def _sizes(self, view: str) -> dict[str, int]:
        """The bytes of all maps of a view, of those that are gone as they were."""
        own = _own_relations(view, self._state.definitions)
        known = self._views[view].sizes
        last = {m.name: known.get(contents_of(m), 0) for m in lasting_maps(self._whole, own)}
        return last | self.present_sizes(view)

    def _stem(self, instance: str) -> str:
        """The relation of which this is an epoch."""
        epochs = self._state.definitions.epochs
        return next((name for name, names in epochs.items() if instance in names), instance)

    # --- for people -------------------------------------------------------------------------------

    def lines(self, view: str) -> list[str]:
        """What is kept of an intermittent view and why, for `explain`; nothing of others."""
        if view not in self._views:
            return []
        definitions = self._state.definitions
        own = _own_relations(view, definitions)
        budget = self.budget(view)
        present, sizes = self.present_sizes(view), self._sizes(view)
        limit = "no budget" if budget is None else f"of {budget} bytes allowed"
        lines = [f"keeps {sum(present.values())} bytes between refreshes, {limit}"]
        for relation in sorted({self._stem(name) for name in own.values()}):
            prediction = self.predictions.of(view, relation)
            said = "unknown" if prediction is None else f"{prediction.rows:.0f} rows"
            why = "" if prediction is None else f", {prediction.reason}"
            lines.append(f"expects of {relation}: {said}{why}")
        tables = {t.name for t in definitions.stored_tables()}
        stored = {later for later, name in own.items() if name in tables}
        droppable = droppable_maps(self._whole, own, view, stored)
        costs = self.costs(view, own, droppable)
        for m in lasting_maps(self._whole, own):
            state = "kept" if m.name in present else "dropped"
            note = (
                f"{costs.of((m.name,)):.0f} records to build"
                if m.name in droppable
                else "always kept"
            )
            lines.append(f"state {m.name}: {state}, {sizes[m.name]} bytes, {note}")
        return lines


def _own_relations(view: str, definitions: Definitions) -> dict[str, str]:
    """r@v -> r for the relations of an intermittent view, as programs call them."""
    names = later_names(view, definitions.views[view], definitions)
    return {later: name for name, later in names.items()}
