"""`explain(view, stage="maintenance")`: when a view's work is done, why, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from viewlet.errors import UnsupportedError
from viewlet.frontend.maintenance_options import MaintenanceMode
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import ViewDefinition
from viewlet.interfaces.explain import part_for_view
from viewlet.interfaces.mode_choice import ModeChoice, strategy_of
from viewlet.interfaces.upkeep import ViewUpkeep
from viewlet.interfaces.view_modes import EAGER, ViewMode
from viewlet.planner.frontiers import Frontier

_FRONTIERS = {
    Frontier.EAGER: "a batch does all of its work",
    Frontier.VALUES: "a read computes what every batch would compute anew",
    Frontier.LEAVES: "a read joins what batches keep of each relation",
}


def maintenance_text(
    state: DatabaseState,
    definition: ViewDefinition,
    format: str,
    choice: ModeChoice,
    states: Sequence[str] = (),
) -> str:
    """One view: its mode, its options, what it was measured to need, and the mode of every map.

    `states` says what an intermittent view keeps.
    """
    if format != "text":
        raise UnsupportedError(
            f"stage maintenance has no format {format}", hint="its format is text"
        )
    name = definition.query.name
    mode = state.modes.get(name, EAGER)
    upkeep = state.upkeeps.get(name)
    options = ", ".join(f"{key} = '{value}'" for key, value in definition.options.texts().items())
    lines = [
        f"view {name}: {_description(mode)}",
        f"  because: {mode.reason}",
        f"  options: {options}",
    ]
    if upkeep is not None:
        lines += _refreshes(upkeep)
    if choice.costs:
        lines.append(f"  ways to maintain it, with {choice.reads:.3g} reads for each batch:")
        lines += [f"    {line}" for line in choice.lines(strategy_of(mode))]
    lines += [f"  {line}" for line in states]
    lines += _maps(state, name)
    return "\n".join(lines) + "\n"


def _description(mode: ViewMode) -> str:
    if mode.mode is MaintenanceMode.INTERMITTENT:
        return "intermittent, a batch is kept until a refresh, and maps that it needs may be built"
    if mode.mode is MaintenanceMode.DEFERRED:
        return "deferred, a batch is kept until the view is refreshed"
    return f"{mode.mode.value}, {_FRONTIERS[mode.frontier]}"


def _refreshes(upkeep: ViewUpkeep) -> Iterator[str]:
    timings = upkeep.timings
    if timings.refreshes:
        mean = 1000 * timings.seconds / timings.refreshes
        yield f"  refreshes: {timings.refreshes}, {mean:.3f} ms on average"
    else:
        yield "  refreshes: none yet"
    if upkeep.is_behind:
        since = upkeep.behind_since
        when = "" if since is None else f" since {datetime.fromtimestamp(since, UTC):%H:%M:%S} UTC"
        rows = f", {upkeep.pending_rows} rows wait" if upkeep.pending else ""
        yield f"  behind{when}{rows}"
    if upkeep.error is not None:
        yield f"  the last refresh failed: {upkeep.error.message}"


def _maps(state: DatabaseState, name: str) -> Iterator[str]:
    part = part_for_view(state.engine.program, name)
    deferred = {r.name for r in part.relations if r.original is not None}
    anew = {s.target for t in part.triggers for s in t.statements if s.op == ":="}
    for map in part.state:
        if map.name in part.on_read:
            how = "on read"
        elif any(
            t.relation in deferred and any(s.target == map.name for s in t.statements)
            for t in part.triggers
        ):
            how = "pending"
        else:
            how = "eager"
            if map.name in anew:
                how += ", computed anew by every batch: costs more the more it is made of"
        yield f"  map {map.name}[{', '.join(map.key_names)}]: {how}"
