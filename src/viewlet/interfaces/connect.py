"""`connect` and `restore`: which engine runs a database, and from what it starts."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from viewlet.engine.contract import Engine
from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.log import LEVELS, Synchronous
from viewlet.engine.partitions.store import shown
from viewlet.errors import ResolutionError, StateError
from viewlet.extras import require
from viewlet.frontend.maintenance_options import memory_of
from viewlet.interfaces.arguments import name_of, path_of
from viewlet.interfaces.database import Database
from viewlet.interfaces.durable_database import DurableDirectory
from viewlet.interfaces.progress import waiting
from viewlet.interfaces.saved_database import check_writable, has_checkpoint, read_checkpoint
from viewlet.schema import shown_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from viewlet.distributed.hints import Hints


def _reference() -> Engine:
    from viewlet.engine.interpreter import ReferenceEngine

    return ReferenceEngine()


def _local() -> Engine:
    from viewlet.engine.local.native_engine import NativeEngine
    from viewlet.planner.static_loader import static_loader

    return NativeEngine(static_loader)


def _spark(**options: Any) -> Engine:
    from viewlet.engine.spark.spark_engine import SparkEngine

    return SparkEngine(**options)


EngineName = Literal["interpreter", "local", "spark"]
"""What runs a database."""

ENGINES: dict[str, Callable[..., Engine]] = {
    "interpreter": _reference,
    "local": _local,
    "spark": _spark,
}
"""How each engine is made; modules are imported when they are asked for."""

DEFAULT_ENGINE = "local"


def connect(
    database: EngineName | str | PathLike[str] | None = None,
    *,
    engine: EngineName | None = None,
    path: str | PathLike[str] | None = None,
    synchronous: Synchronous | None = None,
    checkpoint: str | PathLike[str] | None = None,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    hints: Hints | None = None,
    state_dir: str | PathLike[str] | None = None,
    snapshot_every: int | None = None,
    files: bool = False,
    memory: str | int | None = None,
) -> Database:
    """A new, empty database in memory; or with a path, the database on disk that is there.

    >>> db = viewlet.connect()
    >>> db.execute("CREATE TABLE r (a INT, b INT)")
    >>> db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a")
    >>> db.insert("r", [(1, 2), (1, 3)])
    2
    >>> db.view("v")[1].total
    5

    The first argument is an engine's name or a path. A database on disk is as it was after the last
    batch that was acknowledged, whatever ended the process. `synchronous` says what that means:
    "full" (default) is on the disk before a call returns; "normal" survives the end of the process
    at once, and a power cut 0.2 s later; "off" may lose the last moments of a killed process.

    engine="spark" keeps everything in `partitions` partitions on the executors of `spark`, or of a
    local session that is made where none is given or active. With `checkpoint` a directory that
    driver and executors share, every batch is durable when it returns. `hints` say how large
    tables are and where maps should be, where the plan that `explain` shows can be better.
    Executors keep their arrays below `state_dir`, by default among temporary files, and write a
    snapshot of them to the checkpoint with every `snapshot_every`th batch (50).

    `files` lets SELECTs of `query` and `execute` read files of this machine, as in
    SELECT * FROM 'prices.csv'; without it only COPY does.

    `memory` is what all intermittent views together may keep between refreshes: "1 GB".
    """
    limit = _memory_of(memory)
    chosen: str | None = engine
    if isinstance(database, str) and database in ENGINES and engine is None:
        chosen = database
    elif database is not None:
        path = _as_path(database) if path is None else path
    checkpoint = None if checkpoint is None else path_of(checkpoint)
    chosen = DEFAULT_ENGINE if chosen is None else name_of(chosen, "engine")
    if chosen not in ENGINES:
        raise _no_engine(chosen)
    if path is not None:
        others = (checkpoint, spark, partitions, hints, state_dir, snapshot_every)
        has_others = any(option is not None for option in others)
        return _limited(_on_disk(chosen, path, synchronous, has_others, files), limit)
    if synchronous is not None:
        raise StateError(
            "a database in memory has no log to synchronize",
            hint='say connect("name.viewlet", synchronous=...)',
        )
    of_spark = (spark, partitions, hints, state_dir, snapshot_every)
    if chosen != "spark" and any(option is not None for option in of_spark):
        raise StateError(
            f"the engine {chosen} has no Spark session, no partitions and no hints for them",
            hint='say connect(engine="spark", ...)',
        )
    options: dict[str, Any] = {}
    if chosen == "spark":
        _require_spark()
        if checkpoint is not None and has_checkpoint(checkpoint):
            raise StateError(
                f"{shown(checkpoint)} has the checkpoint of a database already",
                hint="go on with it by viewlet.restore, or give another directory",
            )
        if checkpoint is not None:
            check_writable(checkpoint)
        options = {
            "spark": spark,
            "partitions": partitions,
            "checkpoint": checkpoint,
            "hints": hints,
            **_state_options(state_dir, snapshot_every),
        }
    return _limited(_database(chosen, checkpoint, options, files), limit)


def _memory_of(memory: str | int | None) -> int | None:
    """1 GB -> 1000000000; a number is in bytes."""
    if memory is None:
        return None
    if isinstance(memory, str):
        return memory_of(memory)
    if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1:
        raise StateError(f"memory={shown_value(memory)}", hint='write bytes, or "1 GB"')
    return memory


def _limited(database: Database, memory: int | None) -> Database:
    database._maintenance.intermittent.memory = memory
    return database


def _state_options(
    state_dir: str | PathLike[str] | None, snapshot_every: int | None
) -> dict[str, Any]:
    """Where executors keep state and how often it is written, of what was said."""
    options: dict[str, Any] = {}
    if state_dir is not None:
        options["state_dir"] = path_of(state_dir)
    if snapshot_every is not None:
        if not isinstance(snapshot_every, int) or snapshot_every < 1:
            raise StateError(
                f"snapshot_every={shown_value(snapshot_every)}",
                hint="it counts batches and is at least 1",
            )
        options["snapshot_every"] = snapshot_every
    return options


def _no_engine(name: str) -> ResolutionError:
    names = ", ".join(sorted(ENGINES))
    return ResolutionError(f"there is no engine {name}", hint=f"engines are {names}")


def _require_spark() -> None:
    """Before anything is looked at: without Spark nothing else would help."""
    require("pyspark", 'engine "spark"', 'connect with engine="local"')


def _as_path(location: str | PathLike[str]) -> str | PathLike[str]:
    """A name that is nearly an engine's is rather a slip than a directory."""
    close = difflib.get_close_matches(location, ENGINES, 1) if isinstance(location, str) else []
    if close and not Path(path_of(location)).exists():
        raise ResolutionError(
            f"there is no engine {location}",
            hint=f"did you mean {close[0]}? For a database on disk write './{location}'",
        )
    return location


