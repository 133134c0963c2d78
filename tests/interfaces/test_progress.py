"""Long work tells how far it is, where somebody looks, and is silent everywhere else."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest

import viewlet
from viewlet.interfaces import progress
from viewlet.interfaces.progress import Progress, measuring, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_measurements_stand_above_a_bar_on_a_terminal_only() -> None:
    for out, bar in ((Terminal(), True), (io.StringIO(), False)):
        with measuring("bench tpch", out) as done:
            done("q1 single: tuples/s 90M")
            done("q2 single: tuples/s 2M [sic]")
        text = out.getvalue()
        assert "q1 single: tuples/s 90M\n" in text
        assert "q2 single: tuples/s 2M [sic]\n" in text
        assert ("2 measured" in text) == bar


def test_a_run_has_a_line_that_changes_or_plain_lines() -> None:
    for out, escape in ((Terminal(), True), (io.StringIO(), False)):
        with Progress("p.sql", out) as shown:
            with shown.busy("compiling the views"):
                pass
            shown.step(1, 10, 0.001)
            shown.end("all sources are read")
        assert "compiling the views: 0.0 s" in out.getvalue()
        assert "1 batches, 10 rows" in out.getvalue()
        assert ("\x1b[" in out.getvalue()) == escape


def test_a_bar_comes_where_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    with waiting("restoring x"):
        time.sleep(0.2)
    assert out.getvalue() == "", "a program is no REPL"
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with waiting("restoring x"):
        pass
    assert out.getvalue() == "", "it was quick"
    with pytest.raises(KeyError), waiting("restoring x"):
        time.sleep(0.3)
        raise KeyError
    assert "restoring x" in out.getvalue()
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with waiting("restoring x"):
        time.sleep(0.2)
    assert pipe.getvalue() == "", "nobody sees a pipe"


def test_what_the_database_takes_its_time_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Views, large batches, checkpoints and restoring; single rows never start a bar."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    db = viewlet.connect("interpreter")
    db.execute("CREATE TABLE t (a INT)")
    db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM t")
    before = len(out.getvalue())
    db.insert("t", (1,))
    db.insert("t", [(2,), (3,)])
    assert len(out.getvalue()) == before
    db.insert("t", [(a,) for a in range(60_000)])
    db.checkpoint(str(tmp_path))
    assert viewlet.restore(str(tmp_path)).view("n")[()].n == 60_003
    for words in ("compiling views", "applying the batch", "writing a checkpoint", "restoring"):
        assert words in out.getvalue()
