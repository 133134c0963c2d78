"""The order book: what is canceled was there, and the book stays as large as it should."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from viewlet_bench.feed import Book
from viewlet_bench.orderbook import BROKERS, SIDES, OrderBook, order_book


@pytest.fixture(scope="module")
def book() -> OrderBook:
    return order_book(500, 3000, seed=7)


def test_only_resting_orders_go(book: OrderBook) -> None:
    for side in SIDES:
        counts: Counter[tuple[object, ...]] = Counter()
        rows = zip(*(c.to_pylist() for c in book.tables[side].columns), strict=True)
        for row, weight in zip(rows, book.weights[side].tolist(), strict=True):
            counts[row] += weight
            assert counts[row] in (0, 1), "an order went that was not there, or came twice"
        live = [row for row, count in counts.items() if count]
        assert len({row[1] for row in live}) == len(live), "one order rests twice"


def test_both_sides_together_are_the_stream(book: OrderBook) -> None:
    total = sum(book.upto[side] for side in SIDES)
    assert total.tolist() == list(range(len(total)))
    for side in SIDES:
        assert book.upto[side][-1] == book.tables[side].num_rows == len(book.weights[side])
    first = sum(int(book.weights[side][: book.upto[side][500]].sum()) for side in SIDES)
    assert first == 500


def test_the_book_keeps_its_size_and_has_every_kind_of_event(book: OrderBook) -> None:
    resting = sum(int(book.weights[side].sum()) for side in SIDES)
    assert 350 < resting < 650
    ids = np.concatenate([book.tables[side]["id"].to_numpy() for side in SIDES])
    weights = np.concatenate([book.weights[side] for side in SIDES])
    placed = Counter(ids[weights > 0].tolist())
    modified = sum(count > 1 for count in placed.values())
    assert modified > 100
    assert (weights < 0).sum() > 1000
    brokers = set(book.tables["bids"]["broker_id"].to_pylist())
    assert brokers == set(range(BROKERS))
    # PSP asks for orders above a ten-thousandth of all volume, and not all are.
    volume = np.array(book.tables["bids"]["volume"].to_pylist())
    assert 0 < (volume > 1e-4 * volume.sum()).mean() < 1


def test_a_seed_is_a_book() -> None:
    one, same, other = (order_book(50, 200, seed=s) for s in (1, 1, 2))
    assert one.tables["bids"].equals(same.tables["bids"])
    assert not one.tables["bids"].equals(other.tables["bids"])


def test_nothing_rests_in_an_empty_book() -> None:
    book = order_book(0, 50)
    assert all(int(np.cumsum(book.weights[side]).min(initial=0)) >= 0 for side in SIDES)


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
@pytest.mark.parametrize("sides", [("bids",), SIDES])
def test_batches_follow_on_each_other(book: OrderBook, size: int, sides: tuple[str, ...]) -> None:
    source = Book(book)
    lengths = {side: book.tables[side].num_rows for side in sides}
    reached = source.begin(lengths)
    assert sum(reached.values()) <= 500
    sizes = []
    for spans in source.spans(lengths, size):
        for name, low, high in spans:
            assert low == reached[name]
            reached[name] = high
        sizes.append(sum(high - low for _, low, high in spans))
    assert reached == lengths
    assert all(n == size for n in sizes[:-1])
    assert 0 < sizes[-1] <= size
