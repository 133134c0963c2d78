"""What every engine can do: run one trigger program, batch by atomic batch, and keep tables.

An engine owns the state of one program and the rows of all TABLEs; streams are not kept. What it
is given and what it gives are columns in the representation of schema.py
(engine.values.batching.Batch), already converted and checked against their types.

Contract
    install   replaces program and tables; fills new maps from the tables' own rows, and keeps
              what streams have brought to maps that the old program had too; a table that was
              there keeps its rows, one that is no longer named loses them; on an error everything
              stays as it was
    apply     all of a batch or, with an exception, nothing of it. Rows need not be net: +1 and -1
              of one row are nothing, and of two rows with one key they are an update. For a
              TABLE, a delete of a row that is not there and a second row with a primary key are
              DataErrors that name the row
    undo      takes back the last applied batch, once
    changes   what the last batch did to the rows that a user sees, ORDER BY and LIMIT included
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from viewlet.calculus.expr import (
    Expr,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    children,
    cond,
    product_of,
    rebuild,
    relations,
    sum_over,
    transform,
)
from viewlet.calculus.query import Query, sort_rows
from viewlet.calculus.rewrite import canonical
from viewlet.calculus.scope import all_names, outputs
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.intake import Intake
from viewlet.errors import StateError
from viewlet.functions import Apply, Const
from viewlet.program.ir import Map, Program
from viewlet.schema import Relation, Scalar

if TYPE_CHECKING:
    from viewlet.distributed.location import Location

Row = tuple[Scalar, ...]
Weighted = list[tuple[Row, int]]
"""Rows with multiplicities; negative for rows that went."""

Ended = Mapping[str, str]
"""The epochs of streams that are over, as programs call them, each with its stream's name."""


@dataclass(frozen=True)
class MapSize:
    """How much a state map holds."""

    records: int
    bytes: int


class Engine(Protocol):
    """What every engine does: take a program, apply batches, answer from its views."""

    @property
    def program(self) -> Program: ...

    def install(self, program: Program, tables: Sequence[Relation], ended: Ended) -> None:
        """`ended` are the streams of which rows have come already; other streams are empty."""
        ...

    def intake(self, names: Sequence[str]) -> Intake:
        """What it wants of the rows that these relations are given, until the next `install`."""
        ...

    def apply(self, changes: Sequence[tuple[str, Batch]]) -> None: ...

    def apply_row(self, name: str, row: Row, weight: int) -> None:
        """The same as `apply` of one encoded row, for engines to make quick."""
        ...

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
    def places(self) -> Mapping[str, Location]:
        """Where it keeps each map."""
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


def visible_rows(query: Query, found: Weighted) -> list[Row]:
    """Rows with multiplicities -> what the user reads."""
    return sort_rows(query, found)


def difference(new: Iterable[Row], old: Iterable[Row]) -> Weighted:
    """new - old as bags; rows that went first, so that a mirror never holds a key twice."""
    total = Counter(new)
    total.subtract(Counter(old))
    return sorted(((row, n) for row, n in total.items() if n), key=lambda item: item[1] > 0)


# --- moving from one program to the next --------------------------------------------------------


class Held:
    """The columns of a program by what they hold, whatever their variables are called."""

    def __init__(self, program: Program) -> None:
        self._columns: dict[tuple[str, frozenset[str]], tuple[Map, str, tuple[str, ...]]] = {}
        for map in program.maps:
            for column in map.columns:
                if column.definition is not None:
                    text, keys = _canonical(column.definition, map.key_names)
                    self._columns.setdefault((text, frozenset(keys)), (map, column.name, keys))

    def find(self, expr: Expr, keys: tuple[str, ...]) -> MapRef | None:
        """expr over keys -> the column that holds it, with these keys in the map's order."""
        text, numbered = _canonical(expr, keys)
        found = self._columns.get((text, frozenset(numbered)))
        if found is None:
            return None
        map, column, order = found
        names = dict(zip(numbered, keys, strict=True))
        return MapRef(map.name, column, tuple(names[number] for number in order))

    def rewrite(self, expr: Expr) -> Expr:
        """Put columns in the place of the largest parts that they hold."""
        whole = self.find(expr, tuple(sorted(outputs(expr)))) if relations(expr) else None
        if whole is not None:
            return whole
        if isinstance(expr, Sum) and isinstance(expr.body, Mul):
            expr = sum_over(expr.keys, product_of(*_with_own_sums(expr.body.factors, expr.keys)))
        parts = children(expr)
        return rebuild(expr, (self.rewrite(part) for part in parts)) if parts else expr


def _with_own_sums(factors: tuple[Expr, ...], keys: tuple[str, ...]) -> Iterator[Expr]:
    """Sum[k](R(k, x) * Q) -> Sum[k](Sum[k](R(k, x)) * Q)  where x is R's alone."""
    for index, factor in enumerate(factors):
        others = factors[:index] + factors[index + 1 :]
        shared = frozenset(keys).union(*(all_names(other) for other in others))
        alone = isinstance(factor, Rel) and outputs(factor) - shared
        yield sum_over(outputs(factor) & shared, factor) if alone else factor


def _canonical(expr: Expr, keys: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    form = canonical(transform(expr, _as_condition), keys)
    return form.text, tuple(form.names.get(key, key) for key in keys)


def _as_condition(expr: Expr) -> Expr:
    """[case(c, 1, 0)] -> {c}: the same weight, written so that loops can be shared."""
    scalar = expr.scalar if isinstance(expr, Value) else None
    if isinstance(scalar, Apply) and scalar.function == "case" and len(scalar.arguments) == 3:
        test, then, otherwise = scalar.arguments
        if (then, otherwise) == (Const(1), Const(0)):
            return cond(test)
    return expr


def from_old_maps(held: Held, definition: Expr, keys: tuple[str, ...], ended: Ended) -> Expr | None:
    """How to fill a column that reads streams of which rows have come; None if it reads none.

    A stream is not kept: what it brought lives in the maps of the old program only. A definition
    that cannot be put in terms of these is a StateError.
    """
    if not relations(definition) & ended.keys():
        return None
    found = held.find(definition, keys) or held.rewrite(definition)
    lost = relations(found) & ended.keys()
    if lost:
        shown = ", ".join(sorted({ended[name] for name in lost}))
        raise StateError(
            f"rows of stream {shown} have passed and were not kept",
            hint="create the view before the stream's first rows, or declare a TABLE",
        )
    return found


def check_rebuildable(program: Program, ended: Ended, directory: str) -> None:
    """StateError if saved maps cannot be read and rows of streams, which nobody kept, are needed.

    Maps over tables alone follow from the tables' rows, which every version reads.
    """
    lost = {
        ended[name]
        for map in program.maps
        for column in map.columns
        if column.definition is not None
        for name in relations(column.definition) & ended.keys()
    }
    if lost:
        raise StateError(
            f"the maps in {directory} are of another version of viewlet, and only they have what "
            f"came of the streams {', '.join(sorted(lost))}",
            hint="restore with the version that wrote it, or drop the views over these streams "
            "there and save again; tables can always be read",
        )
