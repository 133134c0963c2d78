"""The database that a user talks to.

Definitions (which relations and views) live here, the rows of tables and the state of the views in
an engine. Every public call holds one lock, so a reader in another thread sees the
state between batches, never inside one. A call that raises has changed nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.calculus.query import Query
from viewlet.errors import DataError, ResolutionError, StateError, ViewletError
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import (
    CreateRelation,
    CreateView,
    Drop,
    Select,
    Statement,
)
from viewlet.interfaces.adhoc import AdHoc, Source
from viewlet.interfaces.checkpoint import (
    check_place,
    has_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.dml import Change, changes_of
from viewlet.interfaces.events import Watch
from viewlet.interfaces.explain import (
    explain_as,
    explain_view,
    part_for,
    part_for_view,
    view_of,
)
from viewlet.interfaces.progress import waiting
from viewlet.interfaces.render import database_html
from viewlet.interfaces.routes import Route
from viewlet.interfaces.rows import table_columns, to_arrow
from viewlet.interfaces.spark import changes_arrow, check_frame, frames_engine, jobs_and_stages
from viewlet.interfaces.stats import Stats, Timings
from viewlet.interfaces.subscribe import Callback, Subscription, ViewBatch, deliver
from viewlet.interfaces.view import Reader, View, row_class
from viewlet.program.ir import Program
from viewlet.runtime.batching import Batch, make_batch
from viewlet.runtime.checkpoint import shown
from viewlet.runtime.engine import Engine, Finder, Row
from viewlet.schema import Catalog, Relation, decode

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from viewlet.distributed.partition import Hints

Compiler = Callable[[Catalog, Sequence[Query]], Program]
"""Queries over a catalogue -> the programme that maintains them all."""


_MANY = 50_000


class Database:
    """Tables, streams and the views over them; made by `connect` or `restore`.

    Usable from several threads, one batch at a time. Closed by `close` or at the end of a `with`:

    >>> with viewlet.connect() as database:
    ...     database.execute("CREATE TABLE t (a INT)")
    ...     database.insert("t", (1,))
    1
    """

    def __init__(
        self, engine: Engine, name: str, compiler: Compiler, checkpoint: str | None
    ) -> None:
        self._engine = engine
        self._engine_name = name
        self._compiler = compiler
        self._directory = checkpoint
        # Batches are durable by themselves there; what they mean must be as well.
        self._durable = name == "spark" and checkpoint is not None
        self._unsaved = False  # definitions that the checkpoint does not have yet: no batch before
        self._definitions = Definitions()
        self._routes: dict[str, Route] = {}
        self._subscriptions: list[Subscription] = []
        self._timings: dict[str, Timings] = {}
        self._adhoc = AdHoc()
        self._lock: AbstractContextManager[Any] = threading.RLock()
        self._delivering = False
        self._version = 0
        self._rows: dict[str, tuple[int, list[Row]]] = {}

    # --- SQL --------------------------------------------------------------------------------------

    def execute(self, text: str) -> Any:
        """Run SQL statements; the last one's result: a table, a number of rows, or None.

        Views that are created one after the other are compiled together, all of them or none.

        >>> db.execute("CREATE TABLE t (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM t")
        >>> db.execute("INSERT INTO t VALUES (1), (2)")
        2
        >>> db.view("n")[()].n
        2
        """
        statements = parse(text)
        result: Any = None
        with self._lock:
            for group in _grouped(statements):
                with waiting(_told(group[0])):
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
        replaced = statement.relation.name in definitions.relations
        if definitions.add_relation(statement):
            name = statement.relation.name
            if replaced:
                # Also a table of the same shape starts empty.
                self._install(self._definitions, without=name)
            self._install(definitions)

    def _create_views(self, statements: Sequence[CreateView]) -> None:
        definitions = self._definitions.copy()
        for statement in statements:
            definitions.add_view(statement)
        self._install(definitions)

    def _drop(self, statement: Drop) -> None:
        definitions = self._definitions.copy()
        if not definitions.drop(statement):
            return
        self._install(definitions)
        if statement.kind == "view":
            self._timings.pop(statement.name, None)
            for subscription in [s for s in self._subscriptions if s.view == statement.name]:
                subscription.close()

    def _install(self, definitions: Definitions, without: str = "") -> None:
        """Compile all views, hand the programme to the engine, and only then believe in it."""
        with self._changing():
            program = self._engine.program
            if definitions.views != self._definitions.views:
                program = self._compiler(definitions.planning_catalog(), definitions.queries())
            tables = [table for table in definitions.tables() if table.name != without]
            self._engine.install(program, tables, definitions.passed())
            self._define(definitions)
            self._version += 1
            self._unsaved = self._durable
            if self._durable:
                self.checkpoint()

    def _define(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._timings = {view: self._timings.get(view, Timings()) for view in definitions.views}
        self._routes = {
            name: Route(made.relation, definitions, self._timings)
            for name, made in definitions.relations.items()
        }

    # --- changes ----------------------------------------------------------------------------------

    def insert(self, relation: str, rows: Any) -> int:
        """Insert rows: a tuple, tuples or dicts, a dict of columns, Arrow, pandas or polars.

        >>> db.insert("r", (3, 4))
        1
        >>> db.insert("r", {"a": [3, 5], "b": [6, 7]})
        2
        >>> db.view("v")[3].total
        10
        """
        if type(rows) is tuple and self._change_row(relation, rows, 1):
            return 1
        return self.apply([Change(relation, rows, 1)])

    def delete(self, relation: str, rows: Any) -> int:
        """Delete rows, each one copy; a row that a table does not have is a DataError.

        >>> db.delete("r", [(1, 2)])
        1
        >>> db.view("v")[1].total
        3
        """
        if type(rows) is tuple and self._change_row(relation, rows, -1):
            return 1
        return self.apply([Change(relation, rows, -1)])

    def apply(self, changes: Iterable[Change]) -> int:
        """Apply changes to any relations as one atomic batch; the number of rows in it.

        >>> db.apply([viewlet.Change("r", (1, 2), -1), viewlet.Change("r", [(1, 20), (2, 5)])])
        3
        >>> db.view("v")[1].total
        23
        """
        given = list(changes)
        told = waiting("applying the batch") if _is_large(given) else nullcontext()
        with self._lock, told:
            return self._apply(given)

    def apply_spark(
        self, changes: Iterable[tuple[str, DataFrame] | tuple[str, DataFrame, int]]
    ) -> None:
        """Apply the rows of DataFrames to relations as one atomic batch, on the Spark engine.

        Rows are inserted; (relation, frame, -1) deletes them. They never pass the driver.

        >>> frame = spark.createDataFrame([(7, 1), (7, 2)], "a INT, b INT")
        >>> db.apply_spark([("r", frame)])
        >>> db.view("v")[7].total
        3
        """
        self._apply_frames(changes, None)

    def sink(self, relation: str, weight: int = 1) -> Callable[[DataFrame, int], None]:
        """A function for Structured Streaming's foreachBatch that applies micro-batches.

        Each is applied once: one that Spark repeats after a failure is known by its number.

        >>> frames = spark.readStream.schema("a INT, b INT").csv(folder)
        >>> frames.writeStream.foreachBatch(db.sink("r")).start().stop()
        """
        self._definitions.relation(relation)
        engine = frames_engine(self._engine, self._engine_name)

        def apply(frame: DataFrame, batch: int) -> None:
            context = engine.spark.sparkContext
            query = context.getLocalProperty("sql.streaming.queryId") or "foreachBatch"
            self._apply_frames([(relation, frame, weight)], f"{query}/{relation}/{batch}")

        return apply

    def _apply_frames(
        self,
        changes: Iterable[tuple[str, DataFrame] | tuple[str, DataFrame, int]],
        batch_id: str | None,
    ) -> None:
        with self._lock, self._changing():
            engine = frames_engine(self._engine, self._engine_name)
            if engine.is_committed(batch_id):
                return
            routes = []
            fed: list[tuple[str, DataFrame, int]] = []
            for change in changes:
                name, frame, weight = change if len(change) == 3 else (*change, 1)
                route = self._route(name)
                check_frame(frame, route.relation)
                routes.append(route)
                fed += [(instance, frame, weight) for instance in route.instances]
            start = time.perf_counter()
            engine.apply_frames(fed, batch_id=batch_id)
            self._applied(list(dict.fromkeys(routes)), time.perf_counter() - start, 0)

    def _change_row(self, relation: str, row: tuple[Any, ...], weight: int) -> bool:
        """One row by the short way; False if it has to go the long one."""
        with self._lock:
            route = self._routes.get(relation)
            if (
                route is None
                or route.only is None
                or route.static_users
                or self._delivering
                or self._unsaved
                or len(row) != route.width
                or isinstance(row[0], tuple | list | Mapping)
            ):
                return False
            encoded = route.encode(row)
            start = time.perf_counter()
            self._engine.apply_row(route.only, encoded, weight)
            self._applied((route,), time.perf_counter() - start, 1)
            return True

    def _apply(self, changes: Iterable[Change]) -> int:
        with self._changing():
            batches = [(self._route(_checked(c).relation), c) for c in changes]
            fed: list[tuple[str, Batch]] = []
            count = 0
            for route, change in batches:
                batch = make_batch(route.relation, change.rows, change.weights)
                fed += [(instance, batch) for instance in route.instances]
                count += len(batch)
            start = time.perf_counter()
            self._engine.apply(fed)
            routes = list(dict.fromkeys(route for route, _ in batches))
            self._applied(routes, time.perf_counter() - start, count)
        return count

    def _route(self, name: str) -> Route:
        """Where a relation's rows go, if they may go anywhere."""
        relation = self._definitions.relation(name)
        route = self._routes[relation.name]
        if route.static_users:
            users = ", ".join(route.static_users)
            raise DataError(
                f"table {name} is static, and views use it: {users}",
                hint=f"drop {users}, change {name}, and create them again; or declare {name} "
                "without static",
            )
        return route

    def _applied(self, routes: Sequence[Route], seconds: float, count: int) -> None:
        """After the engine: subscribers, whose errors take the batch back, and the books."""
        self._version += 1
        delivered: list[tuple[Subscription, ViewBatch]] = []
        if self._subscriptions:
            try:
                delivered = self._notify(routes)
            except BaseException as error:
                self._engine.undo()
                self._version += 1
                if isinstance(error, Exception):
                    raise ViewletError(
                        f"a subscriber failed, and the batch was undone: {error!r}",
                        hint="make the callback handle its own errors",
                    ) from error
                raise
        for route in routes:
            if not route.seen:
                route.seen = True
                if route.relation.is_stream:
                    self._definitions.saw_rows((route.relation.name,))
        timings = routes[0].timings if len(routes) == 1 else _all_timings(routes)
        for timing in timings:
            timing.add(seconds, count)
        for subscription, batch in delivered:
            subscription.settle(batch)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if self._delivering:
            raise StateError(
                "a subscriber may not change the database that calls it",
                hint="put the change on a queue and apply it after the batch",
            )
        if self._unsaved:
            self.checkpoint()
        yield

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, view: str, callback: Callback | None = None) -> Subscription:
        """Call `callback(batch)` after every batch that changed the view.

        `batch.inserted` and `batch.deleted` are lists of rows. If the callback raises, the batch
        is undone. It may read the database and may not change it. Without a callback, `next()` of
        the subscription is a future of the next batch.

        >>> subscription = db.subscribe("v", lambda batch: print(batch.inserted))
        >>> db.insert("r", (2, 8))
        [V(a=2, total=8)]
        1
        >>> subscription.close()
        """
        if callback is not None and not callable(callback):
            raise ResolutionError(
                f"{callback!r} cannot be called", hint="give a function of one batch"
            )
        return self._subscribe(view, callback, None)

    def watch(self, *views: str) -> Watch:
        """For asyncio: the batches that change any of the views, from now on.

        >>> async for batch in db.watch("v", "w"):
        ...     print(batch.view, batch.inserted)
        """
        for view in views:
            self._definitions.view(view)
        return Watch(self._listen, views)

    def _listen(self, view: str, listener: Callback) -> Subscription:
        """Be told of batches that stand; `listener` must not raise."""
        return self._subscribe(view, None, listener)

    def _subscribe(
        self, view: str, callback: Callback | None, listener: Callback | None
    ) -> Subscription:
        with self._lock:
            self._definitions.view(view)
            subscription = Subscription(view, callback, self._unsubscribe, listener)
            self._subscriptions.append(subscription)
            return subscription

    def _unsubscribe(self, subscription: Subscription) -> None:
        if isinstance(self._lock, _Closed):
            return
        with self._lock:
            self._subscriptions = [s for s in self._subscriptions if s is not subscription]

    def _notify(self, routes: Sequence[Route]) -> list[tuple[Subscription, ViewBatch]]:
        """Call the callbacks of the views that changed; all who are to know of it."""
        touched = {view for route in routes for view in route.views}
        listening = [s for s in self._subscriptions if s.view in touched]
        batches = {view: self._batch(view) for view in {s.view for s in listening}}
        calls = [(s, batches[s.view]) for s in listening]
        calls = [(s, batch) for s, batch in calls if batch.inserted or batch.deleted]
        self._delivering = True
        try:
            deliver(calls)
        finally:
            self._delivering = False
        return calls

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
        """A live, read-only mapping of a view's rows.

        >>> db.view("v")[1]
        V(a=1, total=5)
        """
        with self._lock:
            query = self._definitions.view(name).query
        return View(
            query,
            Reader(
                lambda: self._version,
                partial(self._read, name),
                partial(self._columns, name),
                partial(self._find, name),
                self._session,
            ),
        )

    def _find(self, name: str, key: Row) -> list[Row] | None:
        with self._lock:
            self._definitions.view(name)
            return self._engine.find(name, key) if isinstance(self._engine, Finder) else None

    def _read(self, name: str) -> tuple[int, list[Row]]:
        with self._lock:
            self._definitions.view(name)
            found = self._rows.get(name)
            if found is None or found[0] != self._version:
                found = self._version, self._engine.rows(name)
                self._rows[name] = found
            return found

    def _columns(self, name: str) -> Batch:
        with self._lock:
            self._definitions.view(name)
            return self._engine.columns(name)

    def _session(self) -> SparkSession:
        """The session of the engine, or the one that is active or made for other engines."""
        from viewlet.runtime.session import spark_session

        return spark_session(getattr(self._engine, "spark", None))

    def changes(self, view: str) -> Any:
        """The last batch's changes to a view: its columns and `_weight`, negative for rows gone.

        A DataFrame on Spark, an Arrow table elsewhere.

        >>> db.insert("r", (1, 10))
        1
        >>> db.changes("v").to_pylist()
        [{'a': 1, 'total': 5, '_weight': -1}, {'a': 1, 'total': 15, '_weight': 1}]
        """
        with self._lock:
            query = self._definitions.view(view).query
            table = changes_arrow(query, self._engine.changes(view))
        if self._engine_name == "spark":
            return self._session().createDataFrame(table)
        return table

    def query(self, text: str) -> pa.Table:
        """Ad-hoc SQL over tables and views, all as they are after the last batch.

        >>> db.query("SELECT MAX(total) AS most FROM v").to_pylist()
        [{'most': 5}]
        """
        with self._lock:
            streams = frozenset(
                name
                for name, made in self._definitions.relations.items()
                if made.relation.is_stream
            )
            return self._adhoc.query(text, self._sources(), streams)

    def _sources(self) -> dict[str, Source]:
        sources: dict[str, Source] = {
            table.name: partial(self._table, table) for table in self._definitions.tables()
        }
        for name in self._definitions.views:
            sources[name] = self.view(name).to_arrow
        return sources

    def _table(self, relation: Relation) -> pa.Table:
        return to_arrow(table_columns(relation), self._engine.table(relation.name))

    def explain(self, view: str, stage: str = "program", *, format: str = "text") -> str:
        """A view at one stage: sql, calculus, program, and those of the engine below.

        `format="svg"` draws the programme, and a notebook shows the picture; "json" is for tools.

        >>> print(db.explain("v", stage="sql"))
        CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a
        """
        with self._lock:
            definition = self._definitions.view(view)
            if format == "text":
                return explain_view(definition, self._engine, stage)
            return explain_as(part_for_view(self._engine.program, view), stage, format)

    def __repr__(self) -> str:
        made = self._definitions
        return f"<Database on {self._engine_name}: {', '.join([*made.relations, *made.views])}>"

    def _repr_html_(self) -> str:
        with self._lock:
            return database_html(self._engine_name, self._definitions.overview())

    def stats(self, view: str) -> Stats:
        """Maps, rows, bytes and refresh times of a view.

        >>> db.stats("v").rows
        1
        """
        with self._lock:
            self._definitions.view(view)
            program = self._engine.program
            part = part_for(program, view_of(program, view))
            sizes = self._engine.sizes()
            maps = {map.name: sizes[map.name] for map in part.state}
            timings = self._timings.get(view, Timings())
            counted = jobs_and_stages(self._engine, self._engine_name)
            return timings.of(view, maps, len(self._engine.columns(view)), *counted)

    # --- life -------------------------------------------------------------------------------------

    def checkpoint(self, directory: str | None = None) -> str:
        """Save everything to a directory: this one, or the one given to `connect`.

        >>> db.checkpoint(folder).endswith("checkpoint-1")
        True
        >>> viewlet.restore(folder).view("v")[1].total
        5
        """
        chosen = directory or self._directory
        if chosen is None:
            raise StateError(
                "no directory to write the checkpoint to",
                hint='say connect(checkpoint="dir") or checkpoint("dir")',
            )
        with self._lock, waiting(f"writing a checkpoint to {chosen}"):
            written = write_checkpoint(
                chosen, self._engine_name, self._version, self._definitions, self._engine
            )
            self._unsaved = False
            return written

    def _restore(self, root: str) -> None:
        saved = read_checkpoint(root)
        durable, self._durable = self._durable, False  # what is there stays until it is read
        for text in saved.relations:
            self.execute(text)
        definitions = self._definitions
        for text, epochs in saved.views:
            (statement,) = parse(text)
            assert isinstance(statement, CreateView)
            definitions.add_view(statement, epochs)
        definitions.epochs.update(saved.epochs)
        program = self._compiler(definitions.planning_catalog(), definitions.queries())
        self._engine.load(program, definitions.tables(), saved.directory)
        if durable:
            # The engine may have gone on since: any stream may have brought rows.
            made = definitions.relations.items()
            definitions.saw_rows(name for name, r in made if r.relation.is_stream)
        self._define(definitions)
        self._version = saved.version
        self._durable = durable

    def close(self) -> None:
        """Let go of the engine; the database cannot be used afterwards."""
        if isinstance(self._lock, _Closed):
            return
        with self._lock:
            self._adhoc.close()
            self._engine.close()
            self._subscriptions = []
            self._lock = _Closed()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Closed(AbstractContextManager[Any]):
    """In the place of a closed database's lock: whatever would use the engine is told so."""

    def __enter__(self) -> None:
        raise StateError(
            "the database is closed", hint="use it before close(), or connect() to a new one"
        )

    def __exit__(self, *_: object) -> None:
        """Never entered."""


