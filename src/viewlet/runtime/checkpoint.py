"""What outlives the executors and the driver: change logs and the commit log, on any filesystem.

Layout of a checkpoint directory (generation g, partition p; a tick is one stage of one step):

    cluster                                  identity, programme fingerprint
    commits/{epoch}-{version}                one file per committed step; the newest is the truth
    g{g}/p{p}/log/{tick}-{chain}-{previous}  what the programme was given at that tick
    g{g}/p{p}/snapshots/{tick}-{chain}       list of arrays and their blocks (see snapshot.py)
    g{g}/p{p}/blocks{0,1}/{digest}           contents, shared by the snapshots of one lineage

Chains. chain(t+1) = SHA-256(chain(t), t+1, broadcast, inputs), cut to 128 bits, and is both the
name of the log record and its checksum. Whoever knows the chain of a committed version can walk
the log backwards from it, and finds exactly the records that led there: a record left by a step
that was given up, or written twice by a speculative task, is on no path or is the same file. The
log is logical (the inputs, not the changed bytes), so that it costs O(batch); replaying it needs
`run` to be a function of state, inputs and broadcast.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet.errors import StateError

_SEAL = b"VIEWLET1"
_DIGEST_BYTES = 16


class DamagedFile(Exception):
    """A checkpoint file is missing, cut short or altered. Never leaves runtime."""


def digest_of(*parts: bytes | memoryview) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(part)
    return made.hexdigest()[: 2 * _DIGEST_BYTES]


class Store:
    """A directory on any pyarrow filesystem. Files appear whole or not at all."""

    def __init__(self, location: str) -> None:
        from pyarrow import fs

        self.location = location
        self.name = shown(location)
        try:
            if "://" in location:
                self._fs, root = fs.FileSystem.from_uri(location)
            else:
                self._fs, root = fs.LocalFileSystem(), str(Path(location).expanduser().absolute())
        except Exception as problem:
            raise StateError(
                f"no filesystem for the checkpoint {self.name}: {problem}",
                hint="give a directory, or a URI that pyarrow knows: file, s3, gs, hdfs, abfs",
            ) from problem
        self.root = root.rstrip("/")
        self._made: set[str] = set()
        # A put into an object store is atomic by itself, and its rename is a copy.
        self._renames = self._fs.type_name in ("local", "hdfs", "viewfs", "mock")
        self._sequence = 0

    def below(self, path: str) -> str:
        """The location of a path in here; the options of a URI stay at its end."""
        place, mark, options = self.location.partition("?")
        return f"{place.rstrip('/')}/{path}{mark}{options}"

    def put(self, path: str, parts: Iterable[bytes | memoryview]) -> int:
        """Write a file whole; returns its length."""
        full = f"{self.root}/{path}"
        parent = full.rsplit("/", 1)[0]
        target = full
        try:
            if parent not in self._made:
                self._fs.create_dir(parent, recursive=True)
                self._made.add(parent)
            if self._renames:
                self._sequence += 1
                target = f"{parent}/.{hashlib.sha256(full.encode()).hexdigest()[:12]}"
                target += f"-{id(self):x}-{_process()}-{self._sequence}"
            size = 0
            try:
                with self._opened(target, parent) as out:
                    for part in parts:
                        out.write(part)
                        size += len(part)
                if target != full:
                    self._fs.move(target, full)
            except OSError:
                self._made.discard(parent)
                if target != full:
                    self.delete(target[len(self.root) + 1 :])
                raise
        except OSError as problem:
            raise StateError(
                f"cannot write {path} into the checkpoint {self.name}: {problem}",
                hint="make room or repair the access, then repeat the step; nothing was committed",
            ) from problem
        return size

    def _opened(self, target: str, parent: str) -> Any:
        try:
            return self._fs.open_output_stream(target)
        except FileNotFoundError:  # the directory was there once, and somebody has removed it
            self._fs.create_dir(parent, recursive=True)
            return self._fs.open_output_stream(target)

    def get(self, path: str) -> bytes:
        try:
            with self._fs.open_input_file(f"{self.root}/{path}") as source:
                data: bytes = source.read()
                return data
        except OSError as problem:
            raise DamagedFile(f"{path}: {problem.strerror or 'cannot be read'}") from problem

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; none where there is no directory."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self.root}/{path}".rstrip("/"), allow_not_found=True)
        try:
            names = (info.base_name for info in self._fs.get_file_info(selector))
            return sorted(name for name in names if not name.startswith("."))
        except OSError as problem:
            raise StateError(
                f"cannot list the checkpoint {self.name}: {problem}",
                hint="repair the access and repeat it; nothing was committed",
            ) from problem

    def delete(self, path: str) -> None:
        """Remove a file; one that is gone already is no matter, nor is one that stays behind."""
        try:
            self._fs.delete_file(f"{self.root}/{path}")
        except OSError:
            return

    def delete_tree(self, path: str) -> None:
        try:
            self._fs.delete_dir(f"{self.root}/{path}")
        except OSError:
            return


def shown(location: str) -> str:
    """A location as messages show it: a URI without the secrets that it may carry."""
    return re.sub(r"://[^/@]*@", "://", location.partition("?")[0])


def _process() -> int:
    import os

    return os.getpid()


def seal(payload: bytes) -> list[bytes]:
    """payload -> magic, digest, payload."""
    return [_SEAL, bytes.fromhex(digest_of(payload)), payload]


def unseal(path: str, data: bytes) -> bytes:
    start = len(_SEAL) + _DIGEST_BYTES
    payload = data[start:]
    if data[: len(_SEAL)] != _SEAL or data[len(_SEAL) : start].hex() != digest_of(payload):
        raise DamagedFile(f"{path}: the checksum does not fit the contents")
    return payload


# -- change log ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """What one tick gave the programme. `adopt` entries start a generation from split state."""

    previous: str
    tick: int
    stage: int
    inputs: Sequence[bytes]
    broadcast: bytes

    def parts(self) -> list[bytes]:
        """The record as it is hashed and written, without copying the inputs."""
        frame = [
            bytes.fromhex(self.previous),
            struct.pack("<qiI", self.tick, self.stage, len(self.inputs)),
        ]
        for blob in (self.broadcast, *self.inputs):
            frame += [struct.pack("<q", len(blob)), blob]
        return frame

    def chain(self) -> str:
        return digest_of(*self.parts())

    @classmethod
    def parse(cls, path: str, chain: str, data: bytes) -> Entry:
        if digest_of(data) != chain:
            raise DamagedFile(f"{path}: the checksum does not fit the contents")
        tick, stage, count = struct.unpack_from("<qiI", data, _DIGEST_BYTES)
        at, blobs = _DIGEST_BYTES + struct.calcsize("<qiI"), []
        for _ in range(count + 1):
            (length,) = struct.unpack_from("<q", data, at)
            blobs.append(data[at + 8 : at + 8 + length])
            at += 8 + length
        return cls(data[:_DIGEST_BYTES].hex(), tick, stage, blobs[1:], blobs[0])


@dataclass(frozen=True)
class Link:
    """One log record as its name tells it; reading the name is enough to walk the chain."""

    tick: int
    chain: str
    previous: str

    @property
    def name(self) -> str:
        return f"{self.tick:015d}-{self.chain}-{self.previous}"

    @classmethod
    def parse(cls, name: str) -> Link | None:
        parts = name.split("-")
        if len(parts) != 3 or not parts[0].isdigit():
            return None
        return cls(int(parts[0]), parts[1], parts[2])


class ChangeLog:
    """The records of one partition of one generation."""

    def __init__(self, store: Store, generation: int, partition: int) -> None:
        self.store = store
        self.base = f"g{generation:04d}/p{partition:05d}"

    def append(self, entry: Entry, chain: str) -> int:
        link = Link(entry.tick, chain, entry.previous)
        return self.store.put(f"{self.base}/log/{link.name}", entry.parts())

    def links(self) -> dict[str, Link]:
        found = (Link.parse(name) for name in self.store.list(f"{self.base}/log"))
        return {link.chain: link for link in found if link is not None}

    def read(self, link: Link) -> Entry:
        path = f"{self.base}/log/{link.name}"
        return Entry.parse(path, link.chain, self.store.get(path))

    def path_to(self, chain: str) -> list[Link]:
        """The records that lead to `chain`, oldest first, as far back as the log is kept."""
        links, path = self.links(), []
        while (link := links.get(chain)) is not None:
            path.append(link)
            chain = link.previous
        return path[::-1]

    def prune(self, before: int) -> None:
        """Forget the records of ticks up to `before`; a snapshot holds what they did."""
        for link in self.links().values():
            if link.tick <= before:
                self.store.delete(f"{self.base}/log/{link.name}")


# -- commit log ---------------------------------------------------------------------------------


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
        return f"{self.epoch:08d}-{self.version:015d}"

    def encode(self) -> bytes:
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
        if "cluster" not in self.store.list(""):
            return None
        try:
            found: dict[str, Any] = json.loads(unseal("cluster", self.store.get("cluster")))
        except DamagedFile as problem:
            raise StateError(
                f"the checkpoint {self.store.name} does not say whose it is: {problem}",
                hint="restore the file `cluster` from a backup of the checkpoint",
            ) from problem
        return found

    def found(self, identity: dict[str, Any]) -> None:
        self.store.put("cluster", seal(json.dumps(identity).encode()))

    def write(self, commit: Commit) -> None:
        self.store.put(f"commits/{commit.name}", seal(commit.encode()))

    def names(self) -> list[str]:
        return self.store.list("commits")

    def read(self, name: str) -> Commit:
        path = f"commits/{name}"
        return Commit.decode(unseal(path, self.store.get(path)))

    def newest(self) -> tuple[Commit | None, list[str]]:
        """The newest commit that can be read, and what had to be passed over to find it."""
        passed: list[str] = []
        for name in reversed(self.names()):
            try:
                return self.read(name), passed
            except DamagedFile as problem:
                passed.append(str(problem))
        return None, passed

    def taken_over(self, newest: Commit) -> bool:
        """Whether a driver of a later epoch has opened the checkpoint since."""
        return any(int(name.partition("-")[0]) > newest.epoch for name in self.names())

    def outputs(self, newest: Commit, versions: range) -> list[list[bytes]]:
        """The outputs of committed versions up to `newest`."""
        # Where two epochs have written a version the later one counts: the earlier driver had been
        # replaced by then. Names sort by epoch, so that the later one overwrites.
        files = {int(name.partition("-")[2]): name for name in self.names()}
        found: list[list[bytes]] = []
        for version in versions:
            try:
                if version not in files:
                    raise DamagedFile(f"version {version} is no longer kept")
                found.append(list(self.read(files[version]).outputs))
            except DamagedFile as problem:
                raise StateError(
                    f"outputs of version {version} of {newest.version} are lost: {problem}",
                    hint="rebuild what was made of them from the state itself",
                ) from problem
        return found

    def save(self, commit: Commit, driver_state: bytes) -> None:
        """Keep a driver state with its version, and the one before it."""
        self.store.put(f"driver/{commit.name}", seal(driver_state))
        for name in self.store.list("driver")[:-2]:
            self.store.delete(f"driver/{name}")

    def saved(self, newest: Commit) -> tuple[int, bytes] | None:
        """The newest readable driver state of a version that is committed."""
        for name in reversed(self.store.list("driver")):
            version = int(name.partition("-")[2])
            if version <= newest.version:
                try:
                    return version, unseal(name, self.store.get(f"driver/{name}"))
                except DamagedFile:
                    continue
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
