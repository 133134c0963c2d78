"""The directory of a run: the views and how far each source has come, replaced as one.

dir/CURRENT       the name of the newest whole checkpoint
dir/run-N/        progress.json, and database/ as Database.checkpoint writes it
dir/LOCK          held while a run uses the directory

On Spark the database makes each batch durable by itself, in dir/database. There dir/intent-N.json
says, before batch N, how far the sources are after it; a table of the database has the number of
the last batch in it, and so tells which intent came true.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from viewlet.errors import StateError
from viewlet.interfaces.database import Database

_CURRENT = "CURRENT"
_PROGRESS = "progress.json"
_DATABASE = "database"


@dataclass(frozen=True)
class RunCheckpoint:
    """A checkpoint: batches done, each source's progress, and where the database is."""

    batch: int
    fingerprint: str
    sources: dict[str, Any]
    database: Path


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
            return None
        directory = self.root / pointer.read_text(encoding="utf-8").strip()
        try:
            progress = json.loads((directory / _PROGRESS).read_text(encoding="utf-8"))
            return RunCheckpoint(
                progress["batch"],
                progress["fingerprint"],
                progress["sources"],
                directory / _DATABASE,
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

    # For an engine that makes every batch durable by itself.

    def intend(self, batch: int, mark: str, sources: dict[str, Any]) -> None:
        """Write, before a batch, how far the sources are after it; the one before is kept."""
        progress = {"batch": batch, "fingerprint": mark, "sources": sources}
        unfinished = self.root / "intent.new"
        unfinished.write_text(json.dumps(progress), encoding="utf-8")
        unfinished.replace(self._intent(batch))
        self._intent(batch - 2).unlink(missing_ok=True)

    def intended(self, batch: int | None = None) -> RunCheckpoint | None:
        """The progress with a batch, or with the last one that was begun."""
        numbers = [int(path.stem.partition("-")[2]) for path in self.root.glob("intent-*.json")]
        if not numbers:
            return None
        chosen = max(numbers) if batch is None else batch
        if chosen not in numbers:
            raise StateError(
                f"{self.root} does not say how far the sources were at batch {chosen}",
                hint="run with --restart to begin anew",
            )
        intent = json.loads(self._intent(chosen).read_text(encoding="utf-8"))
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
