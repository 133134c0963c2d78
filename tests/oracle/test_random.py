"""Random queries over random schemas and change streams: viewlet equals DuckDB after every batch.

A failure prints its case, shrunk; `Case.save` puts it under regressions/, where it stays.
"""

from __future__ import annotations

from random import Random

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from tests.oracle.generate import BATCH_SIZES, Generator
from tests.oracle.harness import Mismatch, run_case, shrink

from viewlet.errors import UnsupportedError

ENGINES = ("interpreter",)
"""Engines that must agree with DuckDB."""

CHECKS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def check(query: Random, seed: int, size: int, engine: str) -> None:
    case = Generator(query, Random(seed)).case(size)
    try:
        run_case(case, engine)
    except (duckdb.Error, UnsupportedError):
        # Outside of what one of the two can do; the generator stays inside almost always.
        reject()
    except Mismatch:
        small = shrink(case, lambda c: _mismatches(c, engine))
        raise Mismatch(f"{small!r}") from None


def _mismatches(case, engine: str) -> bool:  # type: ignore[no-untyped-def]
    try:
        run_case(case, engine)
    except Mismatch:
        return True
    except Exception:
        return False
    return False


QUERIES = st.randoms(use_true_random=False)
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", BATCH_SIZES)
def test_quick(engine: str, size: int) -> None:
    @settings(CHECKS, max_examples=25)
    @given(QUERIES, SEEDS)
    def run(query: Random, seed: int) -> None:
        check(query, seed, size, engine)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", BATCH_SIZES)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_many(engine: str, size: int, first: int) -> None:
    """Plain seeds: 200 queries for each batch size."""
    done = 0
    for seed in range(first, first + 20):
        generator = Generator(Random(f"{size}-{seed}"), Random(seed))
        case = generator.case(size)
        try:
            run_case(case, engine)
            done += 1
        except (duckdb.Error, UnsupportedError):
            continue
    assert done >= 15, "the generator has left what both systems can do"
