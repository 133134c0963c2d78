"""When not to look for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage() -> Iterator[None]:
    """Planning and translating make many objects and drop few: up to half of the time would go to
    looking for garbage among them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
