"""What VARIANCE and CORR add up, and how they end: exact where sums of squares would cancel.

n * sum(x * x) - sum(x) ** 2 of numbers near 1e9 that differ by 1 is left over from two numbers that
agree in eighteen digits, and a sum that is read as a DOUBLE has sixteen. So x is added up in two
parts of 26 bits, and x * x in three:

    x      =  x_high + x_low
    x * x  =  square_high + square_middle + square_low
    x * y  =  product_high + product_middle + product_low

The sums of parts are read without loss up to 2**27 rows of one magnitude, whatever they have in
common, and `deviations` and `co_deviations` put them together in twice the precision of a DOUBLE.
Where finite numbers have squares beyond the range of DOUBLE the spread is infinite, as in DuckDB;
an infinite number among them, whose x_low is NaN, makes it NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.sql_forms import Internal
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import Physical

_SPLIT = 134217729.0  # 2**27 + 1
_INFINITY = math.inf
_LARGEST = 2.0**500  # from here on squares are not split: they are near the end of DOUBLE's range


def x_high(x: float) -> float:
    """The leading 26 bits of a number, rounded (Veltkamp)."""
    if not abs(x) < _LARGEST:
        return x
    scaled = _SPLIT * x
    return scaled - (scaled - x)


def x_low(x: float) -> float:
    """x - x_high(x), which is NaN for an infinity"""
    return x - x_high(x)


def square_high(x: float) -> float:
    """The leading bits of x_high(x) ** 2"""
    high = x_high(x)
    return x_high(high * high)


def square_middle(x: float) -> float:
    """The rest of x_high(x) ** 2, and the leading bits of 2 * x_high(x) * x_low(x)"""
    if not abs(x) < _LARGEST:
        return 0.0
    high = x_high(x)
    return x_low(high * high) + x_high(2.0 * high * x_low(x))


def square_low(x: float) -> float:
    """What is left of x * x"""
    if not abs(x) < _LARGEST:
        return 0.0
    low = x_low(x)
    return x_low(2.0 * x_high(x) * low) + low * low


def product_high(x: float, y: float) -> float:
    """The leading bits of x_high(x) * x_high(y); all of a product that is not split"""
    if not (abs(x) < _LARGEST and abs(y) < _LARGEST):
        return x * y
    return x_high(x_high(x) * x_high(y))


def product_middle(x: float, y: float) -> float:
    """The rest of it, and the leading bits of what one high part has with the other's low one"""
    if not (abs(x) < _LARGEST and abs(y) < _LARGEST):
        return 0.0
    crossed = x_high(x) * x_low(y) + x_low(x) * x_high(y)
    return x_low(x_high(x) * x_high(y)) + x_high(crossed)


def product_low(x: float, y: float) -> float:
    """What is left of x * y, but for a rounding of 2**-79 of it"""
    if not (abs(x) < _LARGEST and abs(y) < _LARGEST):
        return 0.0
    crossed = x_high(x) * x_low(y) + x_low(x) * x_high(y)
    return x_low(crossed) + x_low(x) * x_low(y)


def rounding_of_product(a: float, b: float, product: float) -> float:
    """a * b - product, which is a * b rounded (Dekker)."""
    error = x_high(a) * x_high(b) - product
    error = error + x_high(a) * x_low(b)
    error = error + x_low(a) * x_high(b)
    return error + x_low(a) * x_low(b)


def rounding_of_sum(a: float, b: float, total: float) -> float:
    """a + b - total, which is a + b rounded (Knuth)."""
    part = total - a
    return (a - (total - part)) + (b - part)


def deviations(
    n: float, high: float, low: float, squares: float, middle: float, lowest: float
) -> float:
    """n * sum(x * x) - sum(x) ** 2, from the sums of the parts; never below 0."""
    if low != low:
        return low
    first = n * squares
    second = n * middle
    square = high * high
    cross = 2.0 * high * low
    if not (math.isfinite(first) and math.isfinite(square)):
        return _INFINITY
    small = n * lowest - low * low
    small = small + rounding_of_product(n, squares, first)
    small = small + rounding_of_product(n, middle, second)
    small = small - rounding_of_product(high, high, square)
    small = small - rounding_of_product(2.0 * high, low, cross)
    total = first - square
    small = small + rounding_of_sum(first, -square, total)
    difference = second - cross
    small = small + rounding_of_sum(second, -cross, difference)
    result = total + difference
    small = small + rounding_of_sum(total, difference, result)
    result = result + small
    return result if result > 0.0 else 0.0


def co_deviations(
    n: float,
    x: float,
    x_rest: float,
    y: float,
    y_rest: float,
    products: float,
    middle: float,
    lowest: float,
) -> float:
    """n * sum(x * y) - sum(x) * sum(y), from the sums of the parts."""
    if x_rest != x_rest:
        return x_rest
    if y_rest != y_rest:
        return y_rest
    first = n * products
    second = n * middle
    whole = x * y
    left = x * y_rest
    right = x_rest * y
    if not (math.isfinite(first) and math.isfinite(whole)):
        return first - whole
    cross = left + right
    small = n * lowest - x_rest * y_rest
    small = small + rounding_of_product(n, products, first)
    small = small + rounding_of_product(n, middle, second)
    small = small - rounding_of_product(x, y, whole)
    small = small - rounding_of_product(x, y_rest, left)
    small = small - rounding_of_product(x_rest, y, right)
    small = small - rounding_of_sum(left, right, cross)
    total = first - whole
    small = small + rounding_of_sum(first, -whole, total)
    difference = second - cross
    small = small + rounding_of_sum(second, -cross, difference)
    result = total + difference
    small = small + rounding_of_sum(total, difference, result)
    return result + small


def _define(
    function: Callable[..., float], arguments: str, natives: tuple[Callable[..., float], ...]
) -> None:
    define(
        ScalarFunction(
            name=function.__name__,
            meaning=lambda *values: function(*map(float, values)),
            result=Physical.FLOAT,
            nulls=STRICT,
            sql=Internal("what VARIANCE, STDDEV and CORR are made of"),
            kernel=expression(f"{function.__name__}({arguments})", natives=(function, *natives)),
            vector=by_row,
            monotone=NOT_MONOTONE,
            hint="",
        )
    )


for _part in (x_high, x_low, square_high, square_middle, square_low):
    _define(_part, "float({0})", ())
for _part_of_two in (product_high, product_middle, product_low):
    _define(_part_of_two, "float({0}), float({1})", (x_high, x_low))
_define(
    deviations,
    ", ".join(f"float({{{position}}})" for position in range(6)),
    (rounding_of_product, rounding_of_sum),
)
_define(
    co_deviations,
    ", ".join(f"float({{{position}}})" for position in range(8)),
    (rounding_of_product, rounding_of_sum),
)
