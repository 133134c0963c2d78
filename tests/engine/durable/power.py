"""A disk whose power can be cut after any call, and what is on it afterwards.

The model is the weakest that POSIX allows: contents are there after a sync of the file, names after
a sync of their directory, and nothing else survives.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from viewlet.engine.durable.disk import Disk


class PowerCut(BaseException):
    """The machine is off. Not an Exception: nothing in the process can handle it."""


class CuttableDisk(Disk):
    """Works below `root` on the real disk, and remembers what would have survived so far."""

    def __init__(self, root: Path, calls: int) -> None:
        self.root = root
        self.calls_left = calls
        self.calls = 0
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._pinned: list[int] = []  # inodes must not be used again for other files
        self._record_directory(root)

    def _tick(self) -> None:
        self.calls += 1
        if self.calls > self.calls_left:
            raise PowerCut

    def _record_directory(self, path: Path) -> None:
        names = {}
        for child in path.iterdir():
            names[child.name] = child.stat().st_ino
            self._pinned.append(os.open(child, os.O_RDONLY))
            if child.is_dir():
                self._names.setdefault(child.stat().st_ino, {})
        self._names[path.stat().st_ino] = names

    def write(self, path: Path, parts: Iterable[bytes | memoryview]) -> None:
        self._tick()
        super().write(path, parts)

    def write_at(self, file: int, data: bytes, offset: int) -> None:
        self._tick()
        super().write_at(file, data, offset)

    def allocate(self, path: Path, size: int) -> int:
        self._tick()
        return super().allocate(path, size)

    def sync(self, path: Path) -> None:
        self._tick()
        self._contents[path.stat().st_ino] = path.read_bytes()

    def sync_file(self, file: int) -> None:
        self._tick()
        self._contents[os.fstat(file).st_ino] = os.pread(file, os.fstat(file).st_size, 0)

    def sync_directory(self, path: Path) -> None:
        self._tick()
        self._record_directory(path)

    def rename(self, path: Path, to: Path) -> None:
        self._tick()
        super().rename(path, to)

    def make_directory(self, path: Path) -> None:
        self._tick()
        super().make_directory(path)
        self._names[path.stat().st_ino] = {}

    def remove(self, path: Path) -> None:
        self._tick()
        super().remove(path)

    def remove_tree(self, path: Path) -> None:
        self._tick()
        super().remove_tree(path)

    def survive(self, target: Path) -> None:
        """Write what is on the disk after the cut to another directory."""
        self._restore(self.root.stat().st_ino, target)

    def _restore(self, inode: int, target: Path) -> None:
        target.mkdir(exist_ok=True)
        for name, child in self._names[inode].items():
            if child in self._names:
                self._restore(child, target / name)
            else:
                (target / name).write_bytes(self._contents.get(child, b""))

    def close(self) -> None:
        """Let go of the files."""
        for file in self._pinned:
            os.close(file)
