"""UNION, INTERSECT and EXCEPT over bags of rows.

    A UNION ALL B        A + B
    A UNION B            Exists(A + B)
    A INTERSECT B        Exists(A) * Exists(B)
    A EXCEPT B           Exists(A) * (n := B) * {n = 0}
    A INTERSECT ALL B    Exists(A) * (a := A) * (b := B) * [least(a, b)]
    A EXCEPT ALL B       Exists(A) * (a := A) * (b := B) * [greatest(a - b, 0)]

All sides bind the same output variables.
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.calculus.expr import Expr, cond, exists_of, lift, value_of
from viewlet.errors import TypingError
from viewlet.frontend.context import Lowering
from viewlet.frontend.products import Branch, Table, keyed, summed
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import Typed, convert, meeting_type
from viewlet.functions import Const, Ref, ScalarExpr, apply
from viewlet.schema import NULL


def united(lowering: Lowering, node: exp.Expr, sides: list[Table]) -> Table:
    """UNION ALL: the branches of all sides, under common output variables and types."""
    widths = {len(side.columns) for side in sides}
    if len(widths) > 1:
        listed = " and ".join(str(len(side.columns)) for side in sides)
        raise fault(TypingError, f"the sides have {listed} columns", node)
    columns: list[tuple[str, Typed]] = []
    bindings: list[dict[str, ScalarExpr]] = [{} for _ in sides]
    for position, (name, _) in enumerate(sides[0].columns):
        values = [side.columns[position][1] for side in sides]
        target = meeting_type(values, node, f"column {position + 1} ({name})")
        variable = lowering.variables.fresh(name)
        for side, bound, value in zip(sides, bindings, values, strict=True):
            scalar = convert(value, target, node).scalar
            bound[variable] = scalar
            if any(lowering.variables.can_be_null(b.resolve(scalar), b.own) for b in side.branches):
                lowering.variables.nullable[variable] = True
        columns.append((name, Typed(Ref(variable), target)))
    branches = tuple(
        Branch(b.factors, {**b.bindings, **{v: b.resolve(scalar) for v, scalar in bound.items()}})
        for side, bound in zip(sides, bindings, strict=True)
        for b in side.branches
    )
    return Table(branches, tuple(columns))


def by_name(node: exp.Expr, left: Table, right: Table) -> tuple[Table, Table]:
    """UNION BY NAME: columns of one name meet, and one that a side does not have is NULL there."""
    names = list(dict.fromkeys((*(n for n, _ in left.columns), *(n for n, _ in right.columns))))
    sides = []
    for side in (left, right):
        columns = dict(side.columns)
        if len(columns) < len(side.columns):
            raise fault(TypingError, "BY NAME needs different names of columns", node)
        nothing = Typed(Const(None), NULL)
        sides.append(Table(side.branches, tuple((n, columns.get(n, nothing)) for n in names)))
    return sides[0], sides[1]


def set_operation(lowering: Lowering, node: exp.SetOperation, left: Table, right: Table) -> Table:
    """UNION, INTERSECT and EXCEPT, each with or without ALL"""
    both = united(lowering, node, [left, right])
    distinct = bool(node.args.get("distinct"))
    if isinstance(node, exp.Union):
        return distinct_rows(lowering, both) if distinct else both
    split = len(left.branches)
    a, b = _side(lowering, both, 0, split), _side(lowering, both, split, None)
    first = exists_of(a)
    factors: tuple[Expr, ...]
    if distinct and isinstance(node, exp.Intersect):
        factors = (first, exists_of(b))
    elif distinct:
        count = lowering.variables.fresh("found")
        factors = (first, lift(count, b), cond(apply("=", Ref(count), Const(0))))
    else:
        ours, theirs = lowering.variables.fresh("ours"), lowering.variables.fresh("theirs")
        multiplicity = (
            apply("least", Ref(ours), Ref(theirs))
            if isinstance(node, exp.Intersect)
            else apply("greatest", apply("-", Ref(ours), Ref(theirs)), Const(0))
        )
        factors = (first, lift(ours, a), lift(theirs, b), value_of(multiplicity))
    return Table((Branch(factors),), both.columns)


def _side(lowering: Lowering, both: Table, start: int, end: int | None) -> Expr:
    """Sum[outputs] of one side of a set operation."""
    branches, _, keys = keyed(lowering.variables, both.branches[start:end], both.columns)
    return summed(lowering.variables, keys, branches)


def distinct_rows(lowering: Lowering, table: Table) -> Table:
    """Each row once: Exists(Sum[columns](rows))"""
    branches, columns, keys = keyed(lowering.variables, table.branches, table.columns)
    body = exists_of(summed(lowering.variables, keys, branches))
    named = tuple((name, typed) for (name, _), typed in zip(table.columns, columns, strict=True))
    return Table((Branch((body,)),), named)
