"""Commands that are told to end: what they leave behind is nothing but a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import parquet
from tests.interfaces.kinds import SHOPS

from viewlet.interfaces.stopping import stopping, terminate
from viewlet.pipeline.sinks import WEIGHT

SOURCE = Path(__file__).parents[2] / "src"


class Command:
    """A command in a session of its own, as a terminal or a service manager starts it.

    Whatever it starts inherits a mark in its environment, by which strays are found.
    """

    def __init__(self, *arguments: str) -> None:
        self._mark = f"VIEWLET_TEST={os.getpid()}-{time.monotonic_ns()}"
        name, _, value = self._mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "viewlet.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), name: value},
        )

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        """However the test went: the session's processes go, Spark's workers follow the JVM."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def wait_until(self, there: Iterator[object], seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not next(there):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def end(self, number: signal.Signals, group: bool = True) -> str:
        """Send the signal (to the whole process group) and wait for the output's end."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        return self.output()

    def output(self) -> str:
        shown, _ = self.process.communicate(timeout=600)
        self.wait_until_alone()
        return shown

    def wait_until_alone(self, seconds: float = 20) -> None:
        """Spark's JVM sees that its parent has gone, and takes its Python workers with it."""
        deadline = time.monotonic() + seconds
        while strays := self._strays():
            assert time.monotonic() < deadline, strays
            time.sleep(0.1)

    def _strays(self) -> list[str]:
        commands = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and self._mark.encode() in (
                    (process / "environ").read_bytes().split(b"\0")
                ):
                    commands.append(
                        (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    )
            except OSError:
                continue  # it has just ended, or is somebody else's
        return commands


def files(count: int) -> Iterator[bool]:
    while True:
        yield len(list(Path("out").glob("*.parquet"))) >= count


def state() -> Iterator[bool]:
    while True:
        yield Path("p.state").exists()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("shops.csv").write_text("id,name\n1,ada\n2,bob\n")
    Path("p.sql").write_text(SHOPS)
    yield tmp_path


def add(name: str, rows: str) -> None:
    Path("in", f".{name}").write_text(rows)
    Path("in", f".{name}").rename(Path("in", name))


def mirrored() -> dict[str, tuple[str, int]]:
    """The view that the files of changes add up to; a row that comes twice is an error."""
    rows: dict[tuple[str, str, int], int] = {}
    for file in sorted(Path("out").glob("*.parquet")):
        for row in parquet.read_table(file).to_pylist():
            key = (row["name"], str(row["total"]), row["n"])
            rows[key] = rows.get(key, 0) + row[WEIGHT]
    assert set(rows.values()) <= {0, 1}, rows
    return {name: (total, n) for (name, total, n), weight in rows.items() if weight}


@pytest.mark.slow
@pytest.mark.spark
def test_signals_save_on_spark_and_the_next_run_goes_on(folder: Path) -> None:
    """Ctrl-C, then SIGTERM to all processes, then to the end: every row counts once."""
    add("a.csv", "1,1\n")
    with Command("run", "p.sql") as command:
        command.wait_until(files(1))
        add("b.csv", "1,2\n")
        command.wait_until(files(2))
        shown = command.end(signal.SIGINT)
    assert command.process.returncode == 0, shown
    assert "stopped; run it again to go on" in shown
    assert str(SOURCE) not in shown  # no trace of ours
    add("c.csv", "2,4\n")
    with Command("run", "p.sql") as command:
        command.wait_until(files(3))
        shown = command.end(signal.SIGTERM)
    assert command.process.returncode == 0, shown
    assert "stopped; run it again to go on" in shown
    assert str(SOURCE) not in shown  # no trace of ours
    add("d.csv", "1,8\n2,16\n")
    with Command("run", "p.sql", "--once") as command:
        shown = command.output()
    assert "all sources are read" in shown
    assert mirrored() == {"ada": ("11.00", 3), "bob": ("20.00", 2)}
    assert len(list(Path("out").iterdir())) == 4


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_starting_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    add("a.csv", "1,1\n")
    with Command("run", "p.sql") as command:
        command.wait_until(state())  # Spark is up, and the views are being compiled
        shown = command.end(number)
    assert command.process.returncode == 128 + number, shown
    assert str(SOURCE) not in shown  # no trace of ours
    add("b.csv", "1,2\n")
    with Command("run", "p.sql", "--once") as command:
        shown = command.output()
    assert mirrored() == {"ada": ("3.00", 2)}, shown


@pytest.mark.slow
@pytest.mark.spark
def test_a_demo_that_is_told_to_end_shows_its_summary() -> None:
    lines: list[str] = []

    def tables() -> Iterator[bool]:
        assert command.process.stdout is not None
        for line in command.process.stdout:
            lines.append(line)
            yield "refreshed in" in line

    with Command("demo", "--seconds=120") as command:
        command.wait_until(tables())
        shown = command.end(signal.SIGTERM)
    assert command.process.returncode == 0, lines
    assert "Summary" in shown
    assert str(SOURCE) not in shown  # no trace of ours


def test_a_demo_in_process_ends_at_once() -> None:
    with Command("demo", "--engine=local", "--seconds=120") as command:
        assert command.process.stdout is not None
        first = command.process.stdout.readline()
        assert "local" in first
        shown = command.end(signal.SIGTERM)
    assert command.process.returncode in (0, 143), shown
    assert str(SOURCE) not in shown  # no trace of ours


def test_the_first_signal_asks_and_the_second_acts() -> None:
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with stopping() as stop:
            assert not stop.is_set()
            signal.raise_signal(signal.SIGTERM)
            assert stop.is_set()
            with pytest.raises(SystemExit) as raised:
                signal.raise_signal(signal.SIGTERM)
            assert raised.value.code == 143
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGTERM, before)
