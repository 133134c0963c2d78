"""The head of a partition's directory, which dates the arrays, and the lock that guards both."""

from __future__ import annotations

import fcntl
import json
import math
import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from viewlet.errors import StateError

# An array file opens with one page that says whose it is; the data follow, aligned.
ARRAY_OFFSET = 4096
BUILDING = -1  # value of `dirty` while a state is being rebuilt: no undo can help
_MAGIC = b"VIEWLET-HEAD-1\0\0"
_FRAME = struct.Struct("<16sII")  # magic, length, CRC-32 of the JSON that follows
_PATIENCE = 300.0


class DamagedState(Exception):
    """The local files cannot be trusted; the message says which and why. Never reaches users."""


@dataclass
class Extent:
    """Where an array lives and how it looks; `capacity` counts rows of the first axis."""

    file: str
    dtype: Any
    shape: tuple[int, ...]
    capacity: int

    def row_bytes(self) -> int:
        """Bytes of one entry along the first axis."""
        return math.prod(self.shape[1:]) * dtype_of(self.dtype).itemsize

    def file_bytes(self) -> int:
        """Bytes of the array's file at its present capacity."""
        return ARRAY_OFFSET + self.capacity * self.row_bytes()


@dataclass
class Head:
    """What the directory says about itself. Written in place, checked by magic and CRC."""

    fingerprint: str
    incarnation: str
    tick: int
    chain: str
    boot: str
    dirty: int = 0
    returned: bool = False
    fence: tuple[int, int] = (0, 0)
    history: list[tuple[int, str]] = field(default_factory=list)
    arrays: dict[str, Extent] = field(default_factory=dict)
    meta: str = "{}"

    def encode(self) -> bytes:
        """As bytes with a checksum, so that a head cut short by a crash is noticed."""
        body = dict(self.__dict__)
        body["arrays"] = {n: [e.file, e.dtype, e.shape, e.capacity] for n, e in self.arrays.items()}
        text = json.dumps(body, separators=(",", ":")).encode()
        return _FRAME.pack(_MAGIC, len(text), zlib.crc32(text)) + text

    @classmethod
    def decode(cls, data: bytes) -> Head:
        """The reverse of encode; a head with another checksum is damaged."""
        try:
            magic, length, crc = _FRAME.unpack_from(data)
            text = data[_FRAME.size : _FRAME.size + length]
            if magic != _MAGIC or len(text) != length or zlib.crc32(text) != crc:
                raise DamagedState("the head of the local state is corrupted")
            body = json.loads(text)
        except struct.error:
            raise DamagedState("the head of the local state is cut short") from None
        body["arrays"] = {
            name: Extent(file, dtype, tuple(shape), capacity)
            for name, (file, dtype, shape, capacity) in body["arrays"].items()
        }
        body["history"] = [(tick, chain) for tick, chain in body["history"]]
        body["fence"] = (body["fence"][0], body["fence"][1])
        return cls(**body)


def dtype_of(descr: Any) -> np.dtype[Any]:
    """The inverse of `dtype_descr`; JSON has turned the tuples of a structured type into lists."""
    dtype: np.dtype[Any]
    if isinstance(descr, list):
        fields = [(f[0], f[1], tuple(f[2])) if len(f) == 3 else (f[0], f[1]) for f in descr]
        dtype = np.dtype(fields)
    else:
        dtype = np.dtype(descr)
    return dtype


def dtype_descr(dtype: DTypeLike) -> Any:
    """A JSON-able description of a fixed-width dtype; objects are refused, they have no bytes."""
    resolved = np.dtype(dtype)
    if resolved.hasobject:
        raise StateError(
            f"dtype {resolved} holds Python objects and cannot live in partition state",
            hint="encode the values in numeric or fixed-width arrays",
        )
    return resolved.descr if resolved.names else resolved.str


def boot_id() -> str:
    """Files that outlived a machine crash may be torn without saying so; another boot tells."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@contextmanager
def partition_lock(directory: Path) -> Iterator[None]:
    """One process at a time: a speculative copy or a zombie of a lost executor waits or gives up.

    flock, because the kernel releases it when its holder dies, whatever the way.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline, pause = time.monotonic() + _PATIENCE, 0.0005
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StateError(
                        f"another process has held {directory / 'lock'} for {_PATIENCE:.0f} s",
                        hint="end the process that holds it; the step can then be repeated",
                    ) from None
                time.sleep(pause)
                pause = min(pause * 2, 0.02)
        yield
    finally:
        os.close(handle)
