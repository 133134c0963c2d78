"""Sums of DOUBLE: what comes leaves again without a trace, infinities and NaNs too.

The sum of a DOUBLE column is an element of five words,

    high, middle, low   three doubles whose exact sum is the number; each is at most half a unit in
                        the last place of the one before, so that they hold about 159 bits
    infinities          how many inf and how many -inf there are, 32 bits each
    beyond              how many NaNs there are, and how often 2**1020 is to be added to the number,
                        which keeps sums of the largest doubles from overflowing; 32 bits each

and it becomes a value by rounding once: NaN where there is one or both infinities, an infinity
where there is one or the number is too large. An element is zero where all of its words are; where
the number is zero, `high` is.

The bound: one addition errs by at most S * 2**-154, where S is the largest magnitude that the sum
and its terms have had. A sum of n terms is within n * S * 2**-154 of the exact one, and it is exact
while the binary digits of the sums on the way lie within 154 places: values of magnitudes from
1e-15 to 1e15 with their 53 bits can come and go in any order, and leave nothing behind.

Counts that leave their 32 bits refuse the batch. So does a product of two elements of which one has
an infinity or a NaN: what it would be depends on the signs and the zeros of each term, which a sum
has forgotten (`inf * 0`). Products of values are computed before they are summed up.
"""

from __future__ import annotations

import math
from fractions import Fraction

from viewlet.errors import RangeError
from viewlet.native.compiled import compiled, outlined
from viewlet.native.intrinsics import intrinsic
from viewlet.native.lowerings import multiply_subtract, raises
from viewlet.schema import PRODUCT_NOT_FINITE
from viewlet.storage.arithmetic import minus
from viewlet.storage.memory import load, load_float, raw_bits, store, store_float

Element = tuple[float, float, float, int, int]
ELEMENT_WORDS = 5

LIMIT = 2.0**1020
_EXACT_LIMIT = 2**53  # up to here, doubles have every integer
_INFINITY, _NAN = math.inf, math.nan
_SHRINK, _GROW = 2.0**-64, 2.0**64
_SMALL = 2.0**-10
_HALF_WORD = 2**31
_TOO_MANY = "a sum of DOUBLE has more infinities, NaNs or huge numbers than 32 bits can count"


@intrinsic(raises(RangeError, _TOO_MANY))
def refuse_count() -> None:
    """A count that leaves its 32 bits."""
    raise RangeError(_TOO_MANY)


@intrinsic(raises(RangeError, PRODUCT_NOT_FINITE))
def refuse_product() -> None:
    """A product of sums that are not finite."""
    raise RangeError(PRODUCT_NOT_FINITE)


@intrinsic(multiply_subtract)
def product_error(a: float, b: float, product: float) -> float:
    """a * b - product, exactly: what one fused multiply-add gives (Python before 3.13 has none)."""
    if not math.isfinite(product):
        return math.nan
    return float(Fraction(a) * Fraction(b) - Fraction(product))


# Numbers: three doubles.


