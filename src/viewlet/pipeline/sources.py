"""Where rows come from outside of Spark: files that appear in a folder, lines of a socket.

A source hands out what is new and can say, as JSON, how far it has come: a run that goes on from
a checkpoint starts it there. Files are known by their path and read once, so they must be complete
when they appear (write under another name, then rename); names with a leading . or _ and a
trailing .tmp are left alone, as Spark does.

`SOURCES` has every format that a pipeline can name on any engine; one more is a class with the
methods of `Feed` and a line in it (docs/howto.md).
"""

from __future__ import annotations

import glob
import queue
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from viewlet.errors import DataError, Position, ViewletError
from viewlet.interfaces.dml import Change
from viewlet.interfaces.files import FORMATS, OPTIONS
from viewlet.pipeline.pipeline_text import Endpoint
from viewlet.schema import Relation

ReadFile = Callable[[str, str], Change]
"""A file's path and format -> its rows, as a change of the relation that the source is of."""


class Feed(Protocol):
    """What is new in a source, and how far it has come."""

    replays: bool
    """Whether it waits for `saved` after each batch, to bring again what was not."""

    is_stored: bool
    """Whether what is there now has an end: `--once` stops there, and a static table is filled."""

    def changes(self, read: ReadFile) -> list[Change]:
        """What was not handed out before."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing new can come."""
        ...

    def progress(self) -> Any:
        """How far it has come, as JSON."""
        ...

    def resume(self, progress: Any) -> None:
        """Go on from there; None is the start."""
        ...

    def saved(self) -> None:
        """A checkpoint has everything that was handed out."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class FileFeed:
    """New files of a folder, of a pattern, or one file."""

    replays = False
    is_stored = True

    def __init__(
        self,
        path: str,
        format: str,
        *,
        limit: int | None = None,
        position: Position | None = None,
    ) -> None:
        self._path = path
        self._format = format
        self._limit = limit
        self._files: set[str] = set()
        pattern = any(character in path for character in "*?[")
        if not pattern and not Path(path).exists():
            raise DataError(
                f"there is no file or folder {path}",
                position=position,
                hint="paths are relative to where viewlet is started",
            )
        self._pattern = pattern

    def changes(self, read: ReadFile) -> list[Change]:
        return [read(path, self._format) for path in self.new()]

    def new(self) -> list[str]:
        """Files not handed out before, oldest first, at most `limit`; they count as seen."""
        fresh = [path for path in self._present() if str(path) not in self._files]
        fresh.sort(key=lambda path: (path.stat().st_mtime_ns, str(path)))
        chosen = [str(path) for path in fresh[: self._limit]]
        self._files.update(chosen)
        return chosen

    def progress(self) -> list[str]:
        return sorted(self._files)

    def resume(self, progress: Iterable[str] | None) -> None:
        self._files = set(progress or ())

    def saved(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """Nothing is open."""

    @property
    def may_grow(self) -> bool:
        """Whether more files can come: it is a folder or a pattern, not one file."""
        return self._pattern or Path(self._path).is_dir()

    @property
    def ended(self) -> bool:
        """Whether no file can appear; what is there may not have been read."""
        return not self.may_grow

    def _present(self) -> list[Path]:
        root = Path(self._path)
        if self._pattern:
            paths = [Path(name) for name in glob.iglob(self._path, recursive=True)]  # noqa: PTH207
        else:
            paths = list(root.iterdir()) if root.is_dir() else [root]
        return [path for path in paths if path.is_file() and not _is_unfinished(path)]


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith((".", "_")) or path.suffix == ".tmp"


class Lines:
    """Lines of text that a server sends; read in a thread of its own, so none waits.

    What was read and not processed when a run ends is lost: a socket cannot be asked again.
    """

    replays = False
    is_stored = False

    def __init__(self, address: str, format: str, *, position: Position | None = None) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise DataError(
                f"{address!r} is not an address", position=position, hint="write 'host:port'"
            )
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=10)
        except OSError as error:
            raise ViewletError(
                f"cannot connect to {address}: {error.strerror or error}",
                position=position,
                hint="start what serves the lines first",
            ) from None
        self._socket.settimeout(None)
        self._format = format
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"viewlet {address}", daemon=True)
        self._reader.start()

    def changes(self, read: ReadFile) -> list[Change]:
        lines = self.new()
        if not lines:
            return []
        return [change_of_texts(lines, self._format, read)]

    def new(self) -> list[str]:
        """Lines that came since the last call."""
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return lines

    @property
    def ended(self) -> bool:
        return not self._reader.is_alive() and self._lines.empty()

    def progress(self) -> Any:
        return None

    def resume(self, progress: Any) -> None:
        """Lines that came before are gone."""

    def saved(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        try:
            with self._socket.makefile("r", encoding="utf-8", newline="\n") as stream:
                for line in stream:
                    if line.strip():
                        self._lines.put(line.rstrip("\r\n"))
        except (OSError, ValueError):
            return  # closed, here or there; what came before it stays in the queue


def change_of_texts(texts: Iterable[str], format: str, read: ReadFile) -> Change:
    """Rows written as CSV or JSON, read as a file with them would be."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=f".{format}") as file:
        file.write("".join(f"{text}\n" for text in texts))
        file.flush()
        return read(file.name, format)


# --- formats by name ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceFormat:
    """A format that viewlet reads itself: how it is opened, and the options that it has."""

    open: Callable[[Relation, Endpoint], Feed]
    options: Sequence[str]
    needs_path: bool = True


def _open_files(relation: Relation, endpoint: Endpoint) -> Feed:
    # As Spark calls it; no limit is the default there and here.
    limit = endpoint.integer_option("maxFilesPerTrigger", 0) or None
    return FileFeed(str(endpoint.path), endpoint.format, limit=limit, position=endpoint.position)


def _open_lines(relation: Relation, endpoint: Endpoint) -> Feed:
    return Lines(str(endpoint.path), endpoint.option("format") or "csv", position=endpoint.position)


_OPTIONS = (*OPTIONS, "weight", "format", "maxFilesPerTrigger")

SOURCES: dict[str, SourceFormat] = {
    **{name: SourceFormat(_open_files, _OPTIONS) for name in FORMATS},
    "socket": SourceFormat(_open_lines, _OPTIONS),
}
"""Name in FROM -> the format; every other name is for Spark to know."""
