"""The state of one partition: a directory of memory-mapped flat arrays and a head that dates them.

Contract. A partition's state is a pure function of its history of ticks. A *tick* is one stage of
one step on one partition; a partition counts them through. The head names the tick that was
completed last and the *chain*, the digest of everything that led to it, so that two states with
equal chains are equal, wherever they are. While a tick is being applied the head says `dirty`: the
arrays are then between two ticks and only undo or rebuild may use them.

The arrays belong to the directory. A process maps them and may keep its mapping between tasks, but
the mapping is a cache: the head is read again every time, and only the holder of the lock may look.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import secrets
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from viewlet.engine.partitions.head import (
    ARRAY_OFFSET,
    BUILDING,
    DamagedState,
    Extent,
    Head,
    boot_id,
    dtype_descr,
    dtype_of,
)
from viewlet.errors import StateError

Array = NDArray[Any]

UNDO = "undo"  # prefix of the arrays that hold undo logs
_MAGIC = b"VIEWLET-ARRAY-1\0"
_ROWS = struct.Struct("<q")  # on the first page: the rows that the array has now, for a torn state
_ROWS_AT = 64


class PartitionState:
    """Named arrays and a small `meta` dictionary, versioned together.

    `partition` and `partitions` say which part of how many; `meta` is JSON-able and is kept with
    the tick that wrote it: after an undo or a rebuild it is again what it was.

    Undo logs. Arrays whose names begin with "undo" are emptied by the service when a tick is
    complete, and only then. A program that cleared its log itself could not do it right: at the
    start of a run, a crash just before would undo the previous tick a second time; at the end of
    one, a crash just after would leave a complete run that nobody can undo.
    """

    def __init__(self, directory: Path, partition: int, partitions: int, head: Head) -> None:
        self.directory = directory
        self.partition = partition
        self.partitions = partitions
        self.head = head
        self.meta: dict[str, Any] = json.loads(head.meta)
        self._maps: dict[str, tuple[mmap.mmap, int]] = {}
        self._views: dict[str, Array] = {}
        self._frozen = False

    # -- what programs use ------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of its arrays."""
        return list(self.head.arrays)

    def array(self, name: str) -> Array:
        """The array, mapped; writes go to the state. Valid until the run ends or it is resized."""
        view = self._views.get(name)
        if view is None:
            extent = self._extent(name)
            memory = self._map(extent)
            rows = np.frombuffer(
                memory, dtype_of(extent.dtype), math.prod(extent.shape), offset=ARRAY_OFFSET
            )
            view = self._views[name] = rows.reshape(extent.shape)
        if self._frozen:
            view = view.view()
            view.flags.writeable = False
        return view

    def create(self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """A new array of zeros; an array of that name is replaced."""
        self._writable()
        full = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        if not full or any(n < 0 for n in full):
            raise StateError(f"array {name!r}: {shape!r} is not the shape of an array")
        if name in self.head.arrays:
            self.drop(name)
        file = f"{secrets.token_hex(6)}.array"
        extent = Extent(file, dtype_descr(dtype), full, full[0])
        self._allocate(extent, new=True)
        self.head.arrays[name] = extent
        self._write_head()
        return self.array(name)

    def resize(self, name: str, length: int) -> Array:
        """[x0 .. xn-1] -> [x0 .. xm-1]; new rows are zero. Amortized O(rows added)."""
        self._writable()
        extent = self._extent(name)
        before = extent.shape[0]
        if length < 0:
            raise StateError(f"array {name!r} cannot have {length} rows")
        if length > extent.capacity:
            grown = Extent(
                extent.file,
                extent.dtype,
                extent.shape,
                max(length, extent.capacity + extent.capacity // 2, 16),
            )
            self._allocate(grown, new=False)
            extent = grown
        # Not a new head for every resize: the stamp writes it, and if the run is torn the pages
        # say how long the arrays were, which is what an undo log among them needs.
        self._views.pop(name, None)
        extent = Extent(extent.file, extent.dtype, (length, *extent.shape[1:]), extent.capacity)
        self.head.arrays[name] = extent
        _ROWS.pack_into(self._map(extent), _ROWS_AT, length)
        view = self.array(name)
        if length > before:  # the rows may hold what was there before the array shrank
            view[before:] = np.zeros((), view.dtype)
        return view

    def drop(self, name: str) -> None:
        """Forget an array and free its room."""
        self._writable()
        extent = self._extent(name)
        del self.head.arrays[name]
        self._views.pop(name, None)
        self._maps.pop(extent.file, None)
        self._write_head()
        (self.directory / extent.file).unlink(missing_ok=True)

    # -- what the service uses ----------------------------------------------------------------

    @classmethod
    def fresh(
        cls, directory: Path, partition: int, partitions: int, fingerprint: str
    ) -> PartitionState:
        """An empty state marked as BUILDING; what was in the directory is removed."""
        wipe(directory)
        head = Head(fingerprint, secrets.token_hex(8), 0, "", boot_id(), dirty=BUILDING)
        state = cls(directory, partition, partitions, head)
        state._write_head()
        return state

    @classmethod
    def attach(
        cls,
        directory: Path,
        partition: int,
        partitions: int,
        fingerprint: str,
        cached: PartitionState | None = None,
    ) -> PartitionState | None:
        """The state in the directory; None where there is none; DamagedState where it is bad.

        A cached mapping of the same incarnation is used again for the arrays that did not move.
        """
        try:
            head = Head.decode((directory / "head").read_bytes())
        except FileNotFoundError:
            return None
        if head.fingerprint != fingerprint:
            raise DamagedState("the local state belongs to another program")
        if head.boot != boot_id():
            raise DamagedState("the machine was started again since the local state was written")
        state = cls(directory, partition, partitions, head)
        if cached is not None and cached.head.incarnation == head.incarnation:
            state._maps = cached._maps
            old = cached.head.arrays
            for name, view in cached._views.items():
                if name in head.arrays and head.arrays[name] == old.get(name):
                    state._views[name] = view
        state._inspect()
        return state

    def begin(self, tick: int, fence: tuple[int, int]) -> None:
        """Mark dirty: from here to `stamp` the arrays are torn. A rebuild says BUILDING."""
        self.head.dirty, self.head.returned = tick, False
        self.head.fence = max(self.head.fence, fence)
        self._write_head()

    def run_returned(self) -> None:
        """The run is over but not stamped: undo logs may be emptied from here on, so no undo."""
        self.head.returned = True
        self._write_head()

    def stamp(self, tick: int, chain: str, keep: int) -> None:
        """The tick is complete; `keep` past ticks stay in the history of this incarnation."""
        for name in self.head.arrays:
            if name.startswith(UNDO):
                self.resize(name, 0)
        self.head.tick, self.head.chain, self.head.dirty = tick, chain, 0
        self.head.meta = json.dumps(self.meta, separators=(",", ":"))
        self.head.history = [*self.head.history, (tick, chain)][-keep:]
        self._write_head()

    def undone(self) -> None:
        """The program has undone the torn tick: the state is again that of `head.tick`."""
        for name in self.head.arrays:
            if name.startswith(UNDO):
                self.resize(name, 0)
        self.meta = json.loads(self.head.meta)
        self.head.dirty = 0
        self._write_head()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Inside, arrays refuse writes: a read must not change what the chain vouches for."""
        self._frozen, meta = True, self.meta
        self.meta = json.loads(self.head.meta)
        try:
            yield
        finally:
            self._frozen, self.meta = False, meta

    def _writable(self) -> None:
        if self._frozen:
            raise StateError("a read cannot change the state of a partition")

    def _extent(self, name: str) -> Extent:
        try:
            return self.head.arrays[name]
        except KeyError:
            names = ", ".join(self.head.arrays) or "none"
            raise StateError(
                f"partition {self.partition} has no array {name!r}", hint=f"it has: {names}"
            ) from None

    def _map(self, extent: Extent) -> mmap.mmap:
        mapped = self._maps.get(extent.file)
        if mapped is not None and len(mapped[0]) == extent.file_bytes():
            return mapped[0]
        handle = os.open(self.directory / extent.file, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(handle, extent.file_bytes())
            self._maps[extent.file] = (memory, os.fstat(handle).st_ino)
        finally:
            os.close(handle)
        return memory

    def _allocate(self, extent: Extent, *, new: bool) -> None:
        """Reserve the room on the disk now: a hole found full later would be a SIGBUS, no error."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if new else 0)
        try:
            handle = os.open(self.directory / extent.file, flags, 0o600)
            try:
                os.posix_fallocate(handle, 0, extent.file_bytes())
                if new:
                    os.pwrite(handle, self._signature(), 0)
                    os.pwrite(handle, _ROWS.pack(extent.shape[0]), _ROWS_AT)
            finally:
                os.close(handle)
        except OSError as problem:
            if new:
                (self.directory / extent.file).unlink(missing_ok=True)
            raise StateError(
                f"partition {self.partition}: no room for {extent.file_bytes():,} bytes "
                f"in {self.directory}: {problem.strerror}",
                hint="free space there, or set the state directory to a larger disk",
            ) from problem

    def _signature(self) -> bytes:
        return _MAGIC + self.head.incarnation.encode()

    def _inspect(self) -> None:
        """Every array file is there, is whole and opens with our page; a torn one says its rows."""
        signature = self._signature()
        for name, extent in self.head.arrays.items():
            path = f"{self.directory}/{extent.file}"
            mapped = self._maps.get(extent.file)
            try:
                status = os.stat(path)  # noqa: PTH116  a Path costs more than the call
                if status.st_size < ARRAY_OFFSET:  # before a look at the mapping: it would be fatal
                    raise DamagedState(f"the local file of array {name!r} is cut short")
                if mapped is not None and mapped[1] == status.st_ino:
                    page = mapped[0][: _ROWS_AT + _ROWS.size]
                else:
                    self._maps.pop(extent.file, None)
                    self._views.pop(name, None)
                    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                        page = file.read(_ROWS_AT + _ROWS.size)
            except FileNotFoundError:
                raise DamagedState(f"the local file of array {name!r} is missing") from None
            if not page.startswith(signature):
                raise DamagedState(f"the local file of array {name!r} is corrupted")
            if self.head.dirty > 0:
                extent.shape = (_ROWS.unpack_from(page, _ROWS_AT)[0], *extent.shape[1:])
                room, row = status.st_size - ARRAY_OFFSET, extent.row_bytes()
                extent.capacity = room // row if row else extent.shape[0]
                self._views.pop(name, None)
            if status.st_size != extent.file_bytes() or extent.shape[0] > extent.capacity:
                raise DamagedState(f"the local file of array {name!r} has a wrong length")

    def _write_head(self) -> None:
        handle = os.open(self.directory / "head", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            data = self.head.encode()
            if os.pwrite(handle, data, 0) != len(data):
                raise StateError(f"no room for the head of {self.directory}")
        except OSError as problem:
            raise StateError(
                f"cannot write the head of {self.directory}: {problem.strerror}",
                hint="free space there, or set the state directory to a larger disk",
            ) from problem
        finally:
            os.close(handle)


def wipe(directory: Path) -> None:
    """Empty a partition's directory, except for the locks and what a snapshot is working on."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for entry in directory.iterdir():
        if entry.name not in ("lock", "snapshot-lock", "copies"):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
