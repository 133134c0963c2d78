"""The stages of a view as text or as JSON: what was asked, what it means, what is run."""

from __future__ import annotations

from typing import Any

from viewlet.calculus.expr import MapRef, walk
from viewlet.calculus.query_text import query_text, relation_text
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.interfaces.definitions import Definitions, ViewDefinition
from viewlet.program.ir import Program, View
from viewlet.program.text import program_text, statement_text

STAGES = ("sql", "calculus", "program", "distributed", "kernels")


def explain_view(definition: ViewDefinition, program: Program, stage: str) -> str:
    """One view at one stage; its programme is the part of the database's that it needs."""
    check_stage(stage)
    if stage == "sql":
        return definition.statement.text.strip() + "\n"
    if stage == "calculus":
        return query_text(definition.query) + "\n"
    view = next(v for v in program.views if v.name == definition.query.name)
    return program_text(part_for(program, view))


def explain_all(definitions: Definitions, program: Program, stage: str) -> str:
    """Every view of a database at one stage."""
    check_stage(stage)
    if stage == "program":
        return program_text(program)
    if stage == "sql":
        made = [r.text.strip() for r in definitions.relations.values()]
        made += [v.statement.text.strip() for v in definitions.views.values()]
        return ";\n\n".join(text.rstrip(";") for text in made) + ";\n"
    relations = "\n".join(relation_text(r.relation) for r in definitions.relations.values())
    queries = [query_text(v.query) for v in definitions.views.values()]
    return "\n\n".join([relations, *queries]) + "\n"


def check_stage(stage: str) -> None:
    if stage not in STAGES:
        raise ResolutionError(f"there is no stage {stage}", hint=f"stages are {', '.join(STAGES)}")
    if stage in ("distributed", "kernels"):
        raise UnsupportedError(
            f"this engine has no stage {stage}", hint="stages here are sql, calculus, program"
        )


def part_for(program: Program, view: View) -> Program:
    """The maps and statements without which the view could not be kept, to a fixed point."""
    needed = {map for _, map, _ in view.sources}
    needed |= {n.name for let in view.query.lets for n in walk(let) if isinstance(n, MapRef)}
    statements = [s for trigger in program.triggers for s in trigger.statements]
    while True:
        more = {name for s in statements if s.target in needed for name in s.reads} - needed
        if not more:
            break
        needed |= more
    triggers = []
    for trigger in program.triggers:
        kept = tuple(s for s in trigger.statements if s.target in needed)
        if kept:
            triggers.append(type(trigger)(trigger.relation, kept))
    maps = tuple(map for map in program.maps if map.name in needed)
    return Program(program.relations, maps, tuple(triggers), (view,))


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
            "maps": sorted({map for _, map, _ in view.sources}),
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
