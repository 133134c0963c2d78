"""Work that no signal divides: Ctrl-C takes effect at its end.

Interrupted in between, arrays may have grown while their index has not, or an address may be that
of an array that is gone, and then the batch could not be undone. Kernels need no such care: Python
handles signals between its own instructions only.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undivided() -> Iterator[None]:
    """Signals that Python would handle inside are handled after the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread
        return
    pending: list[tuple[int, FrameType | None]] = []
    handlers = {
        number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))
    }
    for number in handlers:
        signal.signal(number, lambda number, frame: pending.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for raised, frame in pending:
            handlers[signal.Signals(raised)](raised, frame)
