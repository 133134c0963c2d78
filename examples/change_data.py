"""Change data in Parquet files -> views on Spark -> a Parquet table by key; killed and restarted.

    changes/00007.parquet   id, customer, amount, op: insert, delete, update_preimage and _postimage
      -> Structured Streaming, a few files at a time
      -> spent: each customer's orders and what they come to
      -> table/batch=7/     what batch 7 did to spent: its rows, and 1 or -1 in _weight

A row of the table is there while its weights sum to more than nothing: `current` reads it so. Spark
brings a batch again whose end it did not see. The view counts it once; its part of the table is
written over with the same rows. So the table equals the view wherever the process was killed, which
`--kill-after 3` does between the view's batch and the table's.

    python examples/change_data.py DIRECTORY [--files 6] [--kill-after BATCH]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import viewlet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SQL = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, amount DECIMAL(12,2) NOT NULL);
CREATE MATERIALIZED VIEW spent AS
SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY customer;
"""
CHANGES = "id BIGINT, customer INT, amount DECIMAL(12,2), op STRING"


def write_changes(home: Path, files: int, seed: int = 5) -> None:
    """What a database's log would bring: new orders, corrected ones, canceled ones."""
    maker = random.Random(seed)
    amounts: dict[int, tuple[int, str]] = {}
    home.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        rows: list[tuple[int, int, str, str]] = []
        for key in range(number * 100, number * 100 + 100):
            amounts[key] = (maker.randrange(20), f"{maker.randrange(1, 9999) / 100:.2f}")
            rows.append((key, *amounts[key], "insert"))
        for key in maker.sample(sorted(amounts), 30):
            rows.append((key, *amounts[key], "update_preimage"))
            amounts[key] = (amounts[key][0], f"{maker.randrange(1, 9999) / 100:.2f}")
            rows.append((key, *amounts[key], "update_postimage"))
        for key in maker.sample(sorted(amounts), 10):
            rows.append((key, *amounts.pop(key), "delete"))
        keys, customers, texts, done = zip(*rows, strict=True)
        columns = [
            pa.array(keys, pa.int64()),
            pa.array(customers, pa.int32()),
            pa.array(texts).cast(pa.decimal128(12, 2)),
            pa.array(done),
        ]
        unfinished = home / f"_{number:05d}.tmp"
        pq.write_table(pa.table(columns, ["id", "customer", "amount", "op"]), unfinished)
        unfinished.rename(home / f"{number:05d}.parquet")  # readers see whole files


def follow(spark: SparkSession, home: Path, kill_after: int | None = None) -> viewlet.Database:
    """Bring the view and the table to where the change files are."""
    saved = str(home / "state")
    if (home / "state" / "CURRENT").exists():
        db = viewlet.restore(saved, spark=spark)
    else:
        db = viewlet.connect("spark", spark=spark, partitions=2, checkpoint=saved)
        db.execute(SQL)
    take = db.sink("orders", op="op")

    def apply(frame: DataFrame, number: int) -> None:
        batch = take(frame, number)
        if number == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        # Made and written where the view's rows are; nothing of it passes this process.
        target = str(home / "table" / f"batch={number}")
        batch.changes("spent").write.mode("overwrite").parquet(target)

    frames = spark.readStream.schema(CHANGES).option("maxFilesPerTrigger", 1)
    query = (
        frames.parquet(str(home / "changes"))
        .writeStream.foreachBatch(apply)
        .option("checkpointLocation", str(home / "query"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return db


def current(spark: SparkSession, home: Path) -> DataFrame:
    """The table's rows."""
    spark.read.parquet(str(home / "table")).createOrReplaceTempView("changes_of_spent")
    return spark.sql(
        "SELECT customer, orders, total FROM changes_of_spent "
        "GROUP BY customer, orders, total HAVING SUM(_weight) > 0"
    )


def main(home: Path, files: int = 6, kill_after: int | None = None) -> list[Any]:
    """The table's rows, which are the view's."""
    spark = viewlet.spark_session(cores=2)
    if not (home / "changes").exists():
        write_changes(home / "changes", files)
    db = follow(spark, home, kill_after)
    rows = sorted(map(tuple, current(spark, home).collect()))
    assert rows == sorted(map(tuple, db.view("spent").rows()))
    db.close()
    print(f"{len(rows)} customers; the table equals the view")
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--kill-after", type=int, default=None)
    given = parser.parse_args()
    main(given.directory, given.files, given.kill_after)
