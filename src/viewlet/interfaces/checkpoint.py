"""A database in a directory: definitions, table rows and the engine's state, replaced atomically.

    dir/CURRENT            the name of the newest whole checkpoint
    dir/checkpoint-N/      database.json and what the engine saves: maps and the rows of tables

A crash while writing leaves CURRENT on the checkpoint before. The directory may be a URI of any
filesystem that pyarrow knows, if the engine can write there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from viewlet.errors import StateError
from viewlet.interfaces.definitions import Definitions
from viewlet.runtime.checkpoint import DamagedFile, Store, shown
from viewlet.runtime.engine import Engine

_CURRENT = "CURRENT"
_PREFIX = "checkpoint-"
_DATABASE = "database.json"
_PROBE = "writable"
_FORMAT = 2


@dataclass(frozen=True)
class Saved:
    """What a checkpoint says about a database, apart from the engine's own files."""

    directory: str
    engine: str
    version: int
    relations: list[str]
    views: list[tuple[str, dict[str, str]]]
    epochs: dict[str, int]


def has_checkpoint(root: str) -> bool:
    return _CURRENT in Store(root).list("")


def check_place(root: str) -> None:
    """Refuse a directory that cannot be written before anything is kept for it."""
    store = Store(root)
    store.put(_PROBE, [b"viewlet"])
    store.delete(_PROBE)


def write_checkpoint(
    root: str,
    engine_name: str,
    version: int,
    definitions: Definitions,
    engine: Engine,
) -> str:
    """Write a new checkpoint, point CURRENT at it, then remove the others."""
    if "://" in root and engine_name != "spark":
        raise StateError(
            f"the engine {engine_name} saves to a directory, not to {shown(root)}",
            hint='give a directory, or say connect(engine="spark", checkpoint=...)',
        )
    store = Store(root)
    existing = [name for name in store.list("") if name.startswith(_PREFIX)]
    name = f"{_PREFIX}{max((int(n.removeprefix(_PREFIX)) for n in existing), default=0) + 1}"
    about = json.dumps(_database(engine_name, version, definitions))
    try:
        store.put(f"{name}/{_DATABASE}", [about.encode()])
        engine.save(store.below(name))
    except OSError as problem:
        store.delete_tree(name)
        raise StateError(
            f"the checkpoint cannot be written to {store.name}: {problem}",
            hint="make room or repair the access and repeat it; the one before is still there",
        ) from problem
    except BaseException:
        store.delete_tree(name)
        raise
    store.put(_CURRENT, [name.encode()])  # if this fails it may be there all the same
    for old in existing:
        store.delete_tree(old)
    return store.below(name)


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


def read_checkpoint(root: str) -> Saved:
    if not has_checkpoint(root):
        raise StateError(
            f"there is no checkpoint in {shown(root)}",
            hint="give the directory that checkpoint() wrote to",
        )
    store = Store(root)
    try:
        name = store.get(_CURRENT).decode().strip()
        found = json.loads(store.get(f"{name}/{_DATABASE}"))
    except (DamagedFile, ValueError) as error:
        raise StateError(
            f"the checkpoint in {store.name} cannot be read: {error}",
            hint="restore its files from a backup, or load the data again",
        ) from None
    directory = store.below(name)
    if found["format"] != _FORMAT:
        raise StateError(
            f"the checkpoint in {store.name} has format {found['format']}, "
            f"and this viewlet reads format {_FORMAT}",
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
