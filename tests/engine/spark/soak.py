"""Change data in Parquet files, a driver that is killed and restarted, views that come and go.

    python -m tests.engine.spark.soak --minutes 30

Each life of the driver is a process of its own: it takes up the checkpoint with another number of
partitions, reads the change files that its stream has not seen yet, creates and drops views, and is
killed at a random moment. After each life the views must equal Spark SQL over all rows of the
files that were read: no row lost, none doubled.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import viewlet
from viewlet.engine.partitions.session import spark_session
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


def live(home: Path, partitions: int, seed: int) -> None:
    """One life of the driver: until it has read all files, or is killed."""
    spark = spark_session()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    checkpoint = home / "checkpoint"
    if (checkpoint / "CURRENT").exists():
        db = viewlet.restore(str(checkpoint), spark=spark, partitions=partitions)
    else:
        options: dict[str, Any] = {"partitions": partitions, "checkpoint": str(checkpoint)}
        db = viewlet.connect("spark", spark=spark, **options)
        views = "; ".join(f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items())
        db.execute(f"{STREAMS}; {views}")
    maker = random.Random(seed)
    for name in maker.sample(list(CHANGES), len(CHANGES)):
        if "passing" in db.views:
            db.execute("DROP VIEW passing")
        elif maker.random() < 0.5:
            db.execute(f"CREATE VIEW passing AS {PASSING}")
        frames = spark.readStream.schema(CHANGES[name]).option("maxFilesPerTrigger", 2)
        query = (
            frames.parquet(str(home / name))
            .writeStream.foreachBatch(db.sink(name, op="_change_type"))
            .option("checkpointLocation", str(home / f"query-{name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    check(db, spark, home)
    db.close()


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


def soak(home: Path, minutes: float, seed: int) -> tuple[int, int]:
    """Lives and kills until the time is over; the last life is not killed."""
    maker = random.Random(seed)
    end = time.monotonic() + minutes * 60
    lives = kills = 0
    while lives == 0 or time.monotonic() < end:
        for _ in range(4):
            write_files(home, len(list((home / "orders").glob("*.parquet"))), maker)
        kills += run(home, maker, maker.uniform(20, 90))
        lives += 1
    assert run(home, maker, None) == 0
    return lives + 1, kills


def run(home: Path, maker: random.Random, seconds: float | None) -> int:
    """One life; 1 if it was killed, 0 if it ended by itself and the views were equal."""
    arguments = [str(home), "--partitions", str(maker.choice((1, 2, 3)))]
    command = [sys.executable, "-m", "tests.engine.spark.soak", "--live", *arguments]
    command += ["--seed", str(maker.randrange(1 << 30))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return 1
    assert process.returncode == 0 and "equal" in text, f"a life ended with {process.returncode}"
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", nargs="?", default="")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--live", action="store_true")
    given = parser.parse_args()
    if given.live:
        live(Path(given.home), given.partitions, given.seed)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        lives, kills = soak(Path(given.home or folder), given.minutes, given.seed)
    print(f"{lives} lives, {kills} killed: all views equal")


if __name__ == "__main__":
    main()
