"""Whether functions are compiled in this process.

VIEWLET_NATIVE=0          compiled functions and kernels stay what they are in Python: slow, and
                          the same answers
VIEWLET_NATIVE=1          they are compiled, which is the default
NUMBA_DISABLE_JIT=1       as VIEWLET_NATIVE=0 where that is not set: one word for everything
                          that viewlet compiles, the signals' kernels as well
"""

from __future__ import annotations

import os
from functools import cache

from viewlet.errors import StateError

_CHOICES = {"0": False, "1": True}


@cache
def is_enabled() -> bool:
    """Read once: what was decorated before cannot change."""
    chosen = os.environ.get("VIEWLET_NATIVE", "")
    if not chosen:
        return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
    if chosen not in _CHOICES:
        raise StateError(
            f"VIEWLET_NATIVE is {chosen!r}", hint="0 runs kernels as Python, 1 compiles them"
        )
    return _CHOICES[chosen]
