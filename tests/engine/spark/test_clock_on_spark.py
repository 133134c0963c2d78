"""NOW() in views on Spark: rows come and go as the clock goes, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import UnsupportedError

pytestmark = pytest.mark.spark


def test_rows_go_by_themselves_and_after_a_restart(spark: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "saved")
    db = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=folder)
    db.clock.set("2026-01-01 12:00:00")
    db.execute("CREATE TABLE r (k INT, ts TIMESTAMP, x INT)")
    db.insert("r", [(1, "2026-01-01 11:59:00", 5), (2, "2026-01-01 12:01:00", 7), (3, None, 1)])
    db.execute(
        "CREATE VIEW v AS SELECT k, SUM(x) AS t FROM r WHERE ts > NOW() - INTERVAL '2' MINUTE"
        " GROUP BY k;"
        "CREATE VIEW w AS SELECT k FROM r WHERE ts <= NOW()"
    )

    def rows(view: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in db.view(view).rows())

    assert (rows("v"), rows("w")) == ([(1, 5), (2, 7)], [(1,)])
    db.clock.advance(60)
    assert (rows("v"), rows("w")) == ([(2, 7)], [(1,), (2,)])
    with pytest.raises(UnsupportedError, match="compared with NOW"):
        db.apply_spark([("r", spark.createDataFrame([(4, None, 1)], "k INT, ts TIMESTAMP, x INT"))])
    db.close()
    db = viewlet.restore(folder, spark=spark)
    assert str(db.clock.now()) == "2026-01-01 12:01:00"
    db.clock.advance(119)
    assert rows("v") == [(2, 7)]
    db.clock.advance(1)
    assert (rows("v"), rows("w")) == ([], [(1,), (2,)])
    db.close()
