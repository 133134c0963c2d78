"""`bench spark` on small tables: every part runs, and the view ends as Spark SQL has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from viewlet.errors import ResolutionError, StateError
from viewlet.interfaces.bench import scaling_runs, spark
from viewlet.interfaces.bench.output import FIELDS
from viewlet.interfaces.bench.scaling import seconds
from viewlet.interfaces.bench.spark_runs import SparkView, Tables, bench_session
from viewlet.interfaces.bench.workload import compiled

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Any:
    return bench_session()


def test_parts_are_checked_before_spark_starts() -> None:
    with pytest.raises(ResolutionError, match="there is no part chess"):
        spark.run(parts=["chess"])


@pytest.mark.slow
@pytest.mark.parametrize("query", ["q6", "q3", "q17"])
def test_refresh_and_recompute_agree(query: str, session: Any, cache: Path) -> None:
    row = spark.refresh(session, query, 0.001, (1, 3))
    assert row.keys() >= set(FIELDS)
    assert row["equal"] is True
    assert row["ratio"] == pytest.approx(row["reference_ms"] / row["p50_ms"])
    assert (row["jobs"], row["stages"]) <= spark.TABLE_3[query]
    assert row["kernel_ms"] < row["p50_ms"]
    assert row["overhead_ms"] == pytest.approx(row["p50_ms"] - row["kernel_ms"] - row["empty_ms"])


@pytest.mark.slow
def test_less_optimised_programmes_have_more_stages(session: Any, cache: Path) -> None:
    naive, *_, full = spark.levels(session, 0.001)
    assert naive["engine"] == "spark/naive"
    assert full["engine"] == "spark/full"
    assert naive["stages"] > full["stages"]
    assert naive["ratio"] == pytest.approx(1.0)


@pytest.mark.slow
def test_costs_of_the_model(session: Any, cache: Path) -> None:
    machine = scaling_runs.machine(session)
    assert machine.stage > 0
    assert machine.bandwidth > 1e6
    work = scaling_runs.work(session, "q17", 0.01, 2000)
    assert (work.jobs, work.stages) == (1, 2)
    assert work.moved > 0
    assert seconds(machine, work, 2, 4000) > machine.job
    with pytest.raises(StateError, match="too few"):
        scaling_runs.work(session, "q17", 0.001, 5000)


@pytest.mark.slow
def test_a_batch_changes_all_relations(session: Any, cache: Path) -> None:
    tables = Tables(compiled("tpch", "q3"), 0.001)
    parts = list(tables.parts(1000, 0.5))
    assert {name for name, _ in parts[0]} == {"customer", "orders", "lineitem"}
    assert sum(len(b) for part in parts for _, b in part) == pytest.approx(tables.total / 2, abs=3)
    view = SparkView(session, tables)
    view.load(1.0)
    assert len(view.answer()) > 0
    view.close()
