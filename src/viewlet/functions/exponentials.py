"""Roots, powers and logarithms of doubles.

They give infinity and NaN as IEEE 754, C and DuckDB do, and never fail: SQRT(-1) is NaN, LN(0) is
-Infinity, EXP(1000) and POWER(0, -1) are Infinity. Only Python's `math` raises there, so that each
meaning says what it is instead; compiled code calls C's function.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from viewlet.functions.kernel_forms import c_function, expression
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.sql_forms import DOUBLE, SqlCall
from viewlet.functions.trends import NOT_MONOTONE, RISING, Monotone
from viewlet.functions.vector_forms import VectorRule, by_row, ufunc_of_doubles
from viewlet.schema import DOUBLE as DOUBLE_TYPE
from viewlet.schema import Physical


def _of_one_double(
    meaning: Callable[[float], float],
    *spellings: str,
    duckdb: tuple[str, ...] = (),
    vector: VectorRule = by_row,
    monotone: Monotone = NOT_MONOTONE,
) -> ScalarFunction:
    """F(x): a DOUBLE for every DOUBLE; the function's name is that of its meaning."""
    return define(
        ScalarFunction(
            name=meaning.__name__,
            meaning=meaning,
            result=Physical.FLOAT,
            nulls=STRICT,
            sql=SqlCall(spellings, (DOUBLE,), DOUBLE_TYPE, duckdb=duckdb),
            kernel=expression(f"{meaning.__name__}(float({{0}}))", natives=(meaning,)),
            vector=vector,
            monotone=monotone,
            hint="",
        )
    )


def _nan_below_zero(name: str, at_zero: str) -> str:
    """DuckDB's own answers, which it gives up where division by zero is to be NULL."""
    return (
        f"{name}(x) AS CASE WHEN x < 0 THEN 'NaN'::DOUBLE WHEN x = 0 THEN {at_zero}::DOUBLE "
        f"ELSE system.main.{name}(x) END"
    )


@c_function("llvm.sqrt.f64")
def sqrt(value: float) -> float:
    """SQRT(x), NaN below zero"""
    return math.nan if value < 0 else math.sqrt(value)


_of_one_double(
    sqrt, "SQRT", duckdb=(_nan_below_zero("sqrt", "0"),), vector=ufunc_of_doubles("sqrt")
)


@c_function("cbrt")
def cbrt(value: float) -> float:
    """CBRT(x), of negative numbers too"""
    return math.cbrt(value)


_of_one_double(cbrt, "CBRT", monotone=RISING)


@c_function("exp")
def exp(value: float) -> float:
    """EXP(x), infinite where that is too large for a double"""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


_of_one_double(exp, "EXP", monotone=RISING)


@c_function("log")
def ln(value: float) -> float:
    """LN(x), -Infinity at zero and NaN below"""
    if value == 0:
        return -math.inf
    return math.nan if value < 0 else math.log(value)


_of_one_double(ln, "LN", duckdb=(_nan_below_zero("ln", "'-inf'"),))


@c_function("log10")
def log10(value: float) -> float:
    """LOG(x), LOG10(x): to the base 10, -Infinity at zero and NaN below"""
    if value == 0:
        return -math.inf
    return math.nan if value < 0 else math.log10(value)


_of_one_double(
    log10,
    "LOG",
    "LOG10",
    duckdb=(_nan_below_zero("log", "'-inf'"), _nan_below_zero("log10", "'-inf'")),
)


@c_function("pow")
def power(base: float, exponent: float) -> float:
    """POWER(x, y): infinite where that is too large, NaN where it is not real"""
    is_odd = exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and is_odd else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if is_odd else math.inf


define(
    ScalarFunction(
        name="power",
        meaning=power,
        result=Physical.FLOAT,
        nulls=STRICT,
        sql=SqlCall(
            ("POWER", "POW"),
            (DOUBLE, DOUBLE),
            DOUBLE_TYPE,
            duckdb=tuple(
                f"\"{name}\"(x, y) AS CASE WHEN x = 0 AND y < 0 THEN 'inf'::DOUBLE "
                "ELSE system.main.pow(x, y) END"
                for name in ("power", "pow", "^", "**")
            ),
        ),
        kernel=expression("power(float({0}), float({1}))", natives=(power,)),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)
