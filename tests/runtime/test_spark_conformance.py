"""The cases of the compiler on Spark: equal to DuckDB after every batch, for 1 to 5 partitions."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from tests.oracle.generate import Generator
from tests.oracle.harness import REGRESSIONS, Case, run_with
from tests.oracle.test_named import QUERIES, replay

import viewlet
from viewlet.errors import UnsupportedError

pytestmark = pytest.mark.spark

CASES = sorted(REGRESSIONS.glob("*.json"))
PARTITIONS = (1, 2, 5)


def run(case: Case, spark: Any, partitions: int) -> None:
    run_with(case, lambda: viewlet.connect("spark", spark=spark, partitions=partitions))


@pytest.mark.parametrize("path", CASES[:2], ids=lambda path: path.stem)
def test_a_sample(spark: Any, path: Path) -> None:
    run(Case.load(path), spark, 5)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_regressions(spark: Any, path: Path, partitions: int) -> None:
    run(Case.load(path), spark, partitions)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_named(spark: Any, workload: str, query: str, partitions: int) -> None:
    with viewlet.connect("spark", spark=spark, partitions=partitions) as database:
        replay(workload, query, 40, database)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("size", [1, 20])
def test_random(spark: Any, size: int, partitions: int) -> None:
    done = 0
    for seed in range(10):
        case = Generator(Random(f"{size}-{seed}"), Random(seed)).case(size)
        case.batches = case.batches[:6]
        try:
            run(case, spark, partitions)
            done += 1
        except (duckdb.Error, UnsupportedError):
            continue
    assert done >= 7, "the generator has left what both systems can do"
