"""Native scalar functions mean what viewlet.functions says."""

from __future__ import annotations

import random
from typing import Any

import pytest

from viewlet.functions import FUNCTIONS
from viewlet.kernels import natives

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
MOMENTS = [d * natives.DAY + RNG.randrange(natives.DAY) for d in DAYS]
SHARED = [name for name in FUNCTIONS if name.startswith(("date_", "timestamp_"))]
ONE = [name for name in SHARED if not name.endswith(("_months", "_text"))]


def plain(name: str) -> Any:
    """The Python body, so that nothing is compiled for a few calls."""
    function = getattr(natives, name)
    return getattr(function, "py_func", function)


@pytest.mark.parametrize("name", ONE)
def test_dates(name: str) -> None:
    for value in DAYS if name.startswith("date_") and name != "date_of_timestamp" else MOMENTS:
        argument = value // natives.DAY if name == "timestamp_of_date" else value
        assert plain(name)(argument) == FUNCTIONS[name].call(argument)


@pytest.mark.parametrize("months", [-25, -12, -1, 0, 1, 11, 12, 30])
def test_months(months: int) -> None:
    for days, moment in zip(DAYS, MOMENTS, strict=True):
        if abs(days) > 700_000:
            continue
        for name, value in (("date_add_months", days), ("timestamp_add_months", moment)):
            assert plain(name)(value, months) == FUNCTIONS[name].call(value, months)


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
    for a in (-1251, -1250, -50, -1, 0, 1, 49, 50, 1250, 10**15 + 1):
        for b in (1, 2, 7, 100):
            assert plain(native)(a, b) == FUNCTIONS[function].call(a, b)


@pytest.mark.parametrize("value", [-2.5, -1.5, -0.4, 0.0, 0.5, 1.5, 2.5, 1e15 + 0.5])
def test_rounding(value: float) -> None:
    assert plain("to_int")(value) == FUNCTIONS["to_int"].call(value)
    assert plain("floor")(value) == FUNCTIONS["floor"].call(value)
    assert plain("ceil")(value) == FUNCTIONS["ceil"].call(value)
    assert plain("round_half_away")(value, 1) == FUNCTIONS["round"].call(value, 1)
