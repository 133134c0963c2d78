"""Change data in Parquet files, drivers and executors that are killed, views that come and go.

    python -m tests.engine.spark.soak --minutes 30

Each life of the driver is a process of its own: it takes up the checkpoint with another number of
partitions, reads the change files that its streams have not seen yet, two queries at once, creates
and drops views, and is killed at a random moment. It runs on a cluster of two executors, with state
directories of their own; those are killed at random moments too. At the end of each life that is
let live the views must equal Spark SQL over all rows of the files: no row lost, none doubled.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.engine.driver import session_of
from tests.engine.standalone import standalone

import viewlet
from viewlet.interfaces.database import Database

ROOT = Path(__file__).parents[3]
STREAMS = """
CREATE STREAM orders (id BIGINT, customer BIGINT, amount BIGINT);
CREATE STREAM clicks (customer BIGINT, page INTEGER)
"""
VIEWS = {
    "spent": "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer",
    "pages": "SELECT c.page, COUNT(*) AS n, SUM(o.amount) AS total "
    "FROM clicks c JOIN orders o ON c.customer = o.customer GROUP BY c.page",
}
PASSING = "SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer"
CHANGES = {
    "orders": "id BIGINT, customer BIGINT, amount BIGINT, _change_type STRING",
    "clicks": "customer BIGINT, page INT, _change_type STRING",
}


def write_files(home: Path, number: int, maker: random.Random) -> None:
    """One file for each stream: inserts, and deletes of rows that an earlier file inserted."""
    customers = [int(maker.paretovariate(0.2)) % 500 for _ in range(300)]
    orders = [(number * 1000 + i, c, c % 90, "insert") for i, c in enumerate(customers)]
    clicks = [(c, c % 12, "insert") for c in customers[::3]]
    if number:
        earlier = pq.read_table(home / "orders" / f"{number - 1:06}.parquet").to_pylist()
        gone = [row for row in earlier if row["_change_type"] == "insert"][::5]
        orders += [(r["id"], r["customer"], r["amount"], "delete") for r in gone]
    for name, rows in (("orders", orders), ("clicks", clicks)):
        names = [part.split()[0] for part in CHANGES[name].split(", ")]
        types = [pa.int64() if "BIGINT" in p else pa.int32() for p in CHANGES[name].split(", ")]
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array(column, pa.string() if column_name == "_change_type" else column_type)
            for column, column_name, column_type in zip(columns, names, types, strict=True)
        ]
        (home / name).mkdir(parents=True, exist_ok=True)
        part = home / f"{name}.part"
        pq.write_table(pa.table(arrays, names), part)
        part.rename(home / name / f"{number:06}.parquet")


def live(home: Path, master: str, partitions: int, seed: int) -> None:
    """One life of the driver: until it has read all files, or is killed."""
    spark = session_of({"master": master})
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    checkpoint = home / "checkpoint"
    if (checkpoint / "CURRENT").exists():
        # Another directory for each life: an executor of the last may still be ending in it.
        db = viewlet.restore(
            str(checkpoint), spark=spark, partitions=partitions, state_dir=f"state-{seed}"
        )
    else:
        options: dict[str, Any] = {"partitions": partitions, "checkpoint": str(checkpoint)}
        db = viewlet.connect("spark", spark=spark, **options, state_dir=f"state-{seed}")
        views = "; ".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items())
        db.execute(f"{STREAMS}; {views}")
    maker = random.Random(seed)
    queries = [reading(db, spark, home, name) for name in CHANGES]
    print("reading", flush=True)
    while any(query.isActive for query in queries):
        time.sleep(maker.uniform(10, 30))
        if "passing" in db.views:
            db.execute("DROP VIEW passing")
        elif maker.random() < 0.5:
            db.execute(f"CREATE VIEW passing AS {PASSING}")
    for query in queries:
        query.awaitTermination()
    check(db, spark, home)
    db.close()


def reading(db: Database, spark: Any, home: Path, name: str) -> Any:
    """A query that brings what is new of a stream's files, and ends."""
    frames = spark.readStream.schema(CHANGES[name]).option("maxFilesPerTrigger", 2)
    return (
        frames.parquet(str(home / name))
        .writeStream.foreachBatch(db.sink(name, op="_change_type"))
        .option("checkpointLocation", str(home / f"query-{name}"))
        .trigger(availableNow=True)
        .start()
    )


def check(db: Database, spark: Any, home: Path) -> None:
    """AssertionError unless every view equals Spark SQL over the files."""
    for name in CHANGES:
        frame = spark.read.parquet(str(home / name))
        kept = frame.where("_change_type = 'insert'").drop("_change_type")
        gone = frame.where("_change_type = 'delete'").drop("_change_type")
        kept.exceptAll(gone).createOrReplaceTempView(name)
    for view, query in VIEWS.items():
        expected = sorted(map(tuple, spark.sql(query).collect()))
        assert sorted(map(tuple, db.view(view).rows())) == expected, view
    print("equal", flush=True)


def soak(home: Path, minutes: float, seed: int) -> tuple[int, int, int]:
    """Lives, drivers and executors killed, until the time is over; the last life is not killed."""
    maker = random.Random(seed)
    end = time.monotonic() + minutes * 60
    lives = drivers = executors = 0
    with standalone(home / "cluster") as master:
        while lives == 0 or time.monotonic() < end:
            for _ in range(4):
                write_files(home, len(list((home / "orders").glob("*.parquet"))), maker)
            killed, lost = run(home, master, maker, maker.uniform(20, 90) * slowness())
            lives, drivers, executors = lives + 1, drivers + killed, executors + lost
            print(f"life {lives}: {killed} driver and {lost} executors killed", flush=True)
        killed, lost = run(home, master, maker, None)
        assert killed == 0
    return lives + 1, drivers, executors + lost


def slowness() -> float:
    """How many times as long anything takes, by what else runs: a life must get to do something."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / 3)


def run(home: Path, master: str, maker: random.Random, seconds: float | None) -> tuple[int, int]:
    """One life -> whether its driver was killed, and how many executors were.

    One that ends by itself must have found the views equal.
    """
    arguments = [str(home), "--master", master, "--partitions", str(maker.choice((1, 2, 3, 9)))]
    command = [sys.executable, "-m", "tests.engine.spark.soak", "--live", *arguments]
    command += ["--seed", str(maker.randrange(1 << 30))]
    lost = 0
    env = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()  # it reads; on a busy machine a start takes a minute
        end = time.monotonic() + seconds if seconds is not None else None
        while end is None or time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                text, _ = process.communicate(timeout=maker.uniform(10, 40) * slowness())
                assert process.returncode == 0, f"a life ended with {process.returncode}"
                assert "equal" in text
                return 0, lost
            if seconds is not None or lost < 2:  # the last life must come to its end
                lost += kill_an_executor(home, maker)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return 1, lost


def kill_an_executor(home: Path, maker: random.Random) -> int:
    """SIGKILL to one executor of the cluster, if there is one; how many."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            inside = (process / "cwd").readlink().is_relative_to(home / "cluster")
            if inside and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    if not found:
        return 0
    with suppress(ProcessLookupError):
        os.kill(maker.choice(found), signal.SIGKILL)
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", nargs="?", default="")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--master", default="")
    parser.add_argument("--live", action="store_true")
    given = parser.parse_args()
    if given.live:
        live(Path(given.home), given.master, given.partitions, given.seed)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        lives, drivers, executors = soak(Path(given.home or folder), given.minutes, given.seed)
    print(f"{lives} lives, {drivers} drivers and {executors} executors killed: all views equal")


if __name__ == "__main__":
    main()
