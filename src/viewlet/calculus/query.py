"""A view as the calculus sees it: what is kept for each key, and how a row is made from it.

    view(keys) keeps  components c1, c2, ... : weighted relations over the keys
    a record is there while its `count` component is not 0
    a row is  the columns' scalars over keys, components and lets, where `having` is TRUE

Three kinds of views differ only in how often a record counts:

    BAG    one row per unit of `count`          SELECT a, b FROM r
    GROUP  one row per record                   SELECT a, SUM(b) FROM r GROUP BY a, SELECT DISTINCT
    TOTAL  exactly one row, there or not        SELECT SUM(b) FROM r
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from viewlet.calculus.database import DefinedMaps
from viewlet.calculus.evaluate import Database, evaluate, rows
from viewlet.calculus.expr import ONE, Expr, NestedValue, product_of, with_fields
from viewlet.calculus.ring import Key, Weight, multiplicity, to_value
from viewlet.errors import RangeError
from viewlet.functions import ScalarExpr
from viewlet.functions import evaluate as evaluate_scalar
from viewlet.schema import Scalar, Type, ordering

COUNT = "count"
"""The component that says how many rows stand behind a record."""


class ViewKind(Enum):
    """What a row stands for: itself (bag), a group, or everything (total, always one row)."""

    BAG = "bag"
    GROUP = "group"
    TOTAL = "total"


class Plan(Enum):
    """How a view is maintained, by how far deltas are kept as maps.

    recursive     deltas of deltas, down to the batch: thesis chapter 3
    tree          along view trees
    classical     recursion of depth 1: one delta, joined from what is kept of each relation
    reevaluated   recursion of depth 0: the query itself, over the rows of the relations
    """

    RECURSIVE = "recursive"
    TREE = "tree"
    CLASSICAL = "classical"
    REEVALUATED = "reevaluated"


@dataclass(frozen=True)
class OutputColumn:
    """A column that a user reads: a scalar over keys, components and lets."""

    name: str
    type: Type
    nullable: bool
    scalar: ScalarExpr


@dataclass(frozen=True)
class OrderItem:
    """ORDER BY one column of `row_columns`, by its position."""

    column: int
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class InnerView:
    """Rows that the expressions of a view read as a map, name[keys].count.

    A join of joins, multiplied out, has a product for every combination of their parts; over an
    inner view it has a few. Windows have two: the rows that they are over, and those rows with the
    windows' values. The latter are `made_from` the former, and a batch that changes the former by
    `change` replaces the rows in `touched`, an expression over the keys and `change`. `recomputed`
    says why these may be many more than those whose values change.
    """

    name: str
    keys: tuple[str, ...]
    body: Expr
    made_from: str | None = None
    change: str | None = None
    touched: Expr = ONE
    recomputed: str = ""


@dataclass(frozen=True)
class Query:
    """A view's definition after the frontend.

    `components` has COUNT first. `lets` are lifts over the keys which are computed when a row is
    read, for subqueries in HAVING and in the select list of a grouped query. `inner` are views that
    the expressions read, each after those that it reads itself. `plan` is what the user asked for.
    `sorts` are values that ORDER BY names and nobody selects: rows have them until they are sorted.
    `group` are the variables that GROUP BY names where other keys follow from them, by a declared
    key or as windows: the values of these alone tell rows apart.
    """

    name: str
    kind: ViewKind
    keys: tuple[str, ...]
    components: tuple[tuple[str, Expr], ...]
    columns: tuple[OutputColumn, ...]
    lets: tuple[NestedValue, ...] = ()
    having: ScalarExpr | None = None
    order: tuple[OrderItem, ...] = ()
    limit: int | None = None
    offset: int = 0
    inner: tuple[InnerView, ...] = ()
    plan: Plan | None = None
    sorts: tuple[OutputColumn, ...] = ()
    group: tuple[str, ...] | None = None

    @property
    def row_columns(self) -> tuple[OutputColumn, ...]:
        """The columns of a row before ORDER BY and LIMIT."""
        return (*self.columns, *self.sorts)


def expressions(query: Query) -> Iterator[Expr]:
    """Everything that a query reads relations in."""
    yield from (view.body for view in query.inner)
    yield from (component for _, component in query.components)
    yield from query.lets


def with_expressions(query: Query, rule: Callable[[Expr], Expr]) -> Query:
    """The query with a rule applied to all of its expressions, the lets' bodies instead of lets."""
    return replace(
        query,
        inner=tuple(
            replace(view, body=rule(view.body), touched=rule(view.touched)) for view in query.inner
        ),
        components=tuple((name, rule(component)) for name, component in query.components),
        lets=tuple(with_fields(let, part=rule) for let in query.lets),
    )


