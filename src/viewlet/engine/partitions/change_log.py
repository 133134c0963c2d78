"""What outlives the executors and the driver: change logs and the commit log, on any filesystem.

Layout of a checkpoint directory (generation g, partition p; a tick is one stage of one step):

    cluster                                  identity, program fingerprint
    commits/{epoch}-{version}                one file per committed step; the newest is the truth
    g{g}/p{p}/log/{tick}-{chain}-{previous}  what the program was given at that tick
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

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from viewlet.engine.durable.sealed import DIGEST_BYTES, DamagedFile, digest_of
from viewlet.engine.partitions.store import Store


@dataclass(frozen=True)
class Entry:
    """What one tick gave the program. `adopt` entries start a generation from split state."""

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
        """The digest of the entry and of all before it, because it contains the previous one."""
        return digest_of(*self.parts())

    @classmethod
    def parse(cls, path: str, chain: str, data: bytes) -> Entry:
        """An entry as it was written; a file whose digest differs is damaged."""
        if digest_of(data) != chain:
            raise DamagedFile(f"{path}: the checksum does not fit the contents")
        tick, stage, count = struct.unpack_from("<qiI", data, DIGEST_BYTES)
        at, blobs = DIGEST_BYTES + struct.calcsize("<qiI"), []
        for _ in range(count + 1):
            (length,) = struct.unpack_from("<q", data, at)
            blobs.append(data[at + 8 : at + 8 + length])
            at += 8 + length
        return cls(data[:DIGEST_BYTES].hex(), tick, stage, blobs[1:], blobs[0])


@dataclass(frozen=True)
class LogLink:
    """One log record as its name tells it; reading the name is enough to walk the chain."""

    tick: int
    chain: str
    previous: str

    @property
    def name(self) -> str:
        """The name of its file: tick, chain and previous chain, sorted by tick."""
        return f"{self.tick:015d}-{self.chain}-{self.previous}"

    @classmethod
    def parse(cls, name: str) -> LogLink | None:
        """The link that a file's name says; None for other files."""
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
        """Write an entry under its chain; the bytes that were written."""
        link = LogLink(entry.tick, chain, entry.previous)
        return self.store.put(f"{self.base}/log/{link.name}", entry.parts())

    def links(self) -> dict[str, LogLink]:
        """Chain -> link, of every entry that is there."""
        links = (LogLink.parse(name) for name in self.store.list(f"{self.base}/log"))
        return {link.chain: link for link in links if link is not None}

    def read(self, link: LogLink) -> Entry:
        """The entry of a link, its digest checked."""
        path = f"{self.base}/log/{link.name}"
        return Entry.parse(path, link.chain, self.store.get(path))

    def path_to(self, chain: str) -> list[LogLink]:
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
