"""The database that a user talks to.

Definitions (which relations and views) and tables (the rows that are kept) live here, the state of
the views in an engine. Every public call holds one lock, so a reader in another thread sees the
state between batches, never inside one. A call that raises has changed nothing.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from viewlet.calculus.query import Query
from viewlet.calculus.ring import Gmr
from viewlet.errors import DataError, ResolutionError, StateError, UnsupportedError, ViewletError
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import (
    CreateRelation,
    CreateView,
    Drop,
    Select,
    Statement,
)
from viewlet.interfaces.adhoc import AdHoc, Source
from viewlet.interfaces.checkpoint import read_checkpoint, write_checkpoint
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.dml import Change, changes_of
from viewlet.interfaces.explain import explain_view, part_for, view_of
from viewlet.interfaces.rows import encode_rows, table_columns, to_arrow
from viewlet.interfaces.stats import Stats, Timings
from viewlet.interfaces.subscribe import Callback, Subscription, ViewBatch, deliver
from viewlet.interfaces.view import View, row_class
from viewlet.program.ir import Program
from viewlet.runtime.engine import Engine, Row
from viewlet.runtime.tables import Table, negated
from viewlet.schema import Catalog, decode

if TYPE_CHECKING:
    import pyarrow as pa

Compiler = Callable[[Catalog, Sequence[Query]], Program]
"""Queries over a catalogue -> the programme that maintains them all."""


class Database:
    """Made by `connect` or `restore`; see their docstrings for how it is used."""

    def __init__(
        self, engine: Engine, name: str, compiler: Compiler, checkpoint: str | None
    ) -> None:
        self._engine = engine
        self._engine_name = name
        self._compiler = compiler
        self._directory = checkpoint
        self._definitions = Definitions()
        self._tables: dict[str, Table] = {}
        self._subscriptions: list[Subscription] = []
        self._timings: dict[str, Timings] = {}
        self._adhoc = AdHoc()
        self._lock = threading.RLock()
        self._delivering = False
        self._version = 0
        self._rows: dict[str, tuple[int, list[Row]]] = {}

    # --- SQL --------------------------------------------------------------------------------------

    def execute(self, text: str) -> Any:
        """Run SQL statements; the last one's result: a table, a number of rows, or None.

        Views that are created one after the other are compiled together, all of them or none.

        >>> db.execute("CREATE TABLE r (a INT); CREATE VIEW v AS SELECT COUNT(*) AS n FROM r")
        """
        statements = parse(text)
        result: Any = None
        with self._lock:
            for group in _grouped(statements):
                result = self._execute(group)
        return result

    def _execute(self, group: Sequence[Statement]) -> Any:
        first = group[0]
        if isinstance(first, CreateView):
            return self._create_views([s for s in group if isinstance(s, CreateView)])
        if isinstance(first, CreateRelation):
            return self._create_relation(first)
        if isinstance(first, Drop):
            return self._drop(first)
        if isinstance(first, Select):
            return self.query(first.text)
        relation = self._definitions.relation(first.table)
        return self._apply(changes_of(first, relation, self.query))

    def _create_relation(self, statement: CreateRelation) -> None:
        definitions = self._definitions.copy()
        if definitions.add_relation(statement):
            self._definitions = definitions
            relation = statement.relation
            self._tables.pop(relation.name, None)
            if not relation.is_stream:
                self._tables[relation.name] = Table(relation)

    def _create_views(self, statements: Sequence[CreateView]) -> None:
        definitions = self._definitions.copy()
        for statement in statements:
            definitions.add_view(statement)
        self._install(definitions)

    def _drop(self, statement: Drop) -> None:
        definitions = self._definitions.copy()
        if not definitions.drop(statement):
            return
        if statement.kind == "view":
            self._install(definitions)
            self._timings.pop(statement.name, None)
            self._subscriptions = [s for s in self._subscriptions if s.view != statement.name]
        else:
            self._definitions = definitions
            self._tables.pop(statement.name, None)

    def _install(self, definitions: Definitions) -> None:
        """Compile all views, hand the programme to the engine, and only then believe in it."""
        with self._changing():
            program = self._compiler(definitions.planning_catalog(), definitions.queries())
            tables = {name: table.rows for name, table in self._tables.items()}
            self._engine.install(program, tables, definitions.passed())
            self._definitions = definitions
            self._version += 1

    # --- changes ----------------------------------------------------------------------------------

    def insert(self, relation: str, rows: Any) -> int:
        """Insert rows: a tuple, tuples or dicts, a dict of columns, Arrow, pandas or polars."""
        return self.apply([Change(relation, rows, 1)])

    def delete(self, relation: str, rows: Any) -> int:
        """Delete rows, each one copy; a row that a table does not have is a DataError."""
        return self.apply([Change(relation, rows, -1)])

    def apply(self, changes: Iterable[Change]) -> int:
        """Apply changes to any relations as one atomic batch; the number of rows in it."""
        with self._lock:
            return self._apply(changes)

    def _apply(self, changes: Iterable[Change]) -> int:
        with self._changing():
            deltas, count = self._encoded(changes)
            for name, delta in deltas.items():
                self._check(name, delta)
            self._run(deltas, count)
        return count

    def _encoded(self, changes: Iterable[Change]) -> tuple[dict[str, Gmr], int]:
        """The net change of each relation, and how many rows were given."""
        deltas: dict[str, Gmr] = {}
        count = 0
        for change in changes:
            relation = self._definitions.relation(change.relation)
            rows = encode_rows(relation, change.rows)
            delta = deltas.setdefault(relation.name, Gmr())
            for row, weight in zip(rows, _weights(change, len(rows)), strict=True):
                delta.add(row, weight)
            count += len(rows)
        return {name: delta for name, delta in deltas.items() if len(delta)}, count

    def _check(self, name: str, delta: Gmr) -> None:
        relation = self._definitions.relation(name)
        users = self._definitions.users_of(name) if relation.static else []
        if users:
            raise DataError(
                f"table {name} is static, and views use it: {', '.join(users)}",
                hint=f"drop {', '.join(users)}, change {name}, and create them again; or declare "
                f"{name} without static",
            )
        if name in self._tables:
            self._tables[name].check(delta)

    def _run(self, deltas: dict[str, Gmr], count: int) -> None:
        """Engine, tables, subscribers; an error anywhere takes back what came before it."""
        fed = [
            (instance, delta)
            for name, delta in deltas.items()
            for instance in self._definitions.instances(name)
        ]
        start = time.perf_counter()
        self._engine.apply(fed)
        seconds = time.perf_counter() - start
        kept = [
            (self._tables[name], delta) for name, delta in deltas.items() if name in self._tables
        ]
        for table, delta in kept:
            table.apply(delta)
        self._version += 1
        try:
            self._notify()
        except BaseException as error:
            self._engine.undo()
            for table, delta in kept:
                table.apply(negated(delta))
            self._version += 1
            if isinstance(error, Exception):
                raise ViewletError(
                    f"a subscriber failed, and the batch was undone: {error!r}",
                    hint="make the callback handle its own errors",
                ) from error
            raise
        self._definitions.saw_rows(name for name in deltas if name not in self._tables)
        touched = {instance for instance, _ in fed}
        for view, definition in self._definitions.views.items():
            if definition.reads & touched:
                self._timings.setdefault(view, Timings()).add(seconds, count)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self._delivering:
            raise StateError(
                "a subscriber may not change the database that calls it",
                hint="put the change on a queue and apply it after the batch",
            )
        yield

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, view: str, callback: Callback) -> Subscription:
        """Call `callback(batch)` after every batch that changed the view.

        `batch.inserted` and `batch.deleted` are lists of rows. If the callback raises, the batch
        is undone. It may read the database and may not change it.
        """
        with self._lock:
            self._definitions.view(view)
            subscription = Subscription(view, callback, self._unsubscribe)
            self._subscriptions.append(subscription)
            return subscription

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = [s for s in self._subscriptions if s is not subscription]

    def _notify(self) -> None:
        batches: dict[str, ViewBatch] = {}
        for view in {subscription.view for subscription in self._subscriptions}:
            batches[view] = self._batch(view)
        calls = [(s, batches[s.view]) for s in self._subscriptions]
        self._delivering = True
        try:
            deliver([(s, batch) for s, batch in calls if batch.inserted or batch.deleted])
        finally:
            self._delivering = False

    def _batch(self, view: str) -> ViewBatch:
        query = self._definitions.view(view).query
        make = row_class(query)
        inserted: list[Any] = []
        deleted: list[Any] = []
        for row, weight in self._engine.changes(view):
            values = make(*(decode(v, c.type) for v, c in zip(row, query.columns, strict=True)))
            (inserted if weight > 0 else deleted).extend([values] * abs(weight))
        return ViewBatch(view, self._version, inserted, deleted)

    # --- reads ------------------------------------------------------------------------------------

    def view(self, name: str) -> View:
        """A live, read-only mapping of a view's rows."""
        with self._lock:
            query = self._definitions.view(name).query
        return View(query, lambda: self._read(name))

    def _read(self, name: str) -> tuple[int, list[Row]]:
        with self._lock:
            self._definitions.view(name)
            found = self._rows.get(name)
            if found is None or found[0] != self._version:
                found = self._version, self._engine.rows(name)
                self._rows[name] = found
            return found

    def query(self, text: str) -> pa.Table:
        """Ad-hoc SQL over tables and views, all as they are after the last batch."""
        with self._lock:
            streams = frozenset(
                name
                for name, made in self._definitions.relations.items()
                if made.relation.is_stream
            )
            return self._adhoc.query(text, self._sources(), streams)

    def _sources(self) -> dict[str, Source]:
        sources: dict[str, Source] = {
            name: partial(table_arrow, table) for name, table in self._tables.items()
        }
        for name in self._definitions.views:
            sources[name] = self.view(name).to_arrow
        return sources

    def explain(self, view: str, stage: str = "program") -> str:
        """A view at one stage: sql, calculus, program, and those of the engine below."""
        with self._lock:
            return explain_view(self._definitions.view(view), self._engine, stage)

    def stats(self, view: str) -> Stats:
        """Maps, rows, bytes and refresh times of a view."""
        with self._lock:
            self._definitions.view(view)
            program = self._engine.program
            part = part_for(program, view_of(program, view))
            sizes = self._engine.sizes()
            maps = {map.name: sizes[map.name] for map in part.state}
            timings = self._timings.get(view, Timings())
            return timings.of(view, maps, len(self._read(view)[1]))

    # --- life -------------------------------------------------------------------------------------

    def checkpoint(self, directory: str | None = None) -> Path:
        """Save everything to a directory: this one, or the one given to `connect`."""
        chosen = directory or self._directory
        if chosen is None:
            raise StateError(
                "no directory to write the checkpoint to",
                hint='say connect(checkpoint="dir") or checkpoint("dir")',
            )
        with self._lock:
            return write_checkpoint(
                Path(chosen),
                self._engine_name,
                self._version,
                self._definitions,
                self._tables,
                self._engine,
            )

    def _restore(self, root: Path) -> None:
        saved = read_checkpoint(root)
        for text in saved.relations:
            self.execute(text)
        definitions = self._definitions
        for text, epochs in saved.views:
            (statement,) = parse(text)
            assert isinstance(statement, CreateView)
            definitions.add_view(statement, epochs)
        definitions.epochs.update(saved.epochs)
        for name, rows in saved.tables.items():
            self._tables[name].apply(rows)
        program = self._compiler(definitions.planning_catalog(), definitions.queries())
        self._engine.load(program, saved.directory)
        self._version = saved.version

    def close(self) -> None:
        """Let go of the engine; the database cannot be used afterwards."""
        with self._lock:
            self._adhoc.close()
            self._engine.close()
            self._subscriptions = []

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _grouped(statements: Sequence[Statement]) -> Iterator[list[Statement]]:
    """Views that follow each other form one group, every other statement its own."""
    group: list[Statement] = []
    for statement in statements:
        if group and not (isinstance(group[-1], CreateView) and isinstance(statement, CreateView)):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group


