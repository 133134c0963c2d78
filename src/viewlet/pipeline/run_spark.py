"""A pipeline on Spark: the views live in its partitions, and its streams are sources.

Files and sockets are read as on the local engine. Every other source is a streaming query of Spark;
its micro-batches arrive through foreachBatch, which returns only when the run has taken a
checkpoint with the batch in it. So Spark never counts a batch as done that a restart would lose,
and a batch that it brings again is known by its number.

The rows of such a source, and what Spark itself writes of a view, stay on the executors. What
passes this process: texts (Kafka), which it parses, and the changes for files, terminals and web
servers, which it writes itself.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.engine.partitions.session import active_session, spark_session
from viewlet.errors import ViewletError
from viewlet.interfaces.connect import connect, restore
from viewlet.interfaces.database import Database
from viewlet.interfaces.dml import Change
from viewlet.interfaces.progress import Progress
from viewlet.pipeline.pipeline_text import Endpoint, Pipeline, SinkOf, SourceOf
from viewlet.pipeline.run import RunSettings, fingerprint, make_sink
from viewlet.pipeline.run_directory import RunCheckpoint
from viewlet.pipeline.run_local import LocalRun
from viewlet.pipeline.sinks import SINKS, Sink
from viewlet.pipeline.sources import SOURCES, Feed, ReadFile, change_of_texts
from viewlet.schema import Kind, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT = ("kafka",)
"""Sources whose rows are texts in a column `value`: JSON, or CSV with format = 'csv'."""

OWN_SCHEMA = ("kafka", "rate", "rate-micro-batch", "delta")
"""Sources that do not let themselves be told their columns."""


MARKS = "viewlet_run"
"""The table with the number of the last batch that came from this process, and the name of those
that came as DataFrames: their numbers are with the batches that Spark may repeat."""


class SparkRun(LocalRun):
    """A pipeline whose views live in partitions on Spark."""

    def __init__(
        self, pipeline: Pipeline, directory: Path, settings: RunSettings, progress: Progress
    ) -> None:
        with progress.busy("starting Spark"):
            self._stops_spark = active_session() is None
            self._spark = spark_session(settings=settings.conf)
            self._spark.sparkContext.setLogLevel("ERROR")  # the run says itself what matters
            self._spark.conf.set("spark.sql.session.timeZone", "UTC")  # as TIMESTAMP is here
        self._takes_frames = False
        super().__init__(pipeline, directory, settings, progress)
        try:
            for feed in self._feeds.values():
                if isinstance(feed, SparkStream):
                    feed.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        super().close()
        if self._stops_spark:
            self._spark.stop()

    def _feed(self, relation: Relation, endpoint: Endpoint) -> Feed:
        if endpoint.format in SOURCES:
            return super()._feed(relation, endpoint)
        where = self._directory.root / "streams" / relation.name
        return SparkStream(self._spark, relation, endpoint, str(where), self._once)

    def _sink(self, sink: SinkOf) -> Sink:
        if sink.endpoint.format in SINKS:
            return make_sink(sink, self._out)
        return SparkSink(self._spark, sink.endpoint)

    # Every batch is durable when it returns. It carries its number into a table of the database,
    # so the two can be told apart: a batch that was begun, and one that is in the state.

    def _load(self) -> RunCheckpoint | None:
        saved = self._directory.intended()
        if saved is None:
            self._directory.clear()  # of a start that was cut short
        return saved

    def _open(self, saved: RunCheckpoint | None) -> Database:
        if saved is not None:
            return restore(str(saved.database), engine="spark", spark=self._spark)
        database_directory = self._directory.root / "database"
        database = connect("spark", spark=self._spark, checkpoint=str(database_directory))
        database.execute(f"CREATE TABLE {MARKS} (batch BIGINT NOT NULL)")
        return database

    def _usable_checkpoint(self, saved: RunCheckpoint | None) -> RunCheckpoint | None:
        if saved is None:
            self._database.insert(MARKS, (0,))
            self._mark = 0
            return None
        ((batch,),) = self._database.query(f"SELECT batch FROM {MARKS}").to_pydict().values()
        self._mark = int(batch)
        # The last one that was begun is in the state, or the one before it is the last.
        for number in (saved.batch, saved.batch - 1):
            if number == self._mark or self._is_applied(number):
                return self._directory.intended(number)
        return self._directory.intended(self._mark)

    def _is_applied(self, number: int) -> bool:
        """Whether the batch of this number came as DataFrames and is in the state."""
        return self._database.apply_spark([], batch_id=(MARKS, number)).is_repeated

    def _apply(self, changes: list[Change]) -> int:
        number = self.batch + 1
        self._directory.intend(number, fingerprint(self._pipeline), self._progress())
        if self._takes_frames:
            frames = [(change.relation, change.rows) for change in changes]
            return self._database.apply_spark(frames, batch_id=(MARKS, number)).rows
        marked = [Change(MARKS, (self._mark,), -1), Change(MARKS, (number,))]
        rows = self._database.apply([*changes, *marked]) - len(marked)
        self._mark = number
        return rows

    def _turn(self) -> list[SourceOf]:
        """Streams of Spark and what this process reads take turns: a batch is either's."""
        streams, others = [], []
        for source in self._pipeline.sources:
            feed = self._feeds[source.relation]
            if not isinstance(feed, SparkStream) or feed.brings_texts:
                others.append(source)
            elif feed.is_waiting:
                streams.append(source)
        was_frames = self._takes_frames
        self._takes_frames = bool(streams) and not (was_frames and others)
        return streams if self._takes_frames else others

    def _takes_tables(self, sink: Sink) -> bool:
        return not isinstance(sink, SparkSink)

    def _deliver(self) -> None:
        super()._deliver()
        self._deliver_frames(lambda sink: isinstance(sink, SparkSink))
        self._directory.delivered = self.batch

    def _deliver_frames(self, chosen: Callable[[Sink], bool]) -> None:
        """The changes of the last batch for some sinks, as DataFrames of what executors have."""
        for target, (view, sink) in zip(self._pipeline.sinks, self._sinks, strict=True):
            if not chosen(sink):
                continue
            frame = self._database.changes(view)
            if frame.isEmpty():
                continue
            if isinstance(sink, SparkSink):
                self._write(sink, target, frame, self._database.view(view).to_spark)
            else:
                self._write(sink, target, frame.toArrow(), self._database.view(view).to_arrow)

    def _resume(self, saved: RunCheckpoint | None, restart: bool) -> None:
        """A batch is in the state before sinks have it: a crash between leaves it to be told."""
        super()._resume(saved, restart)
        if saved is not None and self._directory.delivered < self.batch:
            self._deliver_frames(lambda sink: True)
            self._directory.delivered = self.batch

    def checkpoint(self) -> None:
        """What is applied is saved; only the start has to be written down."""
        if self.batch == 0:
            self._directory.intend(0, fingerprint(self._pipeline), self._progress())
        for feed in self._feeds.values():
            feed.saved()


