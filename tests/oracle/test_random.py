"""Random queries over random schemas and change streams: viewlet equals DuckDB after every batch.

A failure prints its case, shrunk; `Case.save` puts it under regressions/, where it stays.
"""

from __future__ import annotations

from random import Random

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from tests.oracle.engines import ENGINES
from tests.oracle.generate import BATCH_SIZES, Generator
from tests.oracle.harness import (
    Case,
    Mismatch,
    new_database,
    run_case,
    run_with,
    shrink,
    time_limit,
)

from viewlet.errors import UnsupportedError

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


def _mismatches(case: Case, engine: str) -> bool:
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


def test_constant_columns_in_set_operations() -> None:
    """Assignments of constants meet those of a nested body, and compilation comes to an end."""
    tables = ["CREATE TABLE r (a INT NOT NULL)", "CREATE TABLE s (a INT NOT NULL)"]
    select = "SELECT 1 AS x, 2 AS y FROM r EXCEPT SELECT 3 AS x, 2 AS y FROM s"
    with time_limit(20):
        run_with(Case(tables, select), lambda: new_database("interpreter"))


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