@compiled
def two_sum(a: float, b: float) -> tuple[float, float]:
    """a + b, rounded, and what is lost by that (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@compiled
def renormalized(high: float, middle: float, low: float) -> tuple[float, float, float]:
    """The same number with its leading bits in `high` and those that follow in `middle`."""
    middle, low = two_sum(middle, low)
    high, middle = two_sum(high, middle)
    middle, low = two_sum(middle, low)
    # After a cancellation `middle` may be as large as `high` now, or `high` zero.
    total = high + middle
    return total, middle - (total - high), low


@compiled
def number_plus(
    a: float, a_middle: float, a_low: float, b: float, b_middle: float, b_low: float
) -> tuple[float, float, float]:
    """a + b for numbers up to LIMIT in magnitude.

    Where two words hold all, as for the sums of most columns, one addition normalizes them: which
    of the two it is seldom changes from one row to the next, so that the processor foresees it.
    """
    high, error = two_sum(a, b)
    middle, residual = two_sum(a_middle, b_middle)
    middle, last = two_sum(middle, error)
    low = (a_low + b_low) + (residual + last)
    if low == 0.0:
        high, middle = two_sum(high, middle)
        return high, middle, 0.0
    return renormalized(high, middle, low)


@compiled
def nearest(high: float, middle: float, low: float) -> float:
    """The double nearest to a number: where `middle` is half of a last place, `low` decides."""
    total = high + middle
    middle = middle - (total - high)
    twice = 2.0 * middle
    other = total + twice
    farther = ((middle > 0.0) & (low > 0.0)) | ((middle < 0.0) & (low < 0.0))
    return other if farther & (other - total == twice) else total


# Counts: two in a word.


@compiled
def upper_count(word: int) -> int:
    """The first of two counts: inf, or NaN."""
    return word >> 32


@compiled
def lower_count(word: int) -> int:
    """The second one: -inf, or multiples of LIMIT."""
    return ((word & 0xFFFFFFFF) ^ _HALF_WORD) - _HALF_WORD


@compiled
def counts_of(upper: int, lower: int) -> int:
    """Both counts in one word."""
    if not (-_HALF_WORD <= upper < _HALF_WORD and -_HALF_WORD <= lower < _HALF_WORD):
        refuse_count()
    return (upper << 32) | (lower & 0xFFFFFFFF)


# Elements that are not finite, or near LIMIT. They are few, and kernels do not take this code in.


@outlined
def odd_plus(
    a: float,
    a_middle: float,
    a_low: float,
    a_infinities: int,
    a_beyond: int,
    b: float,
    b_middle: float,
    b_low: float,
    b_infinities: int,
    b_beyond: int,
) -> tuple[float, float, float, int, int]:
    """a + b for all elements. Multiples of LIMIT have the sign of the number that is left."""
    above = upper_count(a_infinities) + upper_count(b_infinities)
    below = lower_count(a_infinities) + lower_count(b_infinities)
    nans = upper_count(a_beyond) + upper_count(b_beyond)
    carried = lower_count(a_beyond) + lower_count(b_beyond)
    high, middle, low = number_plus(a, a_middle, a_low, b, b_middle, b_low)
    while abs(high) >= LIMIT:
        by = LIMIT if high > 0.0 else -LIMIT
        high, middle, low = number_plus(high, middle, low, -by, 0.0, 0.0)
        carried += 1 if by > 0.0 else -1
    if carried > 0 and high < 0.0:
        high, middle, low = number_plus(high, middle, low, LIMIT, 0.0, 0.0)
        carried -= 1
    elif carried < 0 and high > 0.0:
        high, middle, low = number_plus(high, middle, low, -LIMIT, 0.0, 0.0)
        carried += 1
    return high, middle, low, counts_of(above, below), counts_of(nans, carried)


@outlined
def odd_times(
    high: float, middle: float, low: float, infinities: int, beyond: int, times: int
) -> tuple[float, float, float, int, int]:
    """`times` times any element, by doubling."""
    by = (high, middle, low, infinities, beyond)
    if times < 0:
        by = negated(by)
        times = minus(0, times)
    total = no_element()
    while times > 0:
        if times & 1 == 1:
            total = any_plus(total, by)
        times = times >> 1
        if times > 0:
            by = any_plus(by, by)
    return total


@outlined
def odd_term(value: float, times: int) -> tuple[float, float, float, int, int]:
    """`times` times any value."""
    if value != value:
        return 0.0, 0.0, 0.0, 0, counts_of(times, 0)
    if not math.isfinite(value):
        above = times if value > 0.0 else 0
        return 0.0, 0.0, 0.0, counts_of(above, times - above), 0
    carried = 0
    while abs(value) >= LIMIT:
        by = LIMIT if value > 0.0 else -LIMIT
        value = value - by
        carried += 1 if by > 0.0 else -1
    return odd_times(value, 0.0, 0.0, 0, counts_of(0, carried), times)


@outlined
def odd_value(high: float, middle: float, low: float, infinities: int, beyond: int) -> float:
    """Any element as a value."""
    above = upper_count(infinities)
    below = lower_count(infinities)
    if upper_count(beyond) != 0 or (above != 0 and below != 0):
        return _NAN
    if above != 0:
        return _INFINITY
    if below != 0:
        return -_INFINITY
    carried = float(lower_count(beyond)) * (LIMIT * _SHRINK)
    high, middle, low = number_plus(
        high * _SHRINK, middle * _SHRINK, low * _SHRINK, carried, 0.0, 0.0
    )
    return nearest(high, middle, low) * _GROW


# All elements.


@compiled
def no_element() -> Element:
    """The sum of nothing."""
    return 0.0, 0.0, 0.0, 0, 0


@compiled
def any_plus(a: Element, b: Element) -> Element:
    """a + b for all elements."""
    return odd_plus(a[0], a[1], a[2], a[3], a[4], b[0], b[1], b[2], b[3], b[4])


@compiled
def negated(a: Element) -> Element:
    """-1 times the element: what takes it away. No word of a zero is -0.0."""
    infinities = counts_of(-upper_count(a[3]), -lower_count(a[3]))
    beyond = counts_of(-upper_count(a[4]), -lower_count(a[4]))
    return 0.0 - a[0], 0.0 - a[1], 0.0 - a[2], infinities, beyond


@compiled
def element_of(value: float, times: int) -> Element:
    """A value that so many rows have."""
    by = float(times)
    high = value * by
    if (abs(high) < LIMIT) & (times >= -_EXACT_LIMIT) & (times <= _EXACT_LIMIT):
        return high, product_error(value, by, high), 0.0, 0, 0
    return odd_term(value, times)


@compiled
def beside(a: Element) -> int:
    """Bits of all words but the first: zero where that is the number."""
    return raw_bits(a[1]) | raw_bits(a[2]) | a[3] | a[4]


@compiled
def wide_plus(a: Element, b: Element) -> Element:
    """a + b where one word is not enough."""
    high, middle, low = number_plus(a[0], a[1], a[2], b[0], b[1], b[2])
    if (a[3] | a[4] | b[3] | b[4] == 0) & (abs(high) < LIMIT):
        return high, middle, low, 0, 0
    return any_plus(a, b)


@compiled
def element_plus(a: Element, b: Element) -> Element:
    """a + b

    Where one word holds all, as for whole numbers, nothing else is computed.
    """
    high, error = two_sum(a[0], b[0])
    if (raw_bits(error) | beside(a) | beside(b) == 0) & (abs(high) < LIMIT):
        return high, 0.0, 0.0, 0, 0
    return wide_plus(a, b)


@compiled
def gather(a: Element, b: Element) -> Element:
    """One term of a sum of many elements, which `gathered` ends.

    One addition for each word waits for the term before, and nothing is normalized: a chain of
    `element_plus` would take several times as long. A term of one word that loses nothing, as whole
    numbers do not, leaves the smaller words alone.
    """
    high, error = two_sum(a[0], b[0])
    if (raw_bits(error) | beside(b) | a[3] | a[4] == 0) & (abs(high) < LIMIT):
        return high, a[1], a[2], 0, 0
    second, residual = two_sum(b[1], error)
    middle, last = two_sum(a[1], second)
    if (a[3] | a[4] | b[3] | b[4] == 0) & (abs(high) < LIMIT):
        return high, middle, a[2] + (b[2] + (residual + last)), 0, 0
    return any_plus(a, b)


@compiled
def plainly_gathered(a: Element, value: float) -> Element:
    """a + value where `gathering_loss` is zero; numbers near LIMIT are for `beyond_limit`."""
    return a[0] + value, a[1], a[2], a[3], a[4]


@compiled
def gathering_loss(a: Element, value: float) -> int:
    """Zero where one addition of first words loses nothing, and is finite."""
    return raw_bits(two_sum(a[0], value)[1])


@compiled
def beyond_limit(a: Element) -> int:
    """Zero for a sum that may be gathered on."""
    return 0 if abs(a[0]) < LIMIT else 1


@compiled
def gathered(a: Element) -> Element:
    """The sum of all that was gathered."""
    if raw_bits(a[1]) | raw_bits(a[2]) == 0:
        return a
    high, middle, low = renormalized(a[0], a[1], a[2])
    return high, middle, low, a[3], a[4]


@compiled
def element_minus(a: Element, b: Element) -> Element:
    """a - b"""
    high, error = two_sum(a[0], -b[0])
    if (raw_bits(error) | beside(a) | beside(b) == 0) & (abs(high) < LIMIT):
        return high, 0.0, 0.0, 0, 0
    return (
        wide_plus(a, (-b[0], -b[1], -b[2], 0, 0)) if b[3] | b[4] == 0 else any_plus(a, negated(b))
    )


@compiled
def wide_times(a: Element, times: int) -> Element:
    """times * a where a has more than one word."""
    if times == 1:
        return a
    by = float(times)
    high = a[0] * by
    middle = a[1] * by
    second, residual = two_sum(product_error(a[0], by, high), middle)
    third = (residual + product_error(a[1], by, middle)) + a[2] * by
    high, middle, low = renormalized(high, second, third)
    is_exact = (times >= -_EXACT_LIMIT) & (times <= _EXACT_LIMIT)
    if (a[3] | a[4] == 0) & (abs(high) < LIMIT) & is_exact:
        return high, middle, low, 0, 0
    return odd_times(a[0], a[1], a[2], a[3], a[4], times)


@compiled
def element_times(a: Element, times: int) -> Element:
    """times * a: the element as often as there are rows."""
    by = float(times)
    high = a[0] * by
    middle = product_error(a[0], by, high)
    is_exact = (times >= -_EXACT_LIMIT) & (times <= _EXACT_LIMIT) & (abs(high) < LIMIT)
    if (beside(a) == 0) & is_exact:
        return high, middle, 0.0, 0, 0
    return wide_times(a, times)


@compiled
def element_product(a: Element, b: Element) -> Element:
    """a * b, which both must be finite; its relative error is at most 2**-150."""
    high = a[0] * b[0]
    error = product_error(a[0], b[0], high)
    if (beside(a) | beside(b) == 0) & (abs(high) < LIMIT):
        return high, error, 0.0, 0, 0
    if not ((a[3] | a[4] | b[3] | b[4] == 0) & (abs(high) < LIMIT)):
        refuse_product()
    right = a[0] * b[1]
    left = a[1] * b[0]
    second, residual = two_sum(right, left)
    second, last = two_sum(second, error)
    third = product_error(a[0], b[1], right) + product_error(a[1], b[0], left)
    third += (a[0] * b[2] + a[2] * b[0]) + a[1] * b[1]
    high, middle, low = renormalized(high, second, third + (residual + last))
    return high, middle, low, 0, 0


@compiled
def is_some(a: Element) -> bool:
    """Whether an element is not zero."""
    return (a[0] != 0.0) | (a[3] | a[4] != 0)


@compiled
def element_value(a: Element) -> float:
    """The sum as a value, rounded once."""
    if beside(a) == 0:
        return a[0] + 0.0
    if a[3] | a[4] == 0:
        return nearest(a[0], a[1], a[2])
    return odd_value(a[0], a[1], a[2], a[3], a[4])


@outlined
def close_value(high: float, middle: float, low: float, infinities: int, beyond: int) -> float:
    """The value of what was gathered, normalized first."""
    return element_value(gathered((high, middle, low, infinities, beyond)))


@compiled
def gathered_value(a: Element) -> float:
    """element_value(gathered(a)), with a third of the additions in all but rare cases.

    residual = RN(error + low) may lose bits, so that total + residual seems to lie in the middle
    between two doubles where the sum does not. Elsewhere RN(total + residual) is the nearest
    double: rounding is monotone, and no such middle is passed on the way. All of this is so while
    each word is small beside the one before, which it may not be after a cancellation.
    """
    if beside(a) == 0:
        return a[0] + 0.0
    total = a[0] + a[1]
    residual = (a[1] - (total - a[0])) + a[2]
    value = total + residual
    remainder = residual - (value - total)
    twice = 2.0 * remainder
    is_sure = (remainder == 0.0) | ((value + twice) - value != twice)
    is_ordered = (abs(a[1]) <= abs(a[0])) & (abs(residual) <= abs(total) * _SMALL)
    if (a[3] | a[4] == 0) & (abs(a[0]) < LIMIT) & is_ordered & is_sure:
        return value
    return close_value(a[0], a[1], a[2], a[3], a[4])


# Elements in memory.


@compiled
def load_element(at: int, word: int) -> Element:
    """A sum from memory."""
    return load_lower(load_float(at, word), at, word + 1)


@compiled
def load_lower(high: float, at: int, word: int) -> Element:
    """A sum whose first word is known, the others from memory."""
    return (
        high,
        load_float(at, word),
        load_float(at, word + 1),
        load(at, word + 2),
        load(at, word + 3),
    )


@compiled
def store_lower(at: int, word: int, a: Element) -> None:
    """All words but the first to memory."""
    store_float(at, word, a[1])
    store_float(at, word + 1, a[2])
    store(at, word + 2, a[3])
    store(at, word + 3, a[4])


@compiled
def store_element(at: int, word: int, a: Element) -> None:
    """A sum to memory."""
    store_float(at, word, a[0])
    store_lower(at, word + 1, a)