class SparkStream:
    """The micro-batches of one streaming query, handed over one at a time."""

    replays = True
    is_stored = False

    def __init__(
        self,
        spark: SparkSession,
        relation: Relation,
        endpoint: Endpoint,
        directory: str,
        once: bool,
    ) -> None:
        self._spark = spark
        self._relation = relation
        self._endpoint = endpoint
        self._directory = directory
        self._once = once
        self._query: Any = None
        self._waiting: queue.SimpleQueue[tuple[int, DataFrame]] = queue.SimpleQueue()
        self._saved = threading.Semaphore(0)
        self._closing = threading.Event()
        self._last = -1
        self._handed = 0

    def start(self) -> None:
        """Start Spark's query, whose batches wait until the run takes them."""
        reader = self._spark.readStream.format(self._endpoint.format)
        if self._endpoint.format not in OWN_SCHEMA:
            reader = reader.schema(ddl(self._relation))
        options = self._endpoint.without("format", "weight")
        if self._endpoint.format in TEXT:
            options = {"subscribe": str(self._endpoint.path), **options}
        for name, value in options.items():
            reader = reader.option(name, value)
        try:
            text = self._endpoint.format in TEXT or self._endpoint.path is None
            frame = reader.load() if text else reader.load(self._endpoint.path)
            writer = self._columns(frame).writeStream.foreachBatch(self._arrived)
            writer = writer.option("checkpointLocation", self._directory)
            if self._once:
                writer = writer.trigger(availableNow=True)
            self._query = writer.start()
        except Exception as error:  # whatever Spark and the source's package raise
            raise self._error(error) from None

    def _columns(self, frame: DataFrame) -> DataFrame:
        """The declared columns, or texts; what they say is read as in every other batch.

        Spark's own casts and parsers would make NULL, or another number, of what does not fit.
        """
        if self._endpoint.format in TEXT:
            return frame.selectExpr("CAST(value AS STRING) AS value")
        return frame.select(*(frame[f"`{name}`"] for name in self._relation.names))

    def _arrived(self, frame: DataFrame, number: int) -> None:
        """Runs in Spark's thread; returns when the batch is saved."""
        if number <= self._last:
            return
        self._waiting.put((number, frame))
        self._saved.acquire()
        if self._closing.is_set():
            raise RuntimeError("the run ended before the batch was saved")

    @property
    def brings_texts(self) -> bool:
        """Whether its rows are texts, which are read in this process."""
        return self._endpoint.format in TEXT

    @property
    def is_waiting(self) -> bool:
        """Whether a batch is to be taken; an error of the query is raised here."""
        self._check()
        return not self._waiting.empty()

    def _check(self) -> None:
        if self._query is not None and self._query.exception() is not None:
            raise self._error(self._query.exception())

    def changes(self, read: ReadFile) -> list[Change]:
        self._check()
        if self._waiting.empty():
            return []
        self._last, frame = self._waiting.get()
        self._handed += 1
        if not self.brings_texts:
            return [Change(self._relation.name, frame)]
        texts = [text for text in frame.toArrow()["value"].to_pylist() if text is not None]
        return [change_of_texts(texts, self._endpoint.option("format") or "json", read)]

    def saved(self) -> None:
        """What was handed out is in a checkpoint."""
        for _ in range(self._handed):
            self._saved.release()
        self._handed = 0

    @property
    def ended(self) -> bool:
        if self._query is None or self._query.isActive or not self._waiting.empty():
            return False
        return self._query.exception() is None  # the next step raises it

    def progress(self) -> int:
        return self._last

    def resume(self, progress: Any) -> None:
        self._last = -1 if progress is None else int(progress)

    def close(self) -> None:
        self._closing.set()
        self._saved.release()
        if self._query is not None:
            self._query.stop()

    def _error(self, error: Any) -> ViewletError:
        return spark_error(self._endpoint, error, self._spark.version)


