"""A dashboard over a stream of sales on Spark: files in, live totals out.

Tills write files of sales into a folder. A streaming query of Spark reads them and hands each
micro-batch to viewlet in foreachBatch; the views of the dashboard (takings by city, the best
products, shops that sold nothing) are current when it returns. The last table printed is checked
against Spark SQL over all files.

    python examples/retail_dashboard.py [--files 6]
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import viewlet
from viewlet.engine.partitions.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CITIES = ("Oslo", "Bergen", "Trondheim")
PRODUCTS = ("tea", "coffee", "bread", "cheese", "soap")

SQL = """
CREATE TABLE shop (id INT PRIMARY KEY, city VARCHAR NOT NULL);
CREATE STREAM sale (shop INT NOT NULL, product VARCHAR NOT NULL, price DECIMAL(12,2) NOT NULL);

CREATE MATERIALIZED VIEW takings AS
SELECT city, COUNT(*) AS sales, SUM(price) AS total
FROM sale JOIN shop ON sale.shop = shop.id GROUP BY city ORDER BY city;

CREATE MATERIALIZED VIEW best AS
SELECT product, SUM(price) AS total FROM sale GROUP BY product ORDER BY total DESC LIMIT 3;

CREATE MATERIALIZED VIEW quiet AS
SELECT shop.id, city FROM shop LEFT JOIN sale ON sale.shop = shop.id WHERE sale.shop IS NULL;
"""


def write_sales(folder: Path, number: int, rng: random.Random) -> None:
    """One file of a till, which appears whole."""
    lines = [
        f"{rng.randint(1, 4 + number)},{rng.choice(PRODUCTS)},{rng.randint(100, 9999) / 100:.2f}\n"
        for _ in range(200)
    ]
    unfinished = folder / f"_{number}.tmp"
    unfinished.write_text("".join(lines))
    unfinished.rename(folder / f"{number}.csv")


def main(files: int = 6) -> list[tuple[object, ...]]:
    rng = random.Random(3)
    spark = spark_session()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory, "sales")
        folder.mkdir()
        db = viewlet.connect(engine="spark", spark=spark, partitions=2)
        db.execute(SQL)
        db.insert("shop", [(n, CITIES[n % 3]) for n in range(1, 13)])

        into = db.sink("sale")  # knows a micro-batch that Spark brings again

        def arrived(frame: DataFrame, number: int) -> None:
            into(frame, number)
            print(f"\nmicro-batch {number}")
            for view in ("takings", "best"):
                for row in db.view(view).rows():
                    print(f"  {view:8}", *row)
            print(f"  quiet    {len(db.view('quiet'))} shops")

        for number in range(files):
            write_sales(folder, number, rng)
            query = (
                spark.readStream.schema("shop INT, product STRING, price DECIMAL(12,2)")
                .option("maxFilesPerTrigger", 1)
                .csv(str(folder))
                .writeStream.foreachBatch(arrived)
                .option("checkpointLocation", str(Path(directory, "stream")))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        kept = [tuple(row) for row in db.view("takings").rows()]
        spark.createDataFrame(db.query("SELECT * FROM shop")).createOrReplaceTempView("shop")
        frame = spark.read.schema("shop INT, product STRING, price DECIMAL(12,2)").csv(str(folder))
        frame.createOrReplaceTempView("sale")
        again = spark.sql(
            "SELECT city, COUNT(*), SUM(price) FROM sale JOIN shop ON sale.shop = shop.id "
            "GROUP BY city ORDER BY city"
        ).collect()
        assert kept == [tuple(row) for row in again], (kept, again)
        print("\nthe same as Spark SQL over all files")
        db.close()
        return kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=6)
    main(parser.parse_args().files)
