"""Large static tables are loaded by triggers, and maps hold what their definitions say."""

from __future__ import annotations

from typing import Any

import pytest

import viewlet
from viewlet.engine.local import local_fill
from viewlet.planner.static_loader import static_loader

TABLES = """
CREATE TABLE c (k INT PRIMARY KEY, g INT, name VARCHAR, x DOUBLE) WITH (static = true);
CREATE TABLE d (g INT, h VARCHAR) WITH (static = true);
CREATE STREAM e (k INT, v INT);
CREATE TABLE f (k INT, v INT);
"""
SELECTS = (
    "SELECT c.g, COUNT(*) AS n, SUM(e.v) AS s FROM e JOIN c ON e.k = c.k WHERE name <> 'n7' "
    "GROUP BY c.g",
    "SELECT g, COUNT(*) AS n, MAX(k) AS m, SUM(x) AS x FROM c GROUP BY g",
    "SELECT c.k, c.name, e.v FROM c LEFT JOIN e ON e.k = c.k",
    "SELECT c.name, COUNT(*) AS n FROM c WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.k = c.k) "
    "GROUP BY c.name",
    "SELECT COUNT(*) AS n, SUM(a.k) AS s FROM c a JOIN d ON a.g = d.g",
    "SELECT g, k, ROW_NUMBER() OVER (PARTITION BY g ORDER BY k) AS r FROM c WHERE k < 30",
    "SELECT COUNT(*) AS n FROM c WHERE k > (SELECT AVG(k) FROM c)",
    "SELECT COUNT(*) AS n, MIN(f.v) AS v FROM f",
)


def database(engine: str) -> Any:
    db = viewlet.connect(engine)
    db.execute(TABLES)
    rows = [
        (
            i,
            None if i % 13 == 0 else i % 7,
            None if i % 11 == 0 else f"n{i % 20}",
            float("nan") if i % 50 == 0 else i / 4,
        )
        for i in range(150)
    ]
    db.insert("c", rows)
    db.insert("d", [(i % 9, f"d{i}") for i in range(30)])
    db.insert("f", [(3, 1), (3, 2), (5, None)])
    return db


def answers(db: Any) -> list[list[str]]:
    return [sorted(map(repr, db.view(name).rows())) for name in db.views]


@pytest.mark.parametrize("mode", ["eager", "split", "deferred"])
def test_static_tables(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(local_fill, "_FEW_ROWS", 20)
    loaded = []
    made = [database(engine) for engine in ("local", "interpreter")]
    monkeypatch.setattr(
        made[0]._state.engine,
        "_plan_static",
        lambda *given: loaded.append(static_loader(*given)) or loaded[-1],
    )
    together = SELECTS if mode == "eager" else SELECTS[:3]
    for db in made:
        db.execute(
            ";".join(
                f"CREATE MATERIALIZED VIEW v{i} WITH (maintenance = '{mode}') AS {select}"
                for i, select in enumerate(together)
            )
        )
    assert loaded and all(each is not None for each in loaded)
    assert answers(made[0]) == answers(made[1])
    for db in made:
        db.insert("e", [(i % 40, i) for i in range(50)])
        db.delete("f", (3, 1))
        db.execute(f"CREATE VIEW late AS {SELECTS[1]}")
    assert answers(made[0]) == answers(made[1])
