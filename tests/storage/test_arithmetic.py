"""Checked integers, and hashes of words."""

from __future__ import annotations

from itertools import pairwise

import pytest

from viewlet.native.compiled import compiled
from viewlet.storage.arithmetic import minus, plus, times, weighed
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
def native_weighed(a: int, b: int) -> int:
    return weighed(a, b)


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
        (native_weighed, weighed, LEAST, -1),
        (native_weighed, weighed, 1, LEAST),
        (native_weighed, weighed, 2**32, 2**31),
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
    assert native_weighed(-1, GREATEST) == -GREATEST


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
