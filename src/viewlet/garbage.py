"""Python's collector of cyclic garbage, which trees that are made and kept have nothing to tell."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Parsing, planning and translating make many objects without cycles, and keep most: a quarter
    to half of the time would go to looking for garbage among them. Also a decorator.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
