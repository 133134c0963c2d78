"""The directory of a run: the views and how far each source has come, replaced as one.

dir/CURRENT       the name of the newest whole checkpoint
dir/run-N/        progress.json, and database/ as Database.checkpoint writes it
dir/LOCK          held while a run uses the directory

On Spark the database makes each batch durable by itself, in dir/database. There dir/intent-N.json
says, before batch N, how far the sources are after it; a table of the database has the number of
the last batch in it, or the database knows its name, and so tells which intent came true.
dir/intent-delivered has the number of the last batch whose changes the sinks have.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from viewlet.engine.durable.disk import Disk, replace_file
from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.errors import StateError
from viewlet.interfaces.database import Database

_CURRENT = "CURRENT"
_PROGRESS = "progress.json"
_DATABASE = "database"
_DELIVERED = "intent-delivered"


@dataclass(frozen=True)
class RunCheckpoint:
    """A checkpoint: batches done, each source's progress, and where the database is."""

    batch: int
    fingerprint: str
    sources: dict[str, Any]
    database: Path


def _unreadable(path: Path, reason: str) -> StateError:
    return StateError(
        f"the checkpoint cannot be read: {path}: {reason}", hint="run with --restart to begin anew"
    )


class RunDirectory:
    """Only one run at a time may hold a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock: TextIO = (root / "LOCK").open("w")
        except OSError as error:
            raise StateError(
                f"the run cannot keep its state in {root}: {error.strerror}",
                hint="give it a folder that can be written, with --checkpoint DIR",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StateError(
                f"another run uses {root}", hint="stop it, or give this one --checkpoint DIR"
            ) from None

    def load(self) -> RunCheckpoint | None:
        """The last checkpoint of the run; None before the first."""
        pointer = self.root / _CURRENT
        if not pointer.exists():
            self._check_new()
            return None
        directory = self.root / self._sealed(pointer, _CURRENT)
        progress = json.loads(self._sealed(directory / _PROGRESS, directory.name))
        return RunCheckpoint(
            progress["batch"], progress["fingerprint"], progress["sources"], directory / _DATABASE
        )

    def _check_new(self) -> None:
        """A crash in the first checkpoint leaves run-1 behind; any later one had a CURRENT."""
        later = [path.name for path in self.root.glob("run-*") if path.name != "run-1"]
        if later:
            raise _unreadable(self.root / _CURRENT, f"it is gone, and {later[0]} is there")

    def _sealed(self, path: Path, name: str) -> str:
        """The text of a file that was sealed under this name."""
        try:
            return unseal(str(path), path.read_bytes(), name).decode()
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from None
        except DamagedFile as error:
            raise StateError(
                f"the checkpoint cannot be read: {error}", hint="run with --restart to begin anew"
            ) from None

    def save(self, database: Database, batch: int, mark: str, sources: dict[str, Any]) -> None:
        """Write a new checkpoint, point CURRENT at it, then remove the others."""
        numbers = [int(path.name.partition("-")[2]) for path in self.root.glob("run-*")]
        target = self.root / f"run-{max(numbers, default=0) + 1}"
        target.mkdir()
        database.checkpoint(str(target / _DATABASE))
        progress = {"batch": batch, "fingerprint": mark, "sources": sources}
        disk = Disk()
        replace_file(disk, target / _PROGRESS, seal(json.dumps(progress).encode(), target.name))
        disk.sync_directory(self.root)
        replace_file(disk, self.root / _CURRENT, seal(target.name.encode(), _CURRENT))
        for old in self.root.glob("run-*"):
            if old != target:
                shutil.rmtree(old)

    # For an engine that makes every batch durable by itself.

    def intend(self, batch: int, mark: str, sources: dict[str, Any]) -> None:
        """Write, before a batch, how far the sources are after it; the one before is kept."""
        progress = {"batch": batch, "fingerprint": mark, "sources": sources}
        path = self._intent(batch)
        replace_file(Disk(), path, seal(json.dumps(progress).encode(), path.name))
        self._intent(batch - 2).unlink(missing_ok=True)

    @property
    def delivered(self) -> int:
        """The last batch whose changes all sinks have."""
        path = self.root / _DELIVERED
        return int(self._sealed(path, _DELIVERED)) if path.exists() else 0

    @delivered.setter
    def delivered(self, batch: int) -> None:
        replace_file(Disk(), self.root / _DELIVERED, seal(str(batch).encode(), _DELIVERED))

    def intended(self, batch: int | None = None) -> RunCheckpoint | None:
        """The progress with a batch, or with the last one that was begun."""
        numbers = [int(path.stem.partition("-")[2]) for path in self.root.glob("intent-*.json")]
        if not numbers:
            return None
        chosen = max(numbers) if batch is None else batch
        if chosen not in numbers:
            raise StateError(
                f"{self._intent(chosen)} is gone, which says how far the sources were then",
                hint="run with --restart to begin anew",
            )
        path = self._intent(chosen)
        intent = json.loads(self._sealed(path, path.name))
        return RunCheckpoint(
            chosen, intent["fingerprint"], intent["sources"], self.root / _DATABASE
        )

    def _intent(self, batch: int) -> Path:
        return self.root / f"intent-{batch}.json"

    def clear(self) -> None:
        """Everything of the run goes, first what makes it count."""
        for file in (self.root / _CURRENT, *self.root.glob("intent*")):
            file.unlink(missing_ok=True)
        for name in ("run-*", "streams", _DATABASE):
            for old in self.root.glob(name):
                shutil.rmtree(old)

    def close(self) -> None:
        """Unlock the directory for other processes."""
        self._lock.close()
