"""The log of a database: what was acknowledged, in order, over as many segments as it takes.

Whoever appends holds the database's lock; whoever waits for the disk does not. One sync serves all
records that were appended before it began, so that many writers of small batches share it:

    append    the record is in the page cache: a killed process loses nothing
    wait      full: the record is on the disk. normal: at the latest after `INTERVAL`
              off: records are handed to the system in blocks, and a killed process may lose some

A sync that fails leaves nobody knowing what is on the disk: the log then takes nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.segment import (
    CLOSE,
    HEADER_BYTES,
    OVERHEAD,
    Record,
    SegmentReader,
    SegmentWriter,
    segment_path,
)
from viewlet.errors import StateError

Synchronous = Literal["off", "normal", "full"]
LEVELS: tuple[Synchronous, ...] = ("off", "normal", "full")

SEGMENT_BYTES = 1 << 24
INTERVAL = 0.2
"""Seconds after which records are on the disk where nobody waits for them."""

_BLOCK = 1 << 16


class Log:
    """Appends to the newest segment."""

    def __init__(
        self, disk: Disk, directory: Path, number: int, segment: SegmentWriter, level: Synchronous
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segment = segment
        self._level = level
        self._buffered: list[tuple[int, bytes]] = []
        self._buffered_bytes = 0
        self._turn = threading.Condition()
        self._appended = 0
        self._durable = 0
        self._is_syncing = False
        self._failure: str | None = None
        self._writing = threading.RLock()
        self._stop = threading.Event()
        self._syncer: threading.Thread | None = None
        self.number = number
        self.bytes = 0
        """Appended since this object was made, or since `rotate`."""

    @classmethod
    def start(
        cls, disk: Disk, directory: Path, number: int, chain: bytes, level: Synchronous
    ) -> Log:
        """A new log with one empty segment."""
        segment = SegmentWriter.create(disk, directory, number, SEGMENT_BYTES, chain)
        return cls(disk, directory, number, segment, level)

    def reserve(self, payload: int) -> None:
        """Make sure that a record of so many bytes can be appended, or raise a StateError."""
        self._check_usable()
        with self._writing:
            if self._segment.has_room(payload + self._buffered_bytes):
                return
            self._flush()
            if not self._segment.has_room(payload):
                self._grow(payload)

    def _grow(self, payload: int) -> None:
        try:
            self._next_segment(payload)
        except OSError as problem:
            raise StateError(
                f"the log in {self._directory} cannot grow: {problem.strerror}",
                hint="make room on the disk and repeat it; nothing was changed",
            ) from problem

    def append(self, kind: int, payload: bytes) -> int:
        """Add a record; its number, to `wait` for. `reserve` came before, for all that is added."""
        with self._writing:
            if self._level == "off":
                self._buffered.append((kind, payload))
                self._buffered_bytes += len(payload) + OVERHEAD
                if self._buffered_bytes > _BLOCK:
                    self._flush()
            else:
                self._write(kind, payload)
            self.bytes += len(payload) + OVERHEAD
            self._appended += 1
        if self._level != "full" and self._syncer is None:
            self._syncer = threading.Thread(
                target=self._sync_now_and_then, name="viewlet-log", daemon=True
            )
            self._syncer.start()
        return self._appended

    def wait(self, number: int) -> None:
        """Return when a record is as durable as the level asks."""
        if self._level == "full":
            self._sync_up_to(number)
        elif self._failure is not None:
            self._check_usable()

    def sync(self) -> None:
        """All records on the disk."""
        with self._writing:
            self._flush()
            appended = self._appended
        self._sync_up_to(appended)

    def rotate(self) -> int:
        """Close the segment; the number of the next one, from which later records are read."""
        self._check_usable()
        with self._writing:
            self._flush()
            self._grow(0)
            self.bytes = 0
            return self.number

    def forget_before(self, number: int) -> None:
        """Remove the segments whose records a snapshot has."""
        for path in sorted(self._directory.glob("log-*")):
            if path < segment_path(self._directory, number):
                self._disk.remove(path)

    @property
    def reached(self) -> tuple[int, int] | None:
        """The newest segment, and the byte up to which records are in it; None after a failure."""
        return None if self._failure is not None else (self.number, self._segment.used)

    def close(self) -> None:
        """Everything on the disk, and the file let go."""
        self._stop.set()
        if self._syncer is not None:
            self._syncer.join()
        try:
            if self._failure is None:
                self.sync()
        finally:
            self._segment.close()

    def _write(self, kind: int, payload: bytes) -> None:
        try:
            self._segment.append(kind, payload)
        except OSError as problem:
            self._fail(problem)

    def _flush(self) -> None:
        buffered, self._buffered, self._buffered_bytes = self._buffered, [], 0
        for kind, payload in buffered:
            self._write(kind, payload)

    def _next_segment(self, payload: int) -> None:
        """New segment -> durable with its name -> the old one says that it is closed -> synced."""
        size = max(SEGMENT_BYTES, HEADER_BYTES + payload + 2 * OVERHEAD)
        old = self._segment
        new = SegmentWriter.create(
            self._disk, self._directory, self.number + 1, size, old.chain_when_closed
        )
        with self._turn:
            while self._is_syncing:
                self._turn.wait()
            self._write(CLOSE, b"")
            try:
                old.sync()
            except OSError as problem:
                self._fail(problem)
            self._durable = self._appended
            old.close()
            self._segment = new
            self.number += 1

    def _sync_up_to(self, number: int) -> None:
        with self._turn:
            while True:
                self._check_usable()
                if self._durable >= number:
                    return
                if not self._is_syncing:
                    break
                self._turn.wait()
            self._is_syncing = True
            # In this order: what was appended to a segment before is durable with its successor.
            reached, segment = self._appended - len(self._buffered), self._segment
        try:
            segment.sync()
        except OSError as problem:
            with self._turn:
                self._is_syncing = False
                self._turn.notify_all()
            self._fail(problem)
        with self._turn:
            self._durable = max(self._durable, reached)
            self._is_syncing = False
            self._turn.notify_all()

    def _sync_now_and_then(self) -> None:
        while not self._stop.wait(INTERVAL):
            if self._durable < self._appended and self._failure is None:
                try:
                    self.sync()
                except StateError:
                    return  # whoever writes next is told

    def _fail(self, problem: OSError) -> None:
        self._failure = problem.strerror or str(problem)
        self._check_usable()

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise StateError(
                f"the log in {self._directory} cannot be written: {self._failure}",
                hint="repair the disk and open the database again: it is as of its last whole "
                "record, and nothing that was acknowledged before is lost",
            )


def read_log(
    directory: Path, first: int, stop: int | None = None
) -> tuple[Iterator[Record], list[SegmentReader]]:
    """The records from one segment on, up to another; the list has the readers afterwards."""
    readers: list[SegmentReader] = []

    def records() -> Iterator[Record]:
        number, chain = first, None
        while True:
            reader = SegmentReader(directory, number, chain)
            readers.append(reader)
            yield from reader.records()
            if not reader.is_closed or number + 1 == stop:
                return
            number, chain = number + 1, reader.chain

    return records(), readers
