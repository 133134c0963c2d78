"""A SQL file's definitions and the programme they compile to, without running anything."""

from __future__ import annotations

from viewlet.errors import UnsupportedError
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation, CreateView, Drop
from viewlet.interfaces.definitions import Definitions
from viewlet.planner.viewlets import compile_program
from viewlet.program.ir import Program


def compile_text(text: str, *, keyed: bool = True) -> tuple[Definitions, Program]:
    """CREATE and DROP statements -> what they define; statements that need rows are an error.

    `keyed` as in the planner: the programme of the local engine, or the one that is distributed.
    """
    definitions = Definitions()
    for statement in parse(text):
        if isinstance(statement, CreateRelation):
            definitions.add_relation(statement)
        elif isinstance(statement, CreateView):
            definitions.add_view(statement)
        elif isinstance(statement, Drop):
            definitions.drop(statement)
        else:
            raise UnsupportedError(
                f"{type(statement).__name__.upper()} cannot be explained",
                position=statement.position,
                hint="keep CREATE TABLE, STREAM and VIEW statements in the file",
            )
    program = compile_program(definitions.planning_catalog(), definitions.queries(), keyed=keyed)
    return definitions, program
