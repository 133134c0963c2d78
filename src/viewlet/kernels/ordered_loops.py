"""Loops over a group of records in the order of one key, which end where a test fails for good.

    M[g, p, ...] * {p >= edge} * q       from the greatest p down to the edge of the batch
    M[g, p, ...] * (n := Sum[](N[g, p'].c * {p' < p})) * {n < 3} * q
                                         from the least p on, until three are before

The first is what a window replaces behind the first change of a partition, the second the first
rows of a partition: the rest of the partition is not looked at. The second needs weights that are
not negative; where N has others, all records of the group are met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewlet.calculus.expr import (
    PRESENCE,
    Cond,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    factors_of,
    is_batch,
)
from viewlet.calculus.scope import all_names
from viewlet.functions import free_variables
from viewlet.functions.trends import RISES
from viewlet.kernels.atoms import InOrder, build_records
from viewlet.kernels.builder import Builder, Cursor, build_rows
from viewlet.kernels.loop_nodes import Block, Factors, IfMonotone, StopUnless
from viewlet.kernels.monotone import tests_of
from viewlet.kernels.ranges import RangeSum, range_sum_of
from viewlet.kernels.recognize import bound_of, column_position
from viewlet.kernels.scalar_source import Variable
from viewlet.storage.columns import NEGATIVES

Product = Callable[[Builder, tuple[Expr, ...], Cursor], Block]
"""What builds the loops of a product of factors."""


def edges_of(loop: Expr) -> frozenset[str]:
    """The variables of a statement that hold the least or greatest key of a batch."""
    return frozenset(
        factor.variable
        for factor in factors_of(loop)
        if isinstance(factor, Extreme) and is_batch(factor.body)
    )


def build_walked(
    builder: Builder, first: Expr, others: tuple[Expr, ...], cursor: Cursor, product: Product
) -> Block | None:
    """The loop over a map with a test that ends it; None where there is no such test."""
    atom = _atom(builder, first)
    if atom is None:
        return None
    free = frozenset(
        name
        for name, key in zip(atom.keys, builder.loops.maps[atom.name].keys, strict=True)
        if name not in cursor.scope and not key.slot.nullable
    )
    for test in others:
        bound = bound_of(test, set(free)) if isinstance(test, Cond) else None
        if bound is not None and free_variables(bound[2]) <= builder.edges & cursor.scope.keys():
            assert isinstance(test, Cond)
            key, operator, scalar = bound
            if free_variables(scalar):
                rest = tuple(other for other in others if other is not test)
                falls = operator[0] == ">"
                return _walk(builder, atom, key, falls, (), test, rest, cursor, product)
    return _walk_to_count(builder, atom, others, free, cursor, product)


def _atom(builder: Builder, expr: Expr) -> MapRef | None:
    """A map that is looped over, or Exists of one, whose weights do not count."""
    if isinstance(expr, Exists) and isinstance(expr.body, MapRef):
        expr = replace(expr.body, column=PRESENCE)
    if not isinstance(expr, MapRef) or len(set(expr.keys)) < len(expr.keys):
        return None
    map = builder.loops.maps[expr.name]
    return expr if not map.buffer and len(map.columns) == 1 else None


def _walk(
    builder: Builder,
    atom: MapRef,
    key: str,
    greatest_first: bool,
    before: tuple[Expr, ...],
    test: Cond,
    rest: tuple[Expr, ...],
    cursor: Cursor,
    product: Product,
) -> Block:
    """The records in order: for each what the test needs, the test, and the rest."""
    stop = builder.name("stop")

    def tested(inner: dict[str, Variable], factors: Factors) -> Block:
        row = replace(cursor, scope=inner, factors=factors)
        return [StopUnless(test.scalar, dict(inner), stop, product(builder, rest, row))]

    def continuation(inner: dict[str, Variable], factors: Factors) -> Block:
        row = replace(cursor, scope=inner, factors=factors, continuation=tested)
        return build_rows(builder, before[0], row) if before else tested(inner, factors)

    needed = cursor.needed.union(*(all_names(f) for f in (*before, test, *rest)))
    row = replace(cursor, needed=needed, continuation=continuation)
    return build_records(builder, atom, row, InOrder(key, greatest_first, stop))


def _walk_to_count(
    builder: Builder,
    atom: MapRef,
    others: tuple[Expr, ...],
    free: frozenset[str],
    cursor: Cursor,
    product: Product,
) -> Block | None:
    """A count of the records before, and a test of it that fails once it is large."""
    scope, maps = cursor.scope, builder.loops.maps
    for lift in others:
        if not isinstance(lift, Lift) or lift.variable in scope:
            continue
        sum = range_sum_of(lift, free, frozenset(scope), maps)
        test = _falling_test(lift.variable, others, frozenset(scope))
        if sum is None or test is None:
            continue
        rest = tuple(other for other in others if other is not lift and other is not test)
        falls = sum.operator[0] == ">"
        fast = _walk(builder, atom, sum.beyond, falls, (lift,), test, rest, cursor, product)
        slow = _all_records(builder, atom, others, cursor, product)
        return [_if_not_negative(builder, sum, cursor, fast, slow)]
    return None


def _falling_test(variable: str, others: tuple[Expr, ...], bound: frozenset[str]) -> Cond | None:
    """A condition on a count that stays false once the count is too large."""
    for other in others:
        if isinstance(other, Cond) and variable in free_variables(other.scalar):
            tests = tests_of(other.scalar, frozenset((variable,)))
            falls = tests is not None and all(test.trend != RISES for test in tests)
            if falls and free_variables(other.scalar) <= bound | {variable}:
                return other
    return None


def _all_records(
    builder: Builder, atom: MapRef, others: tuple[Expr, ...], cursor: Cursor, product: Product
) -> Block:
    def continuation(inner: dict[str, Variable], factors: Factors) -> Block:
        return product(builder, others, replace(cursor, scope=inner, factors=factors))

    needed = cursor.needed.union(*(all_names(other) for other in others))
    row = replace(cursor, needed=needed, continuation=continuation)
    return build_rows(builder, atom, row)


def _if_not_negative(
    builder: Builder, sum: RangeSum, cursor: Cursor, fast: Block, slow: Block
) -> IfMonotone:
    map = builder.loops.maps[sum.atom.name]
    order = sum.atom.keys.index(sum.order)
    parts = tuple(i for i in range(len(sum.atom.keys)) if i != order)
    column = column_position(map, sum.atom.column)
    index, positions = builder.tree(map.name, parts, order, (column, NEGATIVES))
    key = [cursor.scope[sum.atom.keys[i]] for i in parts]
    return IfMonotone(map.name, index, key, positions, fast, slow)
