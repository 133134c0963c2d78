"""An order book that raises an alarm when bids and asks drift apart.

Two views keep a volume-weighted price: of the best quarter of all bids and of the best quarter of
all asks (both nested aggregates: a bid counts while the volume above it is less than a quarter of
all volume). A callback gets the changes of both in the batch that made them, and prints an alert
when the distance between the two prices crosses the limit, up or down.

    python examples/order_book_alert.py [--events 20000] [--limit 60]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque

import viewlet

SQL = """
CREATE STREAM bids (id INT NOT NULL, price INT NOT NULL, volume INT NOT NULL);
CREATE STREAM asks (id INT NOT NULL, price INT NOT NULL, volume INT NOT NULL);

CREATE MATERIALIZED VIEW best_bids AS
SELECT SUM(b.price * b.volume) AS turnover, SUM(b.volume) AS volume FROM bids b
WHERE 0.25 * (SELECT SUM(every.volume) FROM bids every)
    > (SELECT SUM(better.volume) FROM bids better WHERE better.price > b.price);

CREATE MATERIALIZED VIEW best_asks AS
SELECT SUM(a.price * a.volume) AS turnover, SUM(a.volume) AS volume FROM asks a
WHERE 0.25 * (SELECT SUM(every.volume) FROM asks every)
    > (SELECT SUM(better.volume) FROM asks better WHERE better.price < a.price);
"""


class Spread:
    """Follows both views by their changes, and speaks up when the limit is crossed."""

    def __init__(self, db: viewlet.Database, limit: float) -> None:
        self.limit = limit
        self.prices: dict[str, float] = {}
        self.wide = False
        self.alerts: list[tuple[bool, float]] = []
        for side in ("best_bids", "best_asks"):
            db.subscribe(side, self.changed)

    def changed(self, batch: viewlet.ViewBatch) -> None:
        for row in batch.inserted:
            if row.volume:
                self.prices[batch.view] = row.turnover / row.volume
        if len(self.prices) == 2:
            self.check(self.prices["best_asks"] - self.prices["best_bids"])

    def check(self, spread: float) -> None:
        if (spread > self.limit) != self.wide:
            self.wide = not self.wide
            self.alerts.append((self.wide, spread))
            print(f"spread {'above' if self.wide else 'below'} {self.limit:.0f}: {spread:.2f}")


def main(events: int = 20_000, limit: float = 60.0) -> list[tuple[bool, float]]:
    db = viewlet.connect()
    db.execute(SQL)
    spread = Spread(db, limit)
    rng = random.Random(11)
    book: dict[str, deque[tuple[int, int, int]]] = {"bids": deque(), "asks": deque()}
    middle, gap = 10_000.0, 20.0
    start = time.perf_counter()
    for event in range(events):
        middle += rng.gauss(0, 0.5)
        gap = max(5.0, gap + rng.gauss(0, 0.6))
        side = "bids" if rng.random() < 0.5 else "asks"
        away = int(gap / 2 + rng.expovariate(1 / 30))
        price = int(middle) + (away if side == "asks" else -away)
        order = (event, price, rng.randint(1, 100))
        changes = [viewlet.Change(side, order, 1)]
        book[side].append(order)
        if len(book[side]) > 500:  # the oldest order is withdrawn in the same batch
            changes.append(viewlet.Change(side, book[side].popleft(), -1))
        db.apply(changes)
    seconds = time.perf_counter() - start
    figures = db.stats("best_bids")
    print(f"{events:,} events in {seconds:.1f} s, {len(spread.alerts)} alerts")
    print(f"refresh p50 {figures.p50_ms:.3f} ms, p99 {figures.p99_ms:.3f} ms")
    db.close()
    return spread.alerts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--limit", type=float, default=60.0)
    arguments = parser.parse_args()
    main(arguments.events, arguments.limit)
