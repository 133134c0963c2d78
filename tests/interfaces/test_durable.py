"""Databases on disk: nothing that was acknowledged is lost, whatever ends the process."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.durable.power import CuttableDisk, PowerCut
from tests.interfaces.kills import kill_often

import viewlet
from viewlet.engine.durable.disk import Disk
from viewlet.errors import ResolutionError, StateError, ViewletError
from viewlet.interfaces import durable_database
from viewlet.interfaces.connect import memory_database
from viewlet.interfaces.database import Database
from viewlet.interfaces.durable_database import DurableDirectory
from viewlet.interfaces.journal import STATEMENT

SCHEMA = """
CREATE TABLE r (a INT PRIMARY KEY, b VARCHAR);
CREATE STREAM s (a INT NOT NULL, x DOUBLE);
CREATE VIEW v AS SELECT b, SUM(x) AS total, COUNT(*) AS n FROM r JOIN s ON r.a = s.a GROUP BY b;
"""


def opened(path: Path, disk: Disk | None = None, engine: str = "interpreter") -> Database:
    directory = DurableDirectory(path, disk or Disk())
    database = memory_database(engine)
    database._open(directory, "full")
    return database


def contents(db: Database) -> dict[str, Any]:
    """Everything that a user can read."""
    definitions = db._state.definitions
    views = {name: sorted(map(repr, db.view(name).rows())) for name in definitions.views}
    tables = {
        table.name: sorted(map(repr, db.query(f'SELECT * FROM "{table.name}"').to_pylist()))
        for table in definitions.tables()
    }
    return {"views": views, "tables": tables}


def workload(db: Database) -> Iterator[None]:
    """Steps of every kind; each `yield` says that the one before was acknowledged."""
    for statement in SCHEMA.strip().split("\n"):
        db.execute(statement)
        yield
    db.insert("r", [(i, f"g{i % 3}") for i in range(6)])
    yield
    db.insert("s", (1, 2.5))
    yield
    db.insert("s", [(i % 6, i / 4) for i in range(100)])
    yield
    db.execute("CREATE VIEW late AS SELECT COUNT(*) AS n FROM s")
    yield
    db.delete("r", (5, "g2"))
    yield
    db.checkpoint()
    yield
    db.insert("s", (2, float("nan")))
    yield
    db.execute("UPDATE r SET b = 'new' WHERE a < 2")
    yield
    db.checkpoint()
    yield
    db.execute("DROP VIEW late")
    yield
    db.insert("s", (3, None))
    yield


def expected_states(tmp_path: Path, engine: str) -> list[dict[str, Any]]:
    """What is to be read before the first step and after each; a checkpoint changes nothing."""
    db = opened(tmp_path / "reference", engine=engine)
    states = [contents(db)]
    for _ in workload(db):
        states.append(contents(db))
    db.close()
    return states


def run_until_cut(path: Path, calls: int, engine: str) -> tuple[CuttableDisk, int, int]:
    """The disk, how many steps were acknowledged, and how many disk calls were made."""
    path.mkdir()
    disk = CuttableDisk(path.parent, calls)
    done = 0
    try:
        db = opened(path, disk, engine)
        for _ in workload(db):
            done += 1
        db.close()
    except PowerCut:
        pass
    return disk, done, disk.calls


def check_power_cuts(tmp_path: Path, engine: str, step: int) -> None:
    states = expected_states(tmp_path, engine)
    folder = tmp_path / "all"
    folder.mkdir()
    disk, done, total = run_until_cut(folder / "db", 10**9, engine)
    disk.close()
    assert done == len(states) - 1
    assert total > 60
    for calls in range(0, total, step):
        folder = tmp_path / f"cut-{calls}"
        folder.mkdir()
        disk, done, _ = run_until_cut(folder / "db", calls, engine)
        after = tmp_path / f"after-{calls}"
        disk.survive(after)
        disk.close()
        db = opened(after / "db", engine=engine)
        assert contents(db) in states[done : done + 2], f"cut after {calls} calls, {done} steps"
        db.execute("CREATE TABLE still_writable (a INT)")
        db.close()
        shutil.rmtree(folder)
        shutil.rmtree(after)


def test_a_power_cut_after_every_call_loses_nothing(tmp_path: Path) -> None:
    check_power_cuts(tmp_path, "interpreter", 1)


def test_power_cuts_with_native_state(tmp_path: Path) -> None:
    check_power_cuts(tmp_path, "local", 7)


@pytest.mark.parametrize("level", ["off", "normal", "full"])
def test_reopened_as_it_was(tmp_path: Path, level: str) -> None:
    path = tmp_path / "shop.viewlet"
    db = viewlet.connect(path, synchronous=level)  # type: ignore[arg-type]
    for _ in workload(db):
        pass
    before = contents(db)
    db.close()
    with viewlet.connect(str(path)) as again:
        assert contents(again) == before
        again.insert("s", [(1, 1.0)])
        before = contents(again)
    with viewlet.connect(path=path) as again:
        assert contents(again) == before


def test_a_refused_batch_is_not_in_the_log(tmp_path: Path) -> None:
    db = viewlet.connect(tmp_path / "db")
    db.execute(SCHEMA)
    db.insert("r", [(1, "a")])

    def refuse(batch: viewlet.ViewBatch) -> None:
        raise ValueError("no")

    subscription = db.subscribe("v", refuse)
    with pytest.raises(ViewletError, match="the batch was undone"):
        db.insert("s", (1, 1.0))
    with pytest.raises(ViewletError):
        db.insert("r", [(2, "b"), (1, "again")])
    subscription.close()
    db.insert("s", (1, 2.0))
    before = contents(db)
    db.close()
    with viewlet.connect(tmp_path / "db") as again:
        assert contents(again) == before
        assert [tuple(row) for row in again.view("v").rows()] == [("a", 2.0, 1)]


def test_a_subscriber_cannot_checkpoint_a_batch_that_may_be_refused(tmp_path: Path) -> None:
    db = viewlet.connect()
    db.execute(SCHEMA)
    db.insert("r", [(1, "a")])
    db.subscribe("v", lambda batch: db.checkpoint(str(tmp_path / "inside")))
    with pytest.raises(ViewletError, match="may not change the database"):
        db.insert("s", (1, 1.0))
    assert db.view("v").rows() == []
    assert not (tmp_path / "inside").exists()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    opens = "import sys, viewlet; viewlet.connect('interpreter', path=sys.argv[1])"
    with viewlet.connect("interpreter", path=tmp_path / "db"):
        other = subprocess.run(
            [sys.executable, "-c", opens, str(tmp_path / "db")], capture_output=True, text=True
        )
    assert other.returncode == 1
    assert "another process has the database" in other.stderr


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_write(tmp_path: Path) -> None:
    """The lock comes along with a fork: two processes would write to one place of the log."""
    with viewlet.connect(str(tmp_path / "db")) as db:
        db.execute("CREATE TABLE r (a INT)")
        child = os.fork()
        if child == 0:
            try:
                db.insert("r", (1,))
            except viewlet.ViewletError:
                os._exit(7)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        db.insert("r", (2,))
    with viewlet.connect(str(tmp_path / "db")) as db:
        assert db.query("SELECT a FROM r").to_pylist() == [{"a": 2}]


def test_a_full_disk_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("viewlet.engine.durable.segment.SegmentWriter.create", full)
    with pytest.raises(StateError, match="No space left"):
        viewlet.connect(str(tmp_path / "db"))


def test_what_connect_refuses(tmp_path: Path) -> None:
    with pytest.raises(ResolutionError, match="there is no engine sprak"):
        viewlet.connect("sprak")
    with pytest.raises(StateError, match="runs in this process"):
        viewlet.connect("spark", path=tmp_path / "db")
    with pytest.raises(StateError, match="synchronous='fast'"):
        viewlet.connect(tmp_path / "db", synchronous="fast")  # type: ignore[arg-type]
    with pytest.raises(StateError, match="no log"):
        viewlet.connect(synchronous="full")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match=r"is not a database: it has notes\.txt"):
        viewlet.connect(tmp_path)
    (tmp_path / "db").mkdir()
    viewlet.connect("interpreter", path=tmp_path / "db").close()
    with pytest.raises(StateError, match="belongs to the engine interpreter"):
        viewlet.connect(tmp_path / "db")


def test_writers_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = []
    slow = threading.Event()

    def sync_file(self: Disk, file: int) -> None:
        syncs.append(file)
        slow.wait(0.05)

    db = viewlet.connect(tmp_path / "db")
    db.execute("CREATE STREAM s (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM s")
    db.insert("s", (0,))
    monkeypatch.setattr(Disk, "sync_file", sync_file)
    threads = [threading.Thread(target=db.insert, args=("s", (i,))) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.view("n")[()].n == 17
    assert len(syncs) <= 8
    db.close()


def test_snapshots_are_made_beside_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_database, "LOG_BYTES", 20_000)
    path = tmp_path / "db"
    db = viewlet.connect(path, synchronous="normal")
    for _ in workload(db):
        pass
    for i in range(40):
        db.insert("s", [(i % 5, 1.0)] * 50)
    directory = db._directory
    assert directory is not None
    for _ in range(200):
        numbers = {int(p.parent.name.split("-")[1]) for p in path.glob("snapshot-*/MANIFEST")}
        if max(numbers) > 2 and directory._process is None:
            break
        time.sleep(0.1)
    else:
        pytest.fail("no snapshot was made")
    db.insert("s", (1, 1.0))
    before = contents(db)
    db.close()
    assert len(list(path.glob("snapshot-*"))) == 1
    with viewlet.connect(path) as again:
        assert contents(again) == before


def test_a_process_that_makes_a_snapshot_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    endless = (
        "import sys, time; from viewlet.interfaces import snapshot_process as process\n"
        "process.write_snapshot_beside = lambda *arguments: time.sleep(600)\n"
        f"sys.argv[1:] = [{str(tmp_path)!r}, 'snapshot-1', '1', 'interpreter']\nprocess.main()"
    )
    command = [sys.executable, "-c", endless]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()  # as when its owner was killed
        assert process.wait(timeout=120) == 1


def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """`python -m tests.interfaces.kills 1000` does the same a thousand times."""
    assert kill_often(4, "normal", 3, tmp_path) > 0


def test_a_log_runs_definitions_alone(tmp_path: Path) -> None:
    """Whoever can write a log can make up its checksums; its statements still load no file."""
    (tmp_path / "secret.csv").write_text("a\n7\n")
    for text in (f"COPY t FROM '{tmp_path}/secret.csv'", "DELETE FROM t", "SELECT * FROM t"):
        with viewlet.connect(tmp_path / "db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (a INT)")
            journal = db._state.journal
            assert journal is not None
            journal.record(STATEMENT, journal.prepare_statements([text]))
        with pytest.raises(StateError, match="is not a definition"):
            viewlet.connect(tmp_path / "db")
        shutil.rmtree(tmp_path / "db")
