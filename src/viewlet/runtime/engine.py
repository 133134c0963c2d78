"""What every engine can do: run one trigger programme, batch by atomic batch.

An engine owns the state of one programme. The database above it checks rows against tables and
constraints, so an engine sees encoded rows (see schema.py) that are valid, and every number in it
is net: a row that comes and goes in one batch does not appear.

Contract
    install   replaces the programme; fills new maps from the tables, and keeps what streams have
              brought to maps that the old programme had too; on an error the old programme stays
    apply     all of a batch or, with an exception, nothing of it
    undo      takes back the last applied batch, once
    changes   what the last batch did to the rows that a user sees, ORDER BY and LIMIT included
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from viewlet.calculus.expr import Expr, relations
from viewlet.calculus.query import Query, sort_rows
from viewlet.calculus.ring import Gmr
from viewlet.errors import StateError
from viewlet.program.ir import Map, Program
from viewlet.schema import Scalar

Row = tuple[Scalar, ...]
Weighted = list[tuple[Row, int]]
"""Rows with multiplicities; negative for rows that went."""


@dataclass(frozen=True)
class MapSize:
    """How much a state map holds."""

    records: int
    bytes: int


class Engine(Protocol):
    @property
    def program(self) -> Program: ...

    def install(self, program: Program, tables: Mapping[str, Gmr]) -> None: ...

    def apply(self, changes: Sequence[tuple[str, Gmr]]) -> None: ...

    def undo(self) -> None: ...

    def rows(self, view: str) -> list[Row]:
        """The rows of a view as a user sees them, in its order."""
        ...

    def changes(self, view: str) -> Weighted: ...

    def sizes(self) -> Mapping[str, MapSize]: ...

    def save(self, directory: Path) -> None: ...

    def load(self, program: Program, directory: Path) -> None:
        """Take programme and state from what `save` wrote, instead of `install`."""
        ...

    def close(self) -> None: ...


def visible_rows(query: Query, found: Weighted) -> list[Row]:
    """Rows with multiplicities -> what the user reads."""
    return sort_rows(query, found)


def difference(new: Iterable[Row], old: Iterable[Row]) -> Weighted:
    """new - old as bags; rows that went first, so that a mirror never holds a key twice."""
    total = Counter(new)
    total.subtract(Counter(old))
    return sorted(((row, n) for row, n in total.items() if n), key=lambda item: item[1] > 0)


Place = tuple[str, str]
"""A value column: map, column."""


def carried(old: Program, new: Program) -> dict[Place, Place]:
    """The columns of `new` that read streams, each with the column of `old` that holds the same.

    A stream is not kept, so what it brought to a map lives in that map only and moves along when
    the programme changes. A column with no counterpart cannot be filled: StateError.
    """
    streams = frozenset(r.name for r in new.relations if r.is_stream)
    known = {r.name for r in old.relations}
    held = {
        definition_key(map, column.definition): (map.name, column.name)
        for map in old.state
        for column in map.columns
        if column.definition is not None
    }
    places: dict[Place, Place] = {}
    for map in new.state:
        for column in map.columns:
            if column.definition is None:
                continue
            lost = relations(column.definition) & streams & known
            if not lost:
                continue
            found = held.get(definition_key(map, column.definition))
            if found is None:
                raise StateError(
                    f"rows of stream {', '.join(sorted(lost))} have passed and were not kept",
                    hint="create the view before the stream's first rows, or declare a TABLE",
                )
            places[map.name, column.name] = found
    return places


def definition_key(map: Map, definition: Expr) -> tuple[tuple[str, ...], Expr]:
    """Two columns with equal keys and definitions hold the same weights."""
    return map.key_names, definition
