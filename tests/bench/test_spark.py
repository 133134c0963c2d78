"""`bench spark` on small tables: every part runs, and the view ends as Spark SQL has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from viewlet.errors import ResolutionError, StateError
from viewlet_bench import scaling_runs, spark
from viewlet_bench.output import FIELDS
from viewlet_bench.scaling import seconds
from viewlet_bench.spark_runs import QueryTables, SparkView, bench_session
from viewlet_bench.workload import compiled

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Any:
    return bench_session()


def test_parts_are_checked_before_spark_starts() -> None:
    with pytest.raises(ResolutionError, match="there is no part chess"):
        spark.run(parts=["chess"])


@pytest.mark.parametrize(
    "query", ["q6", *(pytest.param(q, marks=pytest.mark.slow) for q in ("q3", "q17"))]
)
def test_refresh_and_recompute_agree(query: str, session: Any, cache: Path) -> None:
    bench = spark.Bench(session, 0.001, [query], (1, 3))
    api, frames = bench.refresh(query, against=True)
    for row in (api, frames):
        assert row.keys() >= set(FIELDS)
        assert row["equal"] is True
        assert row["ratio"] == pytest.approx(row["reference_ms"] / row["p50_ms"])
        assert (row["jobs"], row["stages"]) <= spark.TABLE_3[query]
        overhead = row["p50_ms"] - row["kernel_ms"] - row["empty_ms"]
        assert row["overhead_ms"] == pytest.approx(overhead)
    # The driver runs the first stage of rows that it has; those of DataFrames have it as a stage.
    assert frames["stages"] == api["stages"] + 1


@pytest.mark.slow
def test_less_optimized_programs_have_more_stages(session: Any, cache: Path) -> None:
    naive, *_, full = spark.Bench(session, 0.001, ["q3"], (1, 3)).levels()
    assert naive["engine"] == "spark/naive"
    assert full["engine"] == "spark/full"
    assert naive["stages"] > full["stages"]
    assert naive["ratio"] == pytest.approx(1.0)
    assert full["equal"] is True


@pytest.mark.slow
def test_growth_takes_turns(session: Any, cache: Path) -> None:
    (row,) = spark.Bench(session, 0.01, ["q6"], (1, 2)).growth("q6")
    assert row["growth"] == pytest.approx(row["p50_ms"] / row["reference_ms"])


def test_a_failure_is_a_row(monkeypatch: pytest.MonkeyPatch, session: Any) -> None:
    def fails(self: Any, query: str, *, against: bool) -> Any:
        raise StateError(f"{query} broke")

    monkeypatch.setattr(spark.Bench, "refresh", fails)
    monkeypatch.setattr(spark, "bench_session", lambda: _Unstoppable(session))
    rows = spark.run(sf=0.001, queries=["q6", "q3"], parts=["refresh"])
    assert [(row["query"], row["error"]) for row in rows] == [
        ("q6", "StateError: q6 broke"),
        ("q3", "StateError: q3 broke"),
    ]
    assert spark.run(sf=0.001, queries=["q6"], parts=["refresh"], seconds=-1) == []


class _Unstoppable:
    """The session of this module, which other tests go on with."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def stop(self) -> None:
        """Not now."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@pytest.mark.slow
def test_costs_of_the_model(session: Any, cache: Path) -> None:
    machine = scaling_runs.machine(session)
    assert machine.stage > 0
    assert machine.bandwidth > 1e6
    work = scaling_runs.work(session, machine, "q17", 0.01, 2000)
    assert (work.jobs, work.stages) == (1, 2)
    assert work.moved > 0
    assert seconds(machine, work, 2, 4000) > machine.job
    with pytest.raises(StateError, match="too few"):
        scaling_runs.work(session, machine, "q17", 0.001, 5000)


@pytest.mark.slow
def test_a_batch_changes_all_relations(session: Any, cache: Path) -> None:
    tables = QueryTables(compiled("tpch", "q3", keyed=False), 0.001)
    parts = list(tables.parts(1000, 0.5))
    assert {name for name, _ in parts[0]} == {"customer", "orders", "lineitem"}
    assert sum(len(b) for part in parts for _, b in part) == pytest.approx(tables.total / 2, abs=3)
    view = SparkView(session, tables)
    view.load(1.0)
    assert len(view.result_rows()) > 0
    view.close()
