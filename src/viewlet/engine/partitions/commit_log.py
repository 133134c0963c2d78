"""The commit log: one file for each committed version, and what the driver saved beside it."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.engine.partitions.store import Store
from viewlet.errors import StateError


@dataclass(frozen=True)
class Commit:
    """A version that exists: its tick, and the chain of every partition at it.

    `epoch` counts the drivers that have opened the checkpoint. The newest commit is the greatest
    by (epoch, version): a driver that was replaced and does not know it writes into the past.
    """

    epoch: int
    version: int
    tick: int
    generation: int
    chains: tuple[str, ...]
    batches: tuple[tuple[str, int], ...] = ()
    outputs: tuple[bytes, ...] = ()

    @property
    def name(self) -> str:
        """The name of its file: epoch and version, sorted by both."""
        return f"{self.epoch:08d}-{self.version:015d}"

    def encode(self) -> bytes:
        """As bytes: the length of a JSON head, the head, the outputs."""
        head = json.dumps(
            {
                "epoch": self.epoch,
                "version": self.version,
                "tick": self.tick,
                "generation": self.generation,
                "chains": self.chains,
                "batches": self.batches,
                "outputs": [len(blob) for blob in self.outputs],
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
            body["epoch"],
            body["version"],
            body["tick"],
            body["generation"],
            tuple(body["chains"]),
            tuple((batch, version) for batch, version in body["batches"]),
            tuple(outputs),
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

    def write(self, commit: Commit) -> None:
        """The version exists from now on."""
        path = f"commits/{commit.name}"
        self.store.put(path, seal(commit.encode(), path))

    def names(self) -> list[str]:
        """The commits that are there, oldest first."""
        return self.store.list("commits")

    def read(self, name: str) -> Commit:
        """A commit by its name, its checksum verified."""
        path = f"commits/{name}"
        return Commit.decode(unseal(path, self.store.get(path), path))

    def newest(self) -> tuple[Commit | None, list[str]]:
        """The newest commit that can be read, and why newer ones could not."""
        unreadable: list[str] = []
        for name in reversed(self.names()):
            try:
                return self.read(name), unreadable
            except DamagedFile as problem:
                unreadable.append(str(problem))
        return None, unreadable

    def is_superseded(self, newest: Commit) -> bool:
        """Whether a driver of a later epoch has opened the checkpoint since."""
        return any(int(name.partition("-")[0]) > newest.epoch for name in self.names())

    def outputs(self, newest: Commit, versions: range) -> list[list[bytes]]:
        """The outputs of committed versions up to `newest`."""
        # Where two epochs have written a version the later one counts: the earlier driver had been
        # replaced by then. Names sort by epoch, so that the later one overwrites.
        files = {int(name.partition("-")[2]): name for name in self.names()}
        outputs: list[list[bytes]] = []
        for version in versions:
            try:
                if version not in files:
                    raise DamagedFile(f"version {version} is no longer kept")
                outputs.append(list(self.read(files[version]).outputs))
            except DamagedFile as problem:
                raise StateError(
                    f"outputs of version {version} of {newest.version} are lost: {problem}",
                    hint="rebuild what was made of them from the state itself",
                ) from problem
        return outputs

    def save(self, commit: Commit, driver_state: bytes) -> None:
        """Keep a driver state with its version, and the one before it."""
        path = f"driver/{commit.name}"
        self.store.put(path, seal(driver_state, path))
        for name in self.store.list("driver")[:-2]:
            self.store.delete(f"driver/{name}")

    def saved(self, newest: Commit) -> tuple[int, bytes] | None:
        """The newest readable driver state of a committed version, None if none was saved."""
        lost: list[str] = []
        for name in reversed(self.store.list("driver")):
            version = int(name.partition("-")[2])
            if version <= newest.version:
                path = f"driver/{name}"
                try:
                    return version, unseal(path, self.store.get(path), path)
                except DamagedFile as problem:
                    lost.append(str(problem))
        if lost:
            raise StateError(
                f"no driver state of {self.store.name} can be read: {'; '.join(lost)}",
                hint="restore its directory `driver` from a backup",
            )
        return None

    def prune(self, newest: Commit, keep_from: int) -> None:
        """Forget commits of versions before `keep_from` that no saved driver state needs, and the
        partitions of generations that no commit is of any more."""
        saved = [int(name.partition("-")[2]) for name in self.store.list("driver")]
        keep_from = min([keep_from, *saved])
        for name in self.names():
            epoch, _, version = name.partition("-")
            if int(version) < keep_from and int(epoch) <= newest.epoch:
                self.store.delete(f"commits/{name}")
        try:
            oldest = min((self.read(name).generation for name in self.names()), default=0)
        except DamagedFile:
            return  # it may be the one that refers to the oldest
        for name in self.store.list(""):
            if name.startswith("g") and name[1:].isdigit() and int(name[1:]) < oldest:
                self.store.delete_tree(name)
