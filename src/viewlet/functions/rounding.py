"""Rounding of numbers. A DECIMAL is a whole number of units, so that its functions get the unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from viewlet.functions.conversions import as_double
from viewlet.functions.evaluation import apply
from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.scalars import Const, ScalarExpr
from viewlet.functions.sql_forms import DOUBLE, EXACT, NUMBER, Accepts, Internal, Parameter, SqlCall
from viewlet.functions.trends import RISING, RISING_IN_DESCENTS
from viewlet.functions.vector_forms import by_row
from viewlet.schema import DOUBLE as DOUBLE_TYPE
from viewlet.schema import Kind, Physical, Type

# FLOOR and CEIL: whole DECIMALs of DECIMALs, DOUBLE of DOUBLE.


def _in_units(function: str) -> Callable[[Sequence[ScalarExpr], Sequence[Type]], ScalarExpr]:
    """FLOOR(x) -> decimal_floor(x, unit); integers are whole already"""

    def rule(arguments: Sequence[ScalarExpr], types: Sequence[Type]) -> ScalarExpr:
        if not types[0].scale:
            return arguments[0]
        return apply(function, arguments[0], Const(10 ** types[0].scale))

    return rule


def _without_fraction(arguments: Sequence[ScalarExpr], types: Sequence[Type]) -> Type:
    """DECIMAL(p, s) -> DECIMAL(p, 0); integers stay what they are"""
    source = types[0]
    return Type(Kind.DECIMAL, source.precision, 0) if source.kind is Kind.DECIMAL else source


def decimal_floor(value: int, unit: int) -> int:
    """FLOOR of a DECIMAL in units of its last digit: (-150, 100) -> -2"""
    return value // unit


def decimal_ceil(value: int, unit: int) -> int:
    """CEIL of a DECIMAL in units of its last digit: (-150, 100) -> -1"""
    quotient = value // unit
    return quotient + 1 if quotient * unit != value else quotient


def floor(value: float) -> float:
    """FLOOR of a double; infinities and NaN stay what they are."""
    return float(math.floor(value)) if math.isfinite(value) else value


def ceil(value: float) -> float:
    """CEIL of a double; infinities and NaN stay what they are."""
    return float(math.ceil(value)) if math.isfinite(value) else value


define(
    ScalarFunction(
        name="decimal_floor",
        meaning=lambda value, unit: value // unit,
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCall(("FLOOR",), (EXACT,), _without_fraction, _in_units("decimal_floor")),
        kernel=expression("decimal_floor({0}, {1})", natives=(decimal_floor,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)

define(
    ScalarFunction(
        name="floor",
        meaning=floor,
        result=Physical.FLOAT,
        nulls=STRICT,
        sql=SqlCall(("FLOOR",), (DOUBLE,), DOUBLE_TYPE),
        kernel=expression("floor(float({0}))", natives=(floor,)),
        vector=by_row,
        monotone=RISING_IN_DESCENTS,
        hint="",
    )
)

define(
    ScalarFunction(
        name="decimal_ceil",
        meaning=lambda value, unit: -(-value // unit),
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCall(("CEIL", "CEILING"), (EXACT,), _without_fraction, _in_units("decimal_ceil")),
        kernel=expression("decimal_ceil({0}, {1})", natives=(decimal_ceil,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)

define(
    ScalarFunction(
        name="ceil",
        meaning=ceil,
        result=Physical.FLOAT,
        nulls=STRICT,
        sql=SqlCall(("CEIL", "CEILING"), (DOUBLE,), DOUBLE_TYPE),
        kernel=expression("ceil(float({0}))", natives=(ceil,)),
        vector=by_row,
        monotone=RISING_IN_DESCENTS,
        hint="",
    )
)


# ROUND: half away from zero, as PostgreSQL and DuckDB round.


def half_away(value: float) -> float:
    """The nearest whole number, exactly: value + 0.5 would round before it is cut."""
    size = abs(value)
    lower = float(math.floor(size))
    return math.copysign(lower + 1.0 if size - lower >= 0.5 else lower, value)


def round_half_away(value: float, digits: int) -> float:
    """Digits that a double does not have change nothing; with fewer than it has, it is 0."""
    if not math.isfinite(value) or digits > 308:
        return value
    if digits < -308:
        return 0.0
    factor = 10.0 ** abs(digits)
    if digits < 0:
        return half_away(value / factor) * factor
    scaled = value * factor
    return half_away(scaled) / factor if math.isfinite(scaled) else value


def _rounded(arguments: Sequence[ScalarExpr], types: Sequence[Type]) -> ScalarExpr:
    value, digits = arguments
    if _is_exact(arguments, types):
        dropped = types[0].scale - _digits(digits)
        return apply("rescale", value, Const(10**dropped)) if dropped > 0 else value
    return apply("round", as_double(value, types[0]), digits)


def _rounded_type(arguments: Sequence[ScalarExpr], types: Sequence[Type]) -> Type:
    if not _is_exact(arguments, types):
        return DOUBLE_TYPE
    if types[0].kind is not Kind.DECIMAL:
        return types[0]
    scale = min(types[0].scale, _digits(arguments[1]))
    return Type(Kind.DECIMAL, types[0].precision, scale)


def _is_exact(arguments: Sequence[ScalarExpr], types: Sequence[Type]) -> bool:
    return types[0].is_exact and _digits(arguments[1]) >= 0


def _digits(scalar: ScalarExpr) -> int:
    assert isinstance(scalar, Const) and isinstance(scalar.value, int)
    return scalar.value


define(
    ScalarFunction(
        name="round",
        meaning=round_half_away,
        result=Physical.FLOAT,
        nulls=STRICT,
        sql=SqlCall(
            ("ROUND",),
            (NUMBER, Parameter(Accepts.INTEGER, Const(0), constant="number of digits")),
            _rounded_type,
            _rounded,
        ),
        kernel=expression("round_half_away(float({0}), {1})", natives=(round_half_away,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)


def rescale(value: int, factor: int) -> int:
    """value / factor, rounded half away from zero: DECIMAL to a smaller scale."""
    quotient = value // factor
    doubled_remainder = 2 * (value - quotient * factor)
    return (
        quotient + 1
        if doubled_remainder > factor or (doubled_remainder == factor and value >= 0)
        else quotient
    )


def _rescale(value: int, factor: int) -> int:
    quotient, remainder = divmod(abs(value), factor)
    quotient += 2 * remainder >= factor
    return quotient if value >= 0 else -quotient


define(
    ScalarFunction(
        name="rescale",
        meaning=_rescale,
        result=Physical.INT,
        nulls=STRICT,
        sql=Internal("a DECIMAL with fewer digits after the point"),
        kernel=expression("rescale({0}, {1})", natives=(rescale,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)
