"""Futures, the event loop and asyncio: batches for those who wait for them."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest

import viewlet
from viewlet.errors import ResolutionError, StateError, ViewletError
from viewlet.interfaces.database import Database
from viewlet.interfaces.events import EventLoop


@pytest.fixture
def two() -> Iterator[Database]:
    with viewlet.connect("interpreter") as db:
        db.execute(
            """
            CREATE TABLE t (a INT); CREATE TABLE u (a INT);
            CREATE VIEW v AS SELECT SUM(a) AS s FROM t; CREATE VIEW w AS SELECT a FROM u
            """
        )
        yield db


def test_a_future_of_the_next_batch(two: Database) -> None:
    subscription = two.subscribe("v")
    future = subscription.next()
    two.insert("u", (1,))
    assert not future.done()
    two.insert("t", (5,))
    two.insert("t", (6,))
    assert future.result(timeout=1).inserted == [(5,)]
    later = subscription.next()
    subscription.close()
    with pytest.raises(CancelledError):
        later.result(timeout=1)


def test_a_future_from_another_thread(two: Database) -> None:
    future = two.subscribe("v").next()
    writer = threading.Thread(target=two.insert, args=("t", (7,)))
    writer.start()
    assert future.result(timeout=5).inserted == [(7,)]
    writer.join()


def test_futures_hear_only_of_batches_that_stand(two: Database) -> None:
    def refuse(batch: viewlet.ViewBatch) -> None:
        raise ValueError("no")

    future = two.subscribe("v").next()
    with two.subscribe("v", refuse), pytest.raises(ViewletError, match="undone"):
        two.insert("t", (1,))
    assert not future.done()
    two.insert("t", (2,))
    assert future.result(timeout=1).inserted == [(2,)]


def test_dropping_a_view_ends_those_who_wait(two: Database) -> None:
    future = two.subscribe("w").next()
    two.execute("DROP VIEW w")
    assert future.cancelled()


def test_the_event_loop_multiplexes_views(two: Database) -> None:
    loop = EventLoop(two)
    calls: list[Any] = []
    loop.on("v", lambda batch: calls.append(("v", batch.inserted)))
    end = loop.on("w", lambda batch: calls.append(("w", batch.inserted)))
    two.insert("t", (1,))
    two.insert("u", (2,))
    two.insert("t", (3,))
    assert calls == []
    assert loop.run(timeout=0.01) == 3
    assert calls == [("v", [(1,)]), ("w", [(2,)]), ("v", [(4,)])]
    end()
    two.insert("u", (9,))
    assert not loop.step()
    loop.close()


def test_handlers_may_change_the_database_and_stop_the_loop(two: Database) -> None:
    loop = EventLoop(two)

    def again(batch: viewlet.ViewBatch) -> None:
        if batch.inserted[0].s < 3:
            two.insert("t", (1,))
        else:
            loop.stop()

    loop.on("v", again)
    two.insert("t", (1,))
    assert loop.run() == 3
    assert two.view("v")[()].s == 3


def test_an_error_in_a_handler_changes_no_view(two: Database) -> None:
    loop = EventLoop(two)
    with pytest.raises(StateError, match="no handlers"):
        loop.run()

    def fail(batch: viewlet.ViewBatch) -> None:
        raise ValueError("mine")

    loop.on("v", fail)
    two.insert("t", (1,))
    with pytest.raises(ValueError, match="mine"):
        loop.run(timeout=0.01)
    assert two.view("v")[()].s == 1


def test_watch_in_asyncio(two: Database) -> None:
    async def main() -> list[Any]:
        batches = []
        async with two.watch("v", "w") as watch:
            two.insert("t", (1,))
            writer = threading.Thread(target=lambda: [two.insert("u", (i,)) for i in range(3)])
            writer.start()
            async for batch in watch:
                batches.append((batch.view, batch.inserted[0][0]))
                if len(batches) == 4:
                    break
            writer.join()
        two.insert("t", (1,))
        assert [batch async for batch in watch] == []
        return batches

    assert asyncio.run(main()) == [("v", 1), ("w", 0), ("w", 1), ("w", 2)]
    with pytest.raises(ResolutionError, match="no view nope"):
        two.watch("nope")


def test_awaiting_one_batch(two: Database) -> None:
    async def main() -> Any:
        future = asyncio.wrap_future(two.subscribe("v").next())
        await asyncio.to_thread(two.insert, "t", (4,))
        return await asyncio.wait_for(future, 5)

    assert asyncio.run(main()).inserted == [(4,)]
