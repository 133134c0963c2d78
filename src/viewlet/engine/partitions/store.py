"""Files of a checkpoint on any filesystem, sealed with a checksum: written whole or not at all.

`put` replaces, `create` is for one writer alone. How a filesystem lets only one of two succeed:

    local       a hard link to the finished file, which fails where the name is taken
    HDFS        Hadoop's rename without overwriting, by the driver's JVM
    others      pyarrow gives no conditional put: the name is looked at before, and the contents
                after. Of two writers within the same milliseconds both may go on

On local disks a file is on the disk, and so is its name, before `put` or `create` returns.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viewlet.engine.durable.sealed import DamagedFile
from viewlet.errors import StateError


class NameTaken(Exception):
    """Somebody else has created the file. Callers say what that means as a StateError."""


class Store:
    """A directory on any pyarrow filesystem. Files appear whole or not at all."""

    def __init__(self, location: str, *, durable: bool = True) -> None:
        """`durable`: what is written survives a power cut, where this machine has the disk."""
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
        self._syncs = durable and self._fs.type_name == "local"
        self._sequence = 0

    def below(self, path: str) -> str:
        """The location of a path in here; the options of a URI stay at its end."""
        base, mark, options = self.location.partition("?")
        return f"{base.rstrip('/')}/{path}{mark}{options}"

    def put(self, path: str, parts: Iterable[bytes | memoryview]) -> int:
        """Write a file whole; returns its length."""
        full = f"{self.root}/{path}"
        with self._writing(path):
            if not self._renames:
                return self._write(full, full, parts)
            with self._temporary(full) as temporary:
                size = self._write(temporary, full, parts)
                self._fs.move(temporary, full)
                self._sync(full)
            return size

    def create(self, path: str, parts: Iterable[bytes | memoryview]) -> None:
        """The same for a file that is not there; NameTaken where it is."""
        full = f"{self.root}/{path}"
        with self._writing(path):
            if not self._renames:
                self._claim(path, b"".join(parts))
                return
            with self._temporary(full) as temporary:
                self._write(temporary, full, parts)
                if self._fs.type_name == "local":
                    link(temporary, full)
                else:
                    hadoop_rename(self.location, temporary, full)
                self._sync(full)

    def _claim(self, path: str, data: bytes) -> None:
        """Where nothing makes writing conditional: look before, and look after."""
        full = f"{self.root}/{path}"
        if self.exists(path):
            raise NameTaken(path)
        self._write(full, full, [data])
        if self.get(path) != data:
            raise NameTaken(path)

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        """What the filesystem says becomes one error of ours."""
        try:
            yield
        except OSError as problem:
            raise StateError(
                f"cannot write {path} into the checkpoint {self.name}: {problem}",
                hint="make room or repair the access, then repeat the step; nothing was committed",
            ) from problem

    @contextmanager
    def _temporary(self, full: str) -> Iterator[str]:
        """A name beside the file's, for what is not finished; nothing has it afterwards."""
        self._sequence += 1
        folder = full.rsplit("/", 1)[0]
        name = f"{folder}/.{hashlib.sha256(full.encode()).hexdigest()[:12]}"
        name += f"-{id(self):x}-{os.getpid()}-{self._sequence}"
        try:
            yield name
        except BaseException:
            self._created.discard(folder)
            self.delete(name[len(self.root) + 1 :])
            raise

    def _write(self, target: str, full: str, parts: Iterable[bytes | memoryview]) -> int:
        folder, size = full.rsplit("/", 1)[0], 0
        if folder not in self._created:
            self._make_directory(folder)
        with self._opened(target, folder) as out:
            for part in parts:
                out.write(part)
                size += len(part)
        if self._syncs:
            sync(target)
        return size

    def _sync(self, full: str) -> None:
        """The file's name is on the disk too."""
        if self._syncs:
            sync(full.rsplit("/", 1)[0])

    def _make_directory(self, folder: str) -> None:
        """A directory; its name, and those of directories above that are new, are on the disk."""
        new = [folder]
        while self._syncs and not Path(above := str(Path(new[-1]).parent)).is_dir():
            new.append(above)
        self._fs.create_dir(folder, recursive=True)
        for name in reversed(new):
            self._sync(name)
        self._created.add(folder)

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        from pyarrow import fs

        try:
            info = self._fs.get_file_info(f"{self.root}/{path}")
        except OSError as problem:
            raise self._unreachable(path, problem) from problem
        return bool(info.type == fs.FileType.File)

    def _opened(self, target: str, parent: str) -> Any:
        try:
            return self._fs.open_output_stream(target)
        except FileNotFoundError:  # the directory was there once, and somebody has removed it
            self._fs.create_dir(parent, recursive=True)
            return self._fs.open_output_stream(target)

    def get(self, path: str) -> bytes:
        """The bytes of a file. One that is not there is damage; one that cannot be read now is
        not: it may be whole."""
        try:
            with self._fs.open_input_file(f"{self.root}/{path}") as source:
                data: bytes = source.read()
                return data
        except FileNotFoundError:
            raise DamagedFile(f"{path}: the file is gone") from None
        except OSError as problem:
            raise self._unreachable(path, problem) from problem

    def _unreachable(self, path: str, problem: OSError) -> StateError:
        return StateError(
            f"cannot read {path} of the checkpoint {self.name}: {problem}",
            hint="repair the access and repeat it; a file that is lost for good has to be removed",
        )

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


def link(temporary: str, full: str) -> None:
    """The finished file under its name; NameTaken where that has another."""
    try:
        os.link(temporary, full)
    except FileExistsError:
        raise NameTaken(full) from None
    Path(temporary).unlink()


def sync(path: str) -> None:
    """A file's contents, or the names in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hadoop_rename(location: str, source: str, target: str) -> None:
    """Rename as Hadoop promises it: NameTaken where the target is there, which stays as it is."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None  # commits are written by drivers
    assert context._jvm is not None
    assert context._gateway is not None
    hadoop = context._jvm.org.apache.hadoop.fs
    base = location.partition("?")[0]
    authority = base[: base.index("/", base.index("://") + 3)]
    files = hadoop.FileContext.getFileContext(
        context._jvm.java.net.URI(authority), context._jsc.hadoopConfiguration()
    )
    options = context._gateway.new_array(hadoop.Options.Rename, 1)
    options[0] = hadoop.Options.Rename.NONE
    try:
        files.rename(
            hadoop.Path(f"{authority}{source}"), hadoop.Path(f"{authority}{target}"), options
        )
    except Py4JJavaError as problem:
        if "FileAlreadyExistsException" in str(problem.java_exception):
            raise NameTaken(target) from None
        raise OSError(str(problem.java_exception)) from problem


def shown(location: str) -> str:
    """A location as messages show it: a URI without the secrets that it may carry."""
    return re.sub(r"://[^/@]*@", "://", location.partition("?")[0])
