"""What the parts of a database share: engine, definitions, version, and the one lock.

Every public call holds the lock, so a reader in another thread sees the state between batches,
never inside one. `execute`, `writes`, `reads` and `checkpoints` each do one thing to it. A writer
that finds it held leaves what it has, and whoever lets go of the lock sees to that.
"""

from __future__ import annotations

import threading
from _thread import RLock
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from viewlet.calculus.query import Query
from viewlet.engine.contract import Engine
from viewlet.errors import StateError
from viewlet.functions.arrival_time import ArrivalTime
from viewlet.interfaces.batch_history import BatchHistory
from viewlet.interfaces.constraint_checks import ConstraintChecks
from viewlet.interfaces.database_clock import DatabaseClock
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.journal import DatabaseJournal
from viewlet.interfaces.rates import RateMeter
from viewlet.interfaces.routes import RelationRoute
from viewlet.interfaces.stats import Timings
from viewlet.interfaces.transaction import OpenTransaction
from viewlet.interfaces.upkeep import ViewUpkeep
from viewlet.interfaces.valid_rows import TimedRows
from viewlet.interfaces.view_modes import ViewMode
from viewlet.planner.frontiers import Frontier
from viewlet.program.ir import Program
from viewlet.schema import Catalog

Compiler = Callable[..., Program]
"""Queries over a catalog -> the program that maintains them all; `frontiers` where they differ."""


class Lock(Protocol):
    """What a thread holds that uses the engine; once or several times over."""

    freed: Callable[[], None]

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...

    def is_mine(self) -> bool:
        """Whether this thread has it."""
        ...

    def acquire(self, blocking: bool = True) -> bool:
        """False if another thread has it, and one would not wait."""
        ...

    def release(self) -> None:
        """Once for every time that it was acquired."""
        ...


class DatabaseLock(RLock):  # type: ignore[misc]  # it is final for typeshed alone
    """Whoever lets go of it with `with` says so to `freed`; who releases it sees to that itself."""

    freed: Callable[[], None] = staticmethod(lambda: None)

    def is_mine(self) -> bool:
        """Whether this thread has it."""
        owned: bool = self._is_owned()  # type: ignore[attr-defined]
        return owned

    def __exit__(self, *_: object) -> None:
        self.release()
        self.freed()


class DatabaseState:
    """An engine, and the definitions of what it keeps.

    `version` counts batches and definitions: what was read at a version is current until the next.
    """

    def __init__(self, engine: Engine, engine_name: str, compiler: Compiler) -> None:
        self.engine = engine
        self.engine_name = engine_name
        self.definitions = Definitions()
        self.constraints = ConstraintChecks(engine)
        self.clock = DatabaseClock()
        self.timed = TimedRows(engine, self.clock)
        self.transactions: dict[int, OpenTransaction] = {}
        """By the thread that began each."""
        self.routes: dict[str, RelationRoute] = {}
        self.timings: dict[str, Timings] = {}
        self.meters: dict[str, RateMeter] = {}
        self.modes: dict[str, ViewMode] = {}
        self.upkeeps: dict[str, ViewUpkeep] = {}
        self.version = 0
        self.is_delivering = False
        self.journal: DatabaseJournal | None = None  # of a database on disk, once it is open
        self.history: BatchHistory | None = None  # once somebody watches
        self.lock: Lock = DatabaseLock()
        self._compiler = compiler

    @property
    def transaction(self) -> OpenTransaction | None:
        """That of this thread, if it has begun one."""
        return self.transactions.get(threading.get_ident()) if self.transactions else None

    def refuse_in_transaction(self, what: str) -> None:
        """What cannot be part of a batch."""
        if self.transaction is not None:
            raise StateError(
                f"{what} cannot be part of a transaction", hint="COMMIT or ROLLBACK first"
            )

    def compile(
        self, catalog: Catalog, queries: Sequence[Query], frontiers: Mapping[str, Frontier]
    ) -> Program:
        """The program that maintains all of these queries."""
        if not frontiers:
            return self._compiler(catalog, queries)
        return self._compiler(catalog, queries, frontiers=frontiers)

    def define(self, definitions: Definitions) -> None:
        """Believe in definitions that the engine has taken."""
        self.definitions = definitions
        for made in definitions.relations.values():
            for column in made.relation.columns:
                if isinstance(column.default, ArrivalTime):
                    column.default.now = self.clock.now
        self.constraints.define(definitions.relations)
        self.timings = {view: self.timings.get(view, Timings()) for view in definitions.views}
        self.meters = {
            view: self.meters.get(view, RateMeter(timings))
            for view, timings in self.timings.items()
        }
        self.routes = {
            name: RelationRoute(statement.relation, definitions, self.timings, self.upkeeps)
            for name, statement in definitions.relations.items()
        }
        for table in definitions.internal():
            self.routes[table.name] = RelationRoute(table, definitions, self.timings, self.upkeeps)
        self.timed.define(definitions)

    def undo(self) -> None:
        """Take back the batch that was applied last, in the engine and in what waits for reads."""
        self.engine.undo()
        for upkeep in self.upkeeps.values():
            upkeep.undo(self.version)
        self.constraints.undo(self.version)
        self.version += 1

    def refuse_while_delivering(self) -> None:
        """A callback reads the batch that it is called in: changes have to wait."""
        if self.is_delivering:
            raise StateError(
                "a subscriber may not change the database that calls it",
                hint="put the change on a queue and apply it after the batch",
            )

    def has_closed(self) -> bool:
        """The same, asked again: another thread may have closed it since."""
        return self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return isinstance(self.lock, _Closed)

    def close(self) -> None:
        """Let go of the engine; whoever takes the lock afterwards gets a StateError."""
        self.engine.close()
        self.constraints.close()
        self.lock = _Closed()


def closed() -> StateError:
    """What whoever uses a closed database gets."""
    return StateError(
        "the database is closed", hint="use it before close(), or connect() to a new one"
    )


class _Closed:
    """Instead of a closed database's lock: whoever would use the engine is refused."""

    freed: Callable[[], None] = staticmethod(lambda: None)

    def __enter__(self) -> None:
        self.acquire()

    def acquire(self, blocking: bool = True) -> bool:
        """It cannot be had any more."""
        raise closed()

    def is_mine(self) -> bool:
        """Nobody has it."""
        return False

    def release(self) -> None:
        """Never acquired."""

    def __exit__(self, *_: object) -> None:
        """Never entered."""
