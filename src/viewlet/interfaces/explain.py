"""The stages of a view as text or as JSON: what was asked, what it means, what is run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from viewlet.calculus.query import Query
from viewlet.calculus.query_text import query_text, relation_text
from viewlet.engine.contract import Distributing, Engine
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.interfaces.arguments import name_of
from viewlet.interfaces.definitions import Definitions, ViewDefinition
from viewlet.program.ir import Program, View
from viewlet.program.prune import maps_of, part_of
from viewlet.program.text import program_text, statement_text
from viewlet.schema import Catalog

if TYPE_CHECKING:
    from viewlet.distributed.location import Location

Stage = Literal["sql", "calculus", "plan", "program", "distributed", "kernels", "maintenance"]
"""What `explain` shows of a view."""

Format = Literal["text", "json", "svg"]
"""How `explain` shows it."""

STAGES = ("sql", "calculus", "plan", "program", "distributed")
"""The stages that every engine has in common, in the order of processing."""

NOWHERE: Mapping[str, Location] = MappingProxyType({})

ENGINE_STAGES = ("kernels",)
"""What an engine makes of the program; the engine explains them itself."""


def explain_view(definition: ViewDefinition, engine: Engine, stage: str) -> str:
    """One view at one stage; its program is the part of the database's that it needs."""
    check_stage(stage)
    if stage == "sql":
        return definition.statement.text.strip() + "\n"
    if stage == "calculus":
        return query_text(definition.query) + "\n"
    if stage == "plan":
        catalog = Catalog({relation.name: relation for relation in engine.program.relations})
        return _plans(catalog, [definition.query], keyed=not isinstance(engine, Distributing))
    name = definition.query.name
    if stage in ENGINE_STAGES:
        return engine.explain(name, stage)
    part = part_for_view(engine.program, name)
    if stage == "program":
        return program_text(part)
    if isinstance(engine, Distributing):
        return distributed_text(part, engine.locations, engine.verdict)
    return distributed_text(part)


def explain_all(definitions: Definitions, program: Program, stage: str) -> str:
    """Every view of a SQL file at one stage."""
    check_stage(stage)
    if stage == "kernels":
        from viewlet.kernels.jit import source

        return source(program)
    if stage == "plan":
        return _plans(definitions.planning_catalog(), definitions.queries(), keyed=True)
    if stage == "program":
        return program_text(program)
    if stage == "distributed":
        return distributed_text(program)
    if stage == "sql":
        texts = [r.text.strip() for r in definitions.relations.values()]
        texts += [v.statement.text.strip() for v in definitions.views.values()]
        return ";\n\n".join(text.rstrip(";") for text in texts) + ";\n"
    relations = "\n".join(relation_text(r.relation) for r in definitions.relations.values())
    queries = [query_text(v.query) for v in definitions.views.values()]
    return "\n\n".join([relations, *queries]) + "\n"


def _plans(catalog: Catalog, queries: Iterable[Query], *, keyed: bool) -> str:
    """How each view is maintained, and what that was chosen from."""
    from viewlet.planner.viewlets import explain_plan

    return "\n".join(explain_plan(catalog, query, keyed=keyed) for query in queries)


def distributed_text(
    program: Program, locations: Mapping[str, Location] = NOWHERE, verdict: str = ""
) -> str:
    """The program for many nodes: what each round does where, and what moves between them.

    `locations`: where an engine keeps the maps already, of this program or of a larger one, and
    `verdict`, why.
    """
    from viewlet.distributed import Hints, compile_distributed, explain
    from viewlet.distributed.hints import hints_about

    compiled = compile_distributed(program, hints_about(program, Hints(maps=locations)))
    return explain(compiled if not verdict else replace(compiled, verdict=verdict))


def check_stage(stage: str) -> None:
    """Raise for a stage that explain does not have, and say which it has."""
    stages = STAGES + ENGINE_STAGES
    if name_of(stage, "stage") not in stages:
        raise ResolutionError(f"there is no stage {stage}", hint=f"stages are {', '.join(stages)}")


def view_of(program: Program, name: str) -> View:
    """The view of this name in a program."""
    return next(view for view in program.views if view.name == name)


def part_for_view(program: Program, name: str) -> Program:
    """The part of a program without which the view could not be maintained."""
    return part_of(program, views=[view_of(program, name)])


FORMATS = get_args(Format)


def explain_as(program: Program, stage: str, format: str) -> str:
    """A program for tools (json) or as a picture (svg)."""
    if name_of(format, "format") not in FORMATS:
        raise ResolutionError(
            f"there is no format {format}", hint=f"formats are {', '.join(FORMATS)}"
        )
    if stage != "program":
        raise UnsupportedError(
            f"stage {stage} has no format {format}", hint="json and svg show the stage program"
        )
    if format == "svg":
        from viewlet.interfaces.graph import draw

        return draw(program)
    return json.dumps(explain_json(program), indent=2)


def explain_json(program: Program) -> dict[str, Any]:
    """Maps, triggers and statements with their counts, for tools."""
    maps = [
        {
            "name": map.name,
            "keys": [{"name": key.name, "type": str(key.slot)} for key in map.keys],
            "columns": [{"name": c.name, "type": c.physical.value} for c in map.columns],
            "buffer": map.buffer,
        }
        for map in program.maps
    ]
    triggers = [
        {
            "relation": trigger.relation,
            "statements": [
                {
                    "target": statement.target,
                    "op": statement.op,
                    "reads": sorted(statement.reads),
                    "text": statement_text(statement).strip(),
                }
                for statement in trigger.statements
            ],
        }
        for trigger in program.triggers
    ]
    views = [
        {
            "name": view.name,
            "kind": view.query.kind.value,
            "columns": [{"name": c.name, "type": str(c.type)} for c in view.query.columns],
            "maps": sorted(maps_of(view)),
        }
        for view in program.views
    ]
    counts = {
        "maps": len(program.state),
        "buffers": len(program.maps) - len(program.state),
        "triggers": len(triggers),
        "statements": sum(len(trigger.statements) for trigger in program.triggers),
        "views": len(views),
    }
    return {"counts": counts, "maps": maps, "triggers": triggers, "views": views}
