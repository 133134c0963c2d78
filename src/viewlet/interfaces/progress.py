"""How far long work has come: a line that changes on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.status import Status

PLAIN_SECONDS = 1.0
"""At most one plain line in this time, so that a log stays readable."""


class Progress:
    """Batches, rows and speed of a run."""

    def __init__(self, title: str, out: TextIO) -> None:
        self._title = title
        self._console = Console(file=out, highlight=False, soft_wrap=True)
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
        self.say(
            f"{self._batches:,} batches, {self._rows:,} rows in "
            f"{time.monotonic() - self._start:.1f} s; {reason}"
        )
