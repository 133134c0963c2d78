"""Several writers of single rows, and writers beside a long query: rates and waits, with targets.

`plain` is a sum that costs next to nothing, `anew` a view whose every batch looks for a maximum,
`durable` a database that waits for the disk. Four threads are compared with one that waits for each
row, in the same run.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import viewlet
from viewlet_bench.output import Row

_THREADS = 4
_PLAIN = """
CREATE STREAM r (s INT, price INT);
CREATE VIEW v AS SELECT s, SUM(price) AS total FROM r GROUP BY s;
"""
_ANEW = """
CREATE STREAM r (s INT, price INT);
CREATE VIEW revenue AS SELECT s, SUM(price) AS total FROM r GROUP BY s;
CREATE MATERIALIZED VIEW v WITH (maintenance = 'eager') AS
SELECT s, total FROM revenue WHERE total = (SELECT MAX(total) FROM revenue);
"""


def measure(rows: int, seconds: float) -> Iterator[Row]:
    """Four writers over one, for each case; then inserts while a query runs."""
    for case, count in (("plain", rows), ("anew", rows // 10), ("durable", rows // 50)):
        one = _rate(case, count, 1, waits=True)
        for waits in (True, False):
            rate = _rate(case, count, _THREADS, waits=waits)
            what = f"{case}: {_THREADS} writers over 1, {'waiting' if waits else 'futures'}"
            yield _row(what, rate / one, 2.0, at_least=True) | {"tuples_per_s": rate}
    yield _row("insert p99 ms beside a query", 1e3 * _beside_query(seconds), 5.0)


def _row(what: str, value: float, target: float, *, at_least: bool = False) -> Row:
    return {
        "query": what,
        "engine": "viewlet",
        "workload": "writers",
        "batch": 1,
        "value": value,
        "target": target,
        "met": value >= target if at_least else value <= target,
    }


def _rate(case: str, rows: int, threads: int, *, waits: bool) -> float:
    """Rows a second; none may be lost."""
    with tempfile.TemporaryDirectory() as folder:
        durable = viewlet.connect(Path(folder, "w.viewlet")) if case == "durable" else None
        with durable or viewlet.connect() as db:
            db.execute(_ANEW if case == "anew" else _PLAIN)
            known = 20_000 if case == "anew" else 100
            db.insert("r", {"s": list(range(known)), "price": [1] * known})
            db.insert("r", (1, 1))
            each = max(rows // threads, 1)
            writers = [threading.Thread(target=_writer(db, each, waits)) for _ in range(threads)]
            began = time.perf_counter()
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            seconds = time.perf_counter() - began
            assert db.stats("v").refreshes >= 1
            return threads * each / seconds


def _writer(db: Any, rows: int, waits: bool) -> Callable[[], None]:
    def write() -> None:
        if waits:
            for i in range(rows):
                db.insert("r", (i % 100, 1))
            return
        put = db.inserter("r", wait=False)
        futures = [put(i % 100, 1) for i in range(rows)]
        assert all(future.result() == 1 for future in futures)

    return write


def _beside_query(seconds: float) -> float:
    """The 99th percentile of an insert's seconds while ad-hoc queries run in another thread."""
    with viewlet.connect() as db:
        db.execute(_PLAIN + "CREATE TABLE k (i INT);")
        db.insert("k", {"i": list(range(3000))})
        db.insert("r", (1, 1))
        stop = threading.Event()

        def query() -> None:
            text = "SELECT SUM(a.i * b.i) AS s FROM k a, k b, v WHERE a.i % 7 <> b.i % 5"
            while not stop.is_set():
                db.query(text)

        reader = threading.Thread(target=query)
        reader.start()
        times: list[float] = []
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            started = time.perf_counter()
            db.insert("r", (1, 1))
            times.append(time.perf_counter() - started)
            time.sleep(0.0005)
        stop.set()
        reader.join()
    return float(np.quantile(times, 0.99))