class SparkSink:
    """Changes appended to, or snapshots written over, any format or table that Spark writes.

    Both come as DataFrames and are written where their rows are. A crash between this write and
    the next checkpoint writes the changes of some batches again.
    """

    def __init__(self, spark: SparkSession, endpoint: Endpoint) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._mode = endpoint.option("mode") or "changes"

    def write(self, batch: int, changes: Any, snapshot: Callable[[], Any]) -> None:
        frame = snapshot() if self._mode == "snapshot" else changes
        mode = "overwrite" if self._mode == "snapshot" else "append"
        options = self._endpoint.without("mode")
        try:
            if self._endpoint.format == "table":
                frame.write.mode(mode).options(**options).saveAsTable(str(self._endpoint.path))
            else:
                writer = frame.write.format(self._endpoint.format).mode(mode).options(**options)
                writer.save(self._endpoint.path)
        except Exception as error:  # whatever Spark and the format's package raise
            raise spark_error(self._endpoint, error, self._spark.version) from None

    def begin(self) -> None:
        """What another run wrote stays."""

    def resume(self, batch: int) -> None:
        """What was written stays written."""


PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "avro": "org.apache.spark:spark-avro_2.13:{spark}",
    "delta": "io.delta:delta-spark_2.13:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION",
}
"""Formats that Spark knows by name and does not bring."""


def spark_error(endpoint: Endpoint, error: Any, version: str) -> ViewletError:
    """Spark's complaint about a source or sink in one line, with the next step."""
    text = str(error).strip()
    if re.search(rf"Failed to find (the )?data source: {re.escape(endpoint.format)}\b", text):
        package = PACKAGES.get(endpoint.format, "GROUP:ARTIFACT:VERSION").format(spark=version)
        return ViewletError(
            f"Spark has no data source {endpoint.format}",
            position=endpoint.position,
            hint=f"add the package that has it: --conf spark.jars.packages={package}, or "
            "--conf spark.jars=FILE.jar where nothing may be fetched",
        )
    return ViewletError(
        f"{endpoint}: {text.splitlines()[0]}",
        position=endpoint.position,
        hint="the options in WITH go to Spark as they are",
    )


def ddl(relation: Relation) -> str:
    """The columns as Spark declares them."""
    columns: Iterable[str] = (
        f"`{c.name}` {spark_type(c.type.kind, str(c.type))}" for c in relation.columns
    )
    return ", ".join(columns)


def spark_type(kind: Kind, text: str) -> str:
    """A type as Spark writes it."""
    return {Kind.VARCHAR: "STRING", Kind.INTEGER: "INT"}.get(kind, text)
