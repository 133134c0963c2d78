"""Numbers as weights, split into sums and products as far as the ring allows (calculus.ring).

What is split can be summed up before it is joined. Whole numbers are split wherever NULLs allow it.
A DOUBLE is not: a weight is multiplied with numbers of rows, and a number of rows is no value.
0 * inf is NaN and -1 * inf is -inf, while 0 rows have no infinity, and -1 row takes one away. So
products and signs of DOUBLEs stay inside of the value, all but one kind of product: that of values
from tables which only conditions connect, as in SUM(r.x * s.y). Kept whole it would cost a pass
over one table for each row of the other. Its parts become weights of their own, all DOUBLE, and
where one of them is not finite their product refuses the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewlet.calculus.expr import (
    ONE,
    ZERO,
    Assign,
    Expr,
    cond,
    negate,
    product_of,
    sum_of,
    value_of,
)
from viewlet.calculus.scope import Names, inputs, outputs
from viewlet.frontend.products import (
    Branch,
    Variables,
    condition,
    not_null_tests,
    without_null_tests,
)
from viewlet.functions import Apply, Const, ScalarExpr, apply, can_refuse, free_variables

Split = Callable[[ScalarExpr], Expr]


def ring_value(variables: Variables, scalar: ScalarExpr, own: Names) -> Expr:
    """A whole number as a weight; NULL weighs 0.

    [a * b]                        -> [a] * [b]
    [neg(a)]                       -> -1 * [a]
    [a + b]                        -> {not(is_null(a))} * {not(is_null(b))} * ([a] + [b])
    [case(p, a, b)]                -> {p} * [a] + {not(is_true(p))} * [b]
    """

    def split(scalar: ScalarExpr) -> Expr:
        if isinstance(scalar, Const) and not scalar.value:
            return ZERO
        if not isinstance(scalar, Apply):
            return value_of(scalar)
        if scalar.function == "*":
            return product_of(*map(split, scalar.arguments))
        if scalar.function == "neg":
            return negate(split(scalar.arguments[0]))
        if scalar.function in ("+", "-"):
            signed = _signed_terms(scalar)
            if len(signed) > _MOST_TERMS:
                return value_of(scalar)
            terms = [negate(split(t)) if is_negative else split(t) for is_negative, t in signed]
            return product_of(*not_null_tests(variables, scalar, own), sum_of(*terms))
        return _chosen(variables, scalar, own, split)

    return split(scalar)


def double_value(variables: Variables, scalar: ScalarExpr, branch: Branch) -> Expr:
    """A DOUBLE as a weight; NULL weighs 0.

    [a + b], [case(p, a, b)]       as whole numbers
    [a - b]                        -> [a + neg(b)]
    [neg(a + b)]                   -> [neg(a) + neg(b)]
    [a * b]                        -> [a] * [b]  where a and b come from different tables
    """
    own, tables = branch.own, _Tables(branch)

    def split(scalar: ScalarExpr, *, negative: bool = False) -> Expr:
        if isinstance(scalar, Const) and not scalar.value:
            return ZERO
        if isinstance(scalar, Apply) and scalar.function == "neg":
            return split(scalar.arguments[0], negative=not negative)
        if isinstance(scalar, Apply) and scalar.function in ("+", "-"):
            signed = _signed_terms(scalar)
            if len(signed) > _MOST_TERMS:
                return value_of(apply("neg", scalar) if negative else scalar)
            terms = [split(t, negative=negative != is_negative) for is_negative, t in signed]
            return product_of(*not_null_tests(variables, scalar, own), sum_of(*terms))
        if isinstance(scalar, Apply) and scalar.function == "case" and not can_refuse(scalar):
            return _chosen(variables, scalar, own, lambda then: split(then, negative=negative))
        constants, parts = tables.apart(scalar)
        if len(parts) < 2:
            return value_of(apply("neg", scalar) if negative else scalar)
        product = product_of(
            *map(value_of, constants), *(value_of(_as_double(variables, part)) for part in parts)
        )
        return negate(product) if negative else product

    return split(scalar)


_MOST_TERMS = 64
"""Of a sum that is split: what many share is hardly one of them, and each is code of its own."""


def _signed_terms(scalar: ScalarExpr) -> list[tuple[bool, ScalarExpr]]:
    """a - b + c -> (no, a), (yes, b), (no, c): whether each is taken away"""
    terms = []
    while isinstance(scalar, Apply) and scalar.function in ("+", "-"):
        terms.append((scalar.function == "-", scalar.arguments[1]))
        scalar = scalar.arguments[0]
    return [(False, scalar), *reversed(terms)]


def _chosen(variables: Variables, scalar: Apply, own: Names, split: Split) -> Expr:
    """[case(p, a, b)] -> {p} * [a] + {not(is_true(p))} * [b]; all else is left whole."""
    # A branch that is not chosen must not be computed where it could be an error.
    if scalar.function != "case" or can_refuse(scalar):
        return value_of(scalar)
    *branches, otherwise = scalar.arguments
    terms: list[Expr] = []
    before: Expr = ONE
    for test, then in zip(branches[::2], branches[1::2], strict=True):
        test_factors = condition(variables, test, own)
        terms.append(product_of(before, test_factors, split(then)))
        missed = without_null_tests(variables, apply("is_true", test), own)
        before = product_of(before, cond(apply("not", missed)))
    terms.append(product_of(before, split(otherwise)))
    return sum_of(*terms)


def _factors(scalar: ScalarExpr) -> list[ScalarExpr]:
    """a * neg(b * c) -> a, -1, b, c"""
    if isinstance(scalar, Apply) and scalar.function == "*":
        return [factor for argument in scalar.arguments for factor in _factors(argument)]
    if isinstance(scalar, Apply) and scalar.function == "neg":
        return [Const(-1), *_factors(scalar.arguments[0])]
    return [scalar]


def _as_double(variables: Variables, scalar: ScalarExpr) -> ScalarExpr:
    """The same number as a DOUBLE: the ring would take an integer for a number of rows."""
    return scalar if variables.is_double(scalar) else apply("to_float", scalar)


class _Tables:
    """Which variables of a branch come from one table, or are computed from its columns."""

    def __init__(self, branch: Branch) -> None:
        self._first: dict[str, str] = {}
        for factor in branch.factors:
            names = outputs(factor)
            self._join(sorted(names | inputs(factor) if isinstance(factor, Assign) else names))

    def _join(self, names: Sequence[str]) -> None:
        roots = dict.fromkeys(map(self._root, names))
        for root in roots:
            self._first[root] = next(iter(roots))

    def _root(self, name: str) -> str:
        while self._first.get(name, name) != name:
            name = self._first[name]
        return name

    def apart(self, product: ScalarExpr) -> tuple[list[ScalarExpr], list[ScalarExpr]]:
        """a * b * c -> the constants in it, and one product for each table that it reads."""
        constants: list[ScalarExpr] = []
        groups: list[tuple[set[str], list[ScalarExpr]]] = []
        for factor in _factors(product):
            tables = {self._root(name) for name in free_variables(factor)}
            if not tables:
                constants.append(factor)
                continue
            members = [m for group_tables, group in groups if group_tables & tables for m in group]
            tables.update(*(group_tables for group_tables, _ in groups if group_tables & tables))
            groups = [group for group in groups if not group[0] & tables]
            groups.append((tables, [*members, factor]))
        return constants, [_product(members) for _, members in groups]


def _product(factors: list[ScalarExpr]) -> ScalarExpr:
    first, *others = factors
    for other in others:
        first = apply("*", first, other)
    return first
