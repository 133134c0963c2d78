"""Where rows come from outside of Spark: files that appear in a folder, lines of a socket.

A source hands out what is new and can tell, as JSON, how far it has come: a run that goes on from
a checkpoint starts it there. Files are known by their path and read once, so they must be complete
when they appear (write under another name, then rename); names with a leading . or _ and a
trailing .tmp are left alone, as Spark does.
"""

from __future__ import annotations

import glob
import queue
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from viewlet.errors import DataError, Position, ViewletError


class Files:
    """New files of a folder, of a pattern, or one file."""

    replays = False

    def __init__(
        self, path: str, *, limit: int | None = None, position: Position | None = None
    ) -> None:
        self._path = path
        self._limit = limit
        self._seen: set[str] = set()
        pattern = any(character in path for character in "*?[")
        if not pattern and not Path(path).exists():
            raise DataError(
                f"there is no file or folder {path}",
                position=position,
                hint="paths are relative to where viewlet is started",
            )
        self._pattern = pattern

    def new(self) -> list[str]:
        """Files not handed out before, oldest first, at most `limit`; they count as seen."""
        fresh = [path for path in self._present() if str(path) not in self._seen]
        fresh.sort(key=lambda path: (path.stat().st_mtime_ns, str(path)))
        chosen = [str(path) for path in fresh[: self._limit]]
        self._seen.update(chosen)
        return chosen

    def progress(self) -> list[str]:
        return sorted(self._seen)

    def resume(self, progress: Iterable[str] | None) -> None:
        self._seen = set(progress or ())

    def saved(self) -> None:
        """Nobody waits for it."""

    def close(self) -> None:
        """Nothing is open."""

    @property
    def may_grow(self) -> bool:
        return self._pattern or Path(self._path).is_dir()

    @property
    def ended(self) -> bool:
        """Whether no file can appear; what is there may not have been read."""
        return not self.may_grow

    def _present(self) -> list[Path]:
        place = Path(self._path)
        if self._pattern:
            found = [Path(name) for name in glob.iglob(self._path, recursive=True)]  # noqa: PTH207
        elif place.is_dir():
            found = list(place.iterdir())
        else:
            found = [place]
        return [path for path in found if path.is_file() and not _is_unfinished(path)]


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith((".", "_")) or path.suffix == ".tmp"


class Lines:
    """Lines of text that a server sends; read in a thread of its own, so none waits.

    What was read and not processed when a run ends is lost: a socket cannot be asked again.
    """

    replays = False

    def __init__(self, address: str, *, position: Position | None = None) -> None:
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
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name=f"viewlet {address}", daemon=True)
        self._reader.start()

    def new(self) -> list[str]:
        found = []
        while not self._lines.empty():
            found.append(self._lines.get())
        return found

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
