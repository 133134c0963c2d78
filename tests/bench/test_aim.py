"""The AIM benchmark: its views are right, and its figures have targets."""

from __future__ import annotations

import duckdb
import pytest

import viewlet
from viewlet_bench import aim, writers


@pytest.mark.parametrize(
    "mode", ["auto", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("eager", "split"))]
)
def test_views_equal_duckdb(mode: str) -> None:
    known, calls = aim.customers(40), aim.events(900, 40)
    db = viewlet.connect("interpreter" if mode == "auto" else "local")
    db.execute(aim.SCHEMA)
    db.insert("customers", known)
    for name, text in aim.QUERIES.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (maintenance = '{mode}') AS {text}")
    for low in range(0, 900, 300):
        db.insert("events", calls.slice(low, 300))
    oracle = duckdb.connect()
    oracle.register("customers", known)
    oracle.register("events", calls)
    for name, text in aim.QUERIES.items():
        expected = sorted(tuple(map(float, row)) for row in oracle.execute(text).fetchall())
        rows = sorted(tuple(map(float, row)) for row in db.view(name).rows())
        assert rows == [pytest.approx(row) for row in expected], name


def test_rows_have_targets() -> None:
    rows = [*aim.measure(100, 0.02), *writers.measure(200, 0.05)]
    assert all({"value", "target", "met"} <= row.keys() for row in rows)
    assert len({row["query"] for row in rows}) == len(rows)