def make_rows(
    query: Query,
    records: Iterator[tuple[Key, Mapping[str, Weight]]],
    database: Database,
) -> Iterator[tuple[tuple[Scalar, ...], int]]:
    """The view's rows with their multiplicities, before ORDER BY and LIMIT.

    `records` gives each key with its components' weights; `database` answers the lets.
    """
    for key, weights in records:
        environment: dict[str, Scalar] = dict(zip(query.keys, key, strict=True))
        for name, _ in query.components:
            environment[name] = to_value(weights.get(name, 0))
        if query.lets:
            ((full, _),) = rows(product_of(*query.lets), database, environment)
            environment = dict(full)
        if query.having is not None and _value(query.having, environment) is not True:
            continue
        row = tuple(_value(column.scalar, environment) for column in query.row_columns)
        count = multiplicity(weights.get(COUNT, 0))
        yield row, count if query.kind is ViewKind.BAG else 1


def _value(scalar: ScalarExpr, environment: Mapping[str, Scalar]) -> Scalar:
    """Sums may have more digits than rows have."""
    return evaluate_scalar(scalar, environment, is_wide=True)


def evaluate_query(query: Query, database: Database) -> list[tuple[tuple[Scalar, ...], int]]:
    """The meaning of a view: its rows and multiplicities, recomputed from the relations."""
    database = DefinedMaps(database, {view.name: (view.keys, view.body) for view in query.inner})
    records: dict[Key, dict[str, Weight]] = {}
    for name, component in query.components:
        for key, weight in evaluate(component, query.keys, database).items():
            records.setdefault(key, {})[name] = weight
    if query.kind is ViewKind.TOTAL:
        records.setdefault((), {})
    else:
        records = {key: weights for key, weights in records.items() if weights.get(COUNT, 0)}
    return list(make_rows(query, iter(records.items()), database))


def sort_rows(query: Query, rows: list[tuple[tuple[Scalar, ...], int]]) -> list[tuple[Scalar, ...]]:
    """Rows with multiplicities -> plain rows, ordered and cut as ORDER BY and LIMIT say."""
    for item in reversed(query.order):
        non_null = [entry for entry in rows if entry[0][item.column] is not None]
        nulls = [entry for entry in rows if entry[0][item.column] is None]
        non_null.sort(key=partial(_order_of, item.column), reverse=item.descending)
        rows = nulls + non_null if item.nulls_first else non_null + nulls
    end = None if query.limit is None else query.offset + query.limit
    return [row[: len(query.columns)] for row in repeated(rows, end)[query.offset :]]


def _order_of(column: int, entry: tuple[tuple[Scalar, ...], int]) -> Any:
    return ordering(entry[0][column])


MOST_COPIES = 2**26
"""Of rows that are there several times: as many as a process can list beside its data."""


def repeated(
    rows: Iterable[tuple[tuple[Scalar, ...], int]], end: int | None = None
) -> list[tuple[Scalar, ...]]:
    """Each row as often as its count says, the first `end` of them."""
    listed = list(rows)
    if end is not None:
        listed = [(row, min(count, end)) for row, count in listed]
    check_copies(sum(count - 1 for _, count in listed))
    return [row for row, count in listed for _ in range(count)][:end]


def check_copies(number: float) -> None:
    """RangeError where rows are there so often that they cannot be listed one by one."""
    if number > MOST_COPIES:
        raise RangeError(
            f"equal rows are there {number:.0f} times more often than once, "
            f"and at most {MOST_COPIES} of such can be read",
            hint="count them in a view instead: SELECT ..., COUNT(*) AS n ... GROUP BY ...",
        )
