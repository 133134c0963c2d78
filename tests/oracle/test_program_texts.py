"""Programs of random queries are what their text says: checkpoints hold them as text.

A text that this version cannot read would be taken for that of another one, and maps would be made
anew from tables, or be lost where a stream fed them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.oracle.recent_constructs import RecentGenerator

import viewlet
from viewlet.errors import UnsupportedError
from viewlet.program.text import parse_program, program_text


@pytest.mark.parametrize("seed", range(8))
def test_texts(seed: int) -> None:
    generator = RecentGenerator(Random(seed), Random(seed), recent_percent=70)
    generator.schema()
    with viewlet.connect("interpreter") as db:
        for relation in generator.relations:
            db.execute(relation.sql())
        try:
            db.execute(f"CREATE VIEW v AS {generator.query()}")
        except UnsupportedError:
            return
        for mode in ("eager", "split", "deferred"):
            db.execute(f"ALTER MATERIALIZED VIEW v SET (maintenance = '{mode}')")
            program = db._state.engine.program
            assert parse_program(program_text(program)) == program


@pytest.mark.parametrize("engine", ["interpreter", "local"])
@pytest.mark.parametrize(
    "select",
    [
        "SELECT a, ROW_NUMBER() OVER (ORDER BY a, b) AS n FROM s",
        "SELECT a, FIRST_VALUE(b) OVER (ORDER BY a, b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) "
        "AS f FROM s",
        "SELECT q.a FROM (SELECT a FROM s ORDER BY a LIMIT 2) q",
    ],
)
def test_windows_over_streams_are_restored(engine: str, select: str, tmp_path: Path) -> None:
    """Their rows are nowhere but in the maps."""
    with viewlet.connect(engine) as db:
        db.execute("CREATE STREAM s (a INT, b INT)")
        db.execute(f"CREATE VIEW v AS {select}")
        db.insert("s", [(1, 5), (1, 6), (0, 7)])
        before = sorted(db.view("v").rows())
        db.checkpoint(tmp_path / "saved")
    with viewlet.restore(tmp_path / "saved") as again:
        assert sorted(again.view("v").rows()) == before
        again.insert("s", [(0, 1)])
        assert len(again.view("v").rows()) == (2 if "LIMIT" in select else 4)
