"""What every engine can do: run one trigger program, batch by atomic batch, and keep tables.

An engine owns the state of one program and the rows of all TABLEs; streams are not kept. What it
is given and what it gives are columns in the representation of schema.py
(engine.values.batching.Batch), already converted and checked against their types.

Contract
    install   replaces program and tables, as program/fill_plan.py says: what the old program kept
              is moved, other maps are filled from the tables' rows; a table that was there keeps
              its rows, one that is no longer named loses them; one of the `reshapes` has them with
              other columns, and maps over it stay where they say the same of it; on an error
              everything stays as it was
    apply     all of a batch or, with an exception, nothing of it. Rows need not be net: +1 and -1
              of one row are nothing, and of two rows with one key they are an update. For a
              TABLE, a delete of a row that is not there and a second row with a primary key are
              DataErrors that name the row
    refresh   what a read of a view does first, in a state of its own: other views' changes, and
              what undo takes back of them, stay. Changes are those to relations that this view
              alone reads. With an exception the view is as it was
    undo      takes back the last applied batch, once, and refreshes that came after it
    changes   what the last batch did to the rows that a user sees, ORDER BY and LIMIT included;
              of a view that is refreshed, what the last refresh did
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from viewlet.calculus.query import Query, sort_rows
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.intake import Intake
from viewlet.program.fill_plan import Ended
from viewlet.program.ir import Program
from viewlet.program.reshape import NO_RESHAPES, Reshapes
from viewlet.schema import Relation, Scalar
from viewlet.storage.columns import Array

if TYPE_CHECKING:
    from viewlet.distributed.location import Location

Row = tuple[Scalar, ...]
Weighted = list[tuple[Row, int]]
"""Rows with multiplicities; negative for rows that went."""


@dataclass(frozen=True)
class MapSize:
    """How much a state map holds."""

    records: int
    bytes: int


@dataclass(frozen=True)
class LeftOut:
    """What a program that does without some maps leaves out, for those that must be there again.

    `whole` is the program with all of them. `changes` are the rows, by the names that programs give
    relations, that the tables have and the maps have not seen yet.
    """

    whole: Program | None = None
    changes: Mapping[str, Sequence[Batch]] = field(default_factory=dict)

    def pending(self, relation: str) -> Sequence[Batch]:
        """The changes of one relation that its maps have not seen."""
        return self.changes.get(relation, ())


NOTHING_LEFT_OUT = LeftOut()


class Engine(Protocol):
    """What every engine does: take a program, apply batches, answer from its views."""

    @property
    def program(self) -> Program: ...

    def install(
        self,
        program: Program,
        tables: Sequence[Relation],
        ended: Ended,
        left: LeftOut = NOTHING_LEFT_OUT,
        reshapes: Reshapes = NO_RESHAPES,
    ) -> None:
        """`ended` are the streams of which rows have come already; other streams are empty."""
        ...

    def intake(self, names: Sequence[str]) -> Intake:
        """What it wants of the rows that these relations are given, until the next `install`."""
        ...

    def plain(self, relation: Relation, batch: Batch) -> Batch:
        """A batch that was made for its intake, with the strings themselves."""
        ...

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None: ...

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        """The same as `apply` of one encoded row, for engines to make quick."""
        ...

    def refresh(self, view: str, changes: Sequence[tuple[str, Batch]]) -> None: ...

    def undo(self) -> None: ...

    def table(self, name: str) -> Batch:
        """The rows of a TABLE, with how often each occurs as its weight."""
        ...

    def rows(self, view: str) -> list[Row]:
        """The rows of a view as a user sees them, in its order."""
        ...

    def columns(self, view: str) -> Batch:
        """The same as columns; each row stands as often as it occurs, with weight 1.

        Integers that do not fit 64 bits come in an array of objects.
        """
        ...

    def changes(self, view: str) -> Weighted: ...

    def sizes(self) -> Mapping[str, MapSize]:
        """Of the program's maps."""
        ...

    def table_sizes(self) -> Mapping[str, MapSize]: ...

    def save(self, directory: str) -> None: ...

    def load(
        self,
        program: Program,
        tables: Sequence[Relation],
        directory: str,
        ended: Ended,
    ) -> None:
        """Take tables and state from what `save` wrote, and go on as after `install`."""
        ...

    def explain(self, view: str, stage: str) -> str:
        """The stages below `program`: distributed, kernels; UnsupportedError where it has none."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Distributing(Protocol):
    """An engine of many nodes."""

    @property
    def locations(self) -> Mapping[str, Location]:
        """Where it keeps each map."""
        ...

    @property
    def verdict(self) -> str:
        """Why they are there, in words."""
        ...


@runtime_checkable
class PlainRows(Protocol):
    """An engine with a short way for single rows of a user's own values."""

    def apply_plain_row(self, name: str, row: Sequence[Any], weight: int) -> bool:
        """`apply_row` of a row that is not encoded; False, and nothing done, if it must be."""
        ...


@runtime_checkable
class Finder(Protocol):
    """An engine that finds a view's record by its key, without reading the others."""

    def find(self, view: str, key: Row) -> list[Row]:
        """The rows of the record with these keys, in the query's order, LIMIT left aside."""
        ...


@runtime_checkable
class Counting(Protocol):
    """An engine that knows how many rows some views have, without reading them."""

    def count(self, view: str) -> int | None:
        """The rows that a user sees; None where they must be read to know."""
        ...


@runtime_checkable
class KeyFinder(Protocol):
    """An engine that finds a table's rows by their primary keys, without reading the others."""

    def by_key(self, name: str, batch: Batch) -> tuple[Array, Batch]:
        """Which rows of a batch have a key that the table has, and the rows that have it."""
        ...


@runtime_checkable
class StatementTimes(Protocol):
    """An engine that can say how the time of batches is shared among a trigger's statements."""

    def time_statements(self) -> None:
        """From now on, whatever program is installed, some batches are timed by statement."""
        ...

    def statement_seconds(self) -> Mapping[str, Sequence[float]]:
        """Of those batches, by relation and position in its trigger; of the program as it is."""
        ...


def visible_rows(query: Query, rows: Weighted) -> list[Row]:
    """Rows with multiplicities -> what the user reads."""
    return sort_rows(query, rows)


def shown(query: Query, rows: Weighted) -> Weighted:
    """Rows without the values that they are only ordered by."""
    if not query.sorts:
        return rows
    cut = [(row[: len(query.columns)], weight) for row, weight in rows]
    return weighted_difference(cut, ())


def difference(new: Iterable[Row], old: Iterable[Row]) -> Weighted:
    """new - old as bags; rows that went first, so that a mirror never holds a key twice."""
    return weighted_difference(Counter(new).items(), Counter(old).items())


def weighted_difference(new: Iterable[tuple[Row, int]], old: Iterable[tuple[Row, int]]) -> Weighted:
    """The same of rows with multiplicities, of which a row may have several."""
    total: Counter[Row] = Counter()
    for row, count in new:
        total[row] += count
    for row, count in old:
        total[row] -= count
    return sorted(((row, n) for row, n in total.items() if n), key=lambda item: item[1] > 0)
