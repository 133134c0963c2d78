"""The database that a user talks to: one class, whose methods hand on to the parts that do it.

    execute       statements of SQL                        execute, ddl, dml
    insert ...    rows in, one atomic batch at a time      writes, routes
    subscribe     what a batch did, to whoever waits       delivery, subscribe, events
    view ...      answers and what they cost               reads, view, adhoc, explain, stats
    checkpoint    everything in a directory                checkpoints, saved_database

Definitions (which relations and views) live in `database_state`, the rows of tables and the state
of the views in an engine. A call that raises has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from viewlet.engine.contract import Engine
from viewlet.frontend.statements import TransactionVerb
from viewlet.frontend.user_functions import function
from viewlet.interfaces.adhoc import QueryLimits
from viewlet.interfaces.arguments import callback_of, name_of
from viewlet.interfaces.batch_queue import BatchQueue, Policy
from viewlet.interfaces.checkpoints import Checkpoints
from viewlet.interfaces.database_clock import DatabaseClock
from viewlet.interfaces.database_state import Compiler, DatabaseState
from viewlet.interfaces.ddl import DefinitionChanges
from viewlet.interfaces.delivery import Subscribers
from viewlet.interfaces.described import RelationSchema, describe, public_names
from viewlet.interfaces.dml import Change
from viewlet.interfaces.events import Watch
from viewlet.interfaces.execute import StatementExecutor
from viewlet.interfaces.explain import Format, Stage
from viewlet.interfaces.reads import Reads
from viewlet.interfaces.render import database_html
from viewlet.interfaces.spark_frames import FrameBatch, repartition
from viewlet.interfaces.stats import Stats
from viewlet.interfaces.subscribe import Callback, Subscription
from viewlet.interfaces.ticks import Ticks
from viewlet.interfaces.view import View
from viewlet.interfaces.view_maintenance import ViewMaintenance
from viewlet.interfaces.writes import Writes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from viewlet.engine.durable.log import Synchronous
    from viewlet.interfaces.durable_database import DurableDirectory


class Database:
    """Tables, streams and the views over them; made by `connect` or `restore`.

    Usable from several threads, one batch at a time. Closed by `close` or at the end of a `with`:

    >>> with viewlet.connect() as database:
    ...     database.execute("CREATE TABLE t (a INT)")
    ...     database.insert("t", (1,))
    1
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        compiler: Compiler,
        checkpoint: str | None,
        *,
        files: bool = False,
    ) -> None:
        state = DatabaseState(engine, name, compiler)
        self._engine = engine
        self._state = state
        self._checkpoints = Checkpoints(state, checkpoint)
        self._subscribers = Subscribers(state)
        self._maintenance = ViewMaintenance(state, self._subscribers.count)
        self._checkpoints.maintenance = self._maintenance
        self._subscribers.changed = self._maintenance.change
        self._subscribers.before_read = self._maintenance.before_read
        self._reads = Reads(state, self._maintenance, files)
        self._writes = Writes(state, self._checkpoints, self._subscribers, self._maintenance)
        changes = DefinitionChanges(state, self._checkpoints, self._subscribers, self._maintenance)
        changes.ticks = self._ticks = Ticks(state, self._writes.tick)
        self._maintenance.pass_time = self._ticks.before_read
        self._directory: DurableDirectory | None = None
        self._executor = StatementExecutor(state, changes, self._writes, self._reads)

    def execute(self, text: str, parameters: Any = None) -> Any:
        """Run SQL statements; the last one's result: a table, a number of rows, or None.

        Views that are created one after the other are compiled together, all of them or none.
        Parameters are a sequence for `?` and `$1`, a mapping for `:name`.

        >>> db.execute("CREATE TABLE t (a INT); CREATE VIEW n AS SELECT COUNT(*) AS n FROM t")
        >>> db.execute("INSERT INTO t VALUES (1), (2)")
        2
        >>> db.execute("INSERT INTO t VALUES (?)", [3])
        1
        >>> db.view("n")[()].n
        3
        """
        return self._executor.run(text, parameters)

    function = staticmethod(function)
    # --- changes ----------------------------------------------------------------------------------

    @overload
    def insert(self, relation: str, rows: Any, *, wait: Literal[True] = True) -> int: ...

    @overload
    def insert(self, relation: str, rows: Any, *, wait: Literal[False]) -> Future[int]: ...

    def insert(self, relation: str, rows: Any, *, wait: bool = True) -> int | Future[int]:
        """Insert rows: a tuple, tuples or dicts, a dict of columns, Arrow, pandas or polars.

        Without `wait` it is left to whoever has the database next, who puts what has gathered into
        one batch: a future of the number of rows. One writer's changes stay in order.

        >>> db.insert("r", (3, 4))
        1
        >>> db.insert("r", {"a": [3, 5], "b": [6, 7]})
        2
        >>> db.view("v")[3].total
        10
        >>> db.insert("r", (3, 1), wait=False).result()
        1
        """
        if not wait:
            return self._writes.leave_rows(relation, rows, 1)
        if type(rows) is tuple and self._writes.apply_row(relation, rows, 1):
            return 1
        return self._writes.apply([Change(relation, rows, 1)])

    @overload
    def inserter(self, relation: str, *, wait: Literal[True] = True) -> Callable[..., None]: ...

    @overload
    def inserter(self, relation: str, *, wait: Literal[False]) -> Callable[..., Future[int]]: ...

    def inserter(self, relation: str, *, wait: bool = True) -> Callable[..., Any]:
        """A function that inserts one row, given as its values: the quickest way for single rows.

        Without `wait` it gives a future, as `insert` does.

        >>> put = db.inserter("r")
        >>> put(3, 4)
        >>> db.view("v")[3].total
        4
        """
        return self._writes.inserter(relation) if wait else self._writes.later_inserter(relation)

    @overload
    def delete(self, relation: str, rows: Any, *, wait: Literal[True] = True) -> int: ...

    @overload
    def delete(self, relation: str, rows: Any, *, wait: Literal[False]) -> Future[int]: ...

    def delete(self, relation: str, rows: Any, *, wait: bool = True) -> int | Future[int]:
        """Delete rows, each one copy; a row that a table does not have is a DataError.

        Without `wait` it gives a future, as `insert` does.

        >>> db.delete("r", [(1, 2)])
        1
        >>> db.view("v")[1].total
        3
        """
        if not wait:
            return self._writes.leave_rows(relation, rows, -1)
        if type(rows) is tuple and self._writes.apply_row(relation, rows, -1):
            return 1
        return self._writes.apply([Change(relation, rows, -1)])

    def upsert(self, relation: str, rows: Any) -> int:
        """Put rows in place of those with the same primary keys, or beside them; as one batch.

        Rows have any shape that `insert` takes, and all columns: one that is left out is NULL. Of
        rows with one key the last counts.

        >>> db.execute("CREATE TABLE k (a INT PRIMARY KEY, b INT)")
        >>> db.upsert("k", [(1, 2), (3, 4)])
        2
        >>> db.upsert("k", [(1, 5)])
        1
        >>> db.query("SELECT * FROM k ORDER BY a").to_pylist()
        [{'a': 1, 'b': 5}, {'a': 3, 'b': 4}]
        """
        return self._writes.upsert(relation, rows)

    @overload
    def apply(self, changes: Iterable[Change], *, wait: Literal[True] = True) -> int: ...

    @overload
    def apply(self, changes: Iterable[Change], *, wait: Literal[False]) -> Future[int]: ...

    def apply(self, changes: Iterable[Change], *, wait: bool = True) -> int | Future[int]:
        """Apply changes to any relations as one atomic batch; the number of rows in it.

        Without `wait` it gives a future, as `insert` does.

        >>> db.apply([viewlet.Change("r", (1, 2), -1), viewlet.Change("r", [(1, 20), (2, 5)])])
        3
        >>> db.view("v")[1].total
        23
        """
        return self._writes.apply(changes) if wait else self._writes.leave(changes)

    def apply_spark(
        self,
        changes: Iterable[tuple[str, DataFrame] | tuple[str, DataFrame, int | str]],
        *,
        batch_id: tuple[str, int] | None = None,
    ) -> FrameBatch:
        """Apply the rows of DataFrames to relations as one atomic batch, on the Spark engine.

        Rows are inserted; (relation, frame, -1) deletes them, (relation, frame, "w") takes the
        weight of each from column w. They never pass the driver. `batch_id` is a name and a number
        that grows: a batch that is not beyond the last of that name was applied already.

        >>> frame = spark.createDataFrame([(7, 1), (7, 2)], "a INT, b INT")
        >>> batch = db.apply_spark([("r", frame)], batch_id=("load", 1))
        >>> db.view("v")[7].total, db.apply_spark([("r", frame)], batch_id=("load", 1)).is_repeated
        (3, True)
        """
        from viewlet.engine.partitions.batch_ids import batch_id_of

        return self._writes.apply_frames(changes, batch_id_of(batch_id))

    def repartition(self) -> None:
        """Move maps to where they are cheapest now, by the sizes of maps and tables (Spark).

        `explain(view, stage="distributed")` says where they are, and what else was considered.

        >>> db.repartition()
        """
        with self._state.lock:
            repartition(self._state)
            self._checkpoints.follow_definitions()

    def sink(
        self, relation: str, weight: int | str = 1, *, op: str | None = None
    ) -> Callable[[DataFrame, int], FrameBatch]:
        """A function for Structured Streaming's foreachBatch that applies micro-batches.

        Each is applied once: one that Spark repeats after a failure is known by its number.
        `weight` is 1 to insert, -1 to delete, or the column that has each row's; `op` the column
        that says what was done: insert, update_preimage, update_postimage, delete, or Debezium's
        c, r, u, d.

        >>> frames = spark.readStream.schema("a INT, b INT").csv(folder)
        >>> frames.writeStream.foreachBatch(db.sink("r")).start().stop()
        """
        return self._writes.sink(relation, weight, op)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Changes inside are one atomic batch, applied at the end; an error takes all of them back.

        Reads inside, of this thread, see its changes in tables; views and subscribers change at
        the end. BEGIN, COMMIT and ROLLBACK do the same in SQL.

        >>> with db.transaction():
        ...     db.insert("r", (3, 4))
        ...     db.execute("UPDATE r SET b = b + 1 WHERE a = 3")
        1
        1
        >>> db.view("v")[3].total
        5
        """
        self._executor.begin()
        try:
            yield
        except BaseException:
            self._executor.end(TransactionVerb.ROLLBACK)
            raise
        self._executor.end(TransactionVerb.COMMIT)

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(
        self, view: str, callback: Callback | None = None, *, snapshot: bool = False
    ) -> Subscription:
        """Call `callback(batch)` after every batch that changed the view.

        `batch.inserted` and `batch.deleted` are sequences of rows. If the callback raises, the
        batch is undone. It may read the database and may not change it. Without a callback,
        `next()` of the subscription is a future of the next batch. With `snapshot` the first batch
        is the view as it is, with its version; every later change follows it, none is in both.

        >>> subscription = db.subscribe("v", lambda batch: print(batch.inserted))
        >>> db.insert("r", (2, 8))
        [V(a=2, total=8)]
        1
        >>> subscription.close()
        """
        called = None if callback is None else callback_of(callback)
        return self._subscribers.add(view, called, snapshot=snapshot)

    def watch(
        self,
        *views: str,
        snapshot: bool = False,
        capacity: int | None = None,
        full: Policy = "wait",
    ) -> Watch:
        """For asyncio: the batches that change any of the views, from now on.

        With `snapshot` the first batch of each view is the view as it is, all of one version.
        `capacity` is how many batches may wait to be read. When they are, `full` says what happens:
        writers "wait" (in another thread than the reader's), or
        further batches "coalesce" to the net change of each view, or the queue will "drop" them,
        count them in `missed`, and say in the next batch how many there were.

        >>> async for batch in db.watch("v", "w"):
        ...     print(batch.view, batch.inserted)
        """
        queue = BatchQueue(capacity, full)
        watch = Watch(lambda put: self._subscribers.listen(views, put, snapshot), queue)
        if queue.holds_writers:
            self._subscribers.hold_writers(queue)
        return watch

    def _listen(self, view: str, listener: Callback, *, snapshot: bool = False) -> Subscription:
        return self._subscribers.add(view, None, listener, snapshot=snapshot)

    # --- reads ------------------------------------------------------------------------------------

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables and streams, in the order of their making.

        >>> db.tables
        ('r',)
        """
        return tuple(self._state.definitions.relations)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views, in the order of their making.

        >>> db.views
        ('v',)
        """
        return tuple(self._state.definitions.views)

    @property
    def clock(self) -> DatabaseClock:
        """The time that NOW() is in views: the machine's, until it is set.

        >>> db.clock.set("2026-01-01 12:00:00")
        """
        return self._state.clock

    def schema(self, name: str) -> RelationSchema:
        """Kind, columns, key and SQL of a table, stream or view.

        >>> [(column.name, column.type) for column in db.schema("v").columns]
        [('a', 'INTEGER'), ('total', 'BIGINT')]
        """
        return describe(self._state.definitions, name_of(name, "table or view"))

    def view(self, name: str) -> View:
        """A live, read-only mapping of a view's rows.

        >>> db.view("v")[1]
        V(a=1, total=5)
        """
        return self._reads.view(name)

    def changes(self, view: str) -> Any:
        """The last batch's changes to a view: its columns and `_weight`, negative for rows gone.

        A DataFrame on Spark, an Arrow table elsewhere.

        >>> db.insert("r", (1, 10))
        1
        >>> db.changes("v").to_pylist()
        [{'a': 1, 'total': 5, '_weight': -1}, {'a': 1, 'total': 15, '_weight': 1}]
        """
        return self._reads.changes(view)

    def query(
        self,
        text: str,
        parameters: Any = None,
        *,
        timeout: float | None = None,
        max_rows: int | None = None,
    ) -> pa.Table:
        """One SELECT over tables and views, all as they are after the last batch.

        It reads nothing else, and files only where `connect` was told so. One that takes longer
        than `timeout` seconds or gives more than `max_rows` rows is an error.

        >>> db.query("SELECT MAX(total) AS most FROM v").to_pylist()
        [{'most': 5}]
        >>> db.query("SELECT a FROM v WHERE total > :low", {"low": 4}).to_pylist()
        [{'a': 1}]
        """
        return self._reads.query(text, parameters, QueryLimits(timeout, max_rows))

    def refresh(self, view: str) -> None:
        """Make a view current now, as REFRESH MATERIALIZED VIEW does; an eager one is.

        >>> db.refresh("v")
        """
        self._executor.refresh(view)

    def expect(self, relation: str, rows: float, within: float | str | None = None) -> None:
        """Say how many rows a relation will bring, within so many seconds: `"60 s"`, or 60.

        Intermittent views keep what these rows will need. Where it does not come true, a refresh
        takes longer; answers do not depend on it.

        >>> db.expect("r", rows=9_000, within="60 s")
        """
        self._executor.expect(relation, rows, within)

    def complete(self, relation: str) -> None:
        """No more rows of a relation will come, as ALTER TABLE r COMPLETE: changes of it are
        errors from now on, and what only its changes need is freed.
        """
        self._executor.complete(relation)

    def explain(self, view: str, stage: Stage = "program", *, format: Format = "text") -> str:
        """A view at one stage: sql, calculus, program, and those of the engine below.

        `format="svg"` draws the program, and a notebook shows the picture; "json" is for tools.

        >>> print(db.explain("v", stage="sql"))
        CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a
        """
        return self._reads.explain(view, stage, format)

    def stats(self, view: str) -> Stats:
        """Maps, rows, bytes and refresh times of a view.

        >>> db.stats("v").rows
        1
        """
        return self._reads.stats(view)

    def __dir__(self) -> list[str]:
        return public_names(self)

    def __repr__(self) -> str:
        definitions = self._state.definitions
        names = ", ".join([*definitions.relations, *definitions.views])
        return f"<Database on {self._state.engine_name}: {names}>"

    def _repr_html_(self) -> str:
        with self._state.lock:
            return database_html(self._state.engine_name, self._state.definitions.overview())

    # --- life -------------------------------------------------------------------------------------

    def checkpoint(self, directory: str | PathLike[str] | None = None) -> str:
        """Save everything to a directory: this one, or the one given to `connect`.

        >>> db.checkpoint(folder).endswith("checkpoint-1")
        True
        >>> viewlet.restore(folder).view("v")[1].total
        5
        """
        return self._checkpoints.write(directory)

    def _restore(self, root: str) -> None:
        self._checkpoints.restore(root)
        self._ticks.opened()

    def _open(self, directory: DurableDirectory, level: Synchronous) -> None:
        directory.open(self, level)
        self._ticks.opened()
        self._directory = directory
        self._checkpoints.write_own = lambda: directory.write_snapshot(self)

    def close(self) -> None:
        """Let go of the engine; the database cannot be used afterwards."""
        if self._state.is_closed:
            return
        self._writes.shared.settle()
        with self._state.lock:
            if self._directory is not None:
                journal = self._state.journal
                self._directory.close(journal.log if journal is not None else None)
            self._reads.close()
            self._subscribers.clear()
            self._maintenance.close()
            self._ticks.stop()
            self._state.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
