"""A seeded source of changes: a shop in the manner of TPC-H, and an order book of bids.

A third of the customers never order, as in TPC-H; some orders are canceled later, with all their
lines; bids follow a wandering price, and the oldest leave when the book is full. The same seed
gives the same changes on every machine.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = """
CREATE TABLE customer (
    c_custkey INT PRIMARY KEY, c_name VARCHAR NOT NULL, c_mktsegment VARCHAR NOT NULL);
CREATE STREAM orders (
    o_orderkey BIGINT PRIMARY KEY, o_custkey INT NOT NULL, o_orderdate DATE NOT NULL);
CREATE STREAM lineitem (
    l_orderkey BIGINT, l_linenumber INT, l_quantity INT NOT NULL,
    l_extendedprice DECIMAL(12,2) NOT NULL, l_discount DECIMAL(4,2) NOT NULL,
    PRIMARY KEY (l_orderkey, l_linenumber));
CREATE STREAM bids (
    id BIGINT PRIMARY KEY, broker INT NOT NULL, price INT NOT NULL, volume INT NOT NULL);
"""

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_FIRST_DAY = 19_723  # 2024-01-01
_TICKS_A_DAY = 20


@dataclass(frozen=True)
class MarketDelta:
    """Rows of one relation that come (weight 1) or go (weight -1)."""

    relation: str
    rows: pa.Table
    weight: int


class Market:
    """Call `opening` once, then `tick` as often as you like."""

    def __init__(self, seed: int = 7, *, customers: int = 5_000, book: int = 20_000) -> None:
        self._random = np.random.default_rng(seed)
        self._customers = customers
        self._book = book
        self._next_order = 1
        self._next_bid = 1
        self._price = 10_000.0
        self._ticks = 0
        self._open: deque[tuple[pa.Table, pa.Table]] = deque(maxlen=200)
        self._bids: deque[pa.Table] = deque()
        self._bid_count = 0

    def opening(self) -> list[MarketDelta]:
        """All customers."""
        keys = np.arange(1, self._customers + 1, dtype=np.int32)
        names = pa.array([f"Customer#{key:06d}" for key in keys])
        segments = self._random.integers(0, len(SEGMENTS), len(keys))
        table = pa.table(
            {
                "c_custkey": keys,
                "c_name": names,
                "c_mktsegment": pa.array([SEGMENTS[s] for s in segments]),
            }
        )
        return [MarketDelta("customer", table, 1)]

    def tick(self, orders: int, bids: int) -> list[MarketDelta]:
        """New orders with their lines, a few cancellations, new bids, and old ones that leave."""
        self._ticks += 1
        new_orders, lines = self._orders(orders)
        changes = [MarketDelta("orders", new_orders, 1), MarketDelta("lineitem", lines, 1)]
        if self._open and self._ticks % 4 == 0:
            changes += self._canceled()
        self._open.append((new_orders, lines))
        changes.append(MarketDelta("bids", self._new_bids(bids), 1))
        while self._bid_count > self._book:
            oldest = self._bids.popleft()
            self._bid_count -= len(oldest)
            changes.append(MarketDelta("bids", oldest, -1))
        return changes

    def _orders(self, count: int) -> tuple[pa.Table, pa.Table]:
        keys = np.arange(self._next_order, self._next_order + count, dtype=np.int64)
        self._next_order += count
        # 1, 2, 4, 5, 7, ...: customers whose number is divisible by three never order
        ranks = self._random.integers(0, self._customers * 2 // 3, count)
        customers = (ranks // 2 * 3 + ranks % 2 + 1).astype(np.int32)
        day = _FIRST_DAY + self._ticks // _TICKS_A_DAY
        orders = pa.table(
            {
                "o_orderkey": keys,
                "o_custkey": customers,
                "o_orderdate": pa.array(np.full(count, day, np.int32)).cast(pa.date32()),
            }
        )
        sizes = self._random.integers(1, 8, count)
        of = np.repeat(np.arange(count), sizes)
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        quantity = self._random.integers(1, 51, len(of))
        lines = pa.table(
            {
                "l_orderkey": keys[of],
                "l_linenumber": (np.arange(len(of)) - starts + 1).astype(np.int32),
                "l_quantity": quantity.astype(np.int32),
                "l_extendedprice": decimals(
                    quantity * self._random.integers(90_000, 200_000, len(of)) // 100, 12
                ),
                "l_discount": decimals(self._random.integers(0, 11, len(of)), 4),
            }
        )
        return orders, lines

    def _canceled(self) -> list[MarketDelta]:
        """One order in ten of an earlier tick goes, with its lines."""
        at = int(self._random.integers(0, len(self._open)))
        open_orders, lines = self._open[at]
        del self._open[at]
        keys = np.asarray(open_orders["o_orderkey"])[::10]
        orders = open_orders.filter(pa.array(np.isin(open_orders["o_orderkey"], keys)))
        canceled = lines.filter(pa.array(np.isin(lines["l_orderkey"], keys)))
        return [MarketDelta("orders", orders, -1), MarketDelta("lineitem", canceled, -1)]

    def _new_bids(self, count: int) -> pa.Table:
        self._price += float(self._random.normal(0, 5))
        ids = np.arange(self._next_bid, self._next_bid + count, dtype=np.int64)
        self._next_bid += count
        below = self._random.exponential(120, count)
        bids = pa.table(
            {
                "id": ids,
                "broker": self._random.integers(0, 10, count).astype(np.int32),
                "price": np.maximum(self._price - below, 1).astype(np.int32),
                "volume": self._random.integers(1, 100, count).astype(np.int32),
            }
        )
        self._bids.append(bids)
        self._bid_count += count
        return bids


def decimals(hundredths: Any, precision: int) -> pa.Array:
    """Whole hundredths -> DECIMAL(precision, 2), without a Python object for each."""
    low = np.asarray(hundredths, np.int64)
    words = np.column_stack([low, low >> 63])  # 128 bits, little end first
    data = pa.py_buffer(np.ascontiguousarray(words))
    return pa.Array.from_buffers(pa.decimal128(precision, 2), len(low), [None, data])
