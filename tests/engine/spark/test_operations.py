"""What people who run a database on Spark see of it: state on disk, jobs, rows, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.spark.test_spark_engine import engine_of
from typer.testing import CliRunner

import viewlet
from viewlet.cli import app
from viewlet.errors import StateError

pytestmark = pytest.mark.spark

SCHEMA = """
CREATE TABLE a (k INT NOT NULL, x BIGINT, PRIMARY KEY (k));
CREATE VIEW v AS SELECT k, SUM(x) AS x FROM a GROUP BY k;
"""


def test_state_and_snapshots_are_where_connect_says(spark: Any, tmp_path: Path) -> None:
    state, saved = tmp_path / "state", tmp_path / "saved"
    with viewlet.connect(
        "spark", spark=spark, partitions=2, checkpoint=str(saved), state_dir=str(state),
        snapshot_every=2,
    ) as db:  # fmt: skip
        db.execute(SCHEMA)
        frame = spark.createDataFrame([(k, 2 * k) for k in range(50)], "k INT, x BIGINT")
        db.apply_spark([("a", frame)], batch_id=("load", 7))
        assert any(path.is_file() for path in state.rglob("*")), "partitions are in state_dir"
        assert db.stats("v").rows_per_s > 0
        db.checkpoint()
    with viewlet.restore(str(saved), spark=spark, state_dir=str(state)) as db:
        assert (7, 14) in [tuple(row) for row in db.view("v").rows()]
        assert db.apply_spark([("a", frame)], batch_id=("load", 7)).is_repeated
    lines = CliRunner().invoke(app, ["inspect", str(saved)]).output.splitlines()
    assert lines[0].endswith("engine spark")
    assert any("VIEW v AS" in line for line in lines), lines
    assert any("load" in line and "7" in line for line in lines), lines


def test_jobs_say_which_batch_they_are_for(spark: Any) -> None:
    context = spark.sparkContext
    with viewlet.connect("spark", spark=spark, partitions=2) as db:
        db.execute(SCHEMA)
        context.setJobDescription("of the user")
        db.insert("a", [(1, 1)])
        assert context.getLocalProperty("spark.job.description") == "of the user"
    context.setJobDescription(None)


def test_a_version_is_logged_with_its_batch(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "viewlet")
    with viewlet.connect("spark", spark=spark, partitions=2) as db:
        db.execute(SCHEMA)
        frame = spark.createDataFrame([(1, 2)], "k INT, x BIGINT")
        batch = db.apply_spark([("a", frame)], batch_id=("load", 7))
        assert batch.rows == 1
    expected = f"version {batch.version}, batch 7 of load: "
    assert any(line.startswith(expected) for line in caplog.messages), caplog.messages


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, StateError | viewlet.ViewletError), result.exception


def test_a_hot_key_is_aggregated_where_its_rows_are(spark: Any) -> None:
    """Zipf's law with exponent 1.2 shuffles less than uniform keys do, and no partition has it all.

    Half of all rows are of three keys; each leaves a task as one record, however many rows it has.
    """
    numbers = np.random.default_rng(1)
    count, keys = 60_000, 30_000
    shuffled = {}
    for kind in ("uniform", "zipf"):
        zipf = np.minimum(numbers.zipf(1.2, count), keys - 1)
        key = zipf if kind == "zipf" else numbers.integers(0, keys, count)
        with viewlet.connect("spark", spark=spark, partitions=4) as db:
            db.execute("""
                CREATE STREAM sale (k BIGINT, x BIGINT);
                CREATE STREAM page (k BIGINT, p INT);
                CREATE VIEW by_key AS SELECT k, SUM(x) AS x FROM sale GROUP BY k;
                CREATE VIEW by_page AS
                SELECT p, COUNT(*) AS n FROM sale JOIN page ON sale.k = page.k GROUP BY p;
            """)
            pages = {"k": np.arange(keys), "p": (np.arange(keys) % 7).astype(np.int32)}
            db.apply_spark([("page", spark.createDataFrame(pa.table(pages)))])
            rows = pa.table({"k": key, "x": np.ones(count, np.int64)})
            db.apply_spark([("sale", spark.createDataFrame(rows))])
            shuffled[kind] = engine_of(db).metrics().bytes_shuffled
            values, counts = np.unique(key, return_counts=True)
            expected = dict(zip(values.tolist(), counts.tolist(), strict=True))
            assert {row.k: row.x for row in db.view("by_key").rows()} == expected
            assert sum(row.n for row in db.view("by_page").rows()) == count
    assert shuffled["zipf"] < shuffled["uniform"] / 2, shuffled
