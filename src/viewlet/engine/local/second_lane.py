"""A second thread for the second lane of a trigger (kernels.lanes).

Kernels run without the interpreter lock, so two of them run on two cores. Handing work to another
thread costs some ten microseconds, and lanes are not of equal length: whether two threads beat one
depends on program, rows and machine. Pace tries both and keeps to the faster one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache

Work = Callable[[], None]

FEWEST_ROWS = 2048
"""Of a batch that is worth a second thread."""

_AGAIN = 32
"""After so many batches the slower way is tried once more: the machine may have changed."""


class _Task:
    """One piece of work for the second thread, and how it ended."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.error: BaseException | None = None
        self.running = True
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # raised again by the thread that waits
            self.error = error
        self.running = False
        self.ended.release()

    def wait(self) -> None:
        """Until the work has ended, whatever happens: it writes to maps that others will read."""
        interrupt: BaseException | None = None
        while self.running:
            try:
                self.ended.acquire(timeout=1.0)
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


class SecondThread:
    """Runs one task at a time beside its caller."""

    def __init__(self) -> None:
        self._free = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._task: _Task | None = None
        threading.Thread(target=self._serve, name="viewlet-lane", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._wake.acquire()
            task, self._task = self._task, None
            assert task is not None
            task.run()

    def both(self, here: Work, there: Work) -> None:
        """Run two pieces of work at the same time; one after the other if the thread is taken.

        Ends when both have ended, and raises what either raised.
        """
        if not self._free.acquire(blocking=False):
            here()
            there()
            return
        try:
            task = self._task = _Task(there)
            self._wake.release()
            try:
                here()
            finally:
                task.wait()
        finally:
            self._free.release()
        if task.error is not None:
            raise task.error


def cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def second_thread() -> SecondThread:
    """The one of this process; a fork has no threads but its own."""
    return _second_thread(os.getpid())


@cache
def _second_thread(process: int) -> SecondThread:
    return SecondThread()


class Pace:
    """Seconds a row that one thread and two threads took lately, for one trigger."""

    def __init__(self) -> None:
        self._seconds: list[float | None] = [None, None]
        self._since = 0

    def in_two(self) -> bool:
        """Whether to use two threads for the next batch."""
        one, two = self._seconds
        if one is None or two is None:
            return one is not None
        self._since += 1
        if self._since < _AGAIN:
            return two < one
        self._since = 0
        return two >= one

    def took(self, in_two: bool, seconds: float, rows: int) -> None:
        """Maps grow and caches warm up: the last batches count most."""
        average = self._seconds[in_two]
        seconds_per_row = seconds / rows
        self._seconds[in_two] = (
            seconds_per_row if average is None else 0.5 * (average + seconds_per_row)
        )
