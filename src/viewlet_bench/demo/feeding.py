"""The demo's market as a source of changes for a database that somebody else shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from viewlet.interfaces.database import Database
from viewlet.interfaces.dml import Change
from viewlet_bench.demo.market import SCHEMA, Market
from viewlet_bench.demo.shown_views import VIEWS

ORDERS, BIDS = 40, 60
SECONDS = 0.2


@contextmanager
def feeding(database: Database, seed: int = 7) -> Iterator[None]:
    """The demo's tables and views, and a thread that changes them until the end of the block."""
    database.execute(SCHEMA)
    database.execute(";".join(view.statement for view in VIEWS))
    market = Market(seed, customers=500, book=2_000)
    ended = threading.Event()

    def feed() -> None:
        changes = market.opening()
        while not ended.is_set():
            database.apply([Change(d.relation, d.rows, d.weight) for d in changes])
            changes = market.tick(ORDERS, BIDS)
            ended.wait(SECONDS)

    thread = threading.Thread(target=feed, name="viewlet-demo")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
