"""Exact sums: integers that never wrap, and doubles that do not drift.

Integers: `plus` and `times` raise OverflowError where int64 ends; the engine undoes the batch.

Doubles: every weight and every sum of DOUBLE is an unevaluated pair hi + lo of doubles, about 106
bits. One addition or product has a relative error of at most 2**-102, so a sum of n terms whose
partial sums stay below S in magnitude is within n * S * 2**-102 of the exact sum: after a million
inserts and their deletes of values near 1e6, less than 1e-12. What is left after full
cancellation is taken for zero when it is below 2**-80 of the last term.
"""

from __future__ import annotations

import math

from viewlet.native.compiled import compiled
from viewlet.native.intrinsics import intrinsic
from viewlet.native.lowerings import checked, multiply_subtract

_LIMIT = 2**63
OVERFLOW = "a number left the range of 64-bit integers"


@intrinsic(checked("sadd"))
def plus(a: int, b: int) -> int:
    """a + b; beyond 64 bits it raises, instead of wrapping around."""
    total = int(a) + int(b)
    if not -_LIMIT <= total < _LIMIT:
        raise OverflowError(OVERFLOW)
    return total


@intrinsic(checked("ssub"))
def minus(a: int, b: int) -> int:
    """a - b; beyond 64 bits it raises, instead of wrapping around."""
    total = int(a) - int(b)
    if not -_LIMIT <= total < _LIMIT:
        raise OverflowError(OVERFLOW)
    return total


@intrinsic(checked("smul"))
def times(a: int, b: int) -> int:
    """a * b; beyond 64 bits it raises, instead of wrapping around."""
    product = int(a) * int(b)
    if not -_LIMIT <= product < _LIMIT:
        raise OverflowError(OVERFLOW)
    return product


@intrinsic(multiply_subtract)
def multiply_add_error(a: float, b: float, product: float) -> float:
    """a * b - product, exactly: what one fused multiply-add gives (Python before 3.13 has none)."""
    split_a = _SPLIT * a
    split_b = _SPLIT * b
    a_hi = split_a - (split_a - a)
    b_hi = split_b - (split_b - b)
    a_lo, b_lo = a - a_hi, b - b_hi
    return ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


_SPLIT = 134217729.0  # 2**27 + 1


@compiled
def pair_plus(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """(a + a_low) + (b + b_low) as a pair: Knuth's two-sum on both halves, renormalized."""
    high = a + b
    if not math.isfinite(high):
        return high, 0.0
    part = high - a
    error = (a - (high - part)) + (b - part)
    low = a_low + b_low
    part = low - a_low
    low_error = (a_low - (low - part)) + (b_low - part)
    error += low
    total = high + error
    error = error - (total - high)
    error += low_error
    high = total + error
    return high, error - (high - total)


@compiled
def gather(high: float, low: float, by: float, by_low: float) -> tuple[float, float]:
    """One term of a sum of many pairs, which `gathered` ends.

    Only the first addition waits for the term before; what it loses is added up beside it. A
    chain of `pair_plus` would take about ten times as long.
    """
    total = high + by
    part = total - high
    error = (high - (total - part)) + (by - part)
    return total, low + (error + by_low)


@compiled
def gathered(high: float, low: float) -> tuple[float, float]:
    """The sum of all that was gathered, as a pair."""
    if not math.isfinite(high):
        return high, 0.0
    total = high + low
    part = total - high
    return total, (high - (total - part)) + (low - part)


@compiled
def rounded(high: float, low: float) -> float:
    """The same as one number."""
    return high + low if math.isfinite(high) else high


@compiled
def pair_times(a: float, a_low: float, b: float, b_low: float) -> tuple[float, float]:
    """(a + a_low) * (b + b_low) as a pair."""
    product = a * b
    if not math.isfinite(product):
        return product, 0.0
    error = multiply_add_error(a, b, product)
    error += a * b_low + a_low * b
    high = product + error
    return high, error - (high - product)


@compiled
def pair_of(value: int) -> tuple[float, float]:
    """An int64 as a pair, without loss."""
    high = float(value >> 32) * 4294967296.0
    low = float(value & 0xFFFFFFFF)
    total = high + low
    return total, low - (total - high)


@compiled
def settle(
    old: float, old_low: float, by: float, by_low: float, largest: float
) -> tuple[float, float]:
    """old + by for a kept sum: the residue of a full cancellation becomes zero.

    `largest` is the magnitude of the largest term in `by`, which may have cancelled there already.
    """
    high, low = pair_plus(old, old_low, by, by_low)
    if abs(high) <= largest * 8.271806125530277e-25:  # 2**-80
        return 0.0, 0.0
    return high, low
