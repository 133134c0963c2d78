"""A driver of its own process, for the tests that kill it or its executors.

usage: python -m tests.engine.driver '{"master": ..., "checkpoint": ..., ...}'

Runs the batches of `batches` as steps and prints one JSON line per step and one at the end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.engine import programs

from viewlet.engine.partitions import session
from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.cluster import Cluster


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def session_of(order: dict[str, Any]) -> Any:
    from pyspark.sql import SparkSession

    session.ensure_java()
    builder = SparkSession.builder.master(order["master"]).appName("viewlet-test")
    settings = session.session_settings() | {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.locality.wait": "6s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.cores.max": "2",
    }
    for key, value in (settings | order.get("settings", {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def killed_tasks(spark: Any) -> int:
    """Attempts that Spark ended because another one was done first."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty(10_000)
    quantiles = context._gateway.new_array(context._jvm.double, 0)
    nothing = context._jvm.java.util.ArrayList()
    stages = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, nothing)
    return sum(stages.apply(i).numKilledTasks() for i in range(stages.size()))


def main(order: dict[str, Any]) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(programs)
    spark = session_of(order)
    stages = order["stages"]
    program = programs.KeyedSum(stages, order.get("undo", False), order["faults"])
    if (Path(order["checkpoint"]) / "cluster").exists():
        cluster = Cluster.restore(spark, order["checkpoint"], program, state_dir=order["state_dir"])
    else:
        cluster = Cluster(
            spark, program, 2, checkpoint=order["checkpoint"], state_dir=order["state_dir"]
        )
    say(started=cluster.version)
    for number in order["batches"]:
        if number == order.get("pause_before"):
            say(places=[int(place) for place in cluster.read(b"place")])
            while not (Path(order["faults"]) / "go").exists():
                time.sleep(0.05)
        for fault in order.get("orders", {}).get(str(number), []):
            (Path(order["faults"]) / fault).touch()
        inputs = programs.scatter(programs.batch(number), 2, stages)
        cluster.step(inputs, batch_id=BatchId(("b",), number))
        say(step=number, version=cluster.version)
    say(
        sums=programs.sums_of(cluster.read(b"")),
        version=cluster.version,
        incidents=cluster.incidents,
        killed=killed_tasks(spark),
        executors=len(set(cluster.read(b"place"))),
    )
    cluster.close()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
