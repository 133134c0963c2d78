"""`viewlet run` on Spark: streams of Spark as sources, its formats as sinks, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from viewlet.errors import ViewletError
from viewlet.interfaces.run import Settings, run_file
from viewlet.interfaces.run_spark import Stream
from viewlet.runtime.session import spark_session
from viewlet.runtime.sinks import WEIGHT

pytestmark = pytest.mark.spark

PIPELINE = """
CREATE TABLE shop (id INT PRIMARY KEY, name VARCHAR NOT NULL) FROM csv 'shops.csv';
CREATE STREAM sales (shop INT, price DECIMAL(12,2), at TIMESTAMP) FROM orc 'in';
CREATE MATERIALIZED VIEW totals AS
  SELECT shop.name, SUM(price) AS total, COUNT(*) AS n, MAX(at) AS latest
  FROM sales JOIN shop ON shop.id = sales.shop GROUP BY shop.name;
INSERT INTO json 'now.json' WITH (mode = 'snapshot') SELECT name, total, n, latest FROM totals;
INSERT INTO orc 'out' SELECT name, n FROM totals;
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops.csv").write_text("id,name\n1,ada\n2,bob\n")
    (tmp_path / "in").mkdir()
    yield tmp_path


def add(rows: list[tuple[int, str, str]]) -> None:
    values = ", ".join(f"({shop}, {price}BD, TIMESTAMP '{at}')" for shop, price, at in rows)
    spark = spark_session(cores=2)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(shop, price, at)").coalesce(1)
    frame.write.mode("append").orc("in")


def run(text: str = PIPELINE) -> None:
    run_file(Path("p.sql"), text, Path("p.state"), Settings("spark", once=True))


@pytest.mark.slow
def test_streams_in_views_kept_changes_out(place: Path) -> None:
    add([(1, "9.50", "2026-01-01 12:00:00"), (2, "3.00", "2026-01-01 13:00:00")])
    run()
    add([(2, "0.25", "2026-01-02 08:00:00")])
    run()  # restores the state, and Spark's stream goes on where it was
    assert Path("now.json").read_text().splitlines() == [
        '{"name": "ada", "total": "9.50", "n": 1, "latest": "2026-01-01T12:00:00"}',
        '{"name": "bob", "total": "3.25", "n": 2, "latest": "2026-01-02T08:00:00"}',
    ]
    changes = spark_session().read.orc("out").collect()
    held: dict[tuple[str, int], int] = {}
    for row in changes:
        held[row["name"], row["n"]] = held.get((row["name"], row["n"]), 0) + row[WEIGHT]
    assert {key for key, weight in held.items() if weight} == {("ada", 1), ("bob", 2)}


def test_a_batch_that_comes_again_is_known(place: Path) -> None:
    """Spark brings a batch again that it had not counted as done; the checkpoint has it."""

    class Frame:
        def toArrow(self) -> pa.Table:
            return pa.table({"a": [1]})

    from viewlet.frontend.pipeline import parse_pipeline

    text = "CREATE STREAM s (a INT) FROM rate; CREATE VIEW v AS SELECT COUNT(*) AS n FROM s"
    pipeline = parse_pipeline(text)
    stream = Stream(
        spark_session(cores=2), pipeline.relations[0].relation, pipeline.sources[0].place, "x", True
    )
    stream.resume(4)
    stream._arrived(Frame(), 4)  # type: ignore[arg-type]
    assert stream.new() == []
    stream._saved.release()
    stream._arrived(Frame(), 5)  # type: ignore[arg-type]
    assert [table.num_rows for table in stream.new()] == [1]
    assert stream.progress() == 5


def test_what_spark_does_not_have_is_one_error(place: Path) -> None:
    with pytest.raises(ViewletError) as raised:
        run("CREATE STREAM s (a INT)\nFROM nosuch 'x'; CREATE VIEW v AS SELECT a FROM s")
    assert str(raised.value).startswith("line 2, column 6: nosuch:")
    assert "class path" in str(raised.value)
