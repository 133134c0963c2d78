"""Several writers at once: nothing is lost, errors reach their writers, and order stays."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import DataError, StateError, ViewletError
from viewlet.interfaces.left_writes import MOST_ROWS

ENGINES = ("local", "interpreter")
COUNT = "CREATE VIEW v AS SELECT COUNT(*) AS n, SUM(b) AS t FROM r"


def database(engine: str = "local", relation: str = "STREAM r (a INT, b INT)") -> Any:
    db = viewlet.connect(engine)
    db.execute(f"CREATE {relation}; {COUNT}")
    return db


class Busy:
    """Holds a database in another thread."""

    def __init__(self, db: Any) -> None:
        self._lock = db._state.lock
        self._begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._lock:
            self._begun.set()
            self._over.wait(30)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._begun.wait(10)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def together(*tasks: Any) -> list[Any]:
    """Results or errors of calls in threads of their own."""
    outcomes: list[Any] = [None] * len(tasks)

    def run(i: int) -> None:
        try:
            outcomes[i] = tasks[i]()
        except Exception as error:
            outcomes[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return outcomes


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_lost(engine: str) -> None:
    db = database(engine)
    each = 2_000 if engine == "local" else 200

    def write(k: int) -> None:
        put, later = db.inserter("r"), db.inserter("r", wait=False)
        for i in range(each):
            if i % 4 == 0:
                put(i, k)
            elif i % 4 == 1:
                later(i, k)
            elif i % 4 == 2:
                db.insert("r", [(i, k), (i, k)])
            else:
                db.delete("r", {"a": [i], "b": [k]}, wait=False)

    outcomes = together(*(lambda k=k: write(k) for k in range(4)))
    assert outcomes == [None] * 4
    db.execute("CREATE TABLE t (a INT)")
    assert db.view("v").rows() == [(3 * each, 6 * each * 3 // 4)]


def test_what_is_left_is_one_batch() -> None:
    db = database()
    seen: list[Any] = []
    db.subscribe("v", seen.append)
    with Busy(db):
        futures = [db.insert("r", (i, 1), wait=False) for i in range(100)]
        futures += [db.apply([viewlet.Change("r", [(1, 1)] * 5)], wait=False)]
        assert not any(future.done() for future in futures)
    assert [future.result(10) for future in futures] == [1] * 100 + [5]
    assert [batch.inserted for batch in seen] == [[(105, 105)]]
    assert db.stats("v").refreshes == 1


def test_waiting_writers_share_a_batch() -> None:
    db = database()
    seen: list[Any] = []
    db.subscribe("v", seen.append)
    busy = Busy(db)
    with busy:
        threads = [threading.Thread(target=db.insert, args=("r", (1, k))) for k in range(4)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 10
        while len(db._writes.shared.writes) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert [batch.inserted for batch in seen] == [[(4, 6)]]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_is_its_writers(engine: str) -> None:
    db = database(engine, "TABLE r (a INT PRIMARY KEY, b INT)")
    db.insert("r", (7, 7))
    rows = [(i, 1) for i in range(20)]
    with Busy(db):
        futures = [db.insert("r", row, wait=False) for row in rows]
        wrong = [
            db.insert("r", row, wait=False) for row in [(1, 2), (50, "x"), (1, 2, 3), (None, 1)]
        ]
        last = db.insert("r", [(60, 1), (61, 1)], wait=False)
    for i, future in enumerate(futures):
        if i == 7:
            with pytest.raises(DataError, match="7"):
                future.result(10)
        else:
            assert future.result(10) == 1
    for future in wrong:
        with pytest.raises(DataError):
            future.result(10)
    assert last.result(10) == 2
    assert db.view("v").rows() == [(22, 28)]
    with pytest.raises(ViewletError, match="nothing"):
        db.insert("nothing", (1, 2), wait=False)
    with pytest.raises(DataError):
        db.insert("r", [(1, "x")], wait=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_one_writers_changes_stay_in_order(engine: str) -> None:
    """A row that goes must be there, and a key that comes must not, each at its turn."""
    db = database(engine, "TABLE r (a INT PRIMARY KEY, b INT)")
    with Busy(db):
        futures = [
            db.insert("r", (1, 1), wait=False),
            db.delete("r", (1, 1), wait=False),
            db.delete("r", (2, 2), wait=False),
            db.insert("r", (2, 2), wait=False),
            db.insert("r", (2, 3), wait=False),
            db.apply([viewlet.Change("r", [(2, 2), (2, 4)], [-1, 1])], wait=False),
            db.delete("r", [(2, 2)], wait=False),
            db.delete("r", (2, 4), wait=False),
        ]
    errors = [future.exception(10) is not None for future in futures]
    assert errors == [False, False, True, False, True, False, True, False]
    assert len(db.query("SELECT * FROM r")) == 0
    db.insert("r", (5, 5), wait=False)
    db.delete("r", (5, 5))
    db.insert("r", (5, 5), wait=False)
    assert db.execute("UPDATE r SET b = 6 WHERE a = 5") == 1
    db.insert("r", (6, 5), wait=False)
    assert db.upsert("r", (6, 6)) == 1
    assert db.view("v").rows() == [(2, 12)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_subscriber_refuses_the_writes_that_it_does_not_like(engine: str) -> None:
    db = database(engine)
    total = 0

    def refuse(batch: Any) -> None:
        if any(row.t is not None and row.t > 100 for row in batch.inserted):
            raise ValueError("too much")

    db.subscribe("v", refuse)
    with Busy(db):
        futures = [db.insert("r", (1, b), wait=False) for b in (1, 200, 3, 300, 5)]
    for future, b in zip(futures, (1, 200, 3, 300, 5), strict=True):
        if b > 100:
            with pytest.raises(ViewletError, match="too much"):
                future.result(10)
        else:
            total += future.result(10) * b
    assert db.view("v").rows() == [(3, total)]


def test_a_callback_may_leave_a_write() -> None:
    db = database()
    db.execute("CREATE STREAM log (n INT); CREATE VIEW w AS SELECT COUNT(*) AS n FROM log")
    left: list[Future[int]] = []
    db.subscribe("v", lambda batch: left.append(db.insert("log", (1,), wait=False)))
    db.insert("r", (1, 2))
    assert left[0].result(10) == 1
    assert db.view("w").rows() == [(1,)]


def test_rows_are_those_of_the_call() -> None:
    db = database()
    rows = [(1, 1)]
    with Busy(db):
        future = db.insert("r", rows, wait=False)
        rows[0] = (1, 100)
    assert future.result(10) == 1
    assert db.view("v").rows() == [(1, 1)]


def test_a_write_can_be_cancelled_while_nobody_has_begun() -> None:
    db = database()
    with Busy(db):
        futures = [db.insert("r", (1, b), wait=False) for b in (1, 2, 4)]
        assert futures[1].cancel()
    assert futures[2].result(10) == 1 and not futures[0].cancel()
    assert futures[1].cancelled()
    assert wait(futures, 10).not_done == set()
    assert db.view("v").rows() == [(2, 5)]


def test_futures_for_asyncio_and_callbacks() -> None:
    db = database()
    called = threading.Event()

    async def write() -> list[int]:
        writes = [db.insert("r", (1, b), wait=False) for b in range(10)]
        writes[0].add_done_callback(lambda _: called.set())
        return await asyncio.gather(*map(asyncio.wrap_future, writes))

    assert asyncio.run(write()) == [1] * 10
    assert called.wait(10)


def test_closing_applies_what_is_left_and_refuses_what_comes() -> None:
    db = database()
    futures = [db.insert("r", (1, 1), wait=False) for _ in range(100)]
    db.close()
    assert [future.result(10) for future in futures] == [1] * 100
    for call in (db.insert, db.delete):
        with pytest.raises(StateError, match="closed"):
            call("r", (1, 1), wait=False)
        with pytest.raises(StateError, match="closed"):
            call("r", (1, 1))


def test_a_spike_drains() -> None:
    """Far more than there is room for: writers that would not wait do, and all of it comes."""
    db = database()
    with Busy(db):
        first = [db.insert("r", (1, 1), wait=False) for _ in range(MOST_ROWS // 2)]
    outcomes = together(
        *(
            lambda: [db.insert("r", (1, 1), wait=False) for _ in range(MOST_ROWS)][-1].result(20)
            for _ in range(3)
        )
    )
    assert outcomes == [1] * 3 and all(future.done() for future in first)
    assert db.view("v").rows()[0].n == MOST_ROWS // 2 + 3 * MOST_ROWS
    assert not db._writes.shared.writes


@pytest.mark.parametrize("synchronous", ["full", "off"])
def test_a_durable_database_has_what_futures_promise(tmp_path: Path, synchronous: Any) -> None:
    path = tmp_path / "w.viewlet"
    with viewlet.connect(path, synchronous=synchronous) as db:
        db.execute(f"CREATE TABLE r (a INT PRIMARY KEY, b INT); {COUNT}")

        def write(k: int) -> int:
            futures = [db.insert("r", (100 * k + i, 1), wait=False) for i in range(20)]
            for i in range(20, 40):
                db.insert("r", (100 * k + i, 1))
            return sum(future.result(10) for future in futures)

        assert together(*(lambda k=k: write(k) for k in range(4))) == [20] * 4
        db.insert("r", (0, 1), wait=False)
    with viewlet.connect(path) as db:
        assert db.view("v").rows() == [(160, 160)]


def test_the_thread_that_helps_goes_when_it_has_nothing_to_do() -> None:
    db = database()
    db.insert("r", (1, 1), wait=False).result(10)
    db.insert("r", (1, 1))
    deadline = time.monotonic() + 10
    while _helpers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _helpers()
    db.insert("r", (1, 1), wait=False).result(10)
    assert db.view("v").rows() == [(3, 3)]


def _helpers() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "viewlet-writer"]
