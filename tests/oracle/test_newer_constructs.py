"""Random queries of newer_constructs: viewlet equals DuckDB after every batch."""

from __future__ import annotations

from random import Random

import pytest
from tests.oracle.harness import run_case
from tests.oracle.newer_constructs import NewerGenerator

from viewlet.errors import UnsupportedError

ONCE_WRONG = (1, 2, 12, 28, 43, 110, 150, 244)
"""Seeds that found a wrong answer or an internal error."""


def check(seed: int, engine: str) -> None:
    generator = NewerGenerator(Random(seed), Random(seed), recent_percent=100, newer_percent=100)
    try:
        run_case(generator.case(7), engine)
    except UnsupportedError:
        return


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_seeds_that_failed(seed: int) -> None:
    check(seed, "interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1200, 50))
def test_interpreter(start: int) -> None:
    for seed in range(start, start + 50):
        check(seed, "interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(2000, 2040, 10))
def test_native_code(start: int) -> None:
    for seed in range(start, start + 10):
        check(seed, "local")
