"""One row at a time: quick, and without a trace in memory."""

import gc
import statistics
import time
import tracemalloc

import pytest
from tests.pace import slack

import viewlet


def prepared() -> viewlet.Database:
    db = viewlet.connect("local")
    db.execute(
        """
        CREATE STREAM s (a INT NOT NULL, b BIGINT NOT NULL);
        CREATE TABLE r (a INT NOT NULL, b BIGINT NOT NULL);
        CREATE VIEW v AS SELECT a, SUM(b) AS total, COUNT(*) AS n FROM s GROUP BY a;
        CREATE VIEW w AS SELECT a, SUM(b) AS total FROM r GROUP BY a;
        """
    )
    for i in range(2000):
        db.insert("s", (i % 50, i))
        db.insert("r", (i % 50, i))
    return db


def test_single_inserts_are_quick() -> None:
    """10 us at the median on a quiet machine (benchmarks/single_rows.py); CPU time with slack."""
    with prepared() as db:
        rounds = []
        for _ in range(7):
            start = time.process_time()
            for i in range(2000):
                db.insert("r", (i % 50, i))
            rounds.append((time.process_time() - start) / 2000)
    assert min(rounds) < slack() * 30e-6
    assert statistics.median(rounds) < slack() * 60e-6


@pytest.mark.parametrize("count", [20_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_memory_stays_flat(count: int) -> None:
    with prepared() as db:
        for i in range(12_000):
            db.insert("s", (i % 50, 1))
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        bytes_before = db.stats("v").bytes
        for i in range(count):
            db.insert("s", (i % 50, 1))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < 500_000
        assert db.stats("v").bytes == bytes_before
        assert db.view("v")[0].n == (2000 + 12_000 + count) // 50
