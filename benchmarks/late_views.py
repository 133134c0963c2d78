"""Views that come and go after rows: python benchmarks/late_views.py [ROWS] [--only ENGINE]

Prints the seconds of CREATE VIEW and DROP VIEW over a table of ROWS rows, on the local engine and
on Spark beside each other. A stream has brought rows before, so that maps have to move. Each
statement is executed twice: the first time its kernels may have to be compiled.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import viewlet
from viewlet.interfaces.database import Database

SCHEMA = """
CREATE TABLE sales (id BIGINT NOT NULL PRIMARY KEY, shop INT NOT NULL, item INT NOT NULL,
                    price DECIMAL(12,2) NOT NULL, note VARCHAR);
CREATE TABLE shops (shop INT NOT NULL PRIMARY KEY, town VARCHAR NOT NULL);
CREATE STREAM clicks (shop INT NOT NULL);
CREATE VIEW clicked AS SELECT shop, COUNT(*) AS n FROM clicks GROUP BY shop;
CREATE VIEW by_item AS SELECT item, SUM(price) AS total FROM sales GROUP BY item;
"""
VIEWS = {
    "by_shop": "SELECT shop, SUM(price) AS total, COUNT(*) AS n FROM sales GROUP BY shop",
    "by_town": "SELECT town, SUM(price) AS total FROM sales JOIN shops "
    "ON sales.shop = shops.shop GROUP BY town",
    "by_note": "SELECT note, MAX(price) AS highest FROM sales GROUP BY note",
}
SHOPS, BATCH = 1_000, 250_000


def filled(engine: str, rows: int) -> Database:
    """A database with all rows in its tables and three views' worth of maps to move."""
    db = viewlet.connect(engine)
    db.execute(SCHEMA)
    rng = np.random.default_rng(1)
    db.insert("shops", {"shop": np.arange(SHOPS), "town": [f"town {i % 50}" for i in range(SHOPS)]})
    notes = np.array([f"note {i}" for i in range(5_000)], object)
    for low in range(0, rows, BATCH):
        count = min(BATCH, rows - low)
        columns: dict[str, Any] = {
            "id": np.arange(low, low + count),
            "shop": rng.integers(0, SHOPS, count),
            "item": rng.integers(0, 20_000, count),
            "price": rng.integers(1, 10_000, count),
            "note": notes[rng.integers(0, len(notes), count)],
        }
        db.insert("sales", columns)
    db.insert("clicks", {"shop": rng.integers(0, SHOPS, 10_000)})
    return db


def measure(engine: str, rows: int) -> dict[str, list[float]]:
    """Seconds of each statement, the first time and the second."""
    seconds: dict[str, list[float]] = {}
    with filled(engine, rows) as db:
        for name, text in VIEWS.items():
            for statement in (f"CREATE VIEW {name} AS {text}", f"DROP VIEW {name}") * 2:
                started = time.perf_counter()
                db.execute(statement)
                taken = time.perf_counter() - started
                seconds.setdefault(" ".join(statement.split()[:3]), []).append(taken)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["local", "spark"])
    given = parser.parse_args()
    engines = [given.only] if given.only else ["local", "spark"]
    found = {engine: measure(engine, given.rows) for engine in engines}
    heads = (f"{engine + ', ' + time:>14}" for engine in engines for time in ("first", "again"))
    print(f"{given.rows:,} rows".ljust(24), *heads)
    for statement in found[engines[0]]:
        times = (taken for engine in engines for taken in found[engine][statement])
        print(f"{statement:24}", *(f"{taken:12.2f} s" for taken in times))


if __name__ == "__main__":
    main()
