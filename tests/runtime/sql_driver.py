"""A driver of its own process that feeds a database on Spark, for the tests that break things.

usage: python -m tests.runtime.sql_driver '{"master": ..., "checkpoint": ..., ...}'

Batches go through `sink`, as from Structured Streaming: a restarted driver offers all again.
"""

from __future__ import annotations

import json
import sys
from functools import partialmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.runtime import sql_programs
from tests.runtime.driver import say, session_of

import viewlet
from viewlet.runtime import spark as engine_module


def main(order: dict[str, Any]) -> None:
    spark = session_of(order)
    engine_module.SqlProgram = faulty(order["faults"])  # type: ignore[misc]
    if "state_dir" in order:
        made = engine_module.SparkEngine.__init__
        engine_module.SparkEngine.__init__ = partialmethod(  # type: ignore[method-assign]
            made, state_dir=order["state_dir"]
        )
    place = order["checkpoint"]
    if (Path(place) / "CURRENT").exists():
        database = viewlet.restore(place, spark=spark)
        engine = database._engine
    else:
        database = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=place)
        database.execute(sql_programs.TABLES)
        database.execute(sql_programs.VIEWS)
        database.insert("r", sql_programs.table())
        engine = database._engine
    assert isinstance(engine, engine_module.SparkEngine)
    say(started=engine.cluster.version)
    sink = database.sink("s")
    for number in order["batches"]:
        for fault in order.get("orders", {}).get(str(number), []):
            (Path(order["faults"]) / fault).touch()
        rows = sql_programs.batch(number)
        columns = [pa.array([row[i] for row in rows], t) for i, t in ((0, "int32"), (1, "int64"))]
        sink(spark.createDataFrame(pa.table(columns, names=["a", "x"])), number)
        say(step=number, version=engine.cluster.version)
    say(
        sums={
            view: sorted(list(row) for row in database.view(view).rows()) for view in ("v", "total")
        },
        incidents=engine.cluster.incidents,
    )
    database.close()
    spark.stop()


def faulty(directory: str) -> Any:
    """A maker of programmes that look for their faults in a directory."""

    def make(*arguments: Any) -> sql_programs.FaultyProgram:
        program = sql_programs.FaultyProgram(*arguments)
        program.faults = directory
        return program

    return make


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
