"""BIT_AND, BIT_OR and BIT_XOR as sums over the bits that some row of a group has.

    low := Sum[g](Exists(Sum[g, w](Q * Each(k, 32) * (w := bit k of x) * {w <> 0})) * w)

is BIT_OR of the lower half of the bits, and changes by one bit where its first row comes or its
last one goes. The bits up to the sign are a sum of their own, because a batch may add all that come
before it takes away those that go, and the sign is a count of negative numbers. BIT_XOR has the
bits of which the rows are odd in number; BIT_AND(x) is NOT BIT_OR(NOT x).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from viewlet.calculus.expr import (
    Each,
    Expr,
    assign,
    cond,
    exists_of,
    lift,
    sum_over,
)
from viewlet.errors import TypingError
from viewlet.frontend.products import Branch, Variables, extended, not_null, product, summed
from viewlet.frontend.ring_values import ring_value
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import Typed
from viewlet.functions import NULL, Const, Ref, ScalarExpr, apply
from viewlet.schema import Kind

KINDS = (exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg)

_NAMES: dict[type[exp.Expr], str] = {
    exp.BitwiseAndAgg: "BIT_AND",
    exp.BitwiseOrAgg: "BIT_OR",
    exp.BitwiseXorAgg: "BIT_XOR",
}
_LOW, _HIGH = 32, 31
"""Bits of either half, below the sign."""

_HALF = 2**62


class Sums(Protocol):
    """Takes sums and gives back what refers to them."""

    def add(self, hint: str, body: Expr) -> ScalarExpr: ...


def bits_of(
    node: exp.Expr,
    variables: Variables,
    keys: tuple[str, ...],
    branches: Sequence[Branch],
    value: Typed,
    sums: Sums,
) -> Typed:
    """The aggregate of a group, NULL where it has no value."""
    if value.type.kind not in (Kind.INTEGER, Kind.BIGINT, Kind.NULL):
        name = _NAMES[type(node)]
        raise fault(TypingError, f"{name} needs a whole number, and not {value.type}", node)
    known = not_null(value.scalar)
    number = sums.add("number", summed(variables, keys, branches, known))
    scalar = value.scalar
    if isinstance(node, exp.BitwiseAndAgg):
        scalar = apply("-", Const(-1), scalar)
    is_odd = isinstance(node, exp.BitwiseXorAgg)
    low, high = (
        sums.add("bits", _bits(variables, keys, branches, known, scalar, half, is_odd=is_odd))
        for half in ((0, _LOW), (_LOW, _HIGH))
    )
    low = apply("+", apply("*", high, Const(2**_LOW)), low)
    below = cond(apply("<", scalar, Const(0)))
    negative = sums.add("negative", summed(variables, keys, branches, known, below))
    if is_odd:
        negative = apply("mod", negative, Const(2))
    has_sign = apply("<>", negative, Const(0))
    with_sign = apply("-", apply("-", low, Const(_HALF)), Const(_HALF))
    result = apply("case", has_sign, with_sign, low)
    if isinstance(node, exp.BitwiseAndAgg):
        top = apply("-", Const(2 * _HALF - 1), low)
        result = apply("case", has_sign, top, apply("-", Const(-1), low))
    return Typed(apply("case", apply("=", number, Const(0)), NULL, result), value.type)


def _bits(
    variables: Variables,
    keys: tuple[str, ...],
    branches: Sequence[Branch],
    known: Expr,
    scalar: ScalarExpr,
    half: tuple[int, int],
    *,
    is_odd: bool,
) -> Expr:
    """The sum of the different bits from one on, so many of them, the first of which weighs 1."""
    first, number = half
    step, weight = variables.fresh("bit"), variables.fresh("weight")
    part = apply("bit_weight", scalar, apply("+", Ref(step), Const(first - 1)))
    factors = [
        known,
        Each(step, Const(number)),
        assign(weight, apply("div", part, Const(2**first))),
        cond(apply("<>", Ref(weight), Const(0))),
    ]
    rows = summed(variables, (*keys, weight), extended(variables, branches, factors))
    tests: list[Expr] = [exists_of(rows)]
    if is_odd:
        count = variables.fresh("count")
        odd = apply("=", apply("mod", Ref(count), Const(2)), Const(1))
        tests += [lift(count, rows), cond(odd)]
    return sum_over(
        keys, product((*tests, ring_value(variables, Ref(weight), frozenset((weight,)))))
    )
