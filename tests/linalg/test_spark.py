"""Programs on Spark: the same results as locally, and never a full matrix on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from tests.linalg.reference import reference, relative

import viewlet.linalg as la
from viewlet.engine.partitions.session import spark_session
from viewlet.errors import DataError, TypingError
from viewlet.linalg.array_engine import ArrayEngine
from viewlet.linalg.live import Live
from viewlet.linalg.spark_engines import SparkMatrixEngine, _bytes, choose_layout, choose_partitions
from viewlet.linalg.spark_peer import Moved, SparkReevaluation
from viewlet.linalg.spark_worker import bounds

pytestmark = pytest.mark.spark
N = 64


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session(cores=2)
    yield session
    session.stop()


def start(
    program: la.Program,
    values: dict[str, Any],
    spark: SparkSession,
    strategy: str = "incremental",
    **options: Any,
) -> Live:
    estimate = program.plans(strategy, "exponential")[0]
    held = program._values(values)
    kind: Any = SparkReevaluation if strategy == "reevaluation" else SparkMatrixEngine
    engine = kind(
        estimate.plan, held, tolerance=1e-9, spark=spark, partitions=3, large=N * N // 2, **options
    )
    return Live(engine, [estimate])


def program_and_values() -> tuple[la.Program, dict[str, Any]]:
    rng = np.random.default_rng(1)
    a, t = la.matrix("A", N, N), la.matrix("T0", N, 2)
    program = la.program(
        P=la.power(a, 5), T=la.iterate(a, t, 4), W=la.inv(a + 3 * la.eye(N)), G=a.T @ a @ t
    )
    values = {
        "A": rng.standard_normal((N, N)) / (2 * np.sqrt(N)),
        "T0": rng.standard_normal((N, 2)),
    }
    return program, values


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("incremental", {"layout": "both"}),
        ("incremental", {"layout": "rows"}),
        ("hybrid", {"layout": "both"}),
        ("reevaluation", {}),
    ],
)
def test_results_equal_their_definition(
    spark: SparkSession, strategy: str, options: dict[str, str]
) -> None:
    program, values = program_and_values()
    live = start(program, values, spark, strategy, **options)
    rng = np.random.default_rng(2)
    for i in range(2):
        u, v = 0.2 * rng.standard_normal((2, N, i + 1)) / np.sqrt(N)
        live.update("A", u, v)
        values["A"] = values["A"] + u @ v.T
        row = rng.standard_normal(N) / (2 * np.sqrt(N))
        live.set_rows("A", {5 * i: row})
        values["A"][5 * i] = row
        live.set_entries("T0", [(i, 1, 2.5)])
        values["T0"][i, 1] = 2.5
    for name, want in reference(program, values).items():
        assert relative(live[name], want) <= 1e-10, name
    assert live.error("T") <= 1e-9
    np.testing.assert_allclose(live["A"], values["A"], atol=1e-14)
    joined = np.vstack([block for _, block in live.blocks("P")])
    np.testing.assert_array_equal(joined, live["P"])
    live.close()


@pytest.mark.parametrize("layout", ["both", "rows"])
def test_an_update_moves_thin_matrices_only(spark: SparkSession, layout: str) -> None:
    n = 400
    rng = np.random.default_rng(3)
    program = la.matrix_power(n, 8)
    plan = program.plans("incremental", "exponential")[0].plan
    engine = SparkMatrixEngine(
        plan,
        program._values({"A": 0.9 * rng.standard_normal((n, n)) / np.sqrt(n)}),
        tolerance=1e-9,
        spark=spark,
        partitions=2,
        layout=layout,
        large=1000,
    )
    live = Live(engine, [])
    engine.moved = Moved()
    live.update("A", rng.standard_normal(n) / n, rng.standard_normal(n))
    moved = engine.moved
    thin = 8 * n  # bytes of one vector
    assert moved.jobs == 4, "three rounds of products and one step"
    assert moved.shuffled == 0
    # products of ranks 1, 2, 4 on both sides, sent and returned; factors of ranks 1, 2, 4, 8
    sides = 2 if layout == "both" else 3
    assert moved.total <= thin * (2 * 7 + sides * 7 + 2 * 15) + 40_000
    assert moved.total < 8 * n * n / 2
    live.close()


def test_singular_and_bad_updates_change_nothing(spark: SparkSession) -> None:
    rng = np.random.default_rng(4)
    program = la.program(W=la.inv(la.matrix("A", N, N)))
    live = start(program, {"A": rng.standard_normal((N, N)) + 9 * np.eye(N)}, spark)
    before = {name: np.array(live[name]) for name in ("A", "W")}
    with pytest.raises(la.SingularMatrixError):
        live.set_rows("A", {0: before["A"][1]})
    with pytest.raises(DataError, match="NaN"):
        live.update("A", np.full(N, np.nan), np.ones(N))
    for name, value in before.items():
        np.testing.assert_array_equal(live[name], value)
    live.replace("A", np.diag(np.arange(1.0, N + 1)))
    np.testing.assert_allclose(live["W"], np.diag(1.0 / np.arange(1.0, N + 1)), atol=1e-12)
    live.close()


def test_start_chooses_the_engine_and_checks_the_layout(spark: SparkSession) -> None:
    program = la.matrix_power(8, 4)
    live = program.start({"A": np.eye(8)}, engine="spark", spark=spark, strategy="reevaluation")
    assert isinstance(live.engine, SparkReevaluation)
    live.close()
    with program.start(
        {"A": np.eye(8)}, engine="spark", spark=spark, strategy="incremental"
    ) as maintained:
        assert isinstance(maintained.engine, SparkMatrixEngine)
        maintained.update("A", np.ones(8), np.ones(8))
        want = np.linalg.matrix_power(np.eye(8) + 1.0, 4)
        np.testing.assert_allclose(maintained["P"], want)
    with pytest.raises(TypingError, match="layout"):
        program.start(
            {"A": np.eye(8)}, engine="spark", spark=spark, strategy="incremental", layout="diagonal"
        )


def test_partitions_follow_the_memory_of_executors(spark: SparkSession) -> None:
    few = choose_partitions(spark, {la.matrix("A", 1000, 1000)}, "both")
    many = choose_partitions(spark, {la.matrix("A", 40_000, 40_000)}, "both")
    assert few == 2
    assert [choose_layout(p) for p in (2, 16, 17)] == ["rows", "rows", "both"]
    assert many >= 24  # 25.6 GB over shares of 1 GB
    assert [_bytes(t) for t in ("512m", "2g", "1024", "1gb")] == [2**29, 2**31, 1024, 2**30]


def test_bounds_cover_every_row_once() -> None:
    edges = [bounds(10, p, 4) for p in range(4)]
    assert edges == [(0, 2), (2, 5), (5, 7), (7, 10)]
    assert issubclass(SparkMatrixEngine, ArrayEngine)
