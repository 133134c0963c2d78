"""Comparisons. What equal and less mean is said here, once for all engines.

`=` is SQL's equality, NULL where an argument is NULL. `==` is sameness, where NULL is the same as
NULL: it is what joins on a shared variable mean, so that unification may use it. FALSE < TRUE. NaN
is the same as NaN and greater than every other number (schema.same, schema.precedes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from viewlet.functions.kernel_forms import (
    BOOL,
    FLOAT,
    Code,
    Source,
    all_true,
    any_of,
    any_true,
    inverse,
)
from viewlet.functions.record import (
    COMPARISON_STRENGTH,
    NEVER_NULL,
    STRICT,
    ScalarFunction,
    define,
)
from viewlet.functions.scalars import TRUE, ScalarExpr
from viewlet.functions.sql_forms import SqlSyntax
from viewlet.functions.trends import COMPUTED_IN_DESCENTS, NOT_MONOTONE
from viewlet.functions.vector_forms import Array, Vector, by_row, numbers
from viewlet.schema import Physical, precedes
from viewlet.schema import same as same_value

NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""Comparisons by those that are TRUE where they are FALSE, and NULL where they are."""


def same_double(a: float, b: float) -> bool:
    """schema.same for doubles, in kernels."""
    return (a == b) | ((a != a) & (b != b))


def less_double(a: float, b: float) -> bool:
    """schema.precedes for doubles, in kernels."""
    return (a < b) | ((b != b) & (a == a))


def compared(symbol: str, left: Code, right: Code) -> str:
    """Source of a comparison of two values that are not NULL, in the order of their type.

    The processor's own comparison is right where the side that must be less cannot be a NaN, or
    that which must be greater; a constant and an integer cannot.
    """
    if _never_nan(left) and _never_nan(right):
        return f"({left.value} {symbol} {right.value})"
    if symbol in ("==", "!="):
        if _never_nan(left) or _never_nan(right):
            return f"({left.value} {symbol} {right.value})"
        same = f"same_double({left.value}, {right.value})"
        return same if symbol == "==" else f"(not {same})"
    lesser, greater = (left, right) if symbol[0] == "<" else (right, left)
    if _never_nan(greater):
        return f"({left.value} {symbol} {right.value})"
    if symbol in ("<", ">"):
        return f"less_double({lesser.value}, {greater.value})"
    return f"(not less_double({greater.value}, {lesser.value}))"


def _never_nan(code: Code) -> bool:
    return (
        code.physical is not FLOAT or re.fullmatch(r"\(?-?\d[\d.e+-]*\)?", code.value) is not None
    )


def _written(symbol: str, *, orders: bool) -> Source:
    def write(parts: Sequence[Code], physical: Physical) -> Code:
        left, right = parts
        return Code(compared(symbol, left, right), any_of(left.null, right.null), BOOL)

    natives = (same_double, less_double)
    return Source(write, natives=natives, accepts_text=True, orders_text=orders)


def equal_vectors(a: Array, b: Array) -> Array:
    """schema.same for each row."""
    import numpy as np

    equal: Array = a == b
    if a.dtype.kind == b.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal


def less_vectors(a: Array, b: Array) -> Array:
    """schema.precedes for each row."""
    import numpy as np

    less: Array = a < b
    if b.dtype.kind == "f":
        less |= np.isnan(b) & ~np.isnan(a)
    return less


def _comparison(
    name: str,
    symbol: str,
    meaning: Callable[[Any, Any], bool],
    rows: Callable[[Array, Array], Array],
    *,
    orders: bool = True,
) -> None:
    def compare_vectors(a: Vector, b: Vector) -> Vector:
        numbers(a, b)
        return Vector(rows(a.values, b.values))

    define(
        ScalarFunction(
            name=name,
            meaning=meaning,
            result=Physical.BOOL,
            nulls=STRICT,
            sql=SqlSyntax(f"a {name} b"),
            kernel=_written(symbol, orders=orders),
            vector=compare_vectors,
            monotone=COMPUTED_IN_DESCENTS,
            hint="",
            infix=COMPARISON_STRENGTH,
        )
    )


_comparison("=", "==", same_value, equal_vectors, orders=False)
_comparison(
    "<>",
    "!=",
    lambda a, b: not same_value(a, b),
    lambda a, b: ~equal_vectors(a, b),
    orders=False,
)
_comparison("<", "<", precedes, less_vectors)
_comparison("<=", "<=", lambda a, b: not precedes(b, a), lambda a, b: ~less_vectors(b, a))
_comparison(">", ">", lambda a, b: precedes(b, a), lambda a, b: less_vectors(b, a))
_comparison(">=", ">=", lambda a, b: not precedes(a, b), lambda a, b: ~less_vectors(a, b))


def _same_as_itself(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """x == x -> TRUE"""
    return TRUE if arguments[0] == arguments[1] else None


def same(parts: Sequence[Code], physical: Physical) -> Code:
    """Both NULL, or neither and equal."""
    left, right = parts
    equal = compared("==", left, right)
    if left.null is None or right.null is None:
        return Code(Code(equal, left.null or right.null, BOOL).where_true, None, BOOL)
    both = all_true(left.null, right.null)
    one = any_true(left.null, right.null)
    return Code(any_true(both, all_true(inverse(one), equal)), None, BOOL)


define(
    ScalarFunction(
        name="==",
        meaning=same_value,
        result=Physical.BOOL,
        nulls=NEVER_NULL,
        sql=SqlSyntax("a IS NOT DISTINCT FROM b"),
        kernel=Source(same, natives=(same_double,), accepts_text=True),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
        identity=_same_as_itself,
        infix=COMPARISON_STRENGTH,
    )
)
