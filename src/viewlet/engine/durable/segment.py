"""One file of the log: preallocated zeros into which records are written one after the other.

    segment   header, record, record, ..., zeros up to the length that the header states
    header    magic, format, number, length, chain before its first record; checksum
    record    length, kind, checksum of these | payload | chain

chain(n) = BLAKE2b(chain(n - 1), length, kind, payload): a record's last eight bytes are its
checksum, and follow from every record before it. So a segment tells apart

    the end            zeros up to the end of the file
    a torn record      the last one, with a sector that never reached the disk: it is still zero
    damage             everything else: a flipped bit, a lost block, a file cut short

A torn record was never acknowledged and is forgotten. Damage is an error that names file and
offset: what is behind it may have been acknowledged. For this, payloads are written XORed with a
fixed pattern, so that zeros in them are no zeros on the disk. The length of a segment never changes
while records are written, so that a sync need not write the file's metadata.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.sealed import DamagedFile

_MAGIC = b"VLOG"
_FORMAT = 1
_HEADER = struct.Struct("<4sIQQ8s")
_HEAD = struct.Struct("<QBxxx")
_CHECK = 4
_CHAIN = 8
HEADER_BYTES = _HEADER.size + _CHAIN
OVERHEAD = _HEAD.size + _CHECK + _CHAIN
"""Bytes of a record beside its payload."""

CLOSE = 0
"""The kind of the record that ends a segment: the next one has the following number."""

_SECTOR = 512
_PATTERN = b"".join(
    hashlib.blake2b(b"viewlet", digest_size=64, salt=bytes([i])).digest() for i in range(8)
)
"""One sector of bytes without a meaning, XORed into payloads."""

ORIGIN = b"\1" * _CHAIN
"""The chain before the first record of a database."""


@dataclass(frozen=True)
class Record:
    """What was appended, and the chain up to it."""

    kind: int
    payload: bytes
    chain: bytes


def segment_path(directory: Path, number: int) -> Path:
    """Where a segment lies."""
    return directory / f"log-{number:08d}"


def is_unused(path: Path) -> bool:
    """Whether a file has no record: at most a header, or a part of it, and zeros."""
    return len(path.read_bytes().rstrip(b"\0")) <= HEADER_BYTES


class SegmentWriter:
    """The segment that records are appended to."""

    def __init__(self, disk: Disk, path: Path, file: int, size: int, at: int, chain: bytes) -> None:
        self._disk = disk
        self._file = file
        self._size = size
        self._at = at
        self.path = path
        self.chain = chain

    @classmethod
    def create(
        cls, disk: Disk, directory: Path, number: int, size: int, chain: bytes
    ) -> SegmentWriter:
        """A new segment, durable with its name when this returns."""
        path = segment_path(directory, number)
        disk.remove(path)  # one that a crash left before anything named it
        file = disk.allocate(path, size)
        header = _HEADER.pack(_MAGIC, _FORMAT, number, size, chain)
        disk.write_at(file, header + _check(header, _CHAIN), 0)
        disk.sync(path)
        disk.sync_directory(directory)
        return cls(disk, path, file, size, HEADER_BYTES, chain)

    @classmethod
    def reopen(cls, disk: Disk, reader: SegmentReader) -> SegmentWriter:
        """Go on behind the last whole record; a torn one is overwritten with zeros first."""
        file = os.open(reader.path, os.O_RDWR)
        if reader.torn:
            disk.write_at(file, bytes(reader.torn), reader.end)
            disk.sync_file(file)
        return cls(disk, reader.path, file, reader.size, reader.end, reader.chain)

    @property
    def used(self) -> int:
        """Bytes up to the end of the last record."""
        return self._at

    def has_room(self, payload: int) -> bool:
        """Whether a record of so many bytes fits, and the closing one behind it."""
        return self._at + payload + 2 * OVERHEAD <= self._size

    def append(self, kind: int, payload: bytes) -> None:
        """Write a record behind the last one; it is durable after `sync`."""
        head = _HEAD.pack(len(payload), kind)
        chain = _next_chain(self.chain, head, payload)
        written = b"".join((head, _check(head, _CHECK), _masked(payload), chain))
        self._disk.write_at(self._file, written, self._at)
        self._at += len(payload) + OVERHEAD
        self.chain = chain

    @property
    def chain_when_closed(self) -> bytes:
        """The chain behind the closing record, with which the next segment begins."""
        return _next_chain(self.chain, _HEAD.pack(0, CLOSE), b"")

    def sync(self) -> None:
        """Make all records durable."""
        self._disk.sync_file(self._file)

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class SegmentReader:
    """The records of a segment; afterwards where it ends, and whether it was closed."""

    def __init__(self, directory: Path, number: int, chain: bytes | None) -> None:
        """`chain`: of the record before the segment, where it is known."""
        self.path = segment_path(directory, number)
        self.number = number
        try:
            self._data = self.path.read_bytes()
        except OSError as problem:
            raise DamagedFile(f"{self.path}: {problem.strerror}") from problem
        header = self._data[: _HEADER.size]
        if len(self._data) < HEADER_BYTES or self._data[_HEADER.size : HEADER_BYTES] != _check(
            header, _CHAIN
        ):
            raise DamagedFile(f"{self.path}: the header is damaged")
        magic, form, stated, self.size, before = _HEADER.unpack(header)
        if magic != _MAGIC or stated != number:
            raise DamagedFile(f"{self.path}: the file does not belong here")
        if form != _FORMAT:
            raise DamagedFile(f"{self.path}: log format {form}, and this viewlet reads {_FORMAT}")
        if len(self._data) != self.size:
            raise DamagedFile(f"{self.path}: {len(self._data)} bytes instead of {self.size}")
        if chain is not None and chain != before:
            raise DamagedFile(f"{self.path}: it does not follow the segment before")
        self.chain: bytes = before
        self.end = HEADER_BYTES
        self.torn = 0
        self.is_closed = False

    def records(self) -> Iterator[Record]:
        """All records but the closing one, in order; DamagedFile says where one is not whole."""
        data = self._data
        while not self.is_closed:
            record = self._record_at(self.end)
            if record is None:
                self._check_end(data)
                return
            self.end += len(record.payload) + OVERHEAD
            self.chain = record.chain
            if record.kind == CLOSE:
                self.is_closed = True
            else:
                yield record

    def _record_at(self, at: int) -> Record | None:
        """The record at an offset; None where there is none or a torn one."""
        data = self._data
        head, start = data[at : at + _HEAD.size], at + _HEAD.size + _CHECK
        if start + _CHAIN > self.size or data[at + _HEAD.size : start] != _check(head, _CHECK):
            return None
        length, kind = _HEAD.unpack(head)
        end = start + length
        if end + _CHAIN > self.size:
            return None
        payload, chain = _masked(data[start:end]), data[end : end + _CHAIN]
        is_intact = chain == _next_chain(self.chain, head, payload)
        return Record(kind, payload, chain) if is_intact else None

    def _check_end(self, data: bytes) -> None:
        """Zeros to the end are the end; a record before them is torn, or else damaged."""
        used = len(data[self.end :].rstrip(b"\0"))
        if not used:
            return
        head = data[self.end : self.end + _HEAD.size]
        extent = _HEAD.size + _CHECK
        if data[self.end + _HEAD.size : self.end + extent] == _check(head, _CHECK):
            extent += _HEAD.unpack(head)[0] + _CHAIN
        record = range(self.end, min(self.end + extent, self.size))
        if used > extent or not _lacks_sector(data, record):
            raise DamagedFile(f"{self.path}: a record at byte {self.end} is damaged")
        self.torn = used


def _lacks_sector(data: bytes, record: range) -> bool:
    """Whether some sector's part of a record is all zeros."""
    first = record.start - record.start % _SECTOR
    for sector in range(first, record.stop, _SECTOR):
        part = data[max(sector, record.start) : min(sector + _SECTOR, record.stop)]
        if not any(part):
            return True
    return False


def _masked(payload: bytes) -> bytes:
    """payload XOR pattern, which is its own inverse."""
    size = len(payload)
    if size <= _SECTOR:
        mask = int.from_bytes(_PATTERN[:size], "little")
        return (int.from_bytes(payload, "little") ^ mask).to_bytes(size, "little")
    padded = np.frombuffer(payload + bytes(-size % _SECTOR), np.uint64).reshape(-1, _SECTOR // 8)
    return (padded ^ np.frombuffer(_PATTERN, np.uint64)).tobytes()[:size]


def _check(data: bytes, size: int) -> bytes:
    """A checksum that is never all zeros."""
    digest = hashlib.blake2b(data, digest_size=size).digest()
    return digest if any(digest) else b"\1" * size


def _next_chain(chain: bytes, head: bytes, payload: bytes) -> bytes:
    hasher = hashlib.blake2b(chain, digest_size=_CHAIN)
    hasher.update(head)
    hasher.update(payload)
    digest = hasher.digest()
    return digest if digest[-1] else digest[:-1] + b"\1"
