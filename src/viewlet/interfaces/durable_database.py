"""`connect("shop.viewlet")`: a database on disk, as it was after the last acknowledged batch.

    open       CURRENT -> the snapshot that it names -> the records of the log behind it
    write      engine -> callbacks -> log -> the caller (writes.py)
    snapshot   the log goes on in a new segment -> another process makes a snapshot of what came
               before -> CURRENT names it -> what it replaces is removed

A snapshot reads only files that no longer change, in a process of its own: no batch waits for it.
`checkpoint()` writes one at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.engine.durable.disk import Disk, replace_file
from viewlet.engine.durable.log import Log, Synchronous, read_log
from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.engine.durable.segment import ORIGIN, SegmentReader, SegmentWriter, is_unused
from viewlet.engine.values.batch_codec import changes_from_bytes
from viewlet.errors import StateError
from viewlet.interfaces.journal import STATEMENT, DatabaseJournal
from viewlet.interfaces.saved_database import read_state, write_state

if TYPE_CHECKING:
    from viewlet.interfaces.database import Database

logger = logging.getLogger("viewlet")

FORMAT = 1
_CURRENT = "CURRENT"
_SNAPSHOT = "snapshot-"
LOG_BYTES = 1 << 26
"""Bytes of log after which a snapshot is due, if the last one is not larger."""


class DurableDirectory:
    """The files of one open database."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        self._lock = _locked(path)
        self._snapshot: str | None = None
        self._snapshot_bytes = 0
        self._first = 1
        self._engine = ""
        self._process: subprocess.Popen[bytes] | None = None

    # --- opening ----------------------------------------------------------------------------------

    def open(self, database: Database, level: Synchronous) -> None:
        """Bring an empty database to what the directory has, and log what it does from now on."""
        state = database._state
        self._engine = state.engine_name
        if (self.path / _CURRENT).exists():
            readers = self.replay(database, None)
            last = readers[-1]
            segment = SegmentWriter.reopen(self._disk, last)
            number = self._first + len(readers) - 1
            log = Log(self._disk, self.path, number, segment, level)
            log.bytes = sum(reader.end for reader in readers)
            for path in self.path.glob(f"{_SNAPSHOT}*"):
                if path.name != self._snapshot:
                    self._disk.remove_tree(path)  # a crash left it behind
        else:
            self._check_new()
            log = Log.start(self._disk, self.path, 1, ORIGIN, level)
            self._point_to(None, 1)
            self._disk.sync_directory(self.path.parent)
        state.journal = DatabaseJournal(log, lambda: self._snapshot_if_due(database))

    def replay(self, database: Database, stop: int | None) -> list[SegmentReader]:
        """The snapshot and the records behind it, up to the segment `stop` where one is given."""
        database._ticks.is_replaying = True
        metadata = self._current()
        self._snapshot, self._first = metadata["snapshot"], metadata["log"]
        if self._snapshot is not None:
            database._checkpoints.restore_saved(read_state(self.path / self._snapshot))
        records, readers = read_log(self.path, self._first, stop)
        try:
            for record in records:
                if record.kind == STATEMENT:
                    database._executor.define(record.payload.decode())
                else:
                    relation_of = database._state.definitions.recorded
                    database._writes.replay(changes_from_bytes(record.payload, relation_of))
            if stop is None and metadata.get("reached"):
                _check_reached(readers, *metadata["reached"])
        except DamagedFile as problem:
            raise StateError(
                f"the database {self.path} is damaged: {problem}",
                hint="restore its files from a backup; nothing was changed",
            ) from None
        return readers

    def _check_new(self) -> None:
        """Without CURRENT there is nothing yet, or it was lost: what else is there must be empty.

        A crash can leave the first segment before anything is in it.
        """
        for path in sorted(self.path.iterdir()):
            is_log = path.name.startswith("log-")
            if path.name.startswith(_SNAPSHOT) or (is_log and not is_unused(path)):
                raise StateError(
                    f"the database {self.path} cannot be read: {self.path / _CURRENT} is gone, "
                    f"and {path.name} is there",
                    hint="restore its files from a backup; nothing was changed",
                )

    def _current(self) -> dict[str, Any]:
        path = self.path / _CURRENT
        try:
            metadata: dict[str, Any] = json.loads(unseal(str(path), path.read_bytes()))
            if not isinstance(metadata, dict) or not {"format", "engine"} <= metadata.keys():
                raise DamagedFile(f"{path}: another file is in its place")
        except (OSError, DamagedFile, ValueError) as problem:
            raise StateError(
                f"the database {self.path} cannot be read: {problem}",
                hint="restore its files from a backup",
            ) from None
        if metadata["format"] != FORMAT:
            raise StateError(
                f"the database {self.path} has format {metadata['format']}, and this viewlet reads "
                f"format {FORMAT}",
                hint="open it with the version of viewlet that wrote it",
            )
        if metadata["engine"] != self._engine:
            raise StateError(
                f"the database {self.path} belongs to the engine {metadata['engine']}",
                hint=f"say connect({metadata['engine']!r}, path={str(self.path)!r})",
            )
        return metadata

    def _point_to(
        self, snapshot: str | None, first: int, reached: tuple[int, int] | None = None
    ) -> None:
        """Write CURRENT. `reached`: the log goes at least so far, to a byte of a segment."""
        metadata = {
            "format": FORMAT,
            "engine": self._engine,
            "snapshot": snapshot,
            "log": first,
            "reached": reached,
        }
        replace_file(self._disk, self.path / _CURRENT, seal(json.dumps(metadata).encode()))
        self._snapshot, self._first = snapshot, first

    # --- snapshots --------------------------------------------------------------------------------

    def write_snapshot(self, database: Database) -> str:
        """One of the state as it is now; the caller holds the lock and waits."""
        state = database._state
        assert state.journal is not None
        self._wait_for_process()
        first = state.journal.log.rotate()
        name = self._next_name()
        size = write_state(self._disk, self.path / name, database._checkpoints.contents())
        self._adopt(name, first, size, state.journal.log)
        return str(self.path / name)

    def _next_name(self) -> str:
        """One that no other process uses, even if it outlived the one that started it."""
        newest = int(self._snapshot.split("-")[1]) if self._snapshot else 0
        return f"{_SNAPSHOT}{newest + 1}-{secrets.token_hex(4)}"

    def _adopt(self, name: str, first: int, size: int, log: Log) -> None:
        old = self._snapshot
        self._point_to(name, first)
        self._snapshot_bytes = size
        if old is not None:
            self._disk.remove_tree(self.path / old)
        log.forget_before(first)

    def _snapshot_if_due(self, database: Database) -> None:
        """Start another process that makes a snapshot, when the log has grown by enough."""
        state = database._state
        assert state.journal is not None
        log = state.journal.log
        if self._process is not None or log.bytes < max(LOG_BYTES, self._snapshot_bytes):
            return
        first, name = log.rotate(), self._next_name()
        order = [str(self.path), name, str(first), state.engine_name]
        source = str(Path(__file__).resolve().parents[2])
        inherited = os.environ.get("PYTHONPATH", "")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "viewlet.interfaces.snapshot_process", *order],
            stdin=subprocess.PIPE,  # that ends when this process does
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, inherited]))},
        )
        arguments = (database, self._process, name, first)
        threading.Thread(target=self._await_snapshot, args=arguments, daemon=True).start()

    def _await_snapshot(
        self, database: Database, process: subprocess.Popen[bytes], name: str, first: int
    ) -> None:
        assert process.stdin is not None and process.stderr is not None
        with process.stdin, process.stderr:
            errors = process.stderr.read()
            process.wait()
        state = database._state
        try:
            with state.lock:
                if self._process is not process:
                    return  # a later snapshot has made this one needless
                self._process = None
                if process.returncode != 0:
                    reason = errors.decode(errors="replace").strip().splitlines()[-1:]
                    logger.warning("no snapshot of %s: %s", self.path, *reason or ["it was ended"])
                    return
                assert state.journal is not None
                size = sum(f.stat().st_size for f in (self.path / name).rglob("*") if f.is_file())
                self._adopt(name, first, size, state.journal.log)
                if state.history is not None:
                    state.history.add_checkpoint(state.version, str(self.path / name))
        except StateError:
            return  # the database was closed meanwhile

    def _wait_for_process(self) -> None:
        """Another process's snapshot would be older than the one that comes."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def close(self, log: Log | None) -> None:
        """All that was acknowledged on the disk; another process may open the database."""
        self._wait_for_process()
        try:
            if log is not None:
                log.close()
                with contextlib.suppress(OSError):  # the log is whole without it as well
                    self._point_to(self._snapshot, self._first, log.reached)
        finally:
            _OPENED.pop(_identity(self._lock), None)
            os.close(self._lock)


def _check_reached(readers: Sequence[SegmentReader], number: int, end: int) -> None:
    """DamagedFile unless the log goes as far as it did when the database was closed.

    A log whose end was zeroed looks like one in which less was written.
    """
    for reader in readers:
        if reader.number > number or (reader.number == number and reader.end >= end):
            return
    last = readers[-1]
    raise DamagedFile(f"{last.path}: records behind byte {last.end} are gone")


def write_snapshot_beside(path: Path, name: str, stop: int, database: Database) -> None:
    """The work of the other process: an empty database -> a snapshot up to a segment."""
    directory = DurableDirectory.__new__(DurableDirectory)
    directory.path, directory._disk = path, Disk()
    directory._engine = database._state.engine_name
    directory.replay(database, stop)
    write_state(directory._disk, path / name, database._checkpoints.contents())


def _locked(path: Path) -> int:
    """The directory, made where it is not there, and held against other processes."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path / "LOCK", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise StateError(
            f"the database {path} cannot be opened: {problem.strerror}",
            hint="give a directory that can be written",
        ) from None
    strangers = [p.name for p in path.iterdir() if not _belongs(p.name)]
    if strangers:
        os.close(lock)
        raise StateError(
            f"{path} is not a database: it has {strangers[0]}", hint="give an empty directory"
        )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        is_ours = _OPENED.get(_identity(lock)) == os.getpid()
        os.close(lock)
        raise StateError(
            f"{'this' if is_ours else 'another'} process has the database {path} open",
            hint="use the database that was opened first, or close it"
            if is_ours
            else "close it there, or give another path",
        ) from None
    _OPENED[_identity(lock)] = os.getpid()
    return lock


_OPENED: dict[tuple[int, int], int] = {}
"""The files LOCK that are held, with the process that opened them: a fork has them all."""


def _identity(file: int) -> tuple[int, int]:
    """The same for two descriptors of one file."""
    status = os.fstat(file)
    return status.st_dev, status.st_ino


def _belongs(name: str) -> bool:
    prefixes = ("LOCK", _CURRENT, f".{_CURRENT}", _SNAPSHOT, "log-")
    return name.startswith(prefixes)
