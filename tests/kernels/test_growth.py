"""The time of an update does not grow with what is there: ordered indexes answer in O(log n)."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.frontend.oracle import SQL, lower_last, read_catalog

from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.values.batching import Batch
from viewlet.planner.viewlets import compile_program
from viewlet.storage.columns import Array

SCHEMA = (SQL / "finance" / "schema.sql").read_text()
EXTREMES = """CREATE MATERIALIZED VIEW v AS
SELECT broker_id, MIN(price) AS low, MAX(price) AS high FROM bids GROUP BY broker_id;"""
FEW, MANY = 1_000, 100_000
EVENTS = 4_000


class Book:
    """Bids and asks that rest, with as many new ones as canceled ones coming."""

    def __init__(self, query: str, resting: int) -> None:
        catalog = read_catalog(SCHEMA)
        program = compile_program(catalog, [lower_last(query, catalog)])
        self.engine = LocalEngine(program, single=True)
        self.read = [trigger.relation for trigger in program.triggers]
        rng = np.random.default_rng(resting)
        total = resting + EVENTS
        self.columns = [
            np.arange(total, dtype=np.float64),
            np.arange(total),
            rng.integers(0, 10, total),
            rng.integers(1, 10_000, total).astype(np.float64),
            np.round(rng.normal(1e5, 1e4, total), 2),
        ]
        self.resting = resting
        self.canceled = rng.permutation(resting)
        self._apply(np.arange(resting), np.ones(resting, np.int64))

    def _apply(self, rows: Array, weights: Array) -> None:
        batch = Batch([column[rows] for column in self.columns], [None] * 5, weights)
        self.engine.apply([(relation, batch) for relation in self.read])

    def events(self) -> float:
        """CPU seconds of an event: inserts and cancellations by turns, one by one."""
        half = EVENTS // 4
        best = float("inf")
        for part in range(2):
            rows = np.empty(2 * half, np.int64)
            rows[::2] = self.resting + part * half + np.arange(half)
            rows[1::2] = self.canceled[np.arange(part * half, (part + 1) * half) % self.resting]
            if part * half >= self.resting:
                rows[1::2] = rows[::2]
            weights = np.tile(np.array([1, -1]), half)
            begin = time.process_time()
            self._apply(rows, weights)
            best = min(best, (time.process_time() - begin) / (len(rows) * len(self.read)))
        return best


def finance(name: str) -> str:
    return (SQL / "finance" / f"{name}.sql").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vwap", "psp", "axf", "bsp", "mst", "extremes"])
def test_a_hundred_times_as_many_orders_cost_about_the_same(name: str) -> None:
    """A loop over the orders would make it a hundred times; caches alone make it two or three."""
    query = EXTREMES if name == "extremes" else finance(name)
    few, many = Book(query, FEW).events(), Book(query, MANY).events()
    print(f"{name}: {few * 1e6:.2f} us at {FEW}, {many * 1e6:.2f} us at {MANY}")
    assert many < 12 * few
