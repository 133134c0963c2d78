"""A database in a directory: definitions, table rows and the engine's state, replaced atomically.

    dir/CURRENT            the name of the newest whole checkpoint
    dir/checkpoint-N/      database.json, what the engine saves, and MANIFEST with the checksum of
                           every file (on Spark: what only points into the partitions' own logs)

The order of steps is that of engine/durable: a checkpoint is whole and on the disk before CURRENT
names it, and the one before is removed last. On Spark the directory may be a URI of any filesystem
that pyarrow knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet.engine.contract import Engine
from viewlet.engine.durable.disk import Disk, replace_file
from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.engine.durable.sealed_directory import check_directory, seal_directory
from viewlet.engine.partitions.store import Store, shown
from viewlet.errors import StateError
from viewlet.interfaces.definitions import Definitions

_CURRENT = "CURRENT"
_PREFIX = "checkpoint-"
_NAME = re.compile(r"checkpoint-[0-9]{1,18}")
_DATABASE = "database.json"
_PENDING = "pending.changes"
_PROBE = "writable"
FORMAT = 3
SPARK_FORMAT = 6
"""On Spark a checkpoint points into logs, whose messages have a format as well."""


@dataclass(frozen=True)
class SavedDatabase:
    """What a checkpoint says about a database, apart from the engine's own files."""

    directory: str
    engine: str
    version: int
    relations: list[str]
    views: list[tuple[str, dict[str, int]]]
    """The text of each, and the number of the epoch that it reads of each relation."""
    epochs: dict[str, tuple[str, ...]]
    complete: list[str]
    maintenance: dict[str, Any]
    """The options of each view, and what measurements had chosen for it."""
    pending: bytes
    """The rows that deferred views had not seen."""


@dataclass(frozen=True)
class DatabaseContents:
    """All that a checkpoint is made of."""

    engine_name: str
    version: int
    definitions: Definitions
    engine: Engine
    maintenance: dict[str, Any]
    pending: bytes


def has_checkpoint(root: str) -> bool:
    """Whether a directory has a whole checkpoint."""
    return _CURRENT in Store(root).list("")


def check_writable(root: str) -> None:
    """Refuse a directory that cannot be written before anything is put there."""
    store = Store(root)
    store.put(_PROBE, [b"viewlet"])
    store.delete(_PROBE)


def write_checkpoint(root: str, contents: DatabaseContents, disk: Disk | None = None) -> str:
    """Write a new checkpoint, point CURRENT at it, then remove the others; where it lies."""
    if contents.engine_name == "spark":
        return _write_pointer(root, contents)
    if "://" in root:
        raise StateError(
            f"the engine {contents.engine_name} saves to a directory, not to {shown(root)}",
            hint='give a directory, or say connect(engine="spark", checkpoint=...)',
        )
    used = disk or Disk()
    folder = Path(root).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        existing = sorted(folder.glob(f"{_PREFIX}*"))
        target = folder / f"{_PREFIX}{_next_number(path.name for path in existing)}"
        write_state(used, target, contents)
        replace_file(used, folder / _CURRENT, seal(target.name.encode()))
    except OSError as problem:
        raise StateError(
            f"the checkpoint cannot be written to {root}: {problem}",
            hint="make room or repair the access and repeat it; the one before is still there",
        ) from problem
    for old in existing:
        used.remove_tree(old)
    return str(target)


def write_state(disk: Disk, directory: Path, contents: DatabaseContents) -> int:
    """Everything in a new sealed directory, on the disk when this returns; its bytes."""
    disk.make_directory(directory)
    try:
        metadata = json.dumps(_metadata(contents))
        disk.write(directory / _DATABASE, [metadata.encode()])
        disk.write(directory / _PENDING, [contents.pending])
        contents.engine.save(str(directory))
        return seal_directory(disk, directory)
    except BaseException:
        disk.remove_tree(directory)
        raise


def _write_pointer(root: str, contents: DatabaseContents) -> str:
    store = Store(root)
    existing = [name for name in store.list("") if name.startswith(_PREFIX)]
    name = f"{_PREFIX}{_next_number(existing)}"
    metadata = json.dumps(_metadata(contents))
    try:
        store.put(f"{name}/{_DATABASE}", seal(metadata.encode(), name))
        contents.engine.save(store.below(name))
    except BaseException:
        store.delete_tree(name)
        raise
    store.put(_CURRENT, seal(name.encode()))  # if this fails it may be there all the same
    for old in existing:
        store.delete_tree(old)
    return store.below(name)


