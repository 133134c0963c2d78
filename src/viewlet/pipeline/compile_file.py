"""A SQL file's definitions and the program they compile to, without running anything."""

from __future__ import annotations

from viewlet.errors import UnsupportedError
from viewlet.frontend.statements import (
    Copy,
    CreateRelation,
    CreateView,
    Drop,
    Insert,
    InsertSelect,
)
from viewlet.garbage import no_collection
from viewlet.interfaces.definitions import Definitions
from viewlet.pipeline.pipeline_text import parse_definitions
from viewlet.planner.viewlets import compile_program
from viewlet.program.ir import Program


@no_collection()
def compile_text(text: str, *, keyed: bool = True) -> tuple[Definitions, Program]:
    """CREATE and DROP statements -> what they define; what only brings rows is passed over.

    `keyed` as in the planner: the program of the local engine, or the one that is distributed.
    """
    definitions = Definitions()
    for statement in parse_definitions(text):
        if isinstance(statement, CreateRelation):
            definitions.add_relation(statement)
        elif isinstance(statement, CreateView):
            definitions.add_view(statement)
        elif isinstance(statement, Drop):
            definitions.drop(statement)
        elif not isinstance(statement, Insert | InsertSelect | Copy):
            raise UnsupportedError(
                f"{type(statement).__name__.upper()} cannot be explained",
                position=statement.position,
                hint="keep CREATE TABLE, STREAM and VIEW statements in the file",
            )
    program = compile_program(definitions.planning_catalog(), definitions.queries(), keyed=keyed)
    return definitions, program
