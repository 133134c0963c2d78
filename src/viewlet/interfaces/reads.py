"""Answers: a view's rows, ad-hoc SQL, the last changes, and what a view costs.

Each is the state after a whole batch, as of one version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from viewlet.calculus.query import Query
from viewlet.engine.values.arrow import changes_arrow, table_columns, to_arrow
from viewlet.engine.values.batching import Batch
from viewlet.errors import StateError, ViewletError
from viewlet.frontend.parse import query_text, query_with_parameters, schema_text
from viewlet.interfaces.adhoc import NO_LIMITS, AdHoc, QueryLimits, Source
from viewlet.interfaces.arguments import sql_of
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.explain import explain_as, explain_view, part_for_view
from viewlet.interfaces.information_schema import NAME as INFORMATION_SCHEMA
from viewlet.interfaces.information_schema import information_tables
from viewlet.interfaces.maintenance_text import maintenance_text
from viewlet.interfaces.mode_choice import ModeChoice
from viewlet.interfaces.mode_works import expected_choice
from viewlet.interfaces.point_reads import PointReads
from viewlet.interfaces.query_keys import keys_read
from viewlet.interfaces.query_positions import positioned
from viewlet.interfaces.render import ExplainedText
from viewlet.interfaces.spark_frames import frames_engine, jobs_and_stages, session_of
from viewlet.interfaces.stats import Stats, Timings
from viewlet.interfaces.view import Reader, View
from viewlet.interfaces.view_maintenance import ViewMaintenance
from viewlet.interfaces.view_modes import EAGER
from viewlet.schema import Relation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Reads:
    """How a database is read."""

    def __init__(self, state: DatabaseState, maintenance: ViewMaintenance, files: bool) -> None:
        """`files`: whether ad-hoc queries may read these too."""
        self._state = state
        self._maintenance = maintenance
        self._adhoc = AdHoc(files, now=lambda: state.clock.reading()[0])
        self._points = PointReads(state, maintenance)
        self._batches: dict[str, tuple[int, Batch]] = {}

    def view(self, name: str) -> View:
        """A live mapping over one view."""
        with self._state.lock:
            query = self._state.definitions.view(name).query
        return View(
            query,
            Reader(
                lambda: self._state.version,
                partial(self._columns_of, query),
                partial(self._points.find, name),
                partial(self._points.count, name),
                partial(self._frame, name),
                partial(self._as_of, name),
            ),
        )

    def _as_of(self, name: str) -> datetime:
        with self._state.lock:
            self._state.definitions.view(name)
            upkeep = self._state.upkeeps.get(name)
            return datetime.now(UTC) if upkeep is None else upkeep.as_of()

    def _columns_of(self, query: Query) -> tuple[int, Batch]:
        """The rows of a view that still has the columns it had when it was asked for."""
        with self._state.lock:
            now = self._state.definitions.view(query.name).query
            if now is not query and _columns_text(now) != _columns_text(query):
                raise StateError(
                    f"view {query.name} has another query now, with other columns",
                    hint=f'ask for it again: db.view("{query.name}")',
                )
            return self._columns(query.name)

    def _columns(self, name: str) -> tuple[int, Batch]:
        """The version with the rows at it, read once for each version."""
        state = self._state
        with state.lock:
            state.definitions.view(name)
            self._maintenance.before_read(name)
            cached = self._batches.get(name)
            if cached is None or cached[0] != state.version:
                cached = state.version, state.engine.columns(name)
                self._batches[name] = cached
            return cached

    def changes(self, view: str) -> Any:
        """What the last batch did to a view: a DataFrame on Spark, else an Arrow table."""
        state = self._state
        with state.lock:
            query = state.definitions.view(view).query
            self._maintenance.before_read(view)
            if state.engine_name == "spark":
                return frames_engine(state.engine, "spark").changes_frame(view)
            return changes_arrow(query, state.engine.changes(view))

    def _frame(self, name: str) -> DataFrame:
        """A view as a DataFrame, on any engine."""
        state = self._state
        with state.lock:
            query = state.definitions.view(name).query
            self._maintenance.before_read(name)
            if state.engine_name == "spark":
                return frames_engine(state.engine, "spark").view_frame(name)
            columns = [(column.name, column.type) for column in query.columns]
            table = to_arrow(columns, state.engine.columns(name))
        return session_of(state.engine).createDataFrame(table)

    def query(self, text: str, parameters: Any = None, limits: QueryLimits = NO_LIMITS) -> pa.Table:
        """Ad-hoc SQL over tables and views, with the values of its parameters."""
        named, values = query_with_parameters(sql_of(text), parameters)
        try:
            return self.answer(named, values, limits=limits)
        except ViewletError as error:
            raise positioned(error, text, named) from None

    def answer(
        self,
        text: str,
        values: Mapping[str, Any],
        extra: Mapping[str, Source] = MappingProxyType({}),
        limits: QueryLimits = NO_LIMITS,
    ) -> pa.Table:
        """The same with parameters by name, as statements have them, and rows under more names.

        All rows are of one version, and computing with them holds nobody up.
        """
        with self._state.lock:
            relations = self._state.definitions.relations
            streams = frozenset(
                n for n, declaration in relations.items() if declaration.relation.is_stream
            )
            sources = {**self._sources(), **extra}
            duckdb_text = query_text(text, self._column_names)
            duckdb_text, information = schema_text(duckdb_text, INFORMATION_SCHEMA)
            if information:
                tables = information_tables(self._state.definitions)
                sources |= {f"{INFORMATION_SCHEMA}.{name}": rows for name, rows in tables.items()}
            try:
                inputs = self._adhoc.inputs(duckdb_text, sources, streams)
            except ViewletError as error:
                raise positioned(error, text, duckdb_text) from None
            bound = {name: values[name] for name in inputs.parameters if name in values}
            read = {}
            for name in inputs.sources:
                rows = None
                if name not in extra and name not in information:
                    rows = self._points.rows(name, partial(keys_read, inputs.tree, name), bound)
                read[name] = sources[name]() if rows is None else rows
        try:
            return self._adhoc.query(duckdb_text, read, limits, bound)
        except ViewletError as error:
            raise positioned(error, text, duckdb_text) from None

    def snapshot(self, name: str) -> tuple[int, pa.Table]:
        """The version of the database, and a view at it."""
        with self._state.lock:
            version, columns = self._columns(name)
            query = self._state.definitions.view(name).query
        return version, to_arrow([(column.name, column.type) for column in query.columns], columns)

    def _column_names(self) -> frozenset[str]:
        definitions = self._state.definitions
        tables = (name for table in definitions.tables() for name in table.names)
        views = (column.name for v in definitions.views.values() for column in v.query.columns)
        return frozenset((*tables, *views))

    def _sources(self) -> dict[str, Source]:
        definitions = self._state.definitions
        sources: dict[str, Source] = {
            table.name: partial(self._table, table) for table in definitions.tables()
        }
        for name in definitions.views:
            sources[name] = self.view(name).to_arrow
        return sources

    def _table(self, relation: Relation) -> pa.Table:
        rows = self._state.engine.table(relation.name)
        transaction = self._state.transaction
        if transaction is not None:
            rows = transaction.table(relation, rows)
        return to_arrow(table_columns(relation), rows)

    def explain(self, view: str, stage: str, format: str) -> str:
        """One view at one stage, as text or for tools."""
        state = self._state
        with state.lock:
            definition = state.definitions.view(view)
            if isinstance(stage, str) and stage == "maintenance":
                known = self._maintenance.choices.get(view, ModeChoice())
                choice = expected_choice(state, known, view)
                states = self._maintenance.intermittent.lines(view)
                text = maintenance_text(state, definition, format, choice, states)
                return ExplainedText(text)
            if isinstance(format, str) and format == "text":
                return ExplainedText(explain_view(definition, state.engine, stage))
            return explain_as(part_for_view(state.engine.program, view), stage, format)

    def stats(self, view: str) -> Stats:
        """Maps, rows, bytes and refresh times of one view."""
        state = self._state
        with state.lock:
            state.definitions.view(view)
            self._maintenance.before_read(view)
            part = part_for_view(state.engine.program, view)
            sizes = state.engine.sizes()
            present = self._maintenance.intermittent.present_sizes(view)
            names = dict.fromkeys([*(map.name for map in part.state), *present])
            maps = {name: sizes[name] for name in names}
            timings = state.timings.get(view, Timings())
            spark_work = jobs_and_stages(state.engine, state.engine_name)
            rows = self._points.count(view)
            if rows is None:
                rows = len(self._columns(view)[1])
            stats = timings.of(view, maps, rows, *spark_work)
            upkeep = state.upkeeps.get(view)
            rates = state.meters[view].rates()
            return replace(
                stats,
                maintenance=state.modes.get(view, EAGER).mode.value,
                batches_per_s=rates.batches_per_s,
                incoming_rows_per_s=rates.rows_per_s,
                reads_per_s=rates.reads_per_s,
                subscribers=self._maintenance.watchers(view),
                pending_rows=upkeep.pending_rows if upkeep is not None else 0,
            )

    def close(self) -> None:
        """Let go of DuckDB."""
        self._adhoc.close()


def _columns_text(query: Query) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in query.columns]
