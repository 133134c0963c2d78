"""Nexmark's events: persons, auctions and bids as 1 : 3 : 46, seeded, as Arrow.

As in the published generator, half of the bids are on the newest hundredth auction, three of four
bidders and sellers are among the newest, prices are log-uniform, and 10,000 events come in a second
of event time. Texts are drawn from pools; `extra` fills a bid to about a hundred bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

PROPORTIONS = {"person": 1, "auction": 3, "bid": 46}
CYCLE = sum(PROPORTIONS.values())
RATE = 10_000
"""Events in a second of event time."""
_FIRST_ID = 1000
_START = 1_767_225_600_000_000  # 2026-01-01
_ACTIVE_PERSONS, _ACTIVE_AUCTIONS, _HOT = 1000, 100, 100
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


class Generator:
    """Batches of so many events; the same for the same seed."""

    def __init__(self, seed: int = 24) -> None:
        self._random = np.random.default_rng(seed)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        self._words = ["".join(self._random.choice(letters, 12)) for _ in range(1000)]
        self._extras = ["".join(self._random.choice(letters, 50)) for _ in range(1000)]

    def batches(self, events: int, size: int) -> Iterator[dict[str, pa.Table]]:
        """So many events, in batches of a size, by relation."""
        for first in range(0, events, size):
            yield self._batch(np.arange(first, min(first + size, events)))

    def _batch(self, numbers: Any) -> dict[str, pa.Table]:
        turn = numbers % CYCLE
        return {
            "person": self._persons(numbers[turn == 0]),
            "auction": self._auctions(numbers[(turn > 0) & (turn < 4)]),
            "bid": self._bids(numbers[turn >= 4]),
        }

    def _persons(self, numbers: Any) -> pa.Table:
        names = self._pool(self._words, len(numbers))
        return _table(
            id=_FIRST_ID + numbers // CYCLE,
            name=names,
            emailAddress=[f"{name}@{name[:4]}.com" for name in names],
            creditCard=["1234 5678 9012 3456"] * len(numbers),
            city=self._pool(_CITIES, len(numbers)),
            state=self._pool(_STATES, len(numbers)),
            dateTime=_times(numbers),
            extra=self._pool(self._extras, len(numbers)),
        )

    def _auctions(self, numbers: Any) -> pa.Table:
        times = _times(numbers)
        low = np.exp(self._random.uniform(0, 6, len(numbers)) * np.log(10)).astype(np.int64)
        return _table(
            id=_newest_auction(numbers),
            itemName=self._pool(self._words, len(numbers)),
            description=self._pool(self._extras, len(numbers)),
            initialBid=low,
            reserve=low + low // 2,
            dateTime=times,
            expires=times + self._random.integers(1, 20_000_000, len(numbers)),
            seller=self._person(numbers),
            category=self._random.integers(10, 15, len(numbers)),
            extra=self._pool(self._extras, len(numbers)),
        )

    def _bids(self, numbers: Any) -> pa.Table:
        count = len(numbers)
        newest = _newest_auction(numbers)
        hot = newest - newest % _HOT
        recent = newest - self._random.integers(0, _ACTIVE_AUCTIONS, count)
        auction = np.where(self._random.random(count) < 0.5, hot, recent)
        price = (100 * np.exp(self._random.uniform(0, 6, count) * np.log(10))).astype(np.int64)
        known = self._random.random(count) < 0.5
        channels = self._random.integers(0, 10_000, count).tolist()
        words = self._pool(self._words, count)
        chosen = self._pool(_CHANNELS, count)
        channel = [
            name if hot else f"channel-{number}"
            for name, hot, number in zip(chosen, known.tolist(), channels, strict=True)
        ]
        url = [
            f"https://www.nexmark.com/{word[:5]}/{word[5:9]}/{word[9:]}/item.htm?query=1"
            + ("" if is_known else f"&channel_id={number}")
            for word, is_known, number in zip(words, known.tolist(), channels, strict=True)
        ]
        return _table(
            auction=np.maximum(auction, _FIRST_ID),
            bidder=self._person(numbers),
            price=price,
            channel=channel,
            url=url,
            dateTime=_times(numbers),
            extra=self._pool(self._extras, count),
        )

    def _person(self, numbers: Any) -> Any:
        newest = _FIRST_ID + numbers // CYCLE
        hot = newest - newest % _HOT
        recent = newest - self._random.integers(0, _ACTIVE_PERSONS, len(numbers))
        chosen = np.where(self._random.random(len(numbers)) < 0.75, hot, recent)
        return np.maximum(chosen, _FIRST_ID)

    def _pool(self, pool: Any, count: int) -> list[str]:
        return [pool[i] for i in self._random.integers(0, len(pool), count).tolist()]


def _newest_auction(numbers: Any) -> Any:
    return _FIRST_ID + numbers // CYCLE * 3 + np.clip(numbers % CYCLE - 1, 0, 2)


def _times(numbers: Any) -> Any:
    return _START + numbers * (1_000_000 // RATE)


def _table(**columns: Any) -> pa.Table:
    import pyarrow as pa

    moments = ("dateTime", "expires")
    return pa.table(
        {
            name: pa.array(values, pa.timestamp("us") if name in moments else None)
            for name, values in columns.items()
        }
    )
