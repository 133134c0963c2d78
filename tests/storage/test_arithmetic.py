"""Checked integers and pairs of doubles."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import pytest

from viewlet.native.compiled import compiled
from viewlet.storage.arithmetic import (
    gather,
    gathered,
    minus,
    pair_of,
    pair_plus,
    pair_times,
    plus,
    rounded,
    settle,
    times,
)
from viewlet.storage.memory import float_bits, mix, spread

LEAST, GREATEST = -(2**63), 2**63 - 1


@compiled
def native_plus(a: int, b: int) -> int:
    return plus(a, b)


@compiled
def native_minus(a: int, b: int) -> int:
    return minus(a, b)


@compiled
def native_times(a: int, b: int) -> int:
    return times(a, b)


@compiled
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


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_dense_keys_make_short_runs(bits: int) -> None:
    """A search for a key that is not there passes through four blocks of 32 keys at most."""
    slots = 1 << bits
    for full in (slots // 2, slots * 7 // 10):
        taken = {spread(key) & (slots - 1) for key in range(1, full + 1)}
        gaps = sorted(set(range(slots)) - taken)
        runs = [after - gap - 1 for gap, after in pairwise([*gaps, gaps[0] + slots])]
        assert max(runs) <= 4 * 32


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
        high, low = settle(high, low, value, 0.0, abs(value))
    rng.shuffle(values)
    for value in values:
        high, low = settle(high, low, -value, 0.0, abs(value))
    assert abs(high) <= 2000 * 1e9 * 2.0**-102


def test_what_is_gathered_is_as_exact_as_a_chain_of_pairs() -> None:
    rng = random.Random(6)
    for _ in range(200):
        pairs = [
            pair_times(rng.uniform(-1, 1) * 10.0 ** rng.randrange(12), 0.0, rng.random(), 0.0)
            for _ in range(rng.randrange(1, 40))
        ]
        high = low = 0.0
        for by, by_low in pairs:
            high, low = gather(high, low, by, by_low)
        exact = sum((Fraction(by) + Fraction(by_low) for by, by_low in pairs), Fraction(0))
        most = sum((abs(Fraction(by)) for by, _ in pairs), Fraction(0))
        total, rest = gathered(high, low)
        assert abs(Fraction(total) + Fraction(rest) - exact) <= len(pairs) * most / 2**102
        assert rounded(high, low) == total
        assert total + rest == total


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_stays_so(odd: float) -> None:
    high = low = 0.0
    for by in (1.0, odd, 2.0):
        high, low = gather(high, low, by, 0.0)
    assert repr(gathered(high, low)) == repr((odd, 0.0))
    assert repr(rounded(high, low)) == repr(odd)


def test_a_residue_counts_against_the_largest_term() -> None:
    """1 and 1e20 - 1e20, added up first, leave what is zero beside 1e20 * 2**-80 only."""
    assert settle(-1e-5, 0.0, 1e-5 + 1e-9, 0.0, 1e20) == (0.0, 0.0)
    assert settle(-1e-5, 0.0, 1e-5 + 1e-9, 0.0, 1e-5)[0] != 0.0
