"""What is translated of Python means what Python means by it; the rest is refused, with its place.

Every function here runs twice on the same numbers: as machine code, and as Python has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewlet.native.compiled import Compiled, compiled
from viewlet.native.instructions import Untranslatable
from viewlet.storage.memory import load, store

pytestmark = pytest.mark.skipif(
    not isinstance(compiled(abs), Compiled), reason="native code is off"
)

LARGE = 1 << 40
LARGE_LATER = 7
HALF = 0.5


@compiled
def whole(a: int, b: int) -> tuple[int, int, int, int, int, int, int]:
    return a + b, a - b, a * 3 - b, a & b, a | b, a ^ b, ~a


@compiled
def shifted(a: int, b: int) -> tuple[int, int, int, int]:
    return a >> 3, (a & 255) << 5, -a, abs(a) + LARGE


@compiled
def divided(a: int, b: int) -> tuple[int, int, int, int, int, int]:
    return a // 7, a % 7, a // 8, a % 8, a // -3, a % -3


@compiled
def divided_by(a: int, b: int) -> tuple[int, int]:
    if b == 0:
        return 0, 0
    return a // b, a % b


@compiled
def compared(a: int, b: int) -> tuple[bool, bool, bool, bool, bool, bool, bool]:
    return a == b, a != b, a < b, a <= b, a > b, a >= b, 0 <= a < b


@compiled
def chosen(a: int, b: int) -> tuple[int, int, int, int]:
    smaller = a if a < b else b
    sign = 1 if a > 0 else (-1 if a < 0 else 0)
    return smaller, sign, min(a, b, 5), max(a, b, -5)


@compiled
def branched(a: int, b: int) -> int:
    found = 0
    if a > b and a > 0:
        found += 1
    if a < 0 or b < 0:
        found += 2
    if not a:
        found += 4
    elif b:
        found += 8
    else:
        found += 16
    same = True
    same &= a == b
    return found + 32 * same


@compiled
def counted(a: int, b: int) -> tuple[int, int, int]:
    total = 0
    for i in range(a & 15):
        if i == b & 7:
            continue
        if i > 12:
            break
        total += i
    down = 0
    for i in range(a & 15, -(b & 15), -2):
        down = down * 3 + i
    turns = 0
    while True:
        turns += 1
        if turns * turns > a & 255:
            return total, down, turns


@compiled
def empty_range(a: int, b: int) -> int:
    """A loop may be passed by, and its variable stays what it was."""
    i = 99
    for i in range(5, 5):  # noqa: B007
        store(0, 0, 0)
    return i


def plain_key_sum(key: tuple[int, ...]) -> int:
    if len(key) == 1:
        return key[0]
    total = len(key)
    for i in range(len(key)):
        total = total * 31 + key[i]
    for word in key:
        total ^= word
    return total


key_sum = compiled(plain_key_sum)


@compiled
def specialized(a: int, b: int) -> tuple[int, int, int]:
    first, _ = a, b
    return key_sum((a,)), key_sum((a & 1023, b & 1023)), key_sum((first & 7, 2, b & 7))


@compiled
def greatest_common(a: int, b: int) -> int:
    while b != 0:
        a, b = b, a % b
    return a


@compiled
def early(a: int, b: int) -> int:
    for word in (a, b, 3):
        if word > 10:
            return word
    return -1


BY_TWO: list[Callable[[int, int], Any]] = [
    whole,
    shifted,
    divided,
    divided_by,
    compared,
    chosen,
    branched,
    counted,
    empty_range,
    greatest_common,
    early,
]

RNG = np.random.default_rng(7)
WHOLE: list[tuple[int, int]] = [
    *((a, b) for a in range(-9, 20, 3) for b in range(-8, 20, 3)),
    *zip(*RNG.integers(-(2**40), 2**40, (2, 100)).tolist(), strict=True),
    *zip(*RNG.integers(-20, 20, (2, 100)).tolist(), strict=True),
]


@pytest.mark.parametrize("function", BY_TWO, ids=lambda f: f.__name__)
def test_whole_numbers(function: Any) -> None:
    for a, b in WHOLE:
        assert function(a, b) == function.py_func(a, b), (a, b)


def test_tuples_of_every_length_have_code_of_their_own() -> None:
    for a, b in WHOLE:
        keys = [(a,), (a & 1023, b & 1023), (a & 7, 2, b & 7)]
        assert specialized(a, b) == tuple(plain_key_sum(key) for key in keys)


@compiled
def real(a: float, b: float) -> tuple[float, float, float, float, float, float]:
    quotient = a / b if b != 0 else HALF
    return a + b, a - b, a * b, quotient, -a, abs(b)


@compiled
def real_order(a: float, b: float) -> tuple[bool, bool, bool, bool, float, float]:
    return a == b, a != b, a < b, a >= b, min(a, b), max(a, b)


@compiled
def mixed(a: float, b: float) -> tuple[float, float, bool, int]:
    kept = 1 if a > 0 else 0.25
    return kept, a + 3, b > 2, 1 if math.isfinite(a) else 0


@compiled
def functions(a: float, b: float) -> tuple[float, float, float, float]:
    if not math.isfinite(a) or not math.isfinite(b) or abs(a) > 1e6:
        return 0.0, 0.0, 0.0, 0.0
    half = math.floor(a * 2.0) / 2.0
    return half, float(math.ceil(a)), math.copysign(a, b), math.sqrt(abs(a))


@compiled
def rounded(a: float, b: float) -> tuple[int, int]:
    if not math.isfinite(a) or abs(a) > 1e15:
        return 0, 0
    return round(a), int(a)


BY_REAL: list[Callable[[float, float], Any]] = [real, real_order, mixed, functions, rounded]


SPECIAL = [0.0, -0.0, 0.5, 1.5, -2.5, 2.0, 1e15, 1e300, -1e-300, math.inf, -math.inf, math.nan]
REAL: list[tuple[float, float]] = [
    *((a, b) for a in SPECIAL for b in SPECIAL),
    *zip(*(RNG.standard_normal((2, 200)) * 100).tolist(), strict=True),
]


@pytest.mark.parametrize("function", BY_REAL, ids=lambda f: f.__name__)
def test_floats(function: Any) -> None:
    for a, b in REAL:
        np.testing.assert_array_equal(
            np.array(function(a, b), float), np.array(function.py_func(a, b), float), str((a, b))
        )


@compiled
def powers(a: float, b: int) -> float:
    return a**b


def test_powers() -> None:
    assert powers(10.0, 3) == 1000.0 and powers(10.0, -2) == 0.01


@compiled
def remainder(a: int, b: int) -> int:
    return a // b + a % b


def test_the_smallest_number_over_minus_one_does_not_stop_the_process() -> None:
    assert remainder(-(2**63), -1) == -(2**63)
    with pytest.raises(ZeroDivisionError):
        remainder(1, 0)


@compiled
def too_large(a: float, b: float) -> int:
    return int(a * b)


def test_floats_beyond_all_integers_become_the_nearest() -> None:
    assert too_large(1e300, 1.0) == 2**63 - 1
    assert too_large(1e300, -1.0) == -(2**63)


@compiled
def only_where_asked(address: int, index: int) -> int:
    return load(address, 0) if address != 0 and load(address, 0) > 0 else index


def test_what_is_not_asked_for_is_not_looked_at() -> None:
    words = np.array([7])
    assert only_where_asked(0, 3) == 3
    assert only_where_asked(words.ctypes.data, 3) == 7


@compiled
def around(a: int) -> int:
    return around(a - 1) if a > 0 else 0


@compiled
def text(a: int) -> int:
    return a + len("x")


@compiled
def narrowing(a: int) -> int:
    found = a
    if a > 0:
        found = 0.5
    return found


@compiled
def kinds_apart(a: int) -> int:
    found = (a, a) if a > 0 else a
    return found[0]


@compiled
def unknown_part(a: int) -> int:
    return (1, 2)[a]


@compiled
def of_numbers(a: int) -> int:
    return a and 3


@compiled
def elsewhere(a: int) -> int:
    return math.gcd(a, 3)


@compiled
def attempts(a: int) -> int:
    try:
        return a
    finally:
        store(0, 0, 0)


@compiled
def ends_well(a: int) -> int:
    for i in range(a):
        if i > 3:
            break
    else:
        a = 0
    return a


@compiled
def by_name(a: int) -> int:
    return early(a, b=3)


@compiled
def too_soon(a: int) -> int:
    while a > 0:
        a -= LARGE_LATER  # noqa: F823
        LARGE_LATER = 2  # noqa: F841
    return a


@compiled
def after_the_loop(a: int) -> int:
    for word in (a, 2):
        a += word
    return word


@compiled
def too_wide(a: int) -> int:
    return a + 2**64


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (around, "around calls itself"),
        (text, "'x', which is no number"),
        (narrowing, "float where int is expected"),
        (kinds_apart, "int"),
        (unknown_part, "only known parts of tuples"),
        (of_numbers, "a, which is no truth"),
        (elsewhere, "a call of 'gcd'"),
        (attempts, "try:"),
        (ends_well, "else behind a loop"),
        (by_name, "arguments by name"),
        (too_soon, "LARGE_LATER where it has no value"),
        (after_the_loop, "word where it has no value"),
        (too_wide, "64 bits"),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_what_is_not_translated_is_refused(function: Any, message: str) -> None:
    line = function.py_func.__code__.co_firstlineno
    with pytest.raises(Untranslatable, match=message) as caught:
        function(1)
    assert Path(__file__).name in str(caught.value)
    numbers = [int(part.split(",")[0]) for part in str(caught.value).split("line ")[1:]]
    assert all(line <= number <= line + 5 for number in numbers)
