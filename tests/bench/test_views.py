"""Every named query runs as a benchmark and ends with DuckDB's answer."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from viewlet.calculus.query import OrderItem, Query, ViewKind
from viewlet.cli import app
from viewlet.errors import ResolutionError, ViewletError
from viewlet_bench import finance, tpcds, tpch
from viewlet_bench.duck import equal_results
from viewlet_bench.output import FIELDS
from viewlet_bench.workload import compiled, queries

BENCHES: dict[str, Any] = {"tpch": tpch.run, "tpcds": tpcds.run, "finance": finance.run}
SCALES = {"tpch": 0.001, "tpcds": 0.001, "finance": 0.005}
FAST = [("tpch", "q6"), ("tpch", "q3"), ("finance", "bsv"), ("finance", "psp")]
OTHERS = [(w, q) for w in BENCHES for q in queries(w) if (w, q) not in FAST]


def check(workload: str, query: str, batches: list[str]) -> None:
    rows = BENCHES[workload](
        sf=SCALES[workload], queries=[query], batches=batches, against="duckdb", seconds=3.0
    )
    assert [str(row["batch"]) for row in rows] == batches
    for row in rows:
        assert row.keys() >= set(FIELDS)
        assert row["equal"] is True, f"{query} differs from DuckDB"
        assert row["reference"] == "duckdb"
        assert row["ratio"] > 0
        assert row["tuples_per_s"] == pytest.approx(row["rows"] / row["seconds"])
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["maps"] > 0
        assert row["ratio_to_calibration"] > 0
        assert row["query"] == query


@pytest.mark.parametrize(("workload", "query"), FAST)
def test_equal_to_duckdb(workload: str, query: str, cache: Path) -> None:
    check(workload, query, ["single", "1000"])


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "query"), OTHERS)
def test_every_query_is_equal_to_duckdb(workload: str, query: str, cache: Path) -> None:
    check(workload, query, ["1000"])


def test_growth(cache: Path) -> None:
    (row,) = tpch.run(queries=["q6"], growth=[0.001, 0.01], seconds=2.0)
    assert row.keys() >= set(FIELDS)
    assert row["reference"] == "viewlet at 0.001"
    assert row["growth"] == pytest.approx(1 / row["ratio"])
    (book,) = finance.run(queries=["bsv"], growth=[0.01, 0.05], seconds=2.0)
    assert book["growth"] > 0


def test_startup(cache: Path) -> None:
    (row,) = tpch.run(sf=0.001, queries=["q6"], batches=["1000"], startup=True, seconds=1.0)
    assert 0 < row["cached_s"] < row["cold_s"]
    assert row["import_s"] < 5


def test_queries_of_a_workload() -> None:
    assert queries("tpch") == [f"q{n}" for n in range(1, 23)]
    q3 = compiled("tpch", "q3")
    assert q3.streamed == ("customer", "orders", "lineitem")
    assert q3.mentioned("customer") == ["c_custkey", "c_mktsegment"]
    assert compiled("tpch", "q15").views[-1][0] == "q15"
    assert compiled("tpch", "q5").static == ("region", "nation")


def test_the_command_line(cache: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "rows.json", tmp_path / "rows.md"
    arguments = ["bench", "tpch", "--sf", "0.001", "--queries", "q6", "--batch", "100,1000"]
    arguments += ["--against", "duckdb", "--json", str(file), "--markdown", str(page)]
    result = CliRunner().invoke(app, [*arguments, "--seconds", "1"], catch_exceptions=False)
    assert result.exit_code == 0
    rows = json.loads(file.read_text())
    assert [row["batch"] for row in rows] == [100, 1000]
    assert all(row.keys() >= set(FIELDS) for row in rows)
    assert "tuples/s" in result.stdout
    assert page.read_text().count("\n") == 4
    rows = [{**row, "ratio_to_calibration": 1000 * row["ratio_to_calibration"]} for row in rows]
    file.write_text(json.dumps(rows))
    again = ["bench", "tpch", "--sf", "0.001", "--queries", "q6", "--batch", "100"]
    with pytest.raises(ViewletError, match=r"slower than .*: q6 100"):
        CliRunner().invoke(app, [*again, "--compare", str(file)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tpch", "--queries", "q23"], "workload tpch has no query q23"),
        (["tpch", "--batch", "0"], "0 is no batch size"),
        (["tpch", "--against", "oracle"], "there is no reference oracle"),
        (["tpch", "--growth", "1"], "growth is between two scales"),
        (["tpch", "--growth", "a,b"], "a is no number"),
        (["linalg", "--batch", "1"], "workload linalg does not take --batch"),
    ],
)
def test_mistakes_are_named_at_once(arguments: list[str], message: str) -> None:
    with pytest.raises(ResolutionError, match=message):
        CliRunner().invoke(app, ["bench", *arguments], catch_exceptions=False)


def query_with(**changes: Any) -> Query:
    return Query("v", ViewKind.GROUP, (), (), (), **changes)


def test_answers_are_bags() -> None:
    day = dt.date(1995, 1, 1)
    rows: list[tuple[Any, ...]] = [(1, day, None), (2, day, Decimal("2.50"))]
    assert equal_results(query_with(), rows, rows[::-1], rows)
    assert equal_results(query_with(), [(0.1 + 0.2,)], [(0.3,)], [])
    assert not equal_results(query_with(), rows, rows[:1], rows)
    assert not equal_results(query_with(), [(1, None)], [(1, 0)], [])
    assert not equal_results(query_with(), [(0.3,)], [(0.3001,)], [])
    assert equal_results(query_with(), [(25.5375871,)], [(Decimal("25.537587"),)], [])
    assert not equal_results(query_with(), [(25.5375876,)], [(Decimal("25.537587"),)], [])


def test_a_limit_may_cut_any_of_equal_rows() -> None:
    limited = query_with(limit=2, order=(OrderItem(0),))
    all_rows: list[tuple[Any, ...]] = [(1, "a"), (2, "b"), (2, "c")]
    assert equal_results(limited, [(1, "a"), (2, "c")], [(1, "a"), (2, "b")], all_rows)
    assert not equal_results(limited, [(1, "a"), (2, "z")], [(1, "a"), (2, "b")], all_rows)
    assert not equal_results(limited, [(2, "b"), (2, "c")], [(1, "a"), (2, "b")], all_rows)
