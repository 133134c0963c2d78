"""ALTER TABLE and ALTER of a view's query over partitions, before and after a restart."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.test_alter import TABLES, VIEWS, rows_of

import viewlet


@pytest.mark.spark
def test_tables_on_spark_keep_their_rows(spark: Any, tmp_path: Path) -> None:
    directory = str(tmp_path / "checkpoint")
    with viewlet.connect("spark", spark=spark, checkpoint=directory) as db:
        db.execute(TABLES)
        for name in ("grouped", "joined"):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        db.execute(
            "INSERT INTO r VALUES (1, 2, 'y', 1), (2, 3, 'z', 2); INSERT INTO s VALUES (2, 7)"
        )
        db.execute("ALTER TABLE r ADD COLUMN f INT DEFAULT 4, RENAME b TO bb")
        db.execute("INSERT INTO r VALUES (3, 2, 'y', 5, 9); INSERT INTO s VALUES (3, 8)")
        db.execute(
            "ALTER MATERIALIZED VIEW grouped AS SELECT bb, SUM(d) AS total FROM r GROUP BY bb"
        )
    again = viewlet.restore(directory, engine="spark", spark=spark)
    with again:
        again.execute("DELETE FROM r WHERE a = 2; ALTER TABLE r DROP COLUMN f")
        assert rows_of(again, "grouped") == Counter([(2, Decimal(6))])
        assert rows_of(again, "joined") == Counter([(1, 7), (3, 7)])
        assert again.query("SELECT a, bb FROM r ORDER BY a").to_pylist() == [
            {"a": 1, "bb": 2},
            {"a": 3, "bb": 2},
        ]
