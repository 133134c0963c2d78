"""`viewlet run` on Spark: streams of Spark as sources, its formats as sinks, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interfaces import kinds

from viewlet.engine.partitions.session import spark_session
from viewlet.errors import Position, ViewletError
from viewlet.interfaces.dml import Change
from viewlet.interfaces.files import read_file
from viewlet.pipeline.pipeline_text import Endpoint, parse_pipeline
from viewlet.pipeline.run import RunSettings, run_file
from viewlet.pipeline.run_spark import SparkRun, SparkSink, SparkStream, spark_error
from viewlet.pipeline.sinks import WEIGHT

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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
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


def run(text: str = PIPELINE, state: str = "p.state") -> None:
    run_file(Path("p.sql"), text, Path(state), RunSettings("spark", once=True))


@pytest.mark.slow
def test_streams_in_views_kept_changes_out(folder: Path) -> None:
    add([(1, "9.50", "2026-01-01 12:00:00"), (2, "3.00", "2026-01-01 13:00:00")])
    run()
    add([(2, "0.25", "2026-01-02 08:00:00")])
    run()  # restores the state, and Spark's stream goes on where it was
    assert Path("now.json").read_text().splitlines() == [
        '{"name": "ada", "total": "9.50", "n": 1, "latest": "2026-01-01T12:00:00"}',
        '{"name": "bob", "total": "3.25", "n": 2, "latest": "2026-01-02T08:00:00"}',
    ]
    changes = spark_session().read.orc("out").collect()
    weights: dict[tuple[str, int], int] = {}
    for row in changes:
        weights[row["name"], row["n"]] = weights.get((row["name"], row["n"]), 0) + row[WEIGHT]
    assert {key for key, weight in weights.items() if weight} == {("ada", 1), ("bob", 2)}


def test_a_batch_that_comes_again_is_known(folder: Path) -> None:
    """Spark brings a batch again that it had not counted as done; the checkpoint has it."""

    class Frame:
        def toArrow(self) -> pa.Table:
            return pa.table({"a": [1]})

    text = "CREATE STREAM s (a INT) FROM rate; CREATE VIEW v AS SELECT COUNT(*) AS n FROM s"
    pipeline = parse_pipeline(text)
    stream = SparkStream(
        spark_session(cores=2),
        pipeline.relations[0].relation,
        pipeline.sources[0].endpoint,
        "x",
        True,
    )
    read = pytest.fail  # only files are read so
    stream.resume(4)
    stream._arrived(Frame(), 4)  # type: ignore[arg-type]
    assert stream.changes(read) == []
    stream._saved.release()
    stream._arrived(Frame(), 5)  # type: ignore[arg-type]
    (change,) = stream.changes(read)
    assert isinstance(change.rows, Frame)  # brought to this process by nobody
    assert stream.progress() == 5


@pytest.mark.parametrize(
    ("format", "texts", "expected"),
    [
        ("json", ['{"a": 1, "d": "2020-01-02"}', None, '{"a": 2.0}'], [1, 2]),
        ("csv", ["1,2020-01-02", "2,"], [1, 2]),
        ("json", ['{"a": 1}', '{"a": 2.5}'], "row 2 for s: column a is INTEGER"),
        ("json", ['{"a": "x"}'], "row 1 for s: column a is INTEGER"),
        ("csv", ["2.5,2020-01-02"], "row 1 for s: column a is INTEGER"),
        ("csv", ["2,2020-01-02x"], "row 1 for s: column d is DATE"),
    ],
)
def test_texts_of_kafka_are_read_as_files_are(
    format: str, texts: list[str | None], expected: list[int] | str
) -> None:
    """Spark's own readers make NULL of what does not fit."""

    class Frame:
        def toArrow(self) -> pa.Table:
            return pa.table({"value": pa.array(texts, pa.string())})

    text = f"CREATE STREAM s (a INT, d DATE) FROM kafka 't' WITH (format = '{format}')"
    pipeline = parse_pipeline(f"{text}; CREATE VIEW v AS SELECT COUNT(*) AS n FROM s")
    relation = pipeline.relations[0].relation
    stream = SparkStream(spark_session(cores=2), relation, pipeline.sources[0].endpoint, "x", True)

    def read(path: str, form: str) -> Change:
        return Change("s", read_file(path, form, relation))

    stream._saved.release()
    stream._arrived(Frame(), 0)  # type: ignore[arg-type]
    if isinstance(expected, str):
        with pytest.raises(ViewletError, match=expected):
            stream.changes(read)
    else:
        (change,) = stream.changes(read)
        assert change.rows["a"].to_pylist() == expected


