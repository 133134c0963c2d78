"""The examples run as they are, and do what they say."""

from __future__ import annotations

import importlib
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from viewlet.engine.partitions.session import spark_session

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> Any:
    return importlib.import_module(f"examples.{name}")


def test_order_book_alert() -> None:
    alerts = example("order_book_alert").main(events=1500, limit=45.0)
    assert alerts
    assert [wide for wide, _ in alerts] == [at % 2 == 0 for at in range(len(alerts))]
    assert all((spread > 45.0) == wide for wide, spread in alerts)


def test_policy_monitor() -> None:
    seen = example("policy_monitor").main(batches=40)
    for rule in ("large", "busy", "unknown"):
        assert seen[rule, "now"] > 0
    assert seen["unknown", "over"] > 0  # late registrations


@pytest.mark.slow
@pytest.mark.spark
def test_retail_dashboard() -> None:
    kept = example("retail_dashboard").main(files=2)
    assert sum(row[1] for row in kept) == 400


@pytest.mark.slow
@pytest.mark.spark
def test_change_data(tmp_path: Path) -> None:
    """Killed between the view's batch and the table's, then run again: equal to Spark SQL."""
    script = EXAMPLES / "change_data.py"
    command = [sys.executable, str(script), str(tmp_path / "home"), "--files", "4"]
    killed = subprocess.run([*command, "--kill-after", "2"], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    made = example("change_data")
    rows = made.main(tmp_path / "home")
    spark = spark_session()
    spark.read.parquet(str(tmp_path / "home" / "changes")).createOrReplaceTempView("changes")
    gone = "op IN ('delete', 'update_preimage')"
    expected = spark.sql(
        f"SELECT customer, SUM(IF({gone}, -1, 1)), SUM(IF({gone}, -amount, amount)) "
        "FROM changes GROUP BY customer"
    )
    assert rows == sorted(tuple(row) for row in expected.collect() if row[1])


@pytest.mark.slow
def test_live_regression(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    made = example("live_regression")
    monkeypatch.setattr(made, "EVENTS", 300)
    made.main()
    assert "300 arrivals and departures" in capsys.readouterr().out


@pytest.mark.slow
def test_sensor_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sensor_filter.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "sensor_filter.py"), run_name="__main__")
    assert (tmp_path / "spectral.png").exists()


def test_every_example_is_tested() -> None:
    text = (
        Path(__file__).read_text() + (Path(__file__).parent / "server/test_poll_app.py").read_text()
    )
    for path in EXAMPLES.glob("*.py"):
        assert path.stem in text, f"{path.name} has no test"
