"""What protocols may do to the database, within limits: read pages, run SQL, put rows in.

The database's calls block, so each runs in a thread of a pool, and the event loop goes on. A SELECT
alone has limits of time and rows; of other statements only those that read files are refused,
unless the server was told to allow them.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from viewlet.errors import DataError, StateError, UnsupportedError, ViewletError
from viewlet.frontend.parse import SourceText, split, statement_of
from viewlet.frontend.statements import (
    Copy,
    Delete,
    Insert,
    Inspect,
    Merge,
    Select,
    SetOption,
    Statement,
    Update,
)
from viewlet.interfaces.adhoc import QueryLimits
from viewlet.interfaces.arguments import sql_of
from viewlet.interfaces.cancellation import Cancellation
from viewlet.interfaces.database import Database
from viewlet.interfaces.dml import Change
from viewlet.server.settings import ServeSettings

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")


class BusyError(StateError):
    """The server has as much to do as it takes."""


THREADS = 16
STATEMENT_THREADS = 32
STREAMS = 512
"""Streams of batches that may be open at once; each has a thread, which waits with its client."""
CACHED_SNAPSHOTS = 16
CACHED_BYTES = 512 * 2**20


@dataclass(frozen=True)
class ViewPage:
    """Some rows of a view at a version, and how many it has."""

    version: int
    total: int
    offset: int
    rows: pa.Table


@dataclass(frozen=True)
class Outcome:
    """What a text of SQL did: its last statement, and a table or a number of rows, if any."""

    statement: Statement | None
    table: pa.Table | None = None
    count: int | None = None


class Gateway:
    """One database, as its protocols use it."""

    def __init__(self, database: Database, settings: ServeSettings) -> None:
        self.database = database
        self.settings = settings
        self.running = 0
        """Statements that run or wait for a thread."""
        self.streams = 0
        """Streams of batches that are open."""
        self.refused: Counter[str] = Counter()
        """Batches that were refused, by the views that would have seen them."""
        self._threads = ThreadPoolExecutor(THREADS, "viewlet-serve")
        self._statement_threads = ThreadPoolExecutor(STATEMENT_THREADS, "viewlet-sql")
        self._stream_threads = ThreadPoolExecutor(STREAMS, "viewlet-stream")
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()

    async def run(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """A short call that blocks, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def compute(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """A statement, in a thread that short calls do not wait for."""
        loop = asyncio.get_running_loop()
        self.running += 1
        try:
            return await loop.run_in_executor(self._statement_threads, call, *arguments)
        finally:
            self.running -= 1

    async def stream(self, call: Callable[..., Result], *arguments: Any) -> Result:
        """A call that waits for a client's bytes, in a thread that no other call waits for.

        A stream beyond the last thread is a BusyError at once: a silent client never holds it up.
        """
        if self.streams >= STREAMS:
            raise BusyError(
                f"{STREAMS} streams of batches are open, and that is the most",
                hint="send rows without ?batch=, or try again later",
            )
        loop = asyncio.get_running_loop()
        self.streams += 1
        try:
            return await loop.run_in_executor(self._stream_threads, call, *arguments)
        finally:
            self.streams -= 1

    def close(self) -> None:
        """Wait for what runs."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._statement_threads.shutdown(wait=True, cancel_futures=True)
        self._stream_threads.shutdown(wait=True, cancel_futures=True)

    # --- reading ----------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Of the database: every batch and definition makes a new one."""
        return self.database._state.version

    def snapshot(self, view: str, version: int | None = None) -> tuple[int, pa.Table]:
        """A view as it is, or as it was at a version that somebody has read lately."""
        current = self.version
        target = current if version is None else version
        cached = self._snapshots.get((view, target))
        if cached is not None:
            return target, cached
        if target != current:
            self.database.view(view)
            raise DataError(
                f"version {version} of view {view} is no longer there",
                hint="read it again from its first page, without a version",
            )
        latest, table = self.database._reads.snapshot(view)
        with self._lock:
            self._snapshots[view, latest] = table
            while len(self._snapshots) > 1 and (
                len(self._snapshots) > CACHED_SNAPSHOTS
                or sum(cached.nbytes for cached in self._snapshots.values()) > CACHED_BYTES
            ):
                self._snapshots.popitem(last=False)
        return latest, table

    def page(
        self, view: str, offset: int, limit: int, order: str | None, version: int | None
    ) -> ViewPage:
        """Rows [offset, offset + limit) of a view; by a column, or "-column" for descending."""
        latest, table = self.snapshot(view, version)
        total = table.num_rows
        if order is not None:
            column = order.removeprefix("-")
            if column not in table.column_names:
                raise DataError(
                    f"view {view} has no column {column}",
                    hint=f"columns are {', '.join(table.column_names)}",
                )
            table = table.sort_by([(column, "descending" if order != column else "ascending")])
        return ViewPage(latest, total, offset, table.slice(offset, limit))

    # --- SQL --------------------------------------------------------------------------------------

    def execute(self, text: str, cancellation: Cancellation | None = None) -> Outcome:
        """Run statements in order; the last one's outcome. Reading ends when it is canceled."""
        outcome = Outcome(None)
        statements = self.statements(text)
        if not any(isinstance(statement, Select) for statement, _ in statements):
            if not statements:
                return outcome
            with self._counting_refused(_changed_by(statements)):
                result = self.database.execute(text)  # views that follow each other are one program
            return Outcome(statements[-1][0], count=result if isinstance(result, int) else None)
        for statement, part in statements:
            if isinstance(statement, Select):
                outcome = Outcome(statement, self.query(part, cancellation))
            else:
                with self._counting_refused(_changed_by([(statement, part)])):
                    result = self.database.execute(part)
                outcome = Outcome(statement, count=result if isinstance(result, int) else None)
        return outcome

    def query(self, text: str, cancellation: Cancellation | None = None) -> pa.Table:
        """One SELECT within the limits, until somebody cancels it."""
        settings = self.settings
        limits = QueryLimits(settings.max_seconds, settings.max_rows, cancellation)
        return self.database._reads.query(text, None, limits)

    def statements(self, text: str) -> list[tuple[Statement, str]]:
        """The statements of a text, each with a text of its own in which it has the same place."""
        source = SourceText(sql_of(text))
        statements = []
        for tokens in split(source):
            statement = statement_of(source, tokens)
            self._check(statement)
            before = re.sub(r"[^\n]", " ", text[: tokens[0].start])
            statements.append((statement, before + text[tokens[0].start : tokens[-1].end + 1]))
        return statements

    def _check(self, statement: Statement) -> None:
        if isinstance(statement, Select | Inspect | SetOption):
            return
        self.check_writable()
        if isinstance(statement, Copy) and not self.settings.files:
            raise UnsupportedError(
                "COPY from a file of the server is not allowed",
                position=statement.position,
                hint="send the rows: COPY ... FROM STDIN, or POST /tables/NAME/rows",
            )

    def check_writable(self) -> None:
        """UnsupportedError if the server only reads."""
        if self.settings.read_only:
            raise UnsupportedError("this server is read-only", hint="it answers SELECT alone")

    # --- rows -------------------------------------------------------------------------------------

    def apply(self, changes: list[Change], *, deletes_cascade: bool = True) -> int:
        """Rows in or out, as one batch."""
        self.check_writable()
        with self._counting_refused({change.relation for change in changes}):
            if deletes_cascade:
                return self.database.apply(changes)
            return self.database._writes.apply_batch(changes, deletes_cascade=False)

    @contextmanager
    def _counting_refused(self, relations: set[str]) -> Iterator[None]:
        try:
            yield
        except ViewletError:
            routes = self.database._state.routes
            known = [routes[name] for name in relations if name in routes]
            self.refused.update({view for route in known for view in route.views})
            raise


def _changed_by(statements: list[tuple[Statement, str]]) -> set[str]:
    """The tables whose rows some statements change."""
    changing = (Insert, Update, Delete, Merge, Copy)
    return {each.table for each, _ in statements if isinstance(each, changing)}
