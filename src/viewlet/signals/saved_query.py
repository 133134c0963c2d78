"""A running query on disk: one directory, arrays as .npy files, the rest as JSON.

The directory is written beside its place and then moved there, so a reader finds the old state or
the new one, never a mixture. MANIFEST has the checksum of every file (engine/durable).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.sealed import DamagedFile
from viewlet.engine.durable.sealed_directory import check_directory, seal_directory
from viewlet.errors import StateError
from viewlet.signals.state import ArrayStore, MemoryStore

_FORMAT = 1


def save(path: Path, fingerprint: str, memory: dict[str, Any], stores: list[ArrayStore]) -> None:
    """Write a stream's state beside the one before, then take its place."""
    fresh = path.with_name(path.name + ".new")
    old = path.with_name(path.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    arrays: list[Any] = []
    described = {
        "format": _FORMAT,
        "fingerprint": fingerprint,
        "memory": strip(memory, arrays),
        "lanes": [{"meta": store.meta, "names": store.names()} for store in stores],
    }
    for number, array in enumerate(arrays):
        np.save(fresh / f"memory{number}.npy", array, allow_pickle=False)
    for lane, store in enumerate(stores):
        for number, name in enumerate(store.names()):
            np.save(fresh / f"lane{lane}_{number}.npy", store.array(name), allow_pickle=False)
    (fresh / "state.json").write_text(json.dumps(described))
    seal_directory(Disk(), fresh)
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    fresh.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def load(path: Path, fingerprint: str) -> tuple[dict[str, Any], list[ArrayStore]]:
    """The state that `save` wrote, if it is of the same query."""
    old = path.with_name(path.name + ".old")
    if not path.exists() and old.exists():
        path = old  # the writer stopped between its two renames
    if not path.exists():
        raise StateError(f"{path} holds no saved stream", hint="save one with live.save")
    try:
        check_directory(path)
    except DamagedFile as problem:
        raise StateError(
            f"the saved stream cannot be read: {problem}",
            hint="restore its files from a backup, or start the query again from its input",
        ) from None
    described = json.loads((path / "state.json").read_text())
    if described["format"] != _FORMAT:
        raise StateError(
            f"{path} was saved in format {described['format']}, this is {_FORMAT}",
            hint="start the query again from its input",
        )
    if described["fingerprint"] != fingerprint:
        raise StateError(
            f"{path} was saved by another query", hint="restore it with the query that saved it"
        )
    stores: list[ArrayStore] = []
    for lane, saved in enumerate(described["lanes"]):
        store = MemoryStore()
        store.meta = saved["meta"]
        for number, name in enumerate(saved["names"]):
            array = np.load(path / f"lane{lane}_{number}.npy", allow_pickle=False)
            store.create(name, array.shape, array.dtype)[...] = array
        stores.append(store)
    memory = fill(
        described["memory"], lambda n: np.load(path / f"memory{n}.npy", allow_pickle=False)
    )
    return memory, stores


def strip(value: Any, arrays: list[Any]) -> Any:
    """Arrays inside nested lists and dicts become references to their place in `arrays`."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"__array": len(arrays) - 1}
    if isinstance(value, dict):
        return {key: strip(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [strip(item, arrays) for item in value]
    return value


def fill(value: Any, array: Callable[[int], Any]) -> Any:
    """The inverse of `strip`."""
    if isinstance(value, dict):
        if set(value) == {"__array"}:
            return array(value["__array"])
        return {key: fill(item, array) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, array) for item in value]
    return value
