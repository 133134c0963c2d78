"""The AIM benchmark of paper 004: calls of customers come in, six views say what to offer them.

The parameters are those of its evaluation, and query 6 is left out there as well. Views leave
their mode to measurements unless one is given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import viewlet
from viewlet_bench.output import Row

SCHEMA = """
CREATE TABLE customers (
  id BIGINT PRIMARY KEY, city_zip INT NOT NULL, region_id INT NOT NULL, type INT NOT NULL,
  category INT NOT NULL, value_type INT NOT NULL
) WITH (static = true);
CREATE STREAM events (
  entity_id BIGINT NOT NULL, week INT NOT NULL, duration INT NOT NULL, cost INT NOT NULL,
  long_distance BOOLEAN NOT NULL
);
"""
WEEK = 47
QUERIES = {
    "q1": "SELECT AVG(t_duration) AS average FROM (SELECT entity_id, SUM(duration) AS t_duration "
    "FROM events WHERE week = 47 GROUP BY entity_id "
    "HAVING COUNT(*) FILTER (WHERE NOT long_distance) > 2)",
    "q2": "SELECT MAX(max_cost) AS most FROM (SELECT entity_id, MAX(cost) AS max_cost "
    "FROM events WHERE week = 47 GROUP BY entity_id HAVING COUNT(*) > 2)",
    "q3": "SELECT num_calls, SUM(t_cost) AS t_cost, SUM(t_duration) AS t_duration FROM "
    "(SELECT entity_id, SUM(cost) AS t_cost, SUM(duration) AS t_duration, COUNT(*) AS num_calls "
    "FROM events WHERE week = 47 GROUP BY entity_id) GROUP BY num_calls LIMIT 100",
    "q4": "SELECT c.city_zip, AVG(num_calls) AS calls, SUM(duration_calls) AS duration FROM "
    "(SELECT entity_id, COUNT(*) AS num_calls, SUM(duration) AS duration_calls FROM events "
    "WHERE NOT long_distance AND week = 47 GROUP BY entity_id "
    "HAVING COUNT(*) > 4 AND SUM(duration) > 25) e, customers c "
    "WHERE e.entity_id = c.id GROUP BY c.city_zip",
    "q5": "SELECT c.region_id, SUM(CASE WHEN long_distance THEN cost END) AS cost_long, "
    "SUM(CASE WHEN NOT long_distance THEN cost END) AS cost_local FROM events e, customers c "
    "WHERE e.entity_id = c.id AND week = 47 AND c.type = 2 AND c.category = 1 "
    "GROUP BY c.region_id",
    "q7": "SELECT SUM(cost) AS cost, SUM(duration) AS duration FROM events e, customers c "
    "WHERE e.entity_id = c.id AND week = 47 AND c.value_type = 2",
}
BATCH = 1000


def customers(count: int) -> pa.Table:
    """So many customers; the same for every run."""
    draw = np.random.default_rng(1)
    names = {"city_zip": 1000, "region_id": 20, "type": 5, "category": 5, "value_type": 5}
    columns = {name: draw.integers(0, most, count, dtype=np.int32) for name, most in names.items()}
    return pa.table({"id": np.arange(count, dtype=np.int64), **columns})


def events(count: int, customer_count: int, seed: int = 2) -> pa.Table:
    """So many calls, a few of them of another week."""
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "entity_id": draw.integers(0, customer_count, count),
            "week": np.where(draw.random(count) < 0.02, WEEK - 1, WEEK).astype(np.int32),
            "duration": draw.integers(1, 60, count, dtype=np.int32),
            "cost": draw.integers(1, 100, count, dtype=np.int32),
            "long_distance": draw.random(count) < 0.3,
        }
    )


def measure(customer_count: int, seconds: float, mode: str = "auto") -> Iterator[Row]:
    """Creation, ingestion, reads beside it and after it, each with its target."""
    with viewlet.connect() as db:
        db.execute(SCHEMA)
        db.insert("customers", customers(customer_count))
        started = time.perf_counter()
        db.execute(
            ";".join(
                f"CREATE MATERIALIZED VIEW {name} WITH (maintenance = '{mode}') AS {text}"
                for name, text in QUERIES.items()
            )
        )
        yield _row("creation s", time.perf_counter() - started, 5.0, mode)
        table = events(400 * BATCH, customer_count).combine_chunks()
        parts = [table.slice(low, BATCH) for low in range(0, table.num_rows, BATCH)]
        db.insert("events", parts[0])
        for name in QUERIES:
            db.view(name).to_arrow()
        yield _row("events/s", _ingested(db, parts, seconds), 1e6, mode, at_least=True)
        for rate in (10_000, 50_000):
            for name, p50 in _read_beside(db, parts, rate, seconds).items():
                yield _row(f"{name} read p50 ms at {rate} events/s", 1e3 * p50, 1.0, mode)
        db.execute(
            "CREATE TABLE known (a INT); INSERT INTO known VALUES (1);"
            "CREATE MATERIALIZED VIEW plain WITH (maintenance = 'eager') AS "
            "SELECT a, COUNT(*) AS n FROM known GROUP BY a"
        )
        plain = _idle(db, "plain")
        for name in QUERIES:
            beyond = 1e6 * (_idle(db, name) - plain)
            yield _row(f"{name} read of nothing new, us over a kept view's", beyond, 10.0, mode)


def _row(what: str, value: float, target: float, mode: str, *, at_least: bool = False) -> Row:
    return {
        "query": what,
        "engine": "viewlet",
        "workload": "aim",
        "batch": BATCH,
        "mode": mode,
        "value": value,
        "target": target,
        "met": value >= target if at_least else value <= target,
    }


def _ingested(db: Any, parts: list[pa.Table], seconds: float) -> float:
    rows, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for part in parts[:50]:
            db.insert("events", part)
            rows += len(part)
    return rows / (time.perf_counter() - began)


def _read_beside(db: Any, parts: list[pa.Table], rate: int, seconds: float) -> dict[str, float]:
    """The median of each view's reads while events come in at a rate."""
    stop = threading.Event()

    def write() -> None:
        began, number = time.perf_counter(), 0
        while not stop.is_set():
            db.insert("events", parts[number % len(parts)])
            number += 1
            stop.wait(max(0.0, began + number * BATCH / rate - time.perf_counter()))

    writer = threading.Thread(target=write)
    writer.start()
    times: dict[str, list[float]] = {name: [] for name in QUERIES}
    began = time.perf_counter()
    try:
        while time.perf_counter() - began < seconds:
            for name, own in times.items():
                started = time.perf_counter()
                db.view(name).rows()
                own.append(time.perf_counter() - started)
    finally:
        stop.set()
        writer.join()
    return {name: float(np.median(own)) for name, own in times.items()}


def _idle(db: Any, name: str) -> float:
    view = db.view(name)
    view.to_arrow()
    times = []
    for _ in range(50):
        started = time.perf_counter()
        view.to_arrow()
        times.append(time.perf_counter() - started)
    return float(np.median(times))
