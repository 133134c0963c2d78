"""A fixed native loop that says how fast this machine is at this moment.

Random probes into a table of 64 MB and a little arithmetic on what is found: what triggers do most.
Benchmarks run it beside every measurement and report the ratio, which a slower or busier machine
hardly changes. It must stay as it is: figures of different versions are compared by it.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numba
import numpy as np

_WORDS = 1 << 23
_PROBES = 1_000_000


@numba.njit(cache=True, nogil=True)
def _probe(table: Any, probes: int) -> Any:
    """Follow a linear congruential sequence through the table; gives the sum of what was met."""
    total = np.uint64(0)
    place = np.uint64(88172645463325252)
    mask = np.uint64(len(table) - 1)
    for _ in range(probes):
        place = place * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        found = table[(place >> np.uint64(33)) & mask]
        total += found * np.uint64(3) + (total >> np.uint64(7))
    return total


@cache
def _table() -> Any:
    table = np.arange(_WORDS, dtype=np.uint64)
    _probe(table, 1000)
    return table


def probes_per_s(seconds: float = 0.04) -> float:
    """Probes in a second of processor time, over runs that take about so long in all."""
    table = _table()
    started = time.process_time()
    runs = 0
    while True:
        _probe(table, _PROBES)
        runs += 1
        used = time.process_time() - started
        if used >= seconds:
            return runs * _PROBES / used
