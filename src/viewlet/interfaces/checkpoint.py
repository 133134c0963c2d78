"""A database in a directory: definitions, table rows and the engine's state, replaced atomically.

    dir/CURRENT            the name of the newest whole checkpoint
    dir/checkpoint-N/      database.json and what the engine saves: maps and the rows of tables

A crash while writing leaves CURRENT on the checkpoint before.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet.errors import StateError
from viewlet.interfaces.definitions import Definitions
from viewlet.runtime.engine import Engine

_CURRENT = "CURRENT"
_DATABASE = "database.json"
_FORMAT = 2


@dataclass(frozen=True)
class Saved:
    """What a checkpoint says about a database, apart from the engine's own files."""

    directory: Path
    engine: str
    version: int
    relations: list[str]
    views: list[tuple[str, dict[str, str]]]
    epochs: dict[str, int]


def write_checkpoint(
    root: Path,
    engine_name: str,
    version: int,
    definitions: Definitions,
    engine: Engine,
) -> Path:
    """Write a new checkpoint, point CURRENT at it, then remove the others."""
    try:
        return _write(root, engine_name, version, definitions, engine)
    except OSError as error:
        raise StateError(
            f"no checkpoint could be written to {root}: {error.strerror or error}",
            hint="give a directory that can be written; an earlier checkpoint in it still stands",
        ) from error


def _write(
    root: Path, engine_name: str, version: int, definitions: Definitions, engine: Engine
) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    numbers = [int(path.name.partition("-")[2]) for path in root.glob("checkpoint-*")]
    target = root / f"checkpoint-{max(numbers, default=0) + 1}"
    target.mkdir()
    (target / _DATABASE).write_text(
        json.dumps(_database(engine_name, version, definitions)), encoding="utf-8"
    )
    engine.save(target)
    pointer = root / f"{_CURRENT}.new"
    pointer.write_text(target.name, encoding="utf-8")
    pointer.replace(root / _CURRENT)
    for old in root.glob("checkpoint-*"):
        if old != target:
            shutil.rmtree(old)
    return target


def _database(engine_name: str, version: int, definitions: Definitions) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "engine": engine_name,
        "version": version,
        "relations": [made.text for made in definitions.relations.values()],
        "views": [
            [made.statement.text, {name.partition("@")[0]: name for name in sorted(made.reads)}]
            for made in definitions.views.values()
        ],
        "epochs": definitions.epochs,
    }


def read_checkpoint(root: Path) -> Saved:
    pointer = root / _CURRENT
    if not pointer.exists():
        raise StateError(
            f"there is no checkpoint in {root}",
            hint="give the directory that checkpoint() wrote to",
        )
    directory = root / pointer.read_text(encoding="utf-8").strip()
    try:
        found = json.loads((directory / _DATABASE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StateError(f"the checkpoint in {directory} cannot be read: {error}") from None
    if found["format"] != _FORMAT:
        raise StateError(
            f"the checkpoint in {directory} has format {found['format']}, and this viewlet reads "
            f"format {_FORMAT}",
            hint="restore it with the version of viewlet that wrote it",
        )
    return Saved(
        directory,
        found["engine"],
        found["version"],
        found["relations"],
        [(text, epochs) for text, epochs in found["views"]],
        found["epochs"],
    )
