"""A fixed native loop that says how fast this machine is at this moment.

Random probes into a table of 64 MB and a little arithmetic on what is found: what triggers do most.
Benchmarks run it beside every measurement and report the ratio, which a slower or busier machine
hardly changes. It must stay as it is: figures of different versions are compared by it.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from viewlet.native.compiled import code_of, compiled
from viewlet.storage.memory import load, unsigned_shift, wrapped_product, wrapped_sum

_WORDS = 1 << 23
_PROBES = 1_000_000


@compiled
def _probe(table: int, words: int, probes: int) -> int:
    """Follow a linear congruential sequence through the table; gives the sum of what was met."""
    total = 0
    state = 88172645463325252
    for _ in range(probes):
        state = wrapped_sum(wrapped_product(state, 6364136223846793005), 1442695040888963407)
        word = load(table, unsigned_shift(state, 33) & (words - 1))
        term = wrapped_sum(wrapped_product(word, 3), unsigned_shift(total, 7))
        total = wrapped_sum(total, term)
    return total


@cache
def _table() -> Any:
    return np.arange(_WORDS, dtype=np.int64)


def probes_per_s(seconds: float = 0.04) -> float:
    """Probes in a second of processor time, over runs that take about so long in all."""
    table, probe = _table().ctypes.data, code_of(_probe)
    probe(table, _WORDS, 1000)
    started = time.process_time()
    runs = 0
    while True:
        probe(table, _WORDS, _PROBES)
        runs += 1
        used = time.process_time() - started
        if used >= seconds:
            return runs * _PROBES / used
