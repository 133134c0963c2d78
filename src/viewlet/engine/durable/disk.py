"""The calls by which files become durable, each where a power cut can fall before or after it.

    write(path)           the file has its contents, in the page cache
    sync(path)            ... and on the disk
    rename(path, to)      the name changes, in the page cache
    sync_directory(path)  names in a directory are on the disk

Everything durable goes through a `Disk`, so that tests can end the world between two calls.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


class Disk:
    """The real one."""

    def write(self, path: Path, parts: Iterable[bytes | memoryview]) -> None:
        """Create or replace a file; its contents are not durable before `sync`."""
        with path.open("wb") as file:
            for part in parts:
                file.write(part)

    def write_at(self, file: int, data: bytes, offset: int) -> None:
        """Write into an open file, whole."""
        written = os.pwrite(file, data, offset)
        while written < len(data):
            written += os.pwrite(file, memoryview(data)[written:], offset + written)

    def allocate(self, path: Path, size: int) -> int:
        """A new file of zeros whose blocks are reserved, open for reading and writing."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
        except BaseException:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        return file

    def sync(self, path: Path) -> None:
        """Make a file's contents durable."""
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def sync_file(self, file: int) -> None:
        """The same for an open file whose length does not change."""
        os.fdatasync(file)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable: files that came, went or were renamed."""
        self.sync(path)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name, in one step; what had that name is gone."""
        path.replace(to)

    def make_directory(self, path: Path) -> None:
        """A new directory for this user alone."""
        path.mkdir(mode=0o700)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is gone already is no matter."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all that is in it; one that is gone already is no matter."""
        shutil.rmtree(path, ignore_errors=True)


def replace_file(disk: Disk, path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """A file's new contents, whole and durable when this returns; until then the old ones.

    write temporary -> sync it -> rename it -> sync the directory
    """
    temporary = path.with_name(f".{path.name}.new")
    disk.write(temporary, parts)
    disk.sync(temporary)
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)
