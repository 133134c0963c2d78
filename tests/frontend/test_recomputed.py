"""What `explain` says is recomputed, and views that forbid it."""

from __future__ import annotations

import pytest

import viewlet
from viewlet.errors import ResolutionError, UnsupportedError

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT)"
INCREMENTAL = (
    "SELECT id, RANK() OVER (PARTITION BY g ORDER BY x) AS k FROM t",
    "SELECT id, LAG(x, 2) OVER (PARTITION BY g ORDER BY id) AS k FROM t",
    "SELECT id, LEAD(x, 2, 0) OVER (PARTITION BY g ORDER BY id) AS k FROM t",
    "SELECT id, FIRST_VALUE(x) OVER (PARTITION BY g ORDER BY id) AS k FROM t",
    "SELECT id, LAST_VALUE(x) OVER (PARTITION BY g ORDER BY x) AS k FROM t",
    "SELECT id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY x) <= 2",
    "SELECT g, MEDIAN(x) AS k, MAX(x) AS m FROM t GROUP BY g",
    "SELECT a.id, q.x FROM t a, LATERAL (SELECT x FROM t WHERE t.g = a.g ORDER BY x LIMIT 1) q",
)
RECOMPUTED = {
    "NTILE": "SELECT id, NTILE(3) OVER (PARTITION BY g ORDER BY id) AS k FROM t",
    "CUME_DIST": "SELECT id, CUME_DIST() OVER (PARTITION BY g ORDER BY id) AS k FROM t",
    "LAST_VALUE": "SELECT id, LAST_VALUE(x IGNORE NULLS) OVER (ORDER BY id) AS k FROM t",
    "v by changes of t": "SELECT id FROM t WHERE x > (SELECT AVG(x) FROM t)",
}


def _explained(query: str, options: str = "") -> str:
    db = viewlet.connect(engine="interpreter")
    db.execute(TABLE)
    db.execute(f"CREATE MATERIALIZED VIEW v {options} AS {query}")
    return db.explain("v", "plan")


@pytest.mark.parametrize("query", INCREMENTAL)
def test_is_not_recomputed(query: str) -> None:
    assert "recomputed" not in _explained(query, "WITH (strict = true)")


@pytest.mark.parametrize("name", RECOMPUTED)
def test_explain_says_what_is_recomputed(name: str) -> None:
    lines = [line for line in _explained(RECOMPUTED[name]).splitlines() if "recomputed" in line]
    assert name in " ".join(lines)


@pytest.mark.parametrize("name", RECOMPUTED)
def test_a_strict_view_is_not_recomputed(name: str) -> None:
    with pytest.raises(UnsupportedError, match="is strict and would recompute") as caught:
        _explained(RECOMPUTED[name], "WITH (strict = true)")
    assert caught.value.position is not None
    assert "recomputed" in _explained(RECOMPUTED[name], "WITH (strict = false)")


def test_strict_is_true_or_false() -> None:
    with pytest.raises(ResolutionError, match="strict is true or false"):
        _explained("SELECT id FROM t", "WITH (strict = 1)")
