"""Checked integers and pairs of doubles."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from numba import njit

from viewlet.storage.arithmetic import minus, pair_of, pair_plus, pair_times, plus, settle, times
from viewlet.storage.memory import float_bits, mix, spread

LEAST, GREATEST = -(2**63), 2**63 - 1


@njit
def native_plus(a: int, b: int) -> int:
    return plus(a, b)


@njit
def native_minus(a: int, b: int) -> int:
    return minus(a, b)


@njit
def native_times(a: int, b: int) -> int:
    return times(a, b)


@njit
def native_hash(a: int, b: int, c: float) -> tuple[int, int, int]:
    return spread(a), mix(a, b), float_bits(c)


@pytest.mark.parametrize(
    ("native", "plain", "a", "b"),
    [
        (native_plus, plus, GREATEST, 1),
        (native_plus, plus, LEAST, -1),
        (native_minus, minus, LEAST, 1),
        (native_times, times, 2**32, 2**31),
        (native_times, times, LEAST, -1),
    ],
)
def test_overflow_is_an_error(native, plain, a, b) -> None:  # type: ignore[no-untyped-def]
    for function in (native, plain):
        with pytest.raises(OverflowError):
            function(a, b)


def test_limits_are_reached_without_error() -> None:
    assert native_plus(GREATEST - 1, 1) == GREATEST
    assert native_minus(LEAST + 1, 1) == LEAST
    assert native_times(2**31, 2**31) == 2**62
    assert native_times(LEAST, 1) == LEAST


@pytest.mark.parametrize("a", [0, 1, -1, 123456789012, GREATEST, LEAST])
def test_hashes_are_the_same_in_python(a: int) -> None:
    for b, c in ((7, -0.0), (-3, float("nan")), (2**60, 1.5)):
        assert native_hash(a, b, c) == (spread(a), mix(a, b), float_bits(c))


def test_spread_is_a_bijection_on_dense_keys() -> None:
    assert len({spread(key) & 0xFFFFF for key in range(2**20)}) == 2**20


def test_pairs_are_within_the_stated_error() -> None:
    rng = random.Random(3)
    for _ in range(500):
        a, b = (rng.uniform(-1, 1) * 10.0 ** rng.randint(-10, 10) for _ in range(2))
        exact_a, exact_b = Fraction(a), Fraction(b)
        for found, exact in (
            (pair_times(a, 0.0, b, 0.0), exact_a * exact_b),
            (pair_plus(a, 0.0, b, 0.0), exact_a + exact_b),
        ):
            error = abs(Fraction(found[0]) + Fraction(found[1]) - exact)
            assert error <= abs(exact) * Fraction(1, 2**102)


@pytest.mark.parametrize("value", [0, 1, -1, 2**53 + 1, GREATEST, LEAST])
def test_integers_become_pairs_without_loss(value: int) -> None:
    high, low = pair_of(value)
    assert Fraction(high) + Fraction(low) == value


def test_sums_come_back_to_zero() -> None:
    rng = random.Random(5)
    values = [rng.uniform(-1e6, 1e6) for _ in range(2000)]
    high, low = 0.0, 0.0
    for value in values:
        high, low = settle(high, low, value, 0.0)
    rng.shuffle(values)
    for value in values:
        high, low = settle(high, low, -value, 0.0)
    assert abs(high) <= 2000 * 1e9 * 2.0**-102
