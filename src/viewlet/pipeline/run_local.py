"""A pipeline in this process: files and sockets are read here, and the engine is the local one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.engine.values.arrow import arrow_type
from viewlet.errors import DataError, ResolutionError, ViewletError
from viewlet.interfaces.connect import connect, restore
from viewlet.interfaces.database import Database
from viewlet.interfaces.dml import Change
from viewlet.interfaces.files import read_file
from viewlet.interfaces.progress import Progress
from viewlet.interfaces.subscribe import ViewBatch
from viewlet.pipeline.pipeline_text import Endpoint, Pipeline, SinkOf, SourceOf
from viewlet.pipeline.run import (
    ProcessedBatch,
    RunSettings,
    SinkFailedError,
    check_fingerprint,
    fingerprint,
    located,
    make_sink,
)
from viewlet.pipeline.run_directory import RunCheckpoint, RunDirectory
from viewlet.pipeline.sinks import WEIGHT, Sink, Snapshot
from viewlet.pipeline.sources import SOURCES, Feed, ReadFile
from viewlet.schema import BIGINT, Column, Relation

if TYPE_CHECKING:
    import pyarrow as pa


class LocalRun:
    """Every step takes what is new in all sources as one atomic batch."""

    def __init__(
        self, pipeline: Pipeline, directory: Path, settings: RunSettings, progress: Progress
    ) -> None:
        self._pipeline = pipeline
        self._once = settings.once
        self._relations = {
            declaration.relation.name: declaration.relation for declaration in pipeline.relations
        }
        self._arrived: dict[str, ViewBatch] = {}
        self._feeds: dict[str, Feed] = {}
        self._out = sys.stdout
        self._directory = RunDirectory(directory)
        try:
            if settings.restart:
                self._directory.clear()
            saved = self._load()
            if (
                saved is not None
                and saved.batch == 0
                and saved.fingerprint != fingerprint(pipeline)
            ):
                # Nothing is in it yet: a pipeline that failed at its start may be mended.
                self._directory.clear()
                saved = None
            if saved is not None:
                check_fingerprint(pipeline, saved.fingerprint, directory)
            self._sinks = [(sink.view, self._sink(sink)) for sink in pipeline.sinks]
            self._connect_feeds()
            self._database = self._start(saved, progress)
            saved = self._usable_checkpoint(saved)
            self.batch = saved.batch if saved is not None else 0
            self._resume(saved, settings.restart)
        except BaseException:
            self.close()
            raise

    def _connect_feeds(self) -> None:
        for source in self._pipeline.sources:
            relation = self._relations[source.relation]
            self._feeds[relation.name] = self._feed(relation, source.endpoint)

    def _feed(self, relation: Relation, endpoint: Endpoint) -> Feed:
        with located(endpoint):
            return SOURCES[endpoint.format].open(relation, endpoint)

    def _sink(self, sink: SinkOf) -> Sink:
        return make_sink(sink, self._out)

    def _load(self) -> RunCheckpoint | None:
        return self._directory.load()

    def _usable_checkpoint(self, saved: RunCheckpoint | None) -> RunCheckpoint | None:
        """What the restored database says about the checkpoint: here they are one."""
        return saved

    def _apply(self, changes: list[Change]) -> int:
        """One atomic batch; its rows."""
        return self._database.apply(changes)

    def _turn(self) -> Sequence[SourceOf]:
        """The sources whose rows the next batch takes."""
        return self._pipeline.sources

    def _open(self, saved: RunCheckpoint | None) -> Database:
        return connect("local") if saved is None else restore(str(saved.database), engine="local")

    def _start(self, saved: RunCheckpoint | None, progress: Progress) -> Database:
        if saved is not None:
            with progress.busy("restoring the checkpoint"):
                return self._open(saved)
        database = self._open(None)
        with progress.busy("compiling the views"):
            for declaration in self._pipeline.relations:
                database.execute(declaration.text)
            self._fill(database, static=True)
            database.execute(";\n".join(view.text for view in self._pipeline.views))
            self._fill(database, static=False)
        return database

    def _fill(self, database: Database, *, static: bool) -> None:
        """Static tables before the views are made, the others after."""
        for filling in self._pipeline.fillings:
            if self._relations[filling.statement.table].static == static:
                database.execute(filling.text)
        for source in self._pipeline.sources if static else ():
            feed = self._feeds[source.relation]
            if self._relations[source.relation].static and feed.is_stored:
                database.apply(feed.changes(self._reader(source)))

    def _resume(self, saved: RunCheckpoint | None, restart: bool) -> None:
        """Sinks and sources back to the checkpoint; a new run takes its first one at once."""
        for definition, (_, sink) in zip(self._pipeline.sinks, self._sinks, strict=True):
            with located(definition.endpoint):
                if saved is None and not restart:
                    sink.begin()
                else:
                    sink.resume(self.batch)
        for view in {view for view, sink in self._sinks if self._takes_tables(sink)}:
            self._database.subscribe(view, self._remember)
        if saved is not None:
            for name, feed in self._feeds.items():
                feed.resume(saved.sources.get(name))
        else:
            self.checkpoint()

    def _takes_tables(self, sink: Sink) -> bool:
        """Whether a sink gets Arrow tables, which are brought to this process."""
        return True

    def _remember(self, batch: ViewBatch) -> None:
        self._arrived[batch.view] = batch

    # --- batches ----------------------------------------------------------------------------------

    def step(self) -> ProcessedBatch | None:
        before = self._progress()
        changes: list[Change] = []
        start = time.perf_counter()
        try:
            for source in self._turn():
                if not self._relations[source.relation].static:
                    read = self._reader(source)
                    changes += self._feeds[source.relation].changes(read)
            if not changes:
                return None
            self._arrived = {}
            rows = self._apply(changes)
        except BaseException:
            for name, feed in self._feeds.items():
                feed.resume(before[name])
            raise
        seconds = time.perf_counter() - start
        self.batch += 1
        self._deliver()
        if any(feed.replays for feed in self._feeds.values()):
            self.checkpoint()
        return ProcessedBatch(self.batch, rows, seconds)

    def _reader(self, source: SourceOf) -> ReadFile:
        return lambda path, format: self._from_file(source, path, format)

    def _from_file(self, source: SourceOf, path: str, format: str) -> Change:
        """The file's rows of the declared columns; a weight column says how often each comes."""
        endpoint = source.endpoint
        relation = self._relations[source.relation]
        weight = endpoint.option("weight")
        relation_read = relation if weight is None else _with_weight(relation, weight)
        try:
            table = read_file(path, format, relation_read, options=endpoint.options)
        except ViewletError as error:
            advice = f"it is read as {format}; repair it or take it away"
            raise DataError(f"{path}: {error.message}", hint=error.hint or advice) from None
        if weight is not None and weight not in table.column_names:
            raise DataError(f"{path} has no column {weight}", position=endpoint.position)
        columns = [name for name in relation.names if name in table.column_names]
        if not columns:
            raise DataError(
                f"{path} has none of the columns of {relation.name}",
                hint=f"it has {', '.join(table.column_names)}",
            )
        weights = 1 if weight is None else table[weight].to_pylist()
        return Change(relation.name, table.select(columns), weights)

    def _deliver(self) -> None:
        for target, (view, sink) in zip(self._pipeline.sinks, self._sinks, strict=True):
            batch = self._arrived.get(view)
            if batch is not None and self._takes_tables(sink):
                table = self._changes(target.view, batch)
                self._write(sink, target, table, self._database.view(view).to_arrow)

    def _write(self, sink: Sink, target: SinkOf, changes: Any, snapshot: Snapshot) -> None:
        try:
            sink.write(self.batch, changes, snapshot)
        except ViewletError as error:
            raise SinkFailedError from error
        except OSError as error:
            shown = ViewletError(
                f"cannot write to {target.endpoint}: {error.strerror or error}",
                position=target.endpoint.position,
                hint="the next run writes this batch again",
            )
            raise SinkFailedError from shown

    def _changes(self, view: str, batch: ViewBatch) -> pa.Table:
        import pyarrow as pa

        columns = self._database.view(view).types
        rows = [*batch.deleted, *batch.inserted]
        arrays = [
            pa.array([row[at] for row in rows], arrow_type(type))
            for at, (_, type) in enumerate(columns)
        ]
        weights = [-1] * len(batch.deleted) + [1] * len(batch.inserted)
        names = [name for name, _ in columns]
        return pa.table([*arrays, pa.array(weights, pa.int64())], names=[*names, WEIGHT])

    # --- life -------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Nothing is left; folders may grow, unless the run is for what is there now."""
        return all(feed.ended or (self._once and feed.is_stored) for feed in self._feeds.values())

    def _progress(self) -> dict[str, Any]:
        return {name: feed.progress() for name, feed in self._feeds.items()}

    def checkpoint(self) -> None:
        self._directory.save(
            self._database, self.batch, fingerprint(self._pipeline), self._progress()
        )
        for feed in self._feeds.values():
            feed.saved()

    def close(self) -> None:
        for feed in self._feeds.values():
            feed.close()
        if hasattr(self, "_database"):
            self._database.close()
        self._directory.close()


def _with_weight(relation: Relation, weight: str) -> Relation:
    if weight in relation.names:
        raise ResolutionError(
            f"{weight} is a column of {relation.name} and cannot be its weight too",
            hint=f"leave {weight} out of the table's columns",
        )
    return replace(relation, columns=(*relation.columns, Column(weight, BIGINT)))