def _checked(change: Change) -> Change:
    if not isinstance(change, Change):
        raise DataError(f"{change!r} is not a change", hint='give viewlet.Change("r", rows)')
    return change


def _told(statement: Statement) -> str:
    """What is being done, in a word."""
    return "compiling views" if isinstance(statement, CreateView) else "executing"


def _is_large(changes: Sequence[Change]) -> bool:
    """Whether there are so many rows that somebody may have to wait for them."""
    rows = (change.rows for change in changes if isinstance(change, Change))
    return any(isinstance(given, Sized) and len(given) > _MANY for given in rows)


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


def _all_timings(routes: Sequence[Route]) -> list[Timings]:
    """Each view's once, though several of its relations changed."""
    found = {id(timing): timing for route in routes for timing in route.timings}
    return list(found.values())


def _reference() -> Engine:
    from viewlet.runtime.reference import ReferenceEngine

    return ReferenceEngine()


def _local() -> Engine:
    from viewlet.runtime.native import NativeEngine

    return NativeEngine()


def _spark(**options: Any) -> Engine:
    from viewlet.runtime.spark import SparkEngine

    return SparkEngine(**options)


ENGINES: dict[str, Callable[..., Engine]] = {
    "interpreter": _reference,
    "local": _local,
    "spark": _spark,
}
"""How each engine is made; modules are imported when they are asked for."""

