"""Rows that pass a filter, chosen before anything is done with them.

    for row in batch:                       chosen = the next CHUNK rows with p(row)
        if p(row):              ->          for row in chosen:
            work                                work

Which later rows will be worked on is then known, so that the lines that they need can be asked for
(kernels.prefetch), and a filter that half of the rows pass is no branch that nobody can predict.
Where nothing is to be fetched ahead, one loop is faster than two, and nothing is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewlet.functions import Apply, Const, Ref, ScalarExpr, free_variables
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import bare
from viewlet.kernels.loop_nodes import Block
from viewlet.kernels.scalar_source import ScalarWriter, Scope, Variable
from viewlet.schema import Physical

_TESTS = frozenset(("=", "<>", "<", "<=", ">", ">=", "==", "and", "or", "not", "in"))


@dataclass(frozen=True)
class Selection:
    """The source of a test of one row, and the loop over the rows that pass, without the test."""

    test: str
    rows: ir.Rows


def selection(rows: ir.Rows, scalars: ScalarWriter) -> Selection | None:
    """for row: {p}: {q}: work -> the test p & q, and for row: work

    None where the body is not all under one condition, or the condition needs more than columns.
    """
    columns = {variable.name: column for variable, column in rows.binds}
    tests: list[str] = []
    body = rows.body
    while (filtered := _filter(body, columns, scalars)) is not None:
        test, body = filtered
        tests.append(test)
    return Selection(" & ".join(tests), replace(rows, body=body)) if tests else None


def _filter(
    body: Block, columns: dict[str, int], scalars: ScalarWriter
) -> tuple[str, Block] | None:
    """{p}: a, {p}: b -> the test p, and a, b; None where nodes stand under other tests, or none."""
    bodies: dict[str, Block] = {}
    for node in body:
        if not isinstance(node, ir.If) or not _plain(node.scalar, node.scope, columns):
            return None
        scope = {name: _at_row(node.scope[name], columns) for name in free_variables(node.scalar)}
        bodies.setdefault(_enclosed(scalars.truth(node.scalar, scope)), []).extend(node.body)
    return next(iter(bodies.items())) if len(bodies) == 1 else None


def _enclosed(code: str) -> str:
    return f"({bare(code)})"


def _plain(scalar: ScalarExpr, scope: Scope, columns: dict[str, int]) -> bool:
    """Whether a test can be evaluated for every row: it cannot fail, and needs no memo."""
    if isinstance(scalar, Const):
        return scalar.value is not None
    names = free_variables(scalar)
    if any(scope[n].name not in columns or scope[n].slot.nullable for n in names):
        return False
    if isinstance(scalar, Ref):
        return True
    texts = [scope[name].slot.physical is Physical.STR for name in names]
    if texts == [True]:
        return True
    return (
        isinstance(scalar, Apply)
        and scalar.function in _TESTS
        and all(_plain(argument, scope, columns) for argument in scalar.arguments)
    )


def _at_row(variable: Variable, columns: dict[str, int]) -> Variable:
    """The column itself instead of the local that holds its value."""
    load = "load_float" if variable.slot.physical is Physical.FLOAT else "load"
    return replace(variable, name=f"{load}(column_{columns[variable.name]}, row)")
