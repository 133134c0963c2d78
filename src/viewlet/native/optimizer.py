"""Code that runs at once is made without optimization; better code takes its place later.

    first call      LLVM without any pass: a tenth of the time, for code that is some times slower
    a moment later  a thread of its own optimizes, function by function, while the GIL is free
    then            whoever calls the function runs the new code, from the next call on

Code that is on disk is optimized already, and what is optimized here goes there. A caller with much
to do waits for it (`wait`), since slow code would cost it more. At the end of the process the
function that is being optimized is finished, and the others are left to the next start.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viewlet.native.compiled import NativeFunction

logger = logging.getLogger("viewlet")

_QUIET = 0.1
"""Seconds without a new function after which it begins: LLVM does one thing at a time."""


class Optimizer:
    """The functions that wait for better code."""

    def __init__(self) -> None:
        self.is_at_once = False
        """Whether functions are optimized before their first call, as benchmarks want it."""
        self._waiting: deque[NativeFunction] = deque()
        self._changed = threading.Condition()
        self._compiling = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_urgent = False
        self._is_ending = False
        self._last = 0.0

    def add(self, function: NativeFunction) -> None:
        """A function that runs unoptimized code."""
        with self._changed:
            self._waiting.append(function)
            self._last = time.monotonic()
            if self._thread is None and not self._is_ending:
                self._thread = threading.Thread(
                    target=self._run, name="viewlet optimizer", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Until all functions that were added run optimized code."""
        with self._changed:
            if not self._waiting:
                return
            self._is_urgent = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting or self._thread is None)
            self._is_urgent = False

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_ending and not (self._waiting and self._may_begin()):
                    self._changed.wait(_QUIET if self._waiting else None)
                if self._is_ending:
                    self._thread = None
                    self._changed.notify_all()
                    return
                function = self._waiting[0]
            try:
                with self._compiling:
                    function.optimize()
            except Exception:
                logger.warning("%s stays unoptimized", function.__name__, exc_info=True)
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()

    def _may_begin(self) -> bool:
        return self._is_urgent or time.monotonic() - self._last >= _QUIET

    def end(self) -> None:
        """Finish what is being done, and nothing more."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # A fork has no thread, and must not begin while LLVM is at work.

    def before_fork(self) -> None:
        """Wait until LLVM is at rest."""
        self._compiling.acquire()
        self._changed.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._changed.release()
        self._compiling.release()

    def after_fork_in_child(self) -> None:
        """The next function begins a thread."""
        self._changed.release()
        self._compiling.release()
        self._thread = None
        self._is_urgent = False


OPTIMIZER = Optimizer()

atexit.register(OPTIMIZER.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=OPTIMIZER.before_fork,
        after_in_parent=OPTIMIZER.after_fork_in_parent,
        after_in_child=OPTIMIZER.after_fork_in_child,
    )
