"""What each way to maintain a view has to do, counted in the programs that it would have."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import Definitions, query_relations
from viewlet.interfaces.mode_choice import Measurement, ModeChoice, Strategy, strategy_of
from viewlet.interfaces.view_modes import EAGER
from viewlet.planner.frontiers import Frontier
from viewlet.planner.mode_cost import ModeWork, map_sizes, mode_work
from viewlet.planner.viewlets import compile_program, joins_on_read
from viewlet.program.frontier import reevaluate_on_read, reevaluated
from viewlet.program.ir import Program
from viewlet.program.prune import part_of

_READS = 0.01
"""For each batch, of a view that is asked to be split."""


def running_works(state: DatabaseState, view: str) -> dict[Strategy, ModeWork]:
    """Of a view that is eager now: that, and what would be left to reads without other maps."""
    program = state.engine.program
    own = next(v for v in program.views if v.name == view)
    programs = _by_values(part_of(program, views=[own]), view)
    return _counted(state, view, programs, _records(state), _shares(state, view))


def planned_works(state: DatabaseState, view: str) -> dict[Strategy, ModeWork]:
    """The same, and the ways that need other maps."""
    programs = _programs(state.definitions, view)
    programs[Strategy.DEFERRED] = programs[Strategy.EAGER]
    return _counted(state, view, programs, _records(state), _shares(state, view))


def split_frontier(state: DatabaseState, view: str, definitions: Definitions) -> Frontier:
    """Where a view is cut that is asked to be split; EAGER if a batch does all there is to do.

    Tables alone say how large maps are: a log that is read again must come to the same answer.
    """
    programs = _programs(definitions, view)
    changing = sorted(query_relations(definitions.views[view].query))
    works = _counted(state, view, programs, {}, dict.fromkeys(changing, 1.0))

    def cost(strategy: Strategy) -> float:
        work = works[strategy]
        return work.row + work.batch + _READS * work.refresh

    able = [s for s in (Strategy.SPLIT, Strategy.LEAVES) if s in works]
    if not able:
        return Frontier.EAGER
    return min(able, key=cost).view_mode("").frontier


def filling_rows(state: DatabaseState, view: str, strategy: Strategy) -> int:
    """The rows of tables from which a way's own maps are filled when it begins."""
    if strategy is Strategy.SPLIT:
        return 0
    sizes = state.engine.table_sizes()
    return sum(sizes[name].records for name in state.definitions.views[view].reads if name in sizes)


def expected_choice(state: DatabaseState, known: ModeChoice, view: str) -> ModeChoice:
    """What is known of the ways to maintain a view; of one that is eager, all that is expected."""
    timings = state.timings[view]
    is_eager = strategy_of(state.modes.get(view, EAGER)) is Strategy.EAGER
    if state.engine_name == "spark" or not (is_eager and timings.refreshes):
        return known
    choice = ModeChoice(dict(known.costs), dict(known.refused), known.reads)
    batches, rows = timings.refreshes, timings.changed_rows
    if Strategy.EAGER not in choice.costs:
        reads = state.meters[view].reads
        choice.measure(Strategy.EAGER, Measurement(batches, rows, reads, timings.seconds))
    choice.estimate(planned_works(state, view), rows / batches)
    return choice


def _programs(definitions: Definitions, view: str) -> dict[Strategy, Program]:
    catalog, query = definitions.planning_catalog(), definitions.views[view].query
    programs = _by_values(compile_program(catalog, [query]), view)
    leaves = compile_program(catalog, [query], frontiers={view: Frontier.LEAVES})
    if joins_on_read(leaves, view):
        programs[Strategy.LEAVES] = leaves
    return programs


def _by_values(eager: Program, view: str) -> dict[Strategy, Program]:
    programs = {Strategy.EAGER: eager}
    if reevaluated(eager, view):
        programs[Strategy.SPLIT] = reevaluate_on_read(eager, frozenset((view,)))
    return programs


def _counted(
    state: DatabaseState,
    view: str,
    programs: Mapping[Strategy, Program],
    records: Mapping[str, int],
    shares: Mapping[str, float],
) -> dict[Strategy, ModeWork]:
    tables = {name: size.records for name, size in state.engine.table_sizes().items()}
    running = state.engine.program if records else Program((), (), ())
    return {
        strategy: mode_work(program, view, map_sizes(program, running, records, tables), shares)
        for strategy, program in programs.items()
    }


def _records(state: DatabaseState) -> dict[str, int]:
    return {name: size.records for name, size in state.engine.sizes().items()}


def _shares(state: DatabaseState, view: str) -> dict[str, float]:
    """How many batches came for each relation of a view, by its names in programs."""
    definitions = state.definitions
    shares = {}
    for name in definitions.views[view].reads:
        for instance in definitions.instances(name):
            shares[instance] = float(state.routes[name].batches)
    return shares
