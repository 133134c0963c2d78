"""Expressions as loops: each row of a right-hand side, and what to do for it.

The builder walks an expression from left to right with the variables bound so far and decides each
access from that alone (paper 000, section 5.2; thesis 4.2):

    all keys of a map bound        Get      one probe of the unique index
    those bound that determine it  Run      neighbors in the unique index, mostly one record
    some bound                     Slice    a chain of the slice index over the bound columns
    none bound                     Scan     all records
    Sum(M[g, p].c * {p < x})       Range    subtree sums of the index by g, ordered by p (ranges)
    (x := min p in M[g, p].c ...)  Walk     the same index from its end (extremes)

Loops are in continuation style: the body of a loop is everything to the right of it, and nothing is
materialized in between. Only Exists and extremes of sums that several rows make up need a buffer.
Each module that builds nodes has a table of them; this one has the nodes that are one step.
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.calculus.expr import Add, Assign, Cond, Delta, Each, Expr, Rel, Sum, Value
from viewlet.calculus.scope import outputs
from viewlet.calculus.typing import Slot, scalar_slot
from viewlet.errors import ProgramError
from viewlet.functions import Const, Ref, apply
from viewlet.kernels.builder import Builder, Cursor, NodeBuilders, bind, build_rows
from viewlet.kernels.loop_nodes import Block, Factors, If, Let, Named, Repeat, Rows
from viewlet.kernels.nested_values import build_test_change, build_value_change
from viewlet.kernels.recognize import narrowed, test_change_of, value_change_of
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.totals import weight_factors
from viewlet.schema import Physical


def build_cond(builder: Builder, expr: Cond, cursor: Cursor) -> Block:
    """The rest where the condition is true."""
    return [If(expr.scalar, dict(cursor.scope), cursor.finish())]


def build_assign(builder: Builder, expr: Assign, cursor: Cursor) -> Block:
    """Compute a scalar, and the rest with it."""
    scope = cursor.scope
    slot = scalar_slot(expr.scalar, {name: variable.slot for name, variable in scope.items()})
    return bind(
        builder,
        expr.variable,
        slot,
        cursor,
        lambda variable: [Let(variable, expr.scalar, dict(scope))],
    )


def build_each(builder: Builder, expr: Each, cursor: Cursor) -> Block:
    """The rest for each whole number up to a scalar, or where the bound one is among them."""
    scope = cursor.scope
    if expr.variable in scope:
        number = Ref(expr.variable)
        among = apply("and", apply("<=", Const(1), number), apply("<=", number, expr.scalar))
        return [If(among, dict(scope), cursor.finish())]
    variable = Variable(builder.name(expr.variable), Slot(Physical.INT))
    body = cursor.continuation({**scope, expr.variable: variable}, cursor.factors)
    return [Repeat(variable, expr.scalar, dict(scope), body)]


def build_delta(builder: Builder, expr: Delta, cursor: Cursor) -> Block:
    """The rows of the batch; only columns that something uses are read."""
    is_outermost, inner = not cursor.scope, dict(cursor.scope)
    binds: list[tuple[Variable, int]] = []
    equal: list[tuple[Variable, int]] = []
    for i, (name, slot) in enumerate(
        zip(expr.variables, builder.signatures[expr.name].keys, strict=True)
    ):
        if name in inner:
            equal.append((inner[name], i))
            inner[name] = narrowed(inner[name], slot)
        elif builder.uses[name] > 1 or name in cursor.needed:
            column = builder.loops.program.relation(expr.name).columns[i].name
            local = builder.row_names[column] if is_outermost else builder.name(name)
            inner[name] = Variable(local, slot)
            binds.append((inner[name], i))
        else:
            continue
        builder.loops.columns[expr.name].add(i)
    weight = "weight" if is_outermost else builder.name("weight")
    body = cursor.continuation(inner, (*cursor.factors, Named(weight, Physical.INT, nonzero=True)))
    return [Rows(binds, equal, weight, body)]


def build_rel(builder: Builder, expr: Rel, cursor: Cursor) -> Block:
    """Tables are not read by triggers, which have maps of what they need."""
    raise ProgramError(f"a trigger reads base relation {expr.name}")


def build_add(builder: Builder, expr: Add, cursor: Cursor) -> Block:
    """Each term has its own loops; what follows is repeated in each."""
    if not outputs(expr) - cursor.scope.keys():
        return _with_bound(builder, expr, cursor)
    change = value_change_of(expr)
    if change is not None:
        return build_value_change(builder, *change, cursor)
    return [
        node
        for term in expr.terms
        for node in build_rows(builder, term, replace(cursor, scope=dict(cursor.scope)))
    ]


def build_sum(builder: Builder, expr: Sum, cursor: Cursor) -> Block:
    """Weights are linear, so a projection is its body with the summed-out variables hidden."""
    if not outputs(expr) - cursor.scope.keys():
        return _with_bound(builder, expr, cursor)
    visible = cursor.scope.keys() | set(expr.keys)

    def continuation(inner: dict[str, Variable], factors: Factors) -> Block:
        return cursor.continuation({n: v for n, v in inner.items() if n in visible}, factors)

    needed = cursor.needed & frozenset(expr.keys)
    return build_rows(
        builder, expr.body, Cursor(dict(cursor.scope), needed, cursor.factors, continuation)
    )


def _with_bound(builder: Builder, expr: Add | Sum, cursor: Cursor) -> Block:
    """A sum that binds nothing is a weight, or the turn of a test."""
    turn = test_change_of(expr)
    if turn is not None:
        return build_test_change(builder, *turn, cursor)
    return build_weight(builder, expr, cursor)


def build_weight(builder: Builder, expr: Expr, cursor: Cursor) -> Block:
    """The rest with the weight of what binds nothing as a factor."""
    if isinstance(expr, Sum) and not isinstance(expr.body, Value):
        expr = expr.body
    block, weight = weight_factors(builder, expr, cursor.scope)
    return [*block, *cursor.continuation(cursor.scope, (*cursor.factors, *weight))]


BUILDERS: NodeBuilders = {
    Value: build_weight,
    Cond: build_cond,
    Assign: build_assign,
    Each: build_each,
    Delta: build_delta,
    Rel: build_rel,
    Add: build_add,
    Sum: build_sum,
}
