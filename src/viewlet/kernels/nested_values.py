"""Lift and Exists as loops: what depends on a whole weight, and what such a value's change does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewlet.calculus.expr import Exists, Expr, Lift, MapRef, NestedValue, factors_of, terms_of
from viewlet.calculus.scope import NONE, outputs
from viewlet.calculus.text import to_text
from viewlet.calculus.typing import Slot, variable_slots
from viewlet.errors import ProgramError
from viewlet.kernels.atoms import build_atom
from viewlet.kernels.builder import Builder, Cursor, NodeBuilders, bind, build_rows
from viewlet.kernels.loop_nodes import (
    Block,
    ClearBuffer,
    Factors,
    IfTotal,
    LetTotal,
    Named,
    TestChange,
    Update,
    ValueChange,
)
from viewlet.kernels.product_loops import build_product
from viewlet.kernels.recognize import meets_once
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.totals import build_total
from viewlet.program.ir import KeyColumn, ValueColumn
from viewlet.schema import Physical


def build_lift(builder: Builder, expr: Lift, cursor: Cursor) -> Block:
    """(x := q): the total of q, then the rest with it."""
    free = outputs(expr.body) - cursor.scope.keys()
    if free:
        raise ProgramError(f"lift over unbound {', '.join(sorted(free))}: {to_text(expr)}")
    total = build_total(builder, expr.body, cursor.scope)
    slot = Slot(total.physical)
    after = bind(
        builder, expr.variable, slot, cursor, lambda v: [LetTotal(v, total.name, total.physical)]
    )
    return [total, *after]


def build_exists(builder: Builder, expr: Exists, cursor: Cursor) -> Block:
    """The rest once for each key whose total weight is not zero."""
    scope = cursor.scope
    free = tuple(sorted(outputs(expr.body) - scope.keys()))
    if not free:
        total = build_total(builder, expr.body, scope)
        return [total, IfTotal(total.name, total.physical, cursor.finish())]
    rows = cursor.without_weight()
    if isinstance(expr.body, MapRef):
        # One row for each key: the weight is known not to be zero, and dropped.
        return build_atom(builder, expr.body, rows)
    if meets_once(expr.body, scope) and builder.weight_type(expr.body, scope) is Physical.INT:
        # Each key is a row, also where nothing else looks at it.
        return build_product(builder, factors_of(expr.body), replace(rows, needed=frozenset(free)))
    return build_groups(
        builder, expr.body, free, scope, lambda inner: cursor.continuation(inner, cursor.factors)
    )


def build_groups(
    builder: Builder,
    body: Expr,
    free: tuple[str, ...],
    scope: dict[str, Variable],
    continuation: Callable[[dict[str, Variable]], Block],
) -> Block:
    """Every key of `body` over the free variables once, where its total weight is not 0."""
    slots = variable_slots(body, builder.signatures, {n: v.slot for n, v in scope.items()})
    physical = builder.weight_type(body, scope)
    keys = tuple(KeyColumn(name, slots[name]) for name in free)
    buffer = builder.new_buffer(keys, [ValueColumn("value", physical)])

    def add(inner: dict[str, Variable], factors: Factors) -> Block:
        return [Update(buffer.name, [inner[n] for n in free], [(0, physical, factors)])]

    fill = [
        node
        for term in terms_of(body)
        for node in build_rows(builder, term, Cursor(dict(scope), frozenset(free), (), add))
    ]
    atom = MapRef(buffer.name, "value", free, buffer=True)
    read = build_atom(builder, atom, Cursor(scope, NONE, (), lambda inner, _: continuation(inner)))
    return [ClearBuffer(buffer.name), *fill, *read]


def build_value_change(
    builder: Builder, new: NestedValue, old: NestedValue, cursor: Cursor
) -> Block:
    """(x := new) + -1 * (x := old): both are computed, then the rest is done for each."""
    values: list[Variable] = []

    def take(inner: dict[str, Variable], _: Factors) -> Block:
        values.append(inner[new.variable])
        return []

    row = Cursor(cursor.scope, NONE, (), take)
    block = build_rows(builder, new, row) + build_rows(builder, old, row)
    first, second = values
    variable, weight = Variable(builder.name(new.variable), first.slot), builder.name("w")
    body = cursor.continuation(
        {**cursor.scope, new.variable: variable},
        (*cursor.factors, Named(weight, Physical.INT, nonzero=True)),
    )
    return [*block, ValueChange(variable, weight, first, second, body)]


def build_test_change(builder: Builder, new: Expr, old: Expr, cursor: Cursor) -> Block:
    """new + -1 * old, which are tests: the rest is done where one of them is met."""
    sides = [
        build_total(builder, side.body if isinstance(side, Exists) else side, cursor.scope)
        for side in (new, old)
    ]
    weight = builder.name("w")
    body = cursor.continuation(
        cursor.scope, (*cursor.factors, Named(weight, Physical.INT, nonzero=True))
    )
    new_total, old_total = (Named(side.name, side.physical) for side in sides)
    return [*sides, TestChange(weight, new_total, old_total, body)]


BUILDERS: NodeBuilders = {Lift: build_lift, Exists: build_exists}
