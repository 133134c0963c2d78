"""Arithmetic of numbers: whole numbers in 64 bits, which are an error beyond, and doubles.

Division by zero is NULL: one bad row must not stop a live view.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from viewlet.errors import RangeFailure
from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import (
    STRICT,
    STRICT_UNLESS_ZERO,
    IdentityRule,
    ScalarFunction,
    define,
    widest,
)
from viewlet.functions.scalars import Const, ScalarExpr
from viewlet.functions.sql_forms import NUMBER, SqlCall, SqlSyntax, type_of_first
from viewlet.functions.trends import (
    DIFFERENCE,
    FALLING_IN_DESCENTS,
    NOT_MONOTONE,
    PRODUCT,
    QUOTIENT,
    RISING,
    SUM,
)
from viewlet.functions.vector_forms import (
    NotColumnar,
    Vector,
    by_row,
    integer_ufunc,
    numbers,
    reach,
)
from viewlet.schema import INTEGER, Physical

LEAST = -(2**63)
_TOO_LARGE = "CAST an argument to DOUBLE where numbers grow this large"
_beyond_64_bits = RangeFailure("a number left the range of 64-bit integers", _TOO_LARGE)


def _without(constant: int) -> IdentityRule:
    """x + 0 -> x, 0 + x -> x"""

    def rule(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
        left, right = arguments
        if left == Const(constant):
            return right
        return left if right == Const(constant) else None

    return rule


define(
    ScalarFunction(
        name="+",
        meaning=lambda a, b: a + b,
        result=widest,
        nulls=STRICT,
        sql=SqlSyntax("a + b"),
        kernel=expression("plus({0}, {1})", of_floats="({0} + {1})"),
        vector=integer_ufunc("add", operator.add),
        monotone=SUM,
        hint=_TOO_LARGE,
        identity=_without(0),
        infix=5,
        counts_in_64_bits=True,
    )
)

define(
    ScalarFunction(
        name="-",
        meaning=lambda a, b: a - b,
        result=widest,
        nulls=STRICT,
        sql=SqlSyntax("a - b"),
        kernel=expression("minus({0}, {1})", of_floats="({0} - {1})"),
        vector=integer_ufunc("subtract", operator.add),
        monotone=DIFFERENCE,
        hint=_TOO_LARGE,
        infix=5,
        counts_in_64_bits=True,
    )
)

define(
    ScalarFunction(
        name="*",
        meaning=lambda a, b: a * b,
        result=widest,
        nulls=STRICT,
        sql=SqlSyntax("a * b"),
        kernel=expression("times({0}, {1})", of_floats="({0} * {1})"),
        vector=integer_ufunc("multiply", operator.mul),
        monotone=PRODUCT,
        hint=_TOO_LARGE,
        identity=_without(1),
        infix=6,
        counts_in_64_bits=True,
    )
)


def divide(a: float, b: float) -> float:
    """0 for b = 0, which the kernel makes NULL."""
    return a / b if b != 0 else 0.0


def _divide_vectors(a: Vector, b: Vector) -> Vector:
    """Integers beyond 2**53 are divided exactly by Python alone."""
    import numpy as np

    numbers(a, b)
    for vector in (a, b):
        if not vector.is_float and reach(vector) > 2.0**53:
            raise NotColumnar("large numbers")
    zero = b.values == 0
    return Vector(a.values / np.where(zero, 1, b.values), zero if zero.any() else None)


define(
    ScalarFunction(
        name="/",
        meaning=lambda a, b: None if b == 0 else a / b,
        result=Physical.FLOAT,
        nulls=STRICT_UNLESS_ZERO,
        sql=SqlSyntax("a / b"),
        kernel=expression(
            "divide(float({0}), float({1}))", null="(float({1}) == 0)", natives=(divide,)
        ),
        vector=_divide_vectors,
        monotone=QUOTIENT,
        hint="",
        infix=6,
    )
)

define(
    ScalarFunction(
        name="neg",
        meaning=lambda a: -a,
        result=widest,
        nulls=STRICT,
        sql=SqlSyntax("-a"),
        kernel=expression("minus(0, {0})", of_floats="(-{0})"),
        vector=by_row,
        monotone=FALLING_IN_DESCENTS,
        hint=_TOO_LARGE,
        counts_in_64_bits=True,
    )
)


def _integer_divide(a: int, b: int) -> int | None:
    """Truncates towards zero, as PostgreSQL does."""
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def divide_whole(a: int, b: int) -> int:
    """Towards zero; 0 for b = 0, which the kernel makes NULL."""
    if b == 0:
        return 0
    if b == -1 and a == LEAST:
        _beyond_64_bits()
    quotient = a // b
    return quotient + 1 if quotient < 0 and quotient * b != a else quotient


define(
    ScalarFunction(
        name="div",
        meaning=_integer_divide,
        result=Physical.INT,
        nulls=STRICT_UNLESS_ZERO,
        sql=SqlSyntax("a DIV b"),
        kernel=expression("divide_whole({0}, {1})", null="({1} == 0)", natives=(divide_whole,)),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint=_TOO_LARGE,
        counts_in_64_bits=True,
    )
)


def _modulo(a: Any, b: Any) -> Any:
    """The sign of the dividend, as in PostgreSQL."""
    if b == 0:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b) if math.isfinite(a) else math.nan
    remainder = abs(a) % abs(b)
    return remainder if a >= 0 else -remainder


def modulo(a: int, b: int) -> int:
    """0 for b = 0, which the kernel makes NULL."""
    return a - b * divide_whole(a, b) if b != 0 and b != -1 else 0


def modulo_float(a: float, b: float) -> float:
    """MOD of doubles, with the sign of a as in C; by zero the record says NULL."""
    return math.fmod(a, b) if b != 0.0 else 0.0


define(
    ScalarFunction(
        name="mod",
        meaning=_modulo,
        result=widest,
        nulls=STRICT_UNLESS_ZERO,
        sql=SqlSyntax("a % b, MOD(a, b)"),
        kernel=expression(
            "modulo({0}, {1})",
            of_floats="modulo_float({0}, {1})",
            null="({1} == 0)",
            natives=(modulo, modulo_float),
        ),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)


def absolute(value: int) -> int:
    """The least integer has no opposite."""
    if value == LEAST:
        _beyond_64_bits()
    return abs(value)


define(
    ScalarFunction(
        name="abs",
        meaning=abs,
        result=widest,
        nulls=STRICT,
        sql=SqlCall(("ABS",), (NUMBER,), type_of_first),
        kernel=expression("absolute({0})", of_floats="abs({0})", natives=(absolute,)),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint=_TOO_LARGE,
        counts_in_64_bits=True,
    )
)


def sign(value: float) -> int:
    """SIGN(x): -1, 0 or 1; of NaN it is 0."""
    return 1 if value > 0 else (-1 if value < 0 else 0)


define(
    ScalarFunction(
        name="sign",
        meaning=lambda a: (a > 0) - (a < 0),
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCall(("SIGN",), (NUMBER,), INTEGER),
        kernel=expression("sign({0})", natives=(sign,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)
