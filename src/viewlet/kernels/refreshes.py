"""A refresh is a trigger without a batch: of a relation of no columns that nobody writes to."""

from __future__ import annotations

from dataclasses import replace

from viewlet.program.ir import Program, Trigger
from viewlet.schema import Relation


def refresh_names(program: Program) -> dict[str, str]:
    """What kernels call the trigger of each view's refresh."""
    names = program.names()
    return {refresh.view: names.fresh(f"read_{refresh.view}") for refresh in program.refreshes}


def with_refresh_triggers(program: Program) -> Program:
    """on read v: ...  ->  on read_v: ..."""
    if not program.refreshes:
        return program
    names = refresh_names(program)
    relations = (Relation(name, ()) for name in names.values())
    triggers = (Trigger(names[refresh.view], refresh.statements) for refresh in program.refreshes)
    return replace(
        program,
        relations=(*program.relations, *relations),
        triggers=(*program.triggers, *triggers),
        refreshes=(),
    )
