"""Throughput that the tables and plots of docs/benchmarks.md are held against.

The figures of DBToaster are those that our targets were set by: its generated C++ on a machine of
this kind, on the same queries over the same data.
"""

from __future__ import annotations


def _millions(text: str) -> dict[str, float]:
    """'q1 7.0, q2 1.3' -> tuples per second by query."""
    pairs = (entry.split() for entry in text.split(","))
    return {query: 1e6 * float(value) for query, value in pairs}


SINGLE_TARGETS = _millions(
    "q1 7.0, q2 1.3, q3 8.0, q4 4.6, q5 0.85, q6 78, q7 1.5, q8 0.33, q10 8.2, q11 0.2, q12 10.5,"
    "q13 0.75, q14 13, q16 0.25, q17 0.39, q18 1.9, q19 21, q20 0.2, q21 0.8, q22 0.2,"
    "vwap 0.2, mst 0.02, psp 0.5, axf 2, bsp 2, bsv 2"
)
BATCH_TARGETS = _millions(
    "q1 62, q2 3.4, q3 22, q4 33, q5 4, q6 100, q7 4, q8 2, q9 0.3, q10 20, q11 3, q12 26, q13 1.8,"
    "q14 66, q15 0.05, q16 1, q17 2, q18 5.4, q19 40, q20 8, q21 2, q22 8"
)
DBTOASTER_BATCH = _millions(
    "q1 31, q2 1.7, q3 10.9, q4 16.7, q5 0.93, q6 85, q7 1.6, q8 0.34, q10 9.6, q11 1.6, q12 13,"
    "q13 0.9, q14 33, q16 0.28, q17 0.34, q18 2.7, q19 19, q20 5.5, q21 0.86, q22 5.2"
)
