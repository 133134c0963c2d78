"""The cases of the compiler on Spark: equal to DuckDB after every batch, for 1, 2 and 5 partitions.

The three are fed side by side: they share the compiled kernels, which cost more than the batches.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from tests.oracle.generate import Generator
from tests.oracle.harness import REGRESSIONS, Case, run_with
from tests.oracle.test_named import QUERIES, replay

import viewlet
from viewlet.engine.spark.spark_engine import SparkEngine
from viewlet.errors import UnsupportedError
from viewlet.interfaces.database import Database
from viewlet_bench.spark import TABLE_3

pytestmark = pytest.mark.spark

CASES = sorted(REGRESSIONS.glob("*.json"))
PARTITIONS = (1, 2, 5)


def run(case: Case, spark: Any, *partitions: int) -> None:
    connects = (partial(viewlet.connect, "spark", spark=spark, partitions=n) for n in partitions)
    run_with(case, *connects)


@pytest.mark.parametrize("path", CASES[:2], ids=lambda path: path.stem)
def test_a_sample(spark: Any, path: Path) -> None:
    run(Case.load(path), spark, 5)


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_regressions(spark: Any, path: Path) -> None:
    run(Case.load(path), spark, *PARTITIONS)


@pytest.mark.parametrize(("query", "partitions"), [("q3", 2), ("q6", 1)])
def test_a_sample_of_tpch(spark: Any, query: str, partitions: int) -> None:
    run_named("tpch", query, spark, partitions)


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_named(spark: Any, workload: str, query: str) -> None:
    run_named(workload, query, spark, *PARTITIONS)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["q3", "q5", "q7", "q18", "q21"])
def test_named_with_copies(spark: Any, query: str) -> None:
    """The smaller tables on every node, which the plans of these queries make use of."""
    rows = {"supplier": 10, "customer": 20, "part": 30, "partsupp": 800, "orders": 900}
    hints = viewlet.Hints(statistics={**rows, "lineitem": 1000}, replicate_below=25)
    run_named("tpch", query, spark, 2, 5, hints=hints)


def run_named(
    workload: str, query: str, spark: Any, *partitions: int, hints: viewlet.Hints | None = None
) -> None:
    """Also within the paper's numbers of jobs and stages, as Spark has counted them."""
    jobs, stages = TABLE_3[query] if workload == "tpch" else (sys.maxsize, sys.maxsize)

    def check(database: Database) -> None:
        engine = database._engine
        assert isinstance(engine, SparkEngine)
        ran = engine.metrics()
        # Rows on the driver for a view that is there too take no job.
        assert ran.jobs <= jobs
        assert ran.stages <= stages

    with ExitStack() as opened:
        databases = [
            opened.enter_context(viewlet.connect("spark", spark=spark, partitions=n, hints=hints))
            for n in partitions
        ]
        replay(workload, query, 40, *databases, check=check)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7])
def test_random(spark: Any, size: int) -> None:
    done = 0
    for seed in range(10):
        case = Generator(Random(f"{size}-{seed}"), Random(seed)).case(size)
        case.batches = case.batches[:6]
        try:
            run(case, spark, *PARTITIONS)
            done += 1
        except (duckdb.Error, UnsupportedError):
            continue
    assert done >= 7, "the generator has left what both systems can do"