def _on_disk(
    engine: str,
    path: str | PathLike[str],
    synchronous: Synchronous | None,
    has_others: bool,
    files: bool,
) -> Database:
    if engine == "spark" or has_others:
        raise StateError(
            "a database on disk runs in this process",
            hint='leave the other options out; on Spark say connect("spark", checkpoint="dir")',
        )
    level: Synchronous = "full" if synchronous is None else synchronous
    if not isinstance(level, str) or level not in LEVELS:
        raise StateError(
            f"synchronous={shown_value(level)}", hint=f"it is one of {', '.join(LEVELS)}"
        )
    directory = DurableDirectory(Path(path_of(path)).expanduser().absolute(), Disk())
    database = _database(engine, None, {}, files)
    try:
        database._open(directory, level)
    except OSError as problem:
        directory.close(None)
        raise StateError(
            f"the database {directory.path} cannot be opened: {problem.strerror or problem}",
            hint="make room on the disk, or give a directory that can be written",
        ) from problem
    except BaseException:
        directory.close(None)
        raise
    return database


def memory_database(engine: str) -> Database:
    """An empty database of an engine in this process."""
    return _database(engine, None, {}, files=False)


def _database(
    engine: str, checkpoint: str | None, options: dict[str, Any], files: bool
) -> Database:
    from viewlet.planner.viewlets import compile_program

    plan = partial(compile_program, keyed=engine != "spark")
    return Database(ENGINES[engine](**options), engine, plan, checkpoint, files=files)


def restore(
    directory: str | PathLike[str],
    *,
    engine: EngineName | None = None,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    state_dir: str | PathLike[str] | None = None,
    snapshot_every: int | None = None,
    files: bool = False,
    memory: str | int | None = None,
) -> Database:
    """The database that `checkpoint` saved, as it was then; further checkpoints go there too.

    On Spark it is as of the last batch that was committed. Another number of `partitions` than
    before splits the state anew. The other arguments are as for `connect`.

    >>> db.checkpoint(folder).endswith("checkpoint-1")
    True
    >>> viewlet.restore(folder).view("v")[1].total
    5
    """
    directory = path_of(directory)
    saved = read_checkpoint(directory)
    chosen = saved.engine if engine is None else name_of(engine, "engine")
    if chosen not in ENGINES:
        raise _no_engine(chosen)
    options: dict[str, Any] = {}
    if chosen == "spark":
        _require_spark()
        options = {"spark": spark, "partitions": partitions, "checkpoint": directory}
        options |= _state_options(state_dir, snapshot_every)
    database = _limited(_database(chosen, directory, options, files), _memory_of(memory))
    with waiting(f"restoring {directory}"):
        database._restore(directory)
    return database
