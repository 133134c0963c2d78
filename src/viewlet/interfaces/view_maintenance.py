"""When the work of views is done: modes that follow from options, subscribers and measurements.

    plan      options of all views -> a mode for each -> the program of all of them
    read      a view that is behind is refreshed first, if its options say so
    REFRESH   on request, by the clock, or because enough rows wait
    change    a view changes its mode: it is made current, and the engine gets the new program

An error in a refresh belongs to whoever asked for it: the read or REFRESH that it is found in. The
batches stand, the view is as it was, and the next read tries again. Where nobody asked (the clock,
the number of rows), the next read raises it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from viewlet.engine.values.batch_codec import changes_from_bytes, changes_to_bytes
from viewlet.errors import StateError, ViewletError
from viewlet.frontend.maintenance_options import MaintenanceMode, When
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import Definitions, ViewDefinition
from viewlet.interfaces.intermittent import IntermittentStates
from viewlet.interfaces.mode_choice import ModeChoice, chosen_mode, saved_mode
from viewlet.interfaces.mode_works import split_frontier
from viewlet.interfaces.pending_rows import PendingRows
from viewlet.interfaces.refresh_clock import RefreshClock
from viewlet.interfaces.upkeep import ViewUpkeep
from viewlet.interfaces.view_modes import (
    EAGER,
    Modes,
    ViewMode,
    declared_mode,
    later_names,
    planned_inputs,
)
from viewlet.planner.frontiers import Frontier
from viewlet.program.ir import Program
from viewlet.program.reshape import NO_RESHAPES, Reshapes

logger = logging.getLogger("viewlet")


@contextmanager
def other_modes(views: Iterable[str]) -> Iterator[None]:
    """An engine takes views in other modes: what that needs of a stream may not have been kept."""
    try:
        yield
    except StateError as error:
        raise StateError(
            f"{', '.join(views)}: the maps of this mode cannot be made from those that there are: "
            f"{error.message}",
            hint="over streams, choose between split and the other modes before the first rows",
        ) from None


class ViewMaintenance:
    """The modes and refreshes of a database's views. Callers hold the database's lock."""

    def __init__(self, state: DatabaseState, watchers: Callable[[str], int]) -> None:
        """`watchers`: how many hear of every batch that changes a view."""
        self._state = state
        self.watchers = watchers
        self._clock = RefreshClock(state, self.refresh_due)
        self._chosen: dict[str, ViewMode] = {}
        """What measurements have chosen for views that leave it to them."""
        self._frontiers: dict[str, tuple[ViewDefinition | None, Frontier]] = {}
        """Where views are cut that are asked to be split; None: by a checkpoint."""
        self.intermittent = IntermittentStates(state)
        self.pass_time: Callable[[str], None] = lambda view: None
        """Lets the clock of a view tick before it is read."""
        self.choices: dict[str, ModeChoice] = {}
        """What is known of the ways to maintain each view."""

    # --- modes ------------------------------------------------------------------------------------

    def modes(self, definitions: Definitions) -> dict[str, ViewMode]:
        """How each view is to be maintained now."""
        return {name: self._mode(name, definitions) for name in definitions.views}

    def _mode(self, view: str, definitions: Definitions) -> ViewMode:
        options = definitions.views[view].options
        frontier = None
        if options.mode is MaintenanceMode.SPLIT:
            frontier = self.split_frontier(view, definitions)
        declared = declared_mode(options, self._state.engine_name, frontier)
        chosen = declared if declared is not None else self._chosen.get(view, EAGER)
        if chosen.mode is not MaintenanceMode.EAGER and self.watchers(view):
            return ViewMode(
                MaintenanceMode.EAGER, Frontier.EAGER, "a subscriber hears of every batch"
            )
        return chosen

    def split_frontier(self, view: str, definitions: Definitions) -> Frontier:
        """Where a read takes over: looked for once for each definition."""
        definition = definitions.views[view]
        known = self._frontiers.get(view)
        if known is None or known[0] not in (definition, None):
            known = definition, split_frontier(self._state, view, definitions)
        self._frontiers[view] = definition, known[1]
        return known[1]

    def compile(self, definitions: Definitions, modes: Modes) -> Program:
        """The program of all views in these modes."""
        inputs = planned_inputs(definitions, modes)
        return self._state.compile(inputs.catalog, inputs.queries, inputs.frontiers)

    def prepare(self, definitions: Definitions, modes: Modes) -> None:
        """Before the engine takes the program of other definitions or modes: views that stay, and
        are maintained in another way then, must be current.
        """
        for name, upkeep in self._state.upkeeps.items():
            stays = definitions.views.get(name)
            is_same = stays == self._state.definitions.views.get(name)
            if stays is not None and not (is_same and modes[name] == upkeep.mode):
                self._refresh(upkeep)

    def install(
        self,
        definitions: Definitions,
        modes: Modes,
        program: Program,
        without: str = "",
        reshapes: Reshapes = NO_RESHAPES,
    ) -> None:
        """Hand the engine a program; it keeps the one before if a view that is new, or has new
        options, does not fit its budget.
        """
        state, before = self._state, self.intermittent.whole
        self.intermittent.install(definitions, modes, program, without, reshapes)
        if reshapes:
            return
        try:
            for name, mode in modes.items():
                is_same = definitions.views[name] == state.definitions.views.get(name)
                if mode.mode is MaintenanceMode.INTERMITTENT and not is_same:
                    self.intermittent.check_budget(name, definitions)
        except StateError:
            self.intermittent.install(state.definitions, state.modes, before)
            raise

    def adopt(self, definitions: Definitions, modes: Modes) -> None:
        """After the engine has taken it: what each view that is not eager waits for."""
        state = self._state
        later = {r.name: r for r in state.engine.program.relations if r.original is not None}
        upkeeps = {}
        for name, mode in modes.items():
            if mode.mode is MaintenanceMode.EAGER:
                continue
            definition = definitions.views[name]
            old = state.upkeeps.get(name)
            is_same = definition == state.definitions.views.get(name)
            if old is not None and is_same and old.mode == mode:
                old.has_lost_contents()
                upkeeps[name] = old
                continue
            own = []
            if mode.mode.is_later:
                # By the definition: what HAVING alone reads is maps in the program's query.
                names = later_names(name, definition, definitions)
                own = [later[r] for r in names.values() if r in later]
            upkeeps[name] = ViewUpkeep(name, mode, definition.options, own)
        state.modes, state.upkeeps = dict(modes), upkeeps
        self._clock.watch(u for u in upkeeps.values() if u.when is When.SECONDS)

    def change(self) -> None:
        """Subscribers came or went, or measurements speak for another mode."""
        state = self._state
        modes = self.modes(state.definitions)
        same = {name: (m.mode, m.frontier) for name, m in state.modes.items()}
        if {name: (m.mode, m.frontier) for name, m in modes.items()} == same:
            state.modes = modes
            return
        self.prepare(state.definitions, modes)
        program = self.compile(state.definitions, modes)
        with other_modes(name for name, mode in modes.items() if mode != state.modes.get(name)):
            self.intermittent.install(state.definitions, modes, program)
        self.adopt(state.definitions, modes)
        state.define(state.definitions)
        state.version += 1

    def is_left_open(self, view: str) -> bool:
        """Whether a view's options leave its mode to measurements, and nobody listens."""
        options = self._state.definitions.views[view].options
        declared = declared_mode(options, self._state.engine_name, None)
        return declared is None and not self.watchers(view)

    def remember(self, view: str, mode: ViewMode) -> None:
        """What measurements say of the mode that a view has already."""
        self._chosen[view] = mode

    def choose(self, view: str, mode: ViewMode) -> None:
        """What measurements say; it counts where the view's options leave it to them."""
        self._chosen[view] = mode
        self.change()

    # --- refreshes --------------------------------------------------------------------------------

    def before_read(self, view: str) -> None:
        """Make a view current that has to be; an error of a refresh that nobody waited for."""
        self.pass_time(view)
        meter = self._state.meters.get(view)
        if meter is not None:
            meter.reads += 1
        upkeep = self._state.upkeeps.get(view)
        if upkeep is None:
            return
        if upkeep.is_due_for_read():
            self._refresh(upkeep)
        elif upkeep.error is not None:
            raise upkeep.error

    def refresh(self, view: str) -> None:
        """Make a view current, whatever its options say."""
        upkeep = self._state.upkeeps.get(view)
        if upkeep is not None:
            self._refresh(upkeep)

    def refresh_by_rows(self, upkeeps: Iterable[ViewUpkeep]) -> None:
        """After a batch: views of which so many rows wait."""
        for upkeep in upkeeps:
            if upkeep.is_due_by_rows():
                self._refresh_unasked(upkeep)

    def refresh_due(self, now: float) -> None:
        """What the clock has to refresh by now."""
        for upkeep in self._state.upkeeps.values():
            due = upkeep.due_at()
            if due is not None and due <= now:
                self._refresh_unasked(upkeep)

    def _refresh_unasked(self, upkeep: ViewUpkeep) -> None:
        try:
            self._refresh(upkeep)
        except ViewletError as error:
            logger.warning("view %s could not be refreshed: %s", upkeep.view, error)

    def _refresh(self, upkeep: ViewUpkeep) -> None:
        if not upkeep.is_behind:
            return
        state = self._state
        if upkeep.mode.mode is MaintenanceMode.INTERMITTENT:
            self.intermittent.refresh(upkeep, lambda: upkeep.refresh(state.engine, state.version))
        else:
            upkeep.refresh(state.engine, state.version)
        may_be_old = upkeep.options.staleness is not None or upkeep.when is not When.ON_READ
        if may_be_old and not state.is_delivering:
            state.version += 1  # a reader that was content with older rows has to look again

    # --- restarts ---------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], bytes]:
        """What a checkpoint says of modes, and the rows that wait.

        Split views are made current before: what they compute is saved with the maps. So are
        intermittent ones: maps that are not there are made of the tables' rows, with nothing
        pending, when the checkpoint is read.
        """
        state = self._state
        for upkeep in state.upkeeps.values():
            if upkeep.mode.mode is MaintenanceMode.SPLIT:
                self._refresh_unasked(upkeep)
            elif upkeep.mode.mode is MaintenanceMode.INTERMITTENT:
                self._refresh(upkeep)
        about = {
            name: {
                "options": made.options.texts(),
                "chosen": saved_mode(self._chosen[name]) if name in self._chosen else None,
                "frontier": self._frontiers[name][1].value if name in self._frontiers else None,
            }
            for name, made in state.definitions.views.items()
        }
        waiting = [
            (pending.relation.name, state.engine.plain(pending.relation, batch))
            for upkeep in state.upkeeps.values()
            for pending in upkeep.pending.values()
            for batch in pending.changes()
        ]
        return about, changes_to_bytes(waiting)

    def load_choices(self, about: Mapping[str, Any]) -> None:
        """What measurements had chosen when the checkpoint was written."""
        for name, saved in about.items():
            if saved.get("chosen") is not None:
                self._chosen[name] = chosen_mode(saved["chosen"])
            if saved.get("frontier") is not None:
                self._frontiers[name] = None, Frontier(saved["frontier"])

    def load_pending(self, payload: bytes) -> None:
        """The rows that waited when the checkpoint was written."""
        if not payload:
            return
        relations = {r.name: r for r in self._state.engine.program.relations}
        owners = {
            pending.relation.name: (upkeep, original)
            for upkeep in self._state.upkeeps.values()
            for original, pending in upkeep.pending.items()
        }
        for name, batch in changes_from_bytes(payload, relations.__getitem__):
            upkeep, original = owners[name]
            upkeep.touch(0)
            upkeep.collect(original, batch, 0)

    def complete(self, relation: str) -> None:
        """After a relation was declared complete: what only its changes need goes."""
        for upkeep in self._state.upkeeps.values():
            is_waiting = upkeep.when is When.COMPLETE and relation in upkeep.pending
            if is_waiting or any(map(len, self._pending_of(upkeep, relation))):
                self._refresh(upkeep)
        self.intermittent.free_complete()

    def _pending_of(self, upkeep: ViewUpkeep, relation: str) -> list[PendingRows]:
        names = self._state.definitions.epochs[relation]
        return [upkeep.pending[name] for name in names if name in upkeep.pending]

    def close(self) -> None:
        """The database closes."""
        self._clock.stop()
