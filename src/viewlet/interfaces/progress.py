"""How far long work has come, all of it on standard error.

Progress     batches and speed of a run: a line that changes on a terminal, else plain lines
measuring    a benchmark's rows as they come, above a bar that tells what is under way
waiting      compiling, loading, saving and restoring in a REPL or a notebook: a bar that comes
             only where somebody would begin to wonder; in programs there is silence
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.status import Status

PLAIN_SECONDS = 1.0
"""At most one plain line in this time, so that a log stays readable."""


PATIENCE_SECONDS = 1.0
"""How long somebody waits before a bar comes."""


class Progress:
    """Batches, rows and speed of a run."""

    def __init__(self, title: str, out: TextIO) -> None:
        self._title = title
        self._console = _console(out)
        self._status: Status | None = None
        self._start = time.monotonic()
        self._batches = self._rows = 0
        self._busy_seconds = 0.0
        self._shown = float("-inf")

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._status = self._console.status(f"{self._title}: starting")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def say(self, text: str) -> None:
        """A line about something else than a batch."""
        self._console.print(f"{self._title}: {text}")

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Shown while it lasts; off a terminal, said once."""
        start = time.monotonic()
        if self._status is not None:
            self._status.update(f"{self._title}: {text}")
        yield
        self.say(f"{text}: {time.monotonic() - start:.1f} s")

    def step(self, batch: int, rows: int, seconds: float) -> None:
        """Count a batch and show how far the run is and how fast."""
        self._batches += 1
        self._rows += rows
        self._busy_seconds += seconds
        rate = self._rows / self._busy_seconds if self._busy_seconds else 0.0
        line = (
            f"{self._title}: batch {batch}, {rows:,} rows in {seconds * 1000:,.1f} ms; "
            f"{self._rows:,} rows so far, {rate:,.0f} rows/s"
        )
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._shown >= PLAIN_SECONDS:
            self._console.print(line)
            self._shown = time.monotonic()

    def end(self, reason: str) -> None:
        """The closing line: batches, rows, the time they took, and why it ended."""
        self.say(
            f"{self._batches:,} batches, {self._rows:,} rows in "
            f"{time.monotonic() - self._start:.1f} s; {reason}"
        )


@contextmanager
def measuring(title: str, out: TextIO | None = None) -> Iterator[Callable[[str], None]]:
    """What to call with each finished measurement; the bar is there on a terminal only."""
    console = _console(out or sys.stderr)
    with _bars(console) as bars:
        task = bars.add_task(title, total=None)
        count = 0

        def done(line: str) -> None:
            nonlocal count
            count += 1
            console.print(line, markup=False)
            bars.update(task, description=f"{title}: {count} measured, the next is under way")

        yield done


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A bar with the time, from PATIENCE_SECONDS on, where somebody sits and waits."""
    if not is_interactive():
        yield
        return
    bars = _bars(_console(sys.stderr))

    def show() -> None:
        bars.add_task(text, total=None)
        bars.start()

    timer = threading.Timer(PATIENCE_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bars.stop()


def is_interactive() -> bool:
    """Whether this is a REPL or a notebook."""
    return hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")


def _console(out: TextIO) -> Console:
    from rich.console import Console  # not at the top: a program that shows nothing needs none

    return Console(file=out, highlight=False, soft_wrap=True)


def _bars(console: Console) -> Bars:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (_has_widgets() if console.is_jupyter else console.is_terminal),
    )


def _has_widgets() -> bool:
    """Whether a notebook can show bars: without ipywidgets rich would warn in the first cell."""
    return importlib.util.find_spec("ipywidgets") is not None