def _weights(change: Change, count: int) -> Sequence[int]:
    weights = change.weights
    if isinstance(weights, SupportsIndex):
        return [operator.index(weights)] * count
    values = weights.to_pylist() if hasattr(weights, "to_pylist") else list(weights)
    if len(values) != count:
        raise DataError(f"{len(values)} weights for {count} rows of {change.relation}")
    for value in values:
        if not isinstance(value, SupportsIndex) or isinstance(value, bool):
            raise DataError(
                f"{value!r} is not a weight of {change.relation}", hint="weights are whole numbers"
            )
    return [operator.index(value) for value in values]


def table_arrow(table: Table) -> pa.Table:
    rows = [row for row, weight in table.rows.items() for _ in range(int(weight))]
    return to_arrow(table_columns(table.relation), rows)


def _reference() -> Engine:
    from viewlet.runtime.reference import ReferenceEngine

    return ReferenceEngine()


def _local() -> Engine:
    from viewlet.runtime.native import NativeEngine

    return NativeEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"interpreter": _reference, "local": _local}
"""How each engine is made; modules are imported when they are asked for."""

DEFAULT_ENGINE = "interpreter"


def connect(engine: str = DEFAULT_ENGINE, *, checkpoint: str | None = None) -> Database:
    """A new, empty database.

    >>> db = connect()
    >>> db.execute("CREATE TABLE r (a INT, b INT)")
    >>> db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a")
    >>> db.insert("r", [(1, 2), (1, 3)])
    2
    >>> db.view("v")[1].total
    5
    """
    from viewlet.planner.viewlets import compile_program

    if engine not in ENGINES:
        kind = UnsupportedError if engine == "spark" else ResolutionError
        raise kind(f"there is no engine {engine}", hint=f"engines are {', '.join(sorted(ENGINES))}")
    plan = partial(compile_program, keyed=engine != "spark")
    return Database(ENGINES[engine](), engine, plan, checkpoint)


def restore(directory: str, *, engine: str | None = None) -> Database:
    """The database that `checkpoint` saved, as it was then; further checkpoints go there too."""
    saved = read_checkpoint(Path(directory))
    database = connect(engine or saved.engine, checkpoint=directory)
    database._restore(Path(directory))
    return database
