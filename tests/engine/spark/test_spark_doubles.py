"""DOUBLE on Spark: sums that pass between nodes keep what is not finite, and what is small."""

from __future__ import annotations

import math
from typing import Any

import pytest

import viewlet

pytestmark = pytest.mark.spark


def test_what_comes_leaves_again_without_a_trace(spark: Any) -> None:
    with viewlet.connect(engine="spark", spark=spark) as db:
        db.execute("""
        CREATE TABLE r (k INTEGER PRIMARY KEY, g INTEGER NOT NULL, x DOUBLE NOT NULL);
        CREATE VIEW v AS SELECT g, SUM(x) AS s, MIN(x) AS lo, MAX(x) AS hi, STDDEV(x) AS d
          FROM r GROUP BY g;
        """)
        plain = [(1, 1, 1e9), (2, 1, 1e9 + 2), (3, 2, 2.5)]
        wild = [(4, 1, math.inf), (5, 2, math.nan), (6, 2, -math.inf), (7, 2, 1e300)]
        db.insert("r", plain)
        before = sorted(tuple(row) for row in db.view("v").rows())
        assert before[0] == (1, 2e9 + 2, 1e9, 1e9 + 2, pytest.approx(math.sqrt(2), rel=1e-12))
        assert before[1] == (2, 2.5, 2.5, 2.5, None)
        db.insert("r", wild)
        rows = {row.g: (row.s, row.lo, row.hi) for row in db.view("v").rows()}
        assert rows[1] == (math.inf, 1e9, math.inf)
        assert repr(rows[2]) == repr((math.nan, -math.inf, math.nan))
        db.delete("r", wild)
        assert sorted(tuple(row) for row in db.view("v").rows()) == before
