"""The examples run as they are, and do what they say."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

import pytest

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
