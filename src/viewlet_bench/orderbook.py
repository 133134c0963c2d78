"""A seeded order book: inserts, cancels and modifications over resting bids and asks.

`resting` orders are placed first. From then on events keep the book about as large: an order is
placed, a random resting one is canceled (a delete), or a random resting one is modified (a delete
and an insert with the same id and another price and volume). Prices are whole ticks round a
random walk, so that several orders share a price; volumes have a long tail, as PSP asks for orders
above a ten-thousandth of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

SIDES = ("bids", "asks")
COLUMNS = ("t", "id", "broker_id", "volume", "price")
BROKERS = 10
NEW_SHARE, CANCEL_SHARE = 0.4, 0.4
"""Shares of events after the start; the rest are modifications."""

_START = 20_000
_SPREAD = 400.0


@dataclass(frozen=True)
class OrderBook:
    """The changes to each side in order; `upto[side][n]` rows of it are among the first n changes.

    `resting`: how many changes build the book that later ones keep at its size.
    """

    tables: dict[str, pa.Table]
    weights: dict[str, Any]
    upto: dict[str, Any]
    resting: int


def order_book(resting: int, events: int, seed: int = 1) -> OrderBook:
    """`resting` orders, then `events` events (a modification is two changes)."""
    import pyarrow as pa

    columns, weights = _changes(resting, events, np.random.default_rng(seed))
    asks = columns.pop("side") == 1
    tables, split, upto = {}, {}, {}
    for side, mine in zip(SIDES, (~asks, asks), strict=True):
        tables[side] = pa.table({name: columns[name][mine] for name in COLUMNS})
        split[side] = weights[mine]
        upto[side] = np.concatenate([[0], np.cumsum(mine)])
    return OrderBook(tables, split, upto, resting)


def _changes(resting: int, events: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """The rows of all changes with their weights, from the versions of orders that they name."""
    numbers, weights, ids = _choose(resting, events, rng)
    versions = len(ids)
    orders = int(ids.max()) + 1 if versions else 0
    side, broker = rng.integers(0, 2, orders), rng.integers(0, BROKERS, orders)
    middle = _START + np.cumsum(rng.normal(0.0, 1.0, versions))
    away = np.abs(rng.normal(0.0, _SPREAD, versions))
    price = np.maximum(1.0, np.round(middle + np.where(side[ids] == 1, away, -away)))
    volume = np.ceil(rng.lognormal(4.0, 1.5, versions))
    version_columns = {
        "t": np.arange(versions, dtype=np.float64),
        "id": ids.astype(np.int32),
        "broker_id": broker[ids].astype(np.int32),
        "volume": volume,
        "price": price,
        "side": side[ids],
    }
    return {name: values[numbers] for name, values in version_columns.items()}, weights


def _choose(resting: int, events: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """For every change the version of an order that it places or takes away; the versions' ids.

    The only loop over events: which order is resting depends on all that was canceled before.
    """
    kinds, picks = rng.random(events).tolist(), rng.random(events).tolist()
    live = list(range(resting))
    ids = list(range(resting))
    changes = list(range(resting))
    weights = [1] * resting
    orders = resting
    for kind, pick in zip(kinds, picks, strict=True):
        if kind >= NEW_SHARE and live:
            at = int(pick * len(live))
            order = live[at]
            changes.append(order)
            weights.append(-1)
            if kind < NEW_SHARE + CANCEL_SHARE:
                last = live.pop()
                if at < len(live):
                    live[at] = last
                continue
            live[at] = len(ids)
            ids.append(ids[order])
        else:
            live.append(len(ids))
            ids.append(orders)
            orders += 1
        changes.append(len(ids) - 1)
        weights.append(1)
    return np.array(changes, np.int64), np.array(weights, np.int64), np.array(ids, np.int64)
