"""The directory of a run: the views and how far each source has come, replaced as one.

dir/CURRENT       the name of the newest whole checkpoint
dir/run-N/        progress.json, and database/ as Database.checkpoint writes it
dir/LOCK          held while a run uses the directory
"""

from __future__ import annotations

import fcntl
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from viewlet.errors import StateError
from viewlet.interfaces.api import Database

_CURRENT = "CURRENT"
_PROGRESS = "progress.json"
_DATABASE = "database"


@dataclass(frozen=True)
class Saved:
    """A checkpoint: batches done, each source's progress, and where the database is."""

    batch: int
    fingerprint: str
    sources: dict[str, Any]
    database: Path


class RunDirectory:
    """Only one run at a time may hold a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._lock: TextIO = (root / "LOCK").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StateError(
                f"another run uses {root}", hint="stop it, or give this one --checkpoint DIR"
            ) from None

    def load(self) -> Saved | None:
        pointer = self.root / _CURRENT
        if not pointer.exists():
            return None
        directory = self.root / pointer.read_text(encoding="utf-8").strip()
        try:
            found = json.loads((directory / _PROGRESS).read_text(encoding="utf-8"))
            return Saved(
                found["batch"], found["fingerprint"], found["sources"], directory / _DATABASE
            )
        except (OSError, ValueError, KeyError) as error:
            raise StateError(
                f"the checkpoint in {directory} cannot be read: {error}",
                hint="run with --restart to begin anew",
            ) from None

    def save(self, database: Database, batch: int, mark: str, sources: dict[str, Any]) -> None:
        """Write a new checkpoint, point CURRENT at it, then remove the others."""
        numbers = [int(path.name.partition("-")[2]) for path in self.root.glob("run-*")]
        target = self.root / f"run-{max(numbers, default=0) + 1}"
        target.mkdir()
        database.checkpoint(str(target / _DATABASE))
        progress = {"batch": batch, "fingerprint": mark, "sources": sources}
        (target / _PROGRESS).write_text(json.dumps(progress), encoding="utf-8")
        pointer = self.root / f"{_CURRENT}.new"
        pointer.write_text(target.name, encoding="utf-8")
        pointer.replace(self.root / _CURRENT)
        for old in self.root.glob("run-*"):
            if old != target:
                shutil.rmtree(old)

    def clear(self) -> None:
        (self.root / _CURRENT).unlink(missing_ok=True)
        for old in (*self.root.glob("run-*"), *self.root.glob("streams")):
            shutil.rmtree(old)

    def close(self) -> None:
        self._lock.close()
