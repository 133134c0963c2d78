"""The commit log alone: slots that only one driver gets, and ids that are never forgotten."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.engine.object_store import object_store

from viewlet.engine.partitions.batch_ids import NO_BATCHES, AppliedBatches, BatchId, batch_id_of
from viewlet.engine.partitions.commit_log import Commit, CommitLog
from viewlet.engine.partitions.store import NameTaken, Store
from viewlet.engine.partitions.version_history import VersionHistory
from viewlet.errors import DataError, StateError


def opened(place: str) -> VersionHistory:
    """As a driver that begins or goes on, before it has claimed anything."""
    log = CommitLog(Store(place))
    newest, _ = log.newest()
    start = newest or log.write(Commit(0, 1, 0, 0, 0, ("chain",)))
    return VersionHistory(log, start, 50, pytest.fail)


def test_of_drivers_that_open_at_once_one_goes_on(tmp_path: Path) -> None:
    """All have read the same newest commit; whoever writes the next slot first is the driver."""
    opened(str(tmp_path))
    drivers = [opened(str(tmp_path)) for _ in range(8)]
    together, refused = threading.Barrier(8), []

    def claim(driver: VersionHistory) -> None:
        together.wait()
        try:
            driver.claim()
        except StateError as problem:
            refused.append((driver, problem))

    threads = [threading.Thread(target=claim, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    for driver, problem in refused:
        assert "another driver (process" in problem.message
        with pytest.raises(StateError, match="taken over"):
            driver.commit(driver.committed, BatchId(("q",), 0))


@pytest.mark.parametrize("kind", ["local", "object store"])
def test_a_name_is_created_once(tmp_path: Path, kind: str) -> None:
    def check(place: str) -> None:
        store = Store(place)
        store.create("a/b", [b"one"])
        for other in (store, Store(place)):
            with pytest.raises(NameTaken):
                other.create("a/b", [b"two"])
        assert store.get("a/b") == b"one"
        assert store.list("a") == ["b"]

    if kind == "local":
        check(str(tmp_path))
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    else:
        with object_store() as (uri, _):
            check(uri)


def test_ids_are_kept_for_each_source(tmp_path: Path) -> None:
    history = opened(str(tmp_path))
    quiet = BatchId(("quiet", "r", "1"), 7)
    history.commit(history.committed, quiet)
    for number in range(400):
        history.commit(history.committed, BatchId(("busy",), number))
    again = opened(str(tmp_path))
    assert again.version == 401
    assert again.has_applied(quiet)
    assert again.has_applied(BatchId(("busy",), 0))
    assert not again.has_applied(BatchId(("quiet", "r", "-1"), 7))
    assert not again.has_applied(BatchId(("quiet", "r", "1"), 8))
    assert (again.version_of(quiet), again.version_of(BatchId(("busy",), 0))) == (1, None)


def test_a_version_that_is_taken_back_takes_its_id_along(tmp_path: Path) -> None:
    history = opened(str(tmp_path))
    history.commit(history.committed, BatchId(("q",), 1))
    history.commit(history.committed, BatchId(("q",), 2))
    history.revert(b"")
    assert history.has_applied(BatchId(("q",), 1))
    assert not history.has_applied(BatchId(("q",), 2))


def test_what_must_come_again() -> None:
    older = NO_BATCHES.with_batch(BatchId(("q", "r"), 3), 1)
    newer = older.with_batch(BatchId(("q", "r"), 5), 2).with_batch(BatchId(("p",), 0), 3)
    assert list(newer.missing_from(older)) == ["q r: batches after 3 to 5", "p: batches to 0"]
    assert list(older.missing_from(newer)) == []
    assert AppliedBatches.decode(newer.encode()) == newer


@pytest.mark.parametrize("given", ["7", ("q", "7"), ("q", True), 1.5, ("q",), (1, 2)])
def test_ids_are_numbers(given: object) -> None:
    with pytest.raises(DataError, match="is not the id of a batch"):
        batch_id_of(given)


def test_what_cannot_be_read_is_not_taken_for_lost(tmp_path: Path) -> None:
    """A directory in place of a file: an error of reading that says nothing about contents."""
    store = Store(str(tmp_path))
    (tmp_path / "file").mkdir()
    with pytest.raises(StateError, match=r"cannot read file .*\nhint: repair the access"):
        store.get("file")
