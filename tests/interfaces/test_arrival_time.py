"""DEFAULT NOW(): rows have the time of the clock at which they came."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

import viewlet
from viewlet.errors import UnsupportedError

NOON = datetime(2026, 1, 1, 12)


def test_rows_have_the_time_of_the_clock(tmp_path: Path) -> None:
    path = str(tmp_path / "d.viewlet")
    with viewlet.connect(path) as db:
        db.clock.set(NOON)
        db.execute("CREATE TABLE r (k INT PRIMARY KEY, at TIMESTAMP DEFAULT NOW())")
        db.execute("CREATE VIEW v AS SELECT at, COUNT(*) AS n FROM r GROUP BY at")
        db.insert("r", {"k": [1, 2]})
        db.execute("INSERT INTO r (k) VALUES (3)")
        db.clock.advance(60)
        db.insert("r", [{"k": 4}, {"k": 5, "at": NOON}])
        db.execute("UPDATE r SET at = DEFAULT WHERE k = 1")
        later = datetime(2026, 1, 1, 12, 1)
        expected = {(NOON, 3), (later, 2)}
        assert {tuple(row) for row in db.view("v").rows()} == expected
        assert "NOW()" in str(db.query("SELECT column_default FROM information_schema.columns"))
    with viewlet.connect(path) as db:
        assert {tuple(row) for row in db.view("v").rows()} == expected
        db.insert("r", {"k": [6]})
        newest = max(row.at for row in db.view("v").rows())
        assert abs((newest - db.clock.now()).total_seconds()) < 60
        with pytest.raises(UnsupportedError, match="nobody knows when"):
            db.execute("ALTER TABLE r ADD COLUMN b TIMESTAMP DEFAULT NOW()")
        db.execute("ALTER TABLE r ADD COLUMN b INT; ALTER TABLE r ALTER COLUMN at DROP DEFAULT")
        db.insert("r", {"k": [7]})
        assert None in {row.at for row in db.view("v").rows()}
