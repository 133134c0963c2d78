"""How each view of a database is maintained now, and the program that follows from it.

eager      a batch does all of the view's work
split      a batch goes up to the frontier, a read does the rest (planner/frontiers.py)
deferred   a batch is kept until the view is refreshed: the view reads relations of its own,
           which are given the rows later (program/deferral.py)
intermittent   the same, and between refreshes some of its maps are not there
           (interfaces/intermittent.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewlet.calculus.query import Query
from viewlet.errors import UnsupportedError
from viewlet.frontend.maintenance_options import MaintenanceMode, MaintenanceOptions, When
from viewlet.interfaces.definitions import Definitions, ViewDefinition, with_relations
from viewlet.planner.frontiers import Frontier
from viewlet.schema import Catalog


@dataclass(frozen=True)
class ViewMode:
    """What is done for a view now, and why."""

    mode: MaintenanceMode
    frontier: Frontier
    reason: str


EAGER = ViewMode(MaintenanceMode.EAGER, Frontier.EAGER, "nothing measured speaks against it")
Modes = Mapping[str, ViewMode]


def declared_mode(
    options: MaintenanceOptions, engine: str, frontier: Frontier | None
) -> ViewMode | None:
    """What a view's options say, None where they leave it to measurements.

    `frontier` is where the view could be split, None where nobody has looked.
    """
    when = options.refresh.when if options.refresh is not None else None
    if options.mode is MaintenanceMode.EAGER or when is When.ON_CHANGE:
        return replace(EAGER, reason="asked for")
    scheduled = when not in (None, When.ON_READ)
    is_later = options.mode is not MaintenanceMode.AUTO or scheduled
    if engine == "spark" and (is_later or options.staleness is not None):
        named = ", ".join(f"{name} = '{value}'" for name, value in options.texts().items())
        raise UnsupportedError(
            f"{named} is not supported on Spark, where every view is eager",
            hint="leave it out, or connect with engine='local'",
        )
    if options.mode.is_later:
        return ViewMode(options.mode, Frontier.EAGER, "asked for")
    if scheduled:
        return ViewMode(MaintenanceMode.DEFERRED, Frontier.EAGER, f"refresh = '{options.refresh}'")
    if options.mode is MaintenanceMode.AUTO:
        return None
    if frontier is Frontier.EAGER:
        return replace(EAGER, reason="asked for split, but a batch does all there is to do")
    return ViewMode(MaintenanceMode.SPLIT, frontier or Frontier.LEAVES, "asked for")


def later_name(relation: str, view: str, definitions: Definitions) -> str:
    """What a program calls the relation that gives a deferred view its rows."""
    name = f"{relation}@{view}"
    taken = {n for names in definitions.epochs.values() for n in names} | definitions.views.keys()
    while name in taken:
        name += "@"
    return name


def later_names(view: str, definition: ViewDefinition, definitions: Definitions) -> dict[str, str]:
    """Each relation that a deferred view reads, static ones aside, with what it is called there."""
    static = {name for name, made in definitions.relations.items() if made.relation.static}
    return {
        relation: later_name(relation, view, definitions)
        for relation in sorted(definition.reads - static)
    }


@dataclass(frozen=True)
class PlannedInputs:
    """What the compiler is given for all views in their modes."""

    catalog: Catalog
    queries: list[Query]
    frontiers: dict[str, Frontier]


def planned_inputs(definitions: Definitions, modes: Modes) -> PlannedInputs:
    """Queries of deferred views over relations of their own; the frontiers of split ones."""
    catalog = definitions.planning_catalog()
    known = {relation.name: relation for relation in catalog}
    queries = []
    frontiers = {}
    for name, definition in definitions.views.items():
        mode = modes.get(name, EAGER)
        query = definition.query
        if mode.mode.is_later:
            names = later_names(name, definition, definitions)
            for relation, later in names.items():
                catalog.add(replace(known[relation], name=later, original=relation))
            query = with_relations(query, names)
        elif mode.mode is MaintenanceMode.SPLIT:
            frontiers[name] = mode.frontier
        queries.append(query)
    return PlannedInputs(catalog, queries, frontiers)
