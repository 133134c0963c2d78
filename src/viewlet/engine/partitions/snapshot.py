"""Incremental snapshots of a partition, taken beside the steps and not within them.

The lock is held while the array files are copied on the local disk (a reflink where the filesystem
has one), no longer; hashing and writing to the checkpoint happen on the copy, in a process of its
own, so that neither a Spark slot nor a step waits for them.

A snapshot is a manifest (arrays, meta, and for each block its digest and place) and one pack with
the blocks that its predecessor does not have. Snapshots alternate between two lineages that share
no pack: one damaged file can spoil one of the two snapshots kept, never both, and the log is kept
back to the older.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.engine.durable.sealed import DamagedFile, digest_of, seal, unseal
from viewlet.engine.partitions.change_log import ChangeLog
from viewlet.engine.partitions.head import (
    ARRAY_OFFSET,
    DamagedState,
    Head,
    dtype_of,
    partition_lock,
)
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.partitions.store import Store
from viewlet.errors import StateError, ViewletError

BLOCK = 1 << 16
_FICLONE = 0x40049409
# A snapshot that would lean on more packs than this, or on packs of more than so many times its
# own size, is written in full.
_PACK_DEPTH = 8
_PACK_WASTE = 2
_TROUBLE = "snapshot-trouble"
_RUNNING: list[subprocess.Popen[bytes]] = []


class Snapshots:
    """The snapshots of one partition in the checkpoint."""

    def __init__(self, store: Store, base: str) -> None:
        self.store = store
        self.base = base

    def names(self) -> list[str]:
        """The snapshots of the partition that are there, oldest first."""
        return self.store.list(f"{self.base}/snapshots")

    def on(self, way: list[str]) -> list[str]:
        """Those whose chain lies on the way, newest first."""
        chains = set(way)
        return [name for name in reversed(self.names()) if name.partition("-")[2] in chains]

    def manifest(self, name: str) -> dict[str, Any]:
        """What a snapshot contains, its checksum verified."""
        path = f"{self.base}/snapshots/{name}"
        manifest: dict[str, Any] = json.loads(unseal(path, self.store.get(path), path))
        return manifest

    def load(self, name: str, state: PartitionState) -> tuple[int, str]:
        """Fill an empty state; every block is checked against its digest."""
        manifest = self.manifest(name)
        packs = {pack: self.store.get(f"{self.base}/{pack}") for pack in manifest["packs"]}
        for array, dtype, shape, blocks in manifest["arrays"]:
            view = state.create(array, tuple(shape), dtype_of(dtype))
            raw = view.reshape(-1).view(np.uint8)
            for number, block in enumerate(blocks):
                if block is None:
                    continue
                digest, pack, at, length = block
                data = packs[manifest["packs"][pack]][at : at + length]
                if digest_of(data) != digest:
                    raise DamagedFile(f"{self.base}/{manifest['packs'][pack]}: damaged block")
                start = number * BLOCK
                raw[start : start + length] = np.frombuffer(data, np.uint8)
        state.meta.clear()
        state.meta.update(manifest["meta"])
        tick, _, chain = name.partition("-")
        return int(tick), chain

    def write(self, head: Head, copies: Path) -> None:
        """Store the copied arrays as the snapshot of the head's tick."""
        name = f"{head.tick:015d}-{head.chain}"
        existing = self.names()
        if name in existing:
            return
        lineage, blocks_by_digest, packs, sizes = self._predecessor(existing)
        pack = f"packs{lineage}/{name}"
        packs.append(pack)
        arrays: list[Any] = []

        def fresh_blocks() -> Iterator[bytes]:
            at = 0
            for array, extent in head.arrays.items():
                size = extent.row_bytes() * extent.shape[0]
                blocks: list[Any] = []
                with (copies / extent.file).open("rb") as file:
                    file.seek(ARRAY_OFFSET)
                    for start in range(0, size, BLOCK):
                        data = file.read(min(BLOCK, size - start))
                        if not data.strip(b"\0"):
                            blocks.append(None)  # zeros are what a new array holds
                            continue
                        digest = digest_of(data)
                        if digest not in blocks_by_digest:
                            blocks_by_digest[digest] = (len(packs) - 1, at, len(data))
                            at += len(data)
                            yield data
                        blocks.append((digest, *blocks_by_digest[digest]))
                arrays.append((array, extent.dtype, extent.shape, blocks))

        sizes.append(self.store.put(f"{self.base}/{pack}", fresh_blocks()))
        manifest = {
            "lineage": lineage,
            "packs": packs,
            "sizes": sizes,
            "arrays": arrays,
            "meta": json.loads(head.meta),
        }
        payload = json.dumps(manifest, separators=(",", ":")).encode()
        path = f"{self.base}/snapshots/{name}"
        self.store.put(path, seal(payload, path))

    def _predecessor(
        self, existing: list[str]
    ) -> tuple[int, dict[str, tuple[int, int, int]], list[str], list[int]]:
        """The lineage that is due, and the blocks and packs (with sizes) that it has already."""
        lineage = None
        for name in reversed(existing):
            try:
                manifest = self.manifest(name)
            except DamagedFile:
                continue
            if lineage is None:
                lineage = 1 - int(manifest["lineage"])
            if manifest["lineage"] == lineage:
                blocks_by_digest = {
                    block[0]: (block[1], block[2], block[3])
                    for *_, blocks in manifest["arrays"]
                    for block in blocks
                    if block is not None
                }
                live = sum(length for *_, length in blocks_by_digest.values())
                packs, sizes = list(manifest["packs"]), list(manifest["sizes"])
                if len(packs) >= _PACK_DEPTH or sum(sizes) > _PACK_WASTE * live:
                    break
                return lineage, blocks_by_digest, packs, sizes
        return lineage or 0, {}, [], []

    def prune(self, log: ChangeLog, committed: str) -> None:
        """Keep the two newest snapshots that lead to a committed version, and the log since."""
        path = log.path_to(committed)
        way = [path[0].previous if path else committed, *(link.chain for link in path)]
        recent = self.on(way)[:2]
        if len(recent) < 2:
            return
        needed: set[str] = set()
        for name in self.names():
            if name < recent[1]:
                self.store.delete(f"{self.base}/snapshots/{name}")
            else:
                with contextlib.suppress(DamagedFile):
                    needed.update(self.manifest(name)["packs"])
        for lineage in ("packs0", "packs1"):
            for name in self.store.list(f"{self.base}/{lineage}"):
                if f"{lineage}/{name}" not in needed and name < recent[0]:
                    self.store.delete(f"{self.base}/{lineage}/{name}")
        log.prune(int(recent[1].partition("-")[0]))


