"""How fast this machine runs Python just now: limits on time are multiples of it.

Machines share their processors with others: the same code takes one to four times as long from
one minute to the next, and coverage traces every line. A limit in seconds alone would fail for
reasons that are not ours.
"""

from __future__ import annotations

import sys
import time

ADDITIONS = 200_000
CROWD_SECONDS = 0.3
QUIET_SECONDS = 0.006
"""Processor time of the additions on the machine, and in the minutes, that limits are for."""
TRACED = 4
"""How many times as long code takes that coverage traces."""


def slack() -> float:
    """What to multiply a limit by: 1 on a quiet machine, more on a slow or traced one."""
    slowest = 0.0
    for _ in range(3):
        start = time.process_time()
        total = 0
        for i in range(ADDITIONS):
            total += i
        slowest = max(slowest, time.process_time() - start)
    return max(1.0, slowest / QUIET_SECONDS) * (TRACED if sys.gettrace() else 1)


def crowding() -> float:
    """How many seconds pass while a busy process gets one: 1 where a processor is free for it."""
    start, began = time.process_time(), time.perf_counter()
    while (busy := time.process_time() - start) < CROWD_SECONDS:
        pass
    return max(1.0, (time.perf_counter() - began) / busy)
