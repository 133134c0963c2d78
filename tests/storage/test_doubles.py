"""Sums of DOUBLE: exact numbers, infinities and NaNs that come and go, and the stated bound."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from viewlet.errors import RangeError
from viewlet.native.compiled import compiled
from viewlet.storage.doubles import (
    Element,
    element_minus,
    element_of,
    element_plus,
    element_product,
    element_times,
    element_value,
    gather,
    gathered,
    gathered_value,
)
from viewlet.storage.element_arrays import number_in, values_of, words_of_number
from viewlet.storage.memory import float_bits

ZERO: Element = (0.0, 0.0, 0.0, 0, 0)


@compiled
def added(
    a: float, b: float, c: float, d: int, e: int, value: float, times: int
) -> tuple[float, float, float, int, int]:
    return element_plus((a, b, c, d, e), element_of(value, times))


@compiled
def repeated(
    a: float, b: float, c: float, d: int, e: int, times: int
) -> tuple[float, float, float, int, int]:
    return element_times((a, b, c, d, e), times)


@compiled
def multiplied(
    a: float, b: float, c: float, d: int, e: int, value: float
) -> tuple[float, float, float, int, int]:
    return element_product((a, b, c, d, e), element_of(value, 1))


@compiled
def without(
    a: float, b: float, c: float, d: int, e: int, value: float
) -> tuple[float, float, float, int, int]:
    return element_minus((a, b, c, d, e), element_of(value, 1))


@compiled
def value_of(a: float, b: float, c: float, d: int, e: int) -> float:
    return element_value((a, b, c, d, e))


def total(terms: Iterable[tuple[float, int]]) -> Element:
    element = ZERO
    for value, times in terms:
        element = added(*element, value, times)
    return element


def words(element: Element) -> np.ndarray:
    numbers = [float_bits(part) for part in element[:3]]
    return np.array([*numbers, *element[3:]], np.int64)


def number(element: Element) -> Fraction:
    return number_in(words(element))[0]


@pytest.mark.parametrize("magnitude", [3, 15, 40, 100, 300])
def test_sums_keep_the_stated_bound(magnitude: int) -> None:
    rng = random.Random(magnitude)
    for _ in range(40):
        element, exact, largest = ZERO, Fraction(0), Fraction(0)
        there: list[float] = []
        for n in range(1, 80):
            if there and rng.random() < 0.45:
                value = -there.pop(rng.randrange(len(there)))
            else:
                value = rng.uniform(-1, 1) * 10.0 ** rng.uniform(-magnitude, magnitude)
                there.append(value)
            element = added(*element, value, 1)
            exact += Fraction(value)
            largest = max(largest, abs(exact), abs(Fraction(value)))
            assert abs(number(element) - exact) <= n * largest / 2**154
            assert (element[0] == 0.0) == (number(element) == 0)
            assert (
                value_of(*element) == float(number(element)) == values_of(words(element)[None])[0]
            )


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_and_goes_leaves_nothing_behind(seed: int) -> None:
    """Values from 1e-15 to 1e15 in any order: each partial sum is exact, and the last is 0."""
    rng = random.Random(seed)
    terms = [
        (rng.uniform(-1, 1) * 10.0 ** rng.uniform(-14, 15), rng.choice((1, 1, 2, 7)))
        for _ in range(200)
    ]
    changes = [*terms, *((value, -times) for value, times in terms)]
    rng.shuffle(changes)
    element, exact = ZERO, Fraction(0)
    for value, times in changes:
        element = added(*element, value, times)
        exact += Fraction(value) * times
        assert number(element) == exact
    assert element == ZERO


def test_small_values_outlive_large_ones() -> None:
    """2.5 beside 1e17 and 1e300 that are deleted."""
    assert value_of(*total([(2.5, 1), (1e17, 1), (1e300, 1), (1e300, -1), (1e17, -1)])) == 2.5
    assert total([(0.1, 1), (1e17, 3), (1e17, -3), (0.1, -1)]) == ZERO


def test_sums_beyond_the_largest_double_come_back() -> None:
    huge = total([(1e308, 1), (1e308, 1), (1.5, 1)])
    assert value_of(*huge) == math.inf
    assert value_of(*added(*huge, 1e308, -1)) == 1e308
    assert added(*added(*huge, 1e308, -2), 1.5, -1) == ZERO
    assert value_of(*total([(1e308, 3), (-1e308, 2)])) == 1e308
    largest = 1.7976931348623157e308
    assert total([(largest, 2**20), (largest, -(2**20))]) == ZERO
    assert value_of(*total([(-largest, 1)])) == -largest


@pytest.mark.parametrize(
    ("terms", "value"),
    [
        ([(1.0, 1), (2.5, 1), (math.inf, 1)], math.inf),
        ([(1.0, 1), (-math.inf, 2)], -math.inf),
        ([(math.inf, 1), (-math.inf, 1)], math.nan),
        ([(math.inf, 1), (math.nan, 1)], math.nan),
        ([(1.0, 1), (2.5, 1), (math.inf, 2), (math.inf, -2)], 3.5),
        ([(1.0, 1), (math.nan, 1), (math.inf, 1), (math.nan, -1)], math.inf),
        ([(5e-324, 1), (1e-300, 1), (1e-300, -1)], 5e-324),
    ],
)
def test_infinities_and_nans_are_counted(terms: list[tuple[float, int]], value: float) -> None:
    element = total(terms)
    assert repr(value_of(*element)) == repr(value)
    assert repr(float(values_of(words(element)[None])[0])) == repr(value)
    assert total([*terms, *((v, -times) for v, times in terms)]) == ZERO


def test_a_tie_is_decided_by_what_is_small() -> None:
    half = 2.0**-53
    for small, value in ((2.0**-150, 1.0 + 2.0**-52), (-(2.0**-150), 1.0), (0.0, 1.0)):
        element = total([(1.0, 1), (half, 1), (small, 1)])
        assert value_of(*element) == value == values_of(words(element)[None])[0]


def test_as_often_as_there_are_rows() -> None:
    finite = total([(0.1, 1), (1e20, 1)])
    odd = total([(0.1, 1), (1e20, 1), (math.inf, 2), (math.nan, 1)])
    for times in (1, -1, 3, -7, 1000):
        expected = (number(odd) * times, 2 * times, 0, times)
        assert number_in(words(repeated(*odd, times))) == expected
        assert number(repeated(*finite, times)) == number(finite) * times
    assert number(repeated(*finite, 2**60)) == number(finite) * 2**60
    assert number(total([(0.1, 2**60 + 1)])) == Fraction(0.1) * (2**60 + 1)
    assert without(*total([(0.1, 1), (math.inf, 1)]), math.inf) == total([(0.1, 1)])


def test_counts_that_leave_their_bits_are_refused() -> None:
    most = total([(math.inf, 2**31 - 1)])
    with pytest.raises(RangeError, match="32 bits"):
        added(*most, math.inf, 1)
    with pytest.raises(RangeError, match="32 bits"):
        total([(math.nan, -(2**31) - 1)])


def test_products_are_of_finite_sums() -> None:
    rng = random.Random(2)
    for _ in range(100):
        element = total([(rng.uniform(-1, 1) * 10.0 ** rng.randint(-9, 9), 1) for _ in range(9)])
        exact = number(element) * Fraction(0.1)
        assert abs(number(multiplied(*element, 0.1)) - exact) <= abs(exact) / 2**150
    for terms, value in (([(math.inf, 1)], 0.0), ([(1.0, 1)], math.nan), ([(1e300, 1)], 1e300)):
        with pytest.raises(RangeError, match="product of DOUBLEs from two tables"):
            multiplied(*total(terms), value)


def test_exact_numbers_come_back_from_words() -> None:
    rng = random.Random(4)
    for _ in range(100):
        exact = Fraction(rng.randrange(-(10**40), 10**40)) * Fraction(2) ** rng.randint(-300, 900)
        found = np.array(words_of_number(exact, 1, -2, 3), np.int64)
        assert number_in(found) == (exact, 1, -2, 3)


@compiled
def gathered_next(
    a: float, b: float, c: float, d: int, e: int, f: float, g: float, h: float, i: int, j: int
) -> tuple[float, float, float, int, int]:
    return gather((a, b, c, d, e), (f, g, h, i, j))


@compiled
def quick_value(a: float, b: float, c: float, d: int, e: int) -> float:
    return gathered_value((a, b, c, d, e))


@compiled
def slow_value(a: float, b: float, c: float, d: int, e: int) -> float:
    return element_value(gathered((a, b, c, d, e)))


HALF = 2.0**-53
GATHERED: dict[str, list[float]] = {
    "whole numbers": [3.0, 5.0, -8.0, 2.0**53, 1.0, -(2.0**53)],
    "cents": [0.1, 0.2, 0.07, -0.37, 19.99, 1e15 + 0.3],
    "ties": [1.0, HALF, 2.0**-120, HALF * 2, -(2.0**-121), -HALF, -(2.0**-110), HALF / 2],
    "ties below a power of two": [2.0, -HALF, -(2.0**-115), HALF, HALF, -(2.0**-54)],
    "cancelling": [1e300, 1e-5, -1e300, 2.5, -1e-5, 1e17, -1e17],
    "huge": [1.7e308, 1.7e308, 1e300, -1.7e308, -1.7e308, 1.7e308],
    "not finite": [1.0, math.inf, 0.1, -math.inf, math.nan, 1e308],
}


@pytest.mark.parametrize("kind", GATHERED)
def test_what_is_gathered_is_the_nearest_double_at_every_step(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(300):
        total, terms = ZERO, []
        for _ in range(rng.randrange(1, 12)):
            terms.append(rng.choice(GATHERED[kind]))
            total = gathered_next(*total, *element_of(terms[-1], 1))
            value = quick_value(*total)
            assert repr(value) == repr(slow_value(*total)), terms
            if kind != "not finite":
                assert value == rounded_sum(terms), terms


def rounded_sum(terms: list[float]) -> float:
    exact = sum(map(Fraction, terms), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def test_subtrees_are_gathered_within_the_stated_bound() -> None:
    rng = random.Random(7)
    for _ in range(200):
        total, exact, largest = ZERO, Fraction(0), Fraction(0)
        for _ in range(40):
            values = [rng.choice((1.0, rng.random(), rng.random() * 1e12)) for _ in range(16)]
            number = sum(map(Fraction, values), Fraction(0)) * rng.choice((1, -1))
            words = np.array(words_of_number(number), np.int64)
            high, middle, low = words[:3].view(np.float64).tolist()
            total = gathered_next(*total, high, middle, low, 0, 0)
            exact += number
            largest = max(largest, abs(exact), abs(number))
        assert abs(sum(map(Fraction, total[:3])) - exact) <= 40 * largest / 2**154


def test_the_value_of_words_that_cancel() -> None:
    rng = random.Random(3)
    for _ in range(20_000):
        high = rng.choice((1.0, 3.0, rng.random()))
        middle = rng.choice((-high, -high * (1 - HALF), HALF, -HALF, rng.random() * HALF))
        low = rng.choice((0.0, 1.0, -1.0, rng.random())) * 2.0 ** -rng.choice((53, 60, 106, 120))
        words = high, middle, low
        assert quick_value(*words, 0, 0) == float(sum(map(Fraction, words))), words
