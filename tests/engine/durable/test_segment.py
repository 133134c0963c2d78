"""Segments and the log: what was appended comes back, a torn end is forgotten, damage is found."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from viewlet.engine.durable import log as log_module
from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.log import Log, read_log
from viewlet.engine.durable.sealed import DamagedFile
from viewlet.engine.durable.segment import HEADER_BYTES, ORIGIN, SegmentReader, SegmentWriter
from viewlet.errors import StateError

SIZE = 1 << 14
PAYLOADS = [b"one", b"", bytes(3000), b"\xff" * 700, b"last"]


def written(directory: Path, payloads: list[bytes] = PAYLOADS) -> Path:
    segment = SegmentWriter.create(Disk(), directory, 1, SIZE, ORIGIN)
    for payload in payloads:
        segment.append(2, payload)
    segment.sync()
    segment.close()
    return segment.path


def read(directory: Path) -> tuple[list[bytes], SegmentReader]:
    reader = SegmentReader(directory, 1, ORIGIN)
    return [record.payload for record in reader.records()], reader


def test_records_come_back(tmp_path: Path) -> None:
    written(tmp_path)
    payloads, reader = read(tmp_path)
    assert payloads == PAYLOADS
    assert not reader.torn
    again = SegmentWriter.reopen(Disk(), reader)
    again.append(2, b"more")
    again.close()
    assert read(tmp_path)[0] == [*PAYLOADS, b"more"]


@pytest.mark.parametrize("cut", [1, 5, 15, 20, 600, 1500])
def test_a_torn_record_is_forgotten(tmp_path: Path, cut: int) -> None:
    """The last record reached the disk up to a sector; zeros of the allocation follow."""
    path = written(tmp_path, [b"whole"])
    _, reader = read(tmp_path)
    segment = SegmentWriter.reopen(Disk(), reader)
    segment.append(2, bytes(2000))
    end = segment.used
    segment.close()
    border = max(reader.end, (end - cut) // 512 * 512)
    with path.open("r+b") as file:
        file.seek(border)
        file.write(bytes(end - border))
    payloads, torn = read(tmp_path)
    assert payloads == [b"whole"]
    segment = SegmentWriter.reopen(Disk(), torn)
    segment.append(2, b"next")
    segment.close()
    assert read(tmp_path)[0] == [b"whole", b"next"]


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, [b"first record", bytes(40), b"the last record"])
    whole = path.read_bytes()
    used = len(whole.rstrip(b"\0"))
    for bit in range(8 * used):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile, match="log-00000001"):
            read(tmp_path)


def test_a_bit_behind_the_end_is_found(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 4
    path.write_bytes(data)
    with pytest.raises(DamagedFile):
        read(tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_found(tmp_path: Path, seed: int) -> None:
    """A cut, overwritten bytes or a lost block in the middle: never a shorter list of records."""
    draw = random.Random(seed)
    path = written(tmp_path, [draw.randbytes(draw.randrange(900)) for _ in range(8)])
    data = bytearray(path.read_bytes())
    used = len(bytes(data).rstrip(b"\0"))
    kind = draw.choice(["cut", "overwrite", "lost block", "foreign"])
    if kind == "cut":
        data = data[: draw.randrange(len(data))]
    elif kind == "overwrite":
        at = draw.randrange(used - 8)
        data[at : at + 8] = bytes(b ^ 0x5A for b in data[at : at + 8])
    elif kind == "lost block":
        at = draw.randrange(HEADER_BYTES, used - 600)
        data[at : at + 512] = bytes(512)
    else:
        data = bytearray(draw.randbytes(len(data)))
    path.write_bytes(data)
    with pytest.raises(DamagedFile):
        read(tmp_path)


def test_the_log_goes_on_over_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "SEGMENT_BYTES", 4096)
    log = Log.start(Disk(), tmp_path, 1, ORIGIN, "normal")
    payloads = [os.urandom(i * 37 % 1500) for i in range(60)] + [os.urandom(20_000)]
    for payload in payloads:
        log.reserve(len(payload))
        log.append(2, payload)
    log.close()
    records, readers = read_log(tmp_path, 1)
    assert [record.payload for record in records] == payloads
    assert len(readers) > 5
    (tmp_path / "log-00000003").unlink()
    with pytest.raises(DamagedFile, match="log-00000003"):
        list(read_log(tmp_path, 1)[0])


def test_a_missing_last_segment_is_found(tmp_path: Path) -> None:
    log = Log.start(Disk(), tmp_path, 1, ORIGIN, "full")
    log.reserve(3)
    log.wait(log.append(2, b"abc"))
    log.rotate()
    log.close()
    (tmp_path / "log-00000002").unlink()
    with pytest.raises(DamagedFile, match="log-00000002"):
        list(read_log(tmp_path, 1)[0])


class FailingDisk(Disk):
    """A disk whose syncs fail from some moment on."""

    fails = False

    def sync_file(self, file: int) -> None:
        if self.fails:
            raise OSError(5, "Input/output error")
        super().sync_file(file)


def test_after_a_failed_sync_nothing_is_taken(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = Log.start(disk, tmp_path, 1, ORIGIN, "full")
    log.reserve(1)
    log.wait(log.append(2, b"a"))
    disk.fails = True
    log.reserve(1)
    with pytest.raises(StateError, match="Input/output error"):
        log.wait(log.append(2, b"b"))
    disk.fails = False
    with pytest.raises(StateError, match="Input/output error"):
        log.reserve(1)
