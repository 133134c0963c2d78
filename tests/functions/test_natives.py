"""Native functions mean what the records say; here as Python, which is what is compiled."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from viewlet.errors import RangeError
from viewlet.functions import DAY, FUNCTIONS, NATIVES

RNG = random.Random(7)
DAYS = [
    0,
    -1,
    59,
    60,
    789,
    -719_000,
    2_000_000,
    *(RNG.randrange(-50_000, 80_000) for _ in range(80)),
]
MOMENTS = [d * DAY + RNG.randrange(DAY) for d in DAYS]
LEAST, GREATEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NATIVES
        if name.startswith(("date_", "timestamp_")) and name != "timestamp_bin"
    ],
)
def test_dates(name: str) -> None:
    record = FUNCTIONS[name]
    values = DAYS if name.startswith("date_") and name != "date_of_timestamp" else MOMENTS
    for value in values:
        first = value // DAY if name == "timestamp_of_date" else value
        for second in (-25, -12, -1, 0, 1, 11, 12, 30, 1000) if record.fewest == 2 else (None,):
            if name == "timestamp_round" and second is not None:
                second = abs(second) + 1
            arguments = (first,) if second is None else (first, second)
            assert outcome(NATIVES[name], arguments) == outcome(record.call, arguments)


def outcome(function: Callable[..., Any], arguments: tuple[int, ...]) -> object:
    """A value, or that it is out of range."""
    try:
        return function(*arguments)
    except RangeError:
        return RangeError


@pytest.mark.parametrize(
    ("native", "function"),
    [
        ("divide_whole", "div"),
        ("modulo", "mod"),
        ("rescale", "rescale"),
        ("decimal_floor", "decimal_floor"),
        ("decimal_ceil", "decimal_ceil"),
    ],
)
def test_whole_numbers(native: str, function: str) -> None:
    negative = (-1, -7) if native in ("divide_whole", "modulo") else ()
    for a in (LEAST, LEAST + 1, -1251, -1250, -50, -1, 0, 1, 49, 50, 1250, 10**15 + 1, GREATEST):
        for b in (1, 2, 7, 100, *negative):
            if (a, b, native) != (LEAST, -1, "divide_whole"):
                assert NATIVES[native](a, b) == FUNCTIONS[function].call(a, b), (a, b)


@pytest.mark.parametrize("name", ["divide_whole", "absolute"])
def test_the_least_number_has_no_opposite(name: str) -> None:
    arguments = (LEAST, -1) if name == "divide_whole" else (LEAST,)
    with pytest.raises(RangeError, match="64-bit"):
        NATIVES[name](*arguments)
