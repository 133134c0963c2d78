"""The scaling model: its formula, its limits, and what is drawn and written of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from viewlet_bench import scaling, spark, spark_page
from viewlet_bench.scaling import SparkCosts, Work, line, predictions, seconds
from viewlet_bench.scaling_plots import draw

MACHINE = SparkCosts(job=0.02, stage=0.01, task=0.0003, block=0.0002, bandwidth=2e8)
Q6 = Work("q6", 1, 1, fixed=0.001, per_row=1e-8, moved=0.0, copied=0.0, collected=100.0)
Q17 = Work("q17", 1, 2, fixed=0.002, per_row=4e-7, moved=18.0, copied=0.0, collected=100.0)
Q3 = Work("q3", 1, 3, fixed=0.002, per_row=1e-7, moved=4.0, copied=0.05, collected=100.0)


def test_the_formula_is_the_sum_of_its_lines() -> None:
    want = 0.02 + 2 * (0.01 + 0.0003 * 10) + 1 * 0.0002 * 10 + 0.002
    want += 4e-7 * 1e5 + 18 * 1e5 / 2e8 + 100 * 10 / 2e8
    assert seconds(MACHINE, Q17, 10, 1e6) == pytest.approx(want)
    assert Q17.shuffles == 1
    assert Q6.shuffles == 0


def test_weak_scaling_pays_for_tasks_only() -> None:
    """With nothing copied, more workers cost what starting them costs."""
    few, many = (seconds(MACHINE, Q17, w, 1e5 * w) for w in (10, 1000))
    assert many - few == pytest.approx(990 * (2 * 0.0003 + 0.0002 + 100 / 2e8))
    copying = replace(Q17, copied=1.0)
    more = seconds(MACHINE, copying, 1000, 1e8) - seconds(MACHINE, copying, 10, 1e6)
    assert more > 0.4 + (many - few)


def test_strong_scaling_turns_round_where_tasks_cost_more_than_rows() -> None:
    times = [seconds(MACHINE, Q17, w, 4e8) for w in (25, 50, 100, 400)]
    assert times == sorted(times, reverse=True)
    assert seconds(MACHINE, Q6, 1000, 5e7) > seconds(MACHINE, Q6, 25, 5e7)


def test_lines_are_fitted() -> None:
    assert line([(1, 3.0), (2, 5.0), (3, 7.0)]) == pytest.approx((1.0, 2.0))
    assert line([(1, 3.0), (2, 2.0)]) == (2.5, 0.0)
    assert line([(4, 2.0)]) == (2.0, 0.0)


def test_predictions_stand_beside_the_paper(tmp_path: Path) -> None:
    rows = predictions(MACHINE, [Q6, Q17, Q3])
    beside = {(r["part"], r["query"], r["workers"]) for r in rows if r["reference"] == "paper"}
    assert beside == {
        ("weak", "q6", 50),
        ("weak", "q6", 1000),
        ("weak", "q17", 50),
        ("weak", "q17", 800),
        ("strong", "q17", 50),
        ("strong", "q17", 800),
        ("strong", "q3", 25),
        ("strong", "q3", 400),
    }
    for row in rows:
        assert row["tuples_per_s"] == pytest.approx(1e3 * row["batch"] / row["p50_ms"])
    assert max(row["workers"] for row in rows) == 1000
    drawn = draw(rows, tmp_path)
    assert [path.name for path in drawn] == ["weak.svg", "strong.svg"]
    text = drawn[0].read_text()
    assert text.startswith("<?xml")
    again = draw(rows, tmp_path / "again")
    assert again[0].read_text() == text, "the same figures are the same file"


def test_the_page_tells_costs_and_check() -> None:
    blank = dict.fromkeys(("batch", "tuples_per_s", "p50_ms", "reference", "ratio"))
    rows = [
        {"part": "machine", **blank, **asdict(MACHINE)},
        {"part": "work", **blank, **asdict(Q3)},
        {
            "part": "check",
            "query": "q3",
            "workers": 2,
            "batch": 200_000,
            "p50_ms": 100.0,
            "reference_ms": 80.0,
            "ratio": 0.8,
        },
        *predictions(MACHINE, [Q3]),
    ]
    page = spark_page.section(rows)
    assert "| q3 | 2 | 200k | 100 | 80 | 0.8 |" in page
    assert "images/bench/weak.svg" in page
    assert f"| {scaling.best_workers(rows, 'q3'):,} |" in page


def test_table_3() -> None:
    assert spark.TABLE_3["q1"] == (1, 1)
    assert spark.TABLE_3["q7"] == (3, 6)
    assert spark.TABLE_3["q9"] == (3, 7)
    assert spark.TABLE_3["q16"] == (3, 5)
    assert spark.TABLE_3["q22"] == (2, 3)
    assert len(spark.TABLE_3) == 22
