"""Work that no signal divides: Ctrl-C takes effect at its end.

Arrays that have grown while their index has not, or addresses of arrays that are no longer there,
would be met by whoever undoes the batch. Kernels are safe by themselves: Python handles signals
between its own instructions only.
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
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for which, frame in came:
            held[signal.Signals(which)](which, frame)
