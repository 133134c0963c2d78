"""How a command ends when it is told to: Ctrl-C (SIGINT) and SIGTERM, with Spark beside it.

Before a command has anything to finish, both signals unwind it: Ctrl-C as always in
Python, SIGTERM by `terminate`. While it runs, the first one asks it to end (`stopping`) and the
second one unwinds. Spark's JVM hears neither of them
(`viewlet.engine.partitions.session.launcher`).
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def terminate(number: int, frame: FrameType | None) -> None:
    """A handler: SIGTERM unwinds as Ctrl-C does, so that whatever was started is closed."""
    sys.exit(128 + number)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second one acts as usual.

    To be entered after a SparkContext is made, which takes SIGINT for itself.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
