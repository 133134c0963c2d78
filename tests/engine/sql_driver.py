"""A driver of its own process that feeds a database on Spark, for the tests that break things.

usage: python -m tests.engine.sql_driver '{"master": ..., "checkpoint": ..., ...}'

Batches go through `sink`, as from Structured Streaming: a restarted driver offers all again. Why a
batch is refused is said, and it is offered again once the test has left a file `again`.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partialmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.engine import sql_programs
from tests.engine.driver import killed_tasks, say, session_of
from tests.engine.standalone import fill_disk

import viewlet
from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.spark import spark_engine as engine_module
from viewlet.errors import ViewletError


def main(order: dict[str, Any]) -> None:
    spark = session_of(order)
    engine_module.SqlProgram = faulty(order["faults"])  # type: ignore[misc]
    if "state_dir" in order:
        init = engine_module.SparkEngine.__init__
        engine_module.SparkEngine.__init__ = partialmethod(  # type: ignore[method-assign]
            init, state_dir=order["state_dir"]
        )
    directory = order["checkpoint"]
    if "full_at_commit" in order:
        full_at_commit(order["full_at_commit"], Path(directory).parent)
    if (Path(directory) / "CURRENT").exists():
        database = viewlet.restore(directory, spark=spark)
        engine = database._engine
    else:
        database = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=directory)
        database.execute(sql_programs.TABLES)
        database.execute(sql_programs.VIEWS)
        for name, rows in sql_programs.tables().items():
            database.insert(name, rows)
        engine = database._engine
    assert isinstance(engine, engine_module.SparkEngine)
    say(started=engine.cluster.version)
    sink = database.sink("s")
    for number in order["batches"]:
        if number in order.get("pause_before", ()):
            say(paused=number)
            await_file(Path(order["faults"]) / "go")
        for fault in order.get("orders", {}).get(str(number), []):
            (Path(order["faults"]) / fault).touch()
        rows = sql_programs.batch(number)
        columns = [pa.array([row[i] for row in rows], t) for i, t in ((0, "int32"), (1, "int64"))]
        frame = spark.createDataFrame(pa.table(columns, names=["a", "x"]))
        while (problem := refusal(sink, frame, number)) is not None:
            say(refused=str(problem), step=number, rows=rows_of(database, "total"))
            await_file(Path(order["faults"]) / "again")
        say(step=number, version=engine.cluster.version)
    say(
        sums={view: rows_of(database, view) for view in sql_programs.NAMES},
        incidents=engine.cluster.incidents,
        killed=killed_tasks(spark),
    )
    database.close()
    spark.stop()


def refusal(sink: Any, frame: Any, number: int) -> ViewletError | None:
    try:
        sink(frame, number)
    except ViewletError as problem:
        return problem
    return None


def rows_of(database: viewlet.Database, view: str) -> list[Any]:
    return sorted(list(row) for row in database.view(view).rows())


def await_file(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)
    path.unlink()


def full_at_commit(number: int, directory: Path) -> None:
    """Once, for the batch of this number: its commit finds the disk of the checkpoint full."""
    commit = Cluster.commit
    done: list[Path] = []

    def full(cluster: Cluster, batch_id: BatchId | None = None) -> None:
        if not done and batch_id is not None and batch_id.number == number:
            done.append(fill_disk(directory))
        commit(cluster, batch_id)

    Cluster.commit = full  # type: ignore[method-assign]


def faulty(directory: str) -> Any:
    """A maker of programs that look for their faults in a directory."""

    def make(*arguments: Any) -> sql_programs.FaultyProgram:
        program = sql_programs.FaultyProgram(*arguments)
        program.faults = directory
        return program

    return make


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
