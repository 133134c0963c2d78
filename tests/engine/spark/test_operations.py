"""What people who run a database on Spark see of it: state on disk, jobs, rows, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
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


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "nowhere")])
    assert isinstance(result.exception, StateError | viewlet.ViewletError), result.exception
