"""Latency of single rows through the public API: python benchmarks/single_rows.py [ROWS]

Prints the median and the 99th percentile of `db.insert` after warm-up, for a table and a stream,
and the growth of the process over all inserts.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import viewlet

SCHEMA = """
CREATE TABLE r (a INT NOT NULL, b BIGINT NOT NULL);
CREATE STREAM s (a INT NOT NULL, b BIGINT NOT NULL);
CREATE STREAM t (k VARCHAR, x DOUBLE, p DECIMAL(12,2));
CREATE VIEW of_r AS SELECT a, SUM(b) AS total FROM r GROUP BY a;
CREATE VIEW of_s AS SELECT a, SUM(b) AS total, COUNT(*) AS n FROM s GROUP BY a;
CREATE VIEW of_t AS SELECT k, SUM(x) AS x, AVG(p) AS p FROM t GROUP BY k;
"""


def measure(name: str, insert: Callable[[int], object], count: int) -> None:
    for i in range(20_000):
        insert(i)
    times = []
    clock = time.perf_counter_ns
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    for i in range(count):
        before = clock()
        insert(i)
        after = clock()
        if i < 1_000_000:
            times.append(after - before)
    cpu = (time.process_time() - start) / count
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    times.sort()
    p50, p99 = times[len(times) // 2] / 1000, times[int(len(times) * 0.99)] / 1000
    print(
        f"{name:28} p50 {p50:6.2f} us   p99 {p99:6.2f} us   CPU {cpu * 1e6:6.2f} us/row   "
        f"{count} rows, peak memory +{grown:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=200_000)
    count = parser.parse_args().rows
    with viewlet.connect() as db:
        db.execute(SCHEMA)
        measure("stream of two integers", lambda i: db.insert("s", (i % 1000, i)), count)
        # The table keeps a row for each different pair: 20,000 of them.
        measure("table of two integers", lambda i: db.insert("r", (i % 1000, i % 20)), count)
        measure("stream of text and numbers", lambda i: db.insert("t", ("k", 0.5, 3)), count)


if __name__ == "__main__":
    main()
