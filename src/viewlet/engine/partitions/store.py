"""Files of a checkpoint on any filesystem, sealed with a checksum: written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from viewlet.engine.durable.sealed import DamagedFile
from viewlet.errors import StateError


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
        self._created: set[str] = set()
        # A put into an object store is atomic by itself, and its rename is a copy.
        self._renames = self._fs.type_name in ("local", "hdfs", "viewfs", "mock")
        self._sequence = 0

    def below(self, path: str) -> str:
        """The location of a path in here; the options of a URI stay at its end."""
        base, mark, options = self.location.partition("?")
        return f"{base.rstrip('/')}/{path}{mark}{options}"

    def put(self, path: str, parts: Iterable[bytes | memoryview]) -> int:
        """Write a file whole; returns its length."""
        full = f"{self.root}/{path}"
        parent = full.rsplit("/", 1)[0]
        target = full
        try:
            if parent not in self._created:
                self._fs.create_dir(parent, recursive=True)
                self._created.add(parent)
            if self._renames:
                self._sequence += 1
                target = f"{parent}/.{hashlib.sha256(full.encode()).hexdigest()[:12]}"
                target += f"-{id(self):x}-{os.getpid()}-{self._sequence}"
            size = 0
            try:
                with self._opened(target, parent) as out:
                    for part in parts:
                        out.write(part)
                        size += len(part)
                if target != full:
                    self._fs.move(target, full)
            except OSError:
                self._created.discard(parent)
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
        """The bytes of a file; one that cannot be read counts as damaged."""
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
        """Remove a file if possible; one that is gone already or cannot be removed is no error."""
        try:
            self._fs.delete_file(f"{self.root}/{path}")
        except OSError:
            return

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all below it; one that is not there is fine."""
        try:
            self._fs.delete_dir(f"{self.root}/{path}")
        except OSError:
            return


def shown(location: str) -> str:
    """A location as messages show it: a URI without the secrets that it may carry."""
    return re.sub(r"://[^/@]*@", "://", location.partition("?")[0])
