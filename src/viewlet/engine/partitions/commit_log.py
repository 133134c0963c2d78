"""The commit log: one file for each committed version, and what the driver saved beside it.

    commits/{slot}          a commit; slots count upwards from 0
    driver/{slot}           the driver's state at the commit of that slot

A slot belongs to whoever creates its file first (Store.create). A driver that opens a checkpoint
takes the next slot by writing the newest commit once more, with an epoch of its own: the one before
finds that slot taken when it next commits, and of two that open at once one does. So no driver ever
acknowledges a batch that the other's history does not have.

Going back. A later slot may be of an earlier version: what lies between was lost. Walking back from
the newest slot, a commit counts if its version is that of the commit before it or one less.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.engine.partitions.batch_ids import NO_BATCHES, AppliedBatches
from viewlet.engine.partitions.store import NameTaken, Store
from viewlet.errors import StateError


@dataclass(frozen=True)
class Commit:
    """A version that exists: its tick, and the chain of every partition at it.

    `epoch` counts the drivers that have opened the checkpoint; `writer` names the process.
    """

    slot: int
    epoch: int
    version: int
    tick: int
    generation: int
    chains: tuple[str, ...]
    batches: AppliedBatches = NO_BATCHES
    outputs: tuple[bytes, ...] = ()
    writer: str = ""

    def encode(self) -> bytes:
        """As bytes: the length of a JSON head, the head, the outputs."""
        head = json.dumps(
            {
                "slot": self.slot,
                "epoch": self.epoch,
                "version": self.version,
                "tick": self.tick,
                "generation": self.generation,
                "chains": self.chains,
                "batches": self.batches.encode(),
                "outputs": [len(blob) for blob in self.outputs],
                "writer": self.writer,
            },
            separators=(",", ":"),
        ).encode()
        return b"".join([struct.pack("<q", len(head)), head, *self.outputs])

    @classmethod
    def decode(cls, payload: bytes) -> Commit:
        """The reverse of encode."""
        (length,) = struct.unpack_from("<q", payload)
        body: dict[str, Any] = json.loads(payload[8 : 8 + length])
        at, outputs = 8 + length, []
        for size in body["outputs"]:
            outputs.append(payload[at : at + size])
            at += size
        return cls(
            body["slot"],
            body["epoch"],
            body["version"],
            body["tick"],
            body["generation"],
            tuple(body["chains"]),
            AppliedBatches.decode(body["batches"]),
            tuple(outputs),
            body["writer"],
        )


class CommitLog:
    """One file per step. Writing it is the moment the step exists."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def identity(self) -> dict[str, Any] | None:
        """What the cluster of this checkpoint is; None if there is none yet."""
        if "cluster" not in self.store.list(""):
            return None
        try:
            identity: dict[str, Any] = json.loads(
                unseal("cluster", self.store.get("cluster"), "cluster")
            )
        except DamagedFile as problem:
            raise StateError(
                f"the checkpoint {self.store.name} does not say whose it is: {problem}",
                hint="restore the file `cluster` from a backup of the checkpoint",
            ) from problem
        return identity

    def write_identity(self, identity: dict[str, Any]) -> None:
        """Name the cluster that owns this checkpoint."""
        self.store.put("cluster", seal(json.dumps(identity).encode(), "cluster"))

    def write(self, commit: Commit) -> Commit:
        """The version exists from now on; StateError where another driver has its slot."""
        path = _path(commit.slot)
        signed = replace(commit, writer=f"process {os.getpid()} on {socket.gethostname()}")
        try:
            self.store.create(path, seal(signed.encode(), path))
        except NameTaken:
            raise self.taken_over(commit.slot) from None
        return signed

    def taken_over(self, slot: int) -> StateError:
        """The error for a driver whose next slot is another's."""
        try:
            who = f" ({self.read(slot).writer})"
        except (DamagedFile, StateError):
            who = ""
        return StateError(
            f"another driver{who} has taken over the checkpoint {self.store.name}",
            hint="close this database, which changes nothing any more; use one driver for each "
            "checkpoint",
        )

    def is_taken(self, slot: int) -> bool:
        """Whether some driver has written a slot."""
        return self.store.exists(_path(slot))

    def slots(self) -> list[int]:
        """The commits that are there, oldest first."""
        return [int(name) for name in self.store.list("commits") if name.isdigit()]

    def read(self, slot: int) -> Commit:
        """The commit of a slot, its checksum verified."""
        path = _path(slot)
        return Commit.decode(unseal(path, self.store.get(path), path))

    def newest(self) -> tuple[Commit | None, list[str]]:
        """The newest commit that can be read, and why newer ones could not."""
        unreadable: list[str] = []
        for slot in reversed(self.slots()):
            try:
                return self.read(slot), unreadable
            except DamagedFile as problem:
                unreadable.append(str(problem))
        return None, unreadable

    def lineage(self, newest: Commit) -> Iterator[Commit]:
        """The commits that led to `newest`, itself first; damaged ones are left out."""
        last = newest
        yield newest
        for slot in reversed(self.slots()):
            if slot < newest.slot:
                try:
                    commit = self.read(slot)
                except DamagedFile:
                    continue
                if commit.version in (last.version, last.version - 1):
                    last = commit
                    yield commit

    def outputs(self, newest: Commit, versions: range) -> list[list[bytes]]:
        """The outputs of committed versions up to `newest`."""
        outputs: dict[int, tuple[bytes, ...]] = {}
        for commit in self.lineage(newest):
            if commit.version < versions.start:
                break
            outputs.setdefault(commit.version, commit.outputs)
        for version in versions:
            if version not in outputs:
                raise StateError(
                    f"outputs of version {version} of {newest.version} are lost: its commit is "
                    "no longer kept, or damaged",
                    hint="rebuild what was made of them from the state itself",
                )
        return [list(outputs[version]) for version in versions]

    def save(self, commit: Commit, driver_state: bytes) -> None:
        """Keep a driver state with its commit, and the one before it."""
        path = f"driver/{_name(commit.slot)}"
        self.store.put(path, seal(driver_state, path))
        for name in self.store.list("driver")[:-2]:
            self.store.delete(f"driver/{name}")

    def saved(self, newest: Commit) -> tuple[int, bytes] | None:
        """The newest readable driver state on the way to a commit, None if none was saved."""
        names = self.store.list("driver")
        lost: list[str] = []
        for commit in self.lineage(newest):
            if not names or commit.slot < int(names[0]):
                break
            if _name(commit.slot) in names:
                path = f"driver/{_name(commit.slot)}"
                try:
                    return commit.version, unseal(path, self.store.get(path), path)
                except DamagedFile as problem:
                    lost.append(str(problem))
        if lost:
            raise StateError(
                f"no driver state of {self.store.name} can be read: {'; '.join(lost)}",
                hint="restore its directory `driver` from a backup",
            )
        return None

    def prune(self, keep_from: int) -> None:
        """Forget commits of versions before `keep_from` that no saved driver state needs, and the
        partitions of generations that no commit is of any more."""
        needed = min((int(name) for name in self.store.list("driver")), default=None)
        generations: set[int] = set()
        damaged: list[int] = []
        for slot in self.slots():
            try:
                commit = self.read(slot)
            except DamagedFile:
                damaged.append(slot)
                continue
            is_needed = needed is not None and slot >= needed
            if generations or is_needed or commit.version >= keep_from:
                generations.add(commit.generation)
                continue
            for gone in (*damaged, slot):
                self.store.delete(_path(gone))
            damaged = []
        if damaged:
            return  # it may be the one that refers to the oldest
        for name in self.store.list(""):
            is_generation = name.startswith("g") and name[1:].isdigit()
            if is_generation and int(name[1:]) < min(generations):
                self.store.delete_tree(name)


def _name(slot: int) -> str:
    return f"{slot:015d}"


def _path(slot: int) -> str:
    return f"commits/{_name(slot)}"