def _next_number(names: Any) -> int:
    own = (name for name in names if _NAME.fullmatch(name))
    return max((int(name.removeprefix(_PREFIX)) for name in own), default=0) + 1


def _metadata(contents: DatabaseContents) -> dict[str, Any]:
    definitions = contents.definitions
    return {
        "format": _format_of(contents.engine_name),
        "engine": contents.engine_name,
        "version": contents.version,
        "relations": [declaration.text for declaration in definitions.relations.values()],
        "views": [
            [definition.statement.text, definitions.epochs_read(name)]
            for name, definition in definitions.views.items()
        ],
        "epochs": definitions.epochs,
        "complete": sorted(definitions.complete),
        "maintenance": contents.maintenance,
    }


def _format_of(engine_name: str) -> int:
    return SPARK_FORMAT if engine_name == "spark" else FORMAT


def read_checkpoint(root: str) -> SavedDatabase:
    """The newest checkpoint of a directory, checked; StateError names what is damaged."""
    store = Store(root)
    names = store.list("")
    if _CURRENT not in names:
        written = [name for name in names if _NAME.fullmatch(name)]
        if written:
            problem = DamagedFile(f"{_CURRENT}: the file is gone, and {written[-1]} is there")
            raise damaged(store.name, problem)
        raise StateError(
            f"there is no checkpoint in {shown(root)}",
            hint="give the directory that checkpoint() wrote to",
        )
    try:
        name = _newest(store)
        if "://" not in root and (Path(store.root) / name / "MANIFEST").exists():
            return read_state(Path(store.root) / name)
        metadata = _pointer(store, name)
    except (DamagedFile, ValueError) as error:
        raise damaged(store.name, error) from None
    if metadata["engine"] != "spark":
        raise damaged(store.name, DamagedFile(f"{name}/MANIFEST: No such file or directory"))
    return _saved(store.below(name), metadata)


def _newest(store: Store) -> str:
    """The name of the checkpoint that CURRENT points to."""
    data = store.get(_CURRENT)
    if data.startswith(_PREFIX.encode()):
        raise _other_format(store.name, 2)
    name = unseal(f"{store.name}/{_CURRENT}", data).decode()
    if not _NAME.fullmatch(name):
        raise DamagedFile(f"{store.name}/{_CURRENT}: it names no checkpoint")
    return name


def _pointer(store: Store, name: str) -> dict[str, Any]:
    """The metadata of a checkpoint of Spark, which has no MANIFEST."""
    path = f"{name}/{_DATABASE}"
    try:
        metadata: dict[str, Any] = json.loads(unseal(path, store.get(path), name))
    except DamagedFile as error:
        raise DamagedFile(f"{error}; or {name}/MANIFEST is gone, if it is not of Spark") from None
    return metadata


def read_state(directory: Path) -> SavedDatabase:
    """What `write_state` wrote; StateError names the file that is not as it was."""
    try:
        check_directory(directory)
        metadata = json.loads((directory / _DATABASE).read_bytes())
    except (DamagedFile, ValueError) as error:
        raise damaged(str(directory), error) from None
    pending = directory / _PENDING
    return _saved(str(directory), metadata, pending.read_bytes() if pending.exists() else b"")


def _saved(directory: str, metadata: Mapping[str, Any], pending: bytes = b"") -> SavedDatabase:
    if metadata["format"] != _format_of(metadata["engine"]):
        raise _other_format(directory, metadata["format"])
    return SavedDatabase(
        directory,
        metadata["engine"],
        metadata["version"],
        metadata["relations"],
        [(text, epochs) for text, epochs in metadata["views"]],
        {relation: tuple(names) for relation, names in metadata["epochs"].items()},
        metadata.get("complete", []),
        metadata.get("maintenance", {}),  # checkpoints from before there were modes have none
        pending,
    )


def damaged(name: str, problem: Exception) -> StateError:
    """The error for files that are not what was written."""
    return StateError(
        f"the checkpoint in {name} cannot be read: {problem}",
        hint="restore its files from a backup, or load the data again",
    )


def _other_format(name: str, form: int) -> StateError:
    return StateError(
        f"the checkpoint in {name} has format {form}, and this viewlet reads format {FORMAT}, "
        f"on Spark {SPARK_FORMAT}",
        hint="restore it with the version of viewlet that wrote it",
    )