DEFAULT_ENGINE = "local"


def connect(
    engine: str = DEFAULT_ENGINE,
    *,
    checkpoint: str | None = None,
    spark: SparkSession | None = None,
    partitions: int | None = None,
    hints: Hints | None = None,
) -> Database:
    """A new, empty database.

    >>> db = viewlet.connect()
    >>> db.execute("CREATE TABLE r (a INT, b INT)")
    >>> db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a")
    >>> db.insert("r", [(1, 2), (1, 3)])
    2
    >>> db.view("v")[1].total
    5

    engine="spark" keeps everything in `partitions` partitions on the executors of `spark`, or of a
    local session that is made where none is given or active. With `checkpoint` a directory that
    driver and executors share, every batch is durable when it returns. `hints` say how large
    tables are and where maps should be, where the plan that `explain` shows can be better.
    """
    if engine not in ENGINES:
        raise ResolutionError(
            f"there is no engine {engine}", hint=f"engines are {', '.join(sorted(ENGINES))}"
        )
    if engine != "spark" and any(given is not None for given in (spark, partitions, hints)):
        raise StateError(
            f"the engine {engine} has no Spark session, no partitions and no hints for them",
            hint='say connect(engine="spark", ...)',
        )
    options: dict[str, Any] = {}
    if engine == "spark":
        if checkpoint is not None and has_checkpoint(checkpoint):
            raise StateError(
                f"{shown(checkpoint)} has the checkpoint of a database already",
                hint="go on with it by viewlet.restore, or give another directory",
            )
        if checkpoint is not None:
            check_place(checkpoint)
        options = {
            "spark": spark,
            "partitions": partitions,
            "checkpoint": checkpoint,
            "hints": hints,
        }
    return _database(engine, checkpoint, options)


def _database(engine: str, checkpoint: str | None, options: dict[str, Any]) -> Database:
    from viewlet.planner.viewlets import compile_program

    plan = partial(compile_program, keyed=engine != "spark")
    return Database(ENGINES[engine](**options), engine, plan, checkpoint)


def restore(
    directory: str,
    *,
    engine: str | None = None,
    spark: SparkSession | None = None,
    partitions: int | None = None,
) -> Database:
    """The database that `checkpoint` saved, as it was then; further checkpoints go there too.

    On Spark it is as of the last batch that was committed. Another number of `partitions` than
    before splits the state anew.

    >>> db.checkpoint(folder).endswith("checkpoint-1")
    True
    >>> viewlet.restore(folder).view("v")[1].total
    5
    """
    saved = read_checkpoint(directory)
    chosen = engine or saved.engine
    options: dict[str, Any] = {}
    if chosen == "spark":
        options = {"spark": spark, "partitions": partitions, "checkpoint": directory}
    database = _database(chosen, directory, options)
    with waiting(f"restoring {directory}"):
        database._restore(directory)
    return database
