"""Products as loops: factor by factor, and a sum over a range of keys by one descent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from viewlet.calculus.expr import PRESENCE, Assign, Cond, Expr, MapRef, Mul
from viewlet.calculus.scope import NONE, all_names
from viewlet.calculus.typing import scalar_slot
from viewlet.functions import apply
from viewlet.kernels.builder import Builder, Cursor, NodeBuilders, build_rows
from viewlet.kernels.loop_nodes import AddTo, Block, Factors, Let, Named, Total
from viewlet.kernels.ordered_loops import build_walked
from viewlet.kernels.range_nodes import (
    has_small_groups,
    range_bounds,
    range_node,
    turns_at_odd_keys,
    where_monotone,
)
from viewlet.kernels.ranges import range_shape
from viewlet.kernels.recognize import next_factor
from viewlet.kernels.scalar_source import Scope, Variable

_MOST_TESTS = 16
"""Conditions that stand one inside of the other; more are one condition."""


def _all_of(tests: Sequence[Expr]) -> Expr:
    """{a} * {b} -> {a and b}, which calculus.expr.cond would take apart again"""
    return Cond(apply("and", *(test.scalar for test in tests if isinstance(test, Cond))))


def build_mul(builder: Builder, expr: Mul, cursor: Cursor) -> Block:
    """For every row of a product, the rest."""
    return build_product(builder, expr.factors, cursor)


def build_product(builder: Builder, members: tuple[Expr, ...], cursor: Cursor) -> Block:
    """The same for the product of some expressions, one inside of the other from left to right.

    Values that are only computed stand in one row before what follows.
    """
    values: Block = []
    while members and isinstance(members[0], Assign) and members[0].variable not in cursor.scope:
        value, members = members[0], members[1:]
        slots = {name: variable.slot for name, variable in cursor.scope.items()}
        variable = Variable(builder.name(value.variable), scalar_slot(value.scalar, slots))
        values.append(Let(variable, value.scalar, dict(cursor.scope)))
        cursor = replace(cursor, scope={**cursor.scope, value.variable: variable})
    if values:
        return [*values, *build_product(builder, members, cursor)]
    if not members:
        return cursor.finish()
    tests = tuple(itertools.takewhile(lambda member: isinstance(member, Cond), members))
    if len(tests) > _MOST_TESTS:
        members = (_all_of(tests), *members[len(tests) :])
    first, others = next_factor(members, cursor.scope)
    if isinstance(first, MapRef):
        range_sum = _range_sum(builder, first, others, cursor.scope, cursor.needed)
        if range_sum is not None:
            before, weight, remaining = range_sum
            row = replace(cursor, factors=(*cursor.factors, weight))
            return [*before, *build_product(builder, remaining, row)]
    walked = build_walked(builder, first, others, cursor, build_product)
    if walked is not None:
        return walked
    return build_in_order(builder, first, others, cursor)


def build_in_order(
    builder: Builder, first: Expr, others: tuple[Expr, ...], cursor: Cursor
) -> Block:
    """One factor, and for each of its rows the product of the others."""

    def continuation(inner: dict[str, Variable], factors: Factors) -> Block:
        return build_product(builder, others, replace(cursor, scope=inner, factors=factors))

    needed = cursor.needed.union(*(all_names(other) for other in others))
    return build_rows(builder, first, replace(cursor, needed=needed, continuation=continuation))


def _range_sum(
    builder: Builder,
    atom: MapRef,
    others: tuple[Expr, ...],
    scope: Scope,
    needed: frozenset[str],
) -> tuple[Block, Named, tuple[Expr, ...]] | None:
    """M[g, p].c * {p < x} * q -> range sum * q  where nothing but the conditions needs p."""
    if atom.column == PRESENCE:
        return None
    shape = range_shape(atom, others, frozenset(scope), needed, builder.loops.maps)
    if shape is None or has_small_groups(builder, atom, frozenset(scope)):
        return None
    parts = tuple(i for i, name in enumerate(atom.keys) if name in scope)
    bounds, borders = range_bounds(builder, shape, scope)
    node = range_node(builder, atom, shape, parts, [atom.column], bounds, scope, None)
    weight = Named(node.sums[0].name, node.sums[0].physical)
    if not borders and not turns_at_odd_keys(builder, shape, node):
        return [node], weight, shape.remaining
    total = Named(builder.name("total"), weight.physical)

    def add(_: dict[str, Variable], factors: Factors) -> Block:
        return [AddTo(total.name, total.physical, factors)]

    fast: Block = [*borders, node, *add({}, (weight,))]
    slow = build_in_order(builder, atom, shape.used, Cursor(dict(scope), NONE, (), add))
    block = where_monotone(builder, shape, node, scope, fast, slow)
    return [Total(total.name, total.physical, block)], total, shape.remaining


BUILDERS: NodeBuilders = {Mul: build_mul}
