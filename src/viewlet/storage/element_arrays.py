"""Elements of storage.doubles outside of kernels: many at once as values, and exact numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from viewlet.storage.doubles import LIMIT, counts_of, lower_count, odd_value, upper_count
from viewlet.storage.memory import float_bits

Array = np.ndarray[Any, np.dtype[Any]]


def values_of(elements: Array) -> Array:
    """`element_value` for each row of words."""
    numbers = np.ascontiguousarray(elements).view(np.float64)
    high, middle, low = numbers[:, 0], numbers[:, 1], numbers[:, 2]
    values = high + middle
    residual = middle - (values - high)
    other = values + 2.0 * residual
    farther = (np.sign(residual) == np.sign(low)) & (other - values == 2.0 * residual)
    values = np.where(farther & (low != 0.0), other, values)
    for row in np.flatnonzero((elements[:, 3] | elements[:, 4]) != 0).tolist():
        counts = int(elements[row, 3]), int(elements[row, 4])
        parts = float(high[row]), float(middle[row]), float(low[row])
        values[row] = odd_value(*parts, *counts)
    return values


def words_of_number(
    number: Fraction, above: int = 0, below: int = 0, nans: int = 0
) -> tuple[int, ...]:
    """The words of an element for an exact number and the counts beside it."""
    limit = int(LIMIT)
    carried = int(number / limit)
    number -= carried * limit
    words = []
    for _ in range(3):
        part = float(number)
        words.append(float_bits(part))
        number -= Fraction(part)
    return (*words, counts_of(above, below), counts_of(nans, carried))


def number_in(words: Array) -> tuple[Fraction, int, int, int]:
    """The inverse: the exact number of an element, and how many inf, -inf and NaN it has."""
    infinities, beyond = int(words[3]), int(words[4])
    parts = np.ascontiguousarray(words[:3]).view(np.float64).tolist()
    number = sum(map(Fraction, parts), Fraction(lower_count(beyond) * int(LIMIT)))
    return number, upper_count(infinities), lower_count(infinities), upper_count(beyond)
