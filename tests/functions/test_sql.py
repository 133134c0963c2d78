"""SQL's functions in views of both engines, and in ad-hoc queries: one meaning."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pytest
from tests.functions.calls import BUILT_IN, CALLS, COLUMNS, VALUES

import viewlet
from viewlet.functions import SqlCall

TABLE = "CREATE TABLE r (id INT PRIMARY KEY, " + ", ".join(f"{n} {t}" for n, t in COLUMNS.items())
EXPRESSIONS = [sql for calls in CALLS.values() for sql in calls.sql]
HALVES = "CAST(m AS TIMESTAMP(0))"
"""Views round halves away from the year 2000, as PostgreSQL does, and DuckDB from 1970."""
ROWS = 60


def random_rows() -> list[tuple[Any, ...]]:
    rng = random.Random(5)
    return [
        (k, *(None if rng.random() < 0.15 else rng.choice(v) for v in VALUES.values()))
        for k in range(ROWS)
    ]


def select(expressions: list[str]) -> str:
    columns = [f"{sql} AS x{k}" for k, sql in enumerate(expressions)]
    return f"SELECT DISTINCT id, {', '.join(columns)} FROM r"


def test_every_call_is_tried() -> None:
    called = {name for name, record in BUILT_IN.items() if isinstance(record.sql, SqlCall)}
    assert all(CALLS[name].sql for name in called)


@pytest.mark.parametrize("engine", ["interpreter", "local"])
@pytest.mark.parametrize("part", range(4))
def test_views_are_as_queries(engine: str, part: int) -> None:
    expressions = EXPRESSIONS[part::4]
    with viewlet.connect(engine) as db:
        db.execute(f"{TABLE})")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {select(expressions)}")
        rows = random_rows()
        db.insert("r", rows[:40])
        db.insert("r", rows[40:])
        db.delete("r", rows[:10])
        expected = sorted(row_of(r) for r in db.query(select(expressions)).to_pylist())
        ours = sorted(tuple(row) for row in db.view("v").rows())
        assert len(ours) == len(expected) == ROWS - 10
        for k, sql in enumerate(expressions, 1):
            for left, right in zip(ours, expected, strict=True):
                if sql == HALVES and left[k] is not None and left[k].year < 2000:
                    assert abs(left[k] - right[k]) <= dt.timedelta(seconds=1)
                    continue
                assert is_same(left[k], right[k]), f"{sql}: view {left[k]!r}, query {right[k]!r}"


def row_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def is_same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-12) or (left != left and right != right)
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