@dataclass(frozen=True)
class SnapshotOrder:
    """What a snapshot process is told; plain values, because it is told on the command line."""

    directory: str
    checkpoint: str
    generation: int
    partition: int
    partitions: int
    fingerprint: str
    committed: str


@contextmanager
def no_other(directory: Path, *, wait: bool) -> Iterator[bool]:
    """One snapshot at a time per partition; False inside if there is one and we do not wait."""
    with (directory / "snapshot-lock").open("w") as alone:
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def take(order: SnapshotOrder, *, wait: bool) -> str | None:
    """Copy under the lock, then store and prune. Returns what went wrong, if anything did.

    If another snapshot is being taken: wait for it, or leave it at that.
    """
    directory = Path(order.directory)
    copies = directory / "copies"
    with no_other(directory, wait=wait) as alone:
        if not alone:
            return None
        try:
            with partition_lock(directory):
                head = _copy(order, directory, copies)
            store = Store(order.checkpoint)
            log = ChangeLog(store, order.generation, order.partition)
            snapshots = Snapshots(store, log.base)
            snapshots.write(head, copies)
            snapshots.prune(log, order.committed)
        except (OSError, ViewletError, DamagedState) as problem:
            return f"no snapshot was taken, the log is kept instead: {problem}"
        finally:
            shutil.rmtree(copies, ignore_errors=True)
    return None


def _copy(order: SnapshotOrder, directory: Path, copies: Path) -> Head:
    state = PartitionState.attach(directory, order.partition, order.partitions, order.fingerprint)
    if state is None or state.head.dirty:
        raise StateError("the partition has no clean state on this executor")
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir()
    for extent in state.head.arrays.values():
        with (
            (directory / extent.file).open("rb") as source,
            (copies / extent.file).open("wb") as target,
        ):
            try:
                fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
            except OSError:  # no reflinks here: copy inside the kernel
                remaining, at = ARRAY_OFFSET + extent.row_bytes() * extent.shape[0], 0
                while remaining > 0:
                    moved = os.sendfile(target.fileno(), source.fileno(), at, remaining)
                    if moved == 0:
                        raise StateError(f"the local file {extent.file} is cut short") from None
                    remaining, at = remaining - moved, at + moved
    return state.head


def start(order: SnapshotOrder) -> None:
    """Take the snapshot in a process of its own; the task does not wait for it.

    A thread would share the interpreter with the next task, and a fork would inherit the threads
    and sockets of a Spark worker.
    """
    _RUNNING[:] = [process for process in _RUNNING if process.poll() is None]
    _RUNNING.append(
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "viewlet.engine.partitions.snapshot",
                json.dumps(order.__dict__),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )
    )


def trouble(directory: Path) -> str | None:
    """What the last snapshot process had to say, told once."""
    path = directory / _TROUBLE
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    return text or "no snapshot was taken, and the disk had no room to say why"


def main(argument: str) -> None:
    """In a process of its own: take the snapshot that an order describes."""
    os.nice(5)
    order = SnapshotOrder(**json.loads(argument))
    if not Path(order.directory).exists():
        return  # the cluster was closed meanwhile
    problem = take(order, wait=False)
    if problem is not None:
        with contextlib.suppress(OSError):  # a full disk keeps an empty file, which says enough
            (Path(order.directory) / _TROUBLE).write_text(problem)


if __name__ == "__main__":
    main(sys.argv[1])