@pytest.mark.slow
def test_every_source_and_sink(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the local engine, and a table of Spark's catalog."""
    spark = spark_session(cores=2)
    kinds.write_sources()
    text = "INSERT INTO TABLE viewlet_kinds WITH (mode = 'snapshot') SELECT * FROM v"
    try:
        with kinds.lines() as port, kinds.hooks() as (url, posted):
            run(f"{kinds.pipeline(port, url)};\n{text}")
        kinds.check_sinks(capsys.readouterr().out, posted)
        rows = spark.table("viewlet_kinds").collect()
        assert {row["kind"]: (str(row["total"]), row["n"]) for row in rows} == kinds.EXPECTED
    finally:
        spark.sql("DROP TABLE IF EXISTS viewlet_kinds")


# --- what Spark does not bring --------------------------------------------------------------------


def test_what_spark_does_not_have_is_one_error(folder: Path) -> None:
    """Real complaints of Spark: a name it does not know, and one whose package is not there."""
    spark_session(cores=2)
    view = "CREATE VIEW v AS SELECT a FROM s"
    with pytest.raises(ViewletError) as raised:
        run(f"CREATE STREAM s (a INT)\nFROM nosuch 'x'; {view}")
    assert str(raised.value).startswith("line 2, column 6: Spark has no data source nosuch\nhint: ")
    assert "--conf spark.jars.packages=" in str(raised.value)
    options = "WITH (kafka.bootstrap.servers = '127.0.0.1:9')"
    with pytest.raises(ViewletError) as raised:
        run(f"CREATE STREAM s (a INT) FROM kafka 't' {options}; {view}", "other.state")
    assert "Spark has no data source kafka" in str(raised.value)
    assert "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3" in str(raised.value)


def test_other_complaints_of_spark_are_their_first_line() -> None:
    endpoint = Endpoint("kafka", "t", Position(3, 7))
    shown = str(
        spark_error(endpoint, Exception("Option 'subscribe' is wrong\nat org.apache..."), "4.3")
    )
    assert shown.startswith("line 3, column 7: kafka 't': Option 'subscribe' is wrong\nhint: ")
    assert "at org" not in shown


@pytest.mark.parametrize(
    ("format", "package"),
    [
        ("kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"),
        ("avro", "org.apache.spark:spark-avro_2.13:4.3.0"),
        ("delta", "io.delta:delta-spark_2.13:VERSION"),
        ("iceberg", "org.apache.iceberg:iceberg-spark-runtime"),
        ("other", "GROUP:ARTIFACT:VERSION"),
    ],
)
@pytest.mark.parametrize(
    "said",
    [
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {}. Make sure the provider name",
        "Failed to find data source: {}. Please deploy the application as per the deployment",
    ],
)
def test_a_missing_package_is_named(format: str, package: str, said: str) -> None:
    """What Spark says where the package of a source or sink is not on its class path."""
    error = spark_error(
        Endpoint(format, "p", Position(1, 1)), Exception(said.format(format)), "4.3.0"
    )
    assert f"Spark has no data source {format}\n" in str(error)
    assert f"--conf spark.jars.packages={package}" in str(error)
    assert "://" not in str(error)


class Refusing:
    """A session whose writers fail as Spark's do without the package of Delta."""

    version = "4.3.0"

    def __getattr__(self, name: str) -> Refusing:
        return self

    def __call__(self, *_: object, **__: object) -> Refusing:
        return self

    def save(self, path: str) -> None:
        raise RuntimeError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make")


def test_a_sink_without_its_package() -> None:
    sink = SparkSink(Refusing(), Endpoint("delta", "out", Position(4, 13)))  # type: ignore[arg-type]
    with pytest.raises(ViewletError, match=r"line 4, column 13: Spark has no data source delta"):
        sink.write(1, Refusing(), Refusing)


@pytest.mark.slow
def test_a_crash_before_the_sinks_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is in the state, and no sink has it: the next run tells them, once."""
    spark = spark_session(cores=2)
    source, target, files = (str(folder / name) for name in ("in", "out", "files"))
    spark.sql("SELECT 1 AS shop, 9.50BD AS price, TIMESTAMP '2026-01-01' AS at").write.mode(
        "append"
    ).orc(source)
    text = PIPELINE.replace("'in'", f"'{source}'").replace("'out'", f"'{target}'")
    text += f"INSERT INTO parquet '{files}' SELECT name, n FROM totals;"
    deliver = SparkRun._deliver

    def crash(run: SparkRun) -> None:
        if run.batch > 1:
            raise KeyboardInterrupt
        deliver(run)

    monkeypatch.setattr(SparkRun, "_deliver", crash)
    with pytest.raises(KeyboardInterrupt):
        run(text)
    assert not Path(target).exists()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    for _ in range(2):
        run(text)
        for written in (spark.read.orc(target), spark.read.parquet(files)):
            rows = [(row["name"], row["n"], row[WEIGHT]) for row in written.collect()]
            assert rows == [("ada", 1, 1)]
