"""A view as its user holds it: live, read-only, a mapping from key to row.

    grouped view   key = its GROUP BY columns        v[key] = the row
    plain view     key = the whole row               v[key] = how often it occurs
    total          key = ()                          v[()]  = the one row

A key of one column is that column's value, without a tuple around it. Rows are named tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

from viewlet.calculus.expr import Binder, Cond, Exists, Sum, factors_of
from viewlet.calculus.query import COUNT, Query, ViewKind
from viewlet.calculus.scope import outputs
from viewlet.engine.contract import Row
from viewlet.engine.values.arrow import doubles, to_arrow
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.python_rows import python_rows
from viewlet.errors import DataError, ResolutionError
from viewlet.extras import require
from viewlet.functions import Ref
from viewlet.interfaces.render import SHOWN_ROWS, view_html
from viewlet.interfaces.row_classes import row_class
from viewlet.interfaces.row_objects import objects
from viewlet.schema import Column, Type, decode, encode

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame

Model = TypeVar("Model")

DecimalAs = Literal["object", "float64"]
"""What DECIMAL becomes in pandas."""


@dataclass(frozen=True)
class Reader:
    """How a view is read: the database's version, with the encoded rows at it as columns.

    `find` gives the rows with these encoded keys, in the order of the query's, `count` how many
    rows there are; None if the engine has to read all rows to know.
    """

    version: Callable[[], int]
    columns: Callable[[], tuple[int, Batch]]
    find: Callable[[Row], list[Row] | None]
    count: Callable[[], int | None]
    frame: Callable[[], DataFrame]
    as_of: Callable[[], datetime]


class View(Mapping[Any, Any]):
    """A view's rows by key, from `db.view`; the module's head says what a key is.

    Every read sees the state after some whole batch, the newest.

    >>> v = db.view("v")
    >>> len(v), list(v), v[1].total
    (1, [1], 5)
    >>> db.insert("r", (1, 10))
    1
    >>> v[1].total
    15
    """

    def __init__(self, query: Query, read: Reader) -> None:
        self._query = query
        self._read = read
        self._row = row_class(query)
        self._identity = identity(query)
        self._keys = point_keys(query, self._identity)
        self._version = -1
        self._records: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """As CREATE VIEW gave it."""
        return self._query.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(column.name for column in self._query.columns)

    @property
    def types(self) -> tuple[tuple[str, Type], ...]:
        """The columns with their SQL types."""
        return tuple((column.name, column.type) for column in self._query.columns)

    @property
    def as_of(self) -> datetime:
        """The last moment at which the view was what a read gives; now, if nothing waits for it.

        >>> db.view("v").as_of.tzname()
        'UTC'
        """
        return self._read.as_of()

    @overload
    def rows(self) -> list[Any]: ...

    @overload
    def rows(self, model: type[Model]) -> list[Model]: ...

    def rows(self, model: type[Model] | None = None) -> list[Any]:
        """All rows in the view's order, repeated as often as they occur.

        With a dataclass they are objects of it, its fields taken from the columns of their names;
        a value that a field's type does not have is an error.

        >>> db.view("v").rows()
        [V(a=1, total=5)]
        >>> @dataclasses.dataclass
        ... class Total:
        ...     a: int | None
        ...     total: int
        >>> db.view("v").rows(Total)
        [Total(a=1, total=5)]
        """
        rows = self._decoded_rows(self._read.columns()[1])
        return list(rows) if model is None else objects(model, self.columns, rows)

    def to_arrow(self) -> pa.Table:
        """
        >>> db.view("v").to_arrow().column_names
        ['a', 'total']
        """
        columns = [(column.name, column.type) for column in self._query.columns]
        return to_arrow(columns, self._read.columns()[1])

    def to_pandas(self, *, decimal: DecimalAs = "object") -> pandas.DataFrame:
        """pandas is the caller's to install.

        DECIMAL columns have exact objects of Python, or with decimal="float64" doubles, with which
        pandas computes and plots; NULL is NaN then.

        >>> db.view("v").to_pandas().shape
        (1, 2)
        """
        require("pandas", "to_pandas")
        if decimal not in get_args(DecimalAs):
            raise ResolutionError(
                f"there is no decimal={decimal!r}",
                hint=f"it is one of {', '.join(get_args(DecimalAs))}",
            )
        table = self.to_arrow()
        return (doubles(table) if decimal == "float64" else table).to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """polars is the caller's to install.

        >>> db.view("v").to_polars().shape
        (1, 2)
        """
        frame: polars.DataFrame = require("polars", "to_polars").from_arrow(self.to_arrow())
        return frame

    def to_spark(self) -> DataFrame:
        """A DataFrame, also known to Spark SQL under the view's name.

        >>> db.view("v").to_spark().count()
        1
        >>> spark.sql("SELECT MAX(a) AS a FROM v").first()
        Row(a=1)
        """
        frame = self._read.frame()
        frame.createOrReplaceTempView(self.name)
        return frame

    def __getitem__(self, key: Any) -> Any:
        if self._keys is not None and self._read.version() != self._version:
            row = self._read.find(self._encoded(key))
            if row is not None:
                if not row:
                    raise KeyError(key)
                return self._decoded(row[0])
        records = self._current()
        try:
            if isinstance(key, tuple) and len(key) == 1 and key not in records:
                (key,) = key
            return records[key]
        except Exception:  # no row has a key that cannot be hashed or compared
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._current()))

    # A batch makes a new dictionary and leaves this one as it is: whoever goes through it while
    # rows change sees one version, where Mapping's own methods would ask for keys that are gone.

    def keys(self) -> KeysView[Any]:
        """The keys of one version.

        >>> list(db.view("v").keys())
        [1]
        """
        return self._current().keys()

    def values(self) -> ValuesView[Any]:
        """The rows of one version.

        >>> list(db.view("v").values())
        [V(a=1, total=5)]
        """
        return self._current().values()

    def items(self) -> ItemsView[Any, Any]:
        """Keys and rows of one version.

        >>> dict(db.view("v").items())
        {1: V(a=1, total=5)}
        """
        return self._current().items()

    def __len__(self) -> int:
        if self._identity is not None and self._read.version() != self._version:
            count = self._read.count()
            return len(self._read.columns()[1]) if count is None else count
        return len(self._current())

    def __dir__(self) -> list[str]:
        return [n for n in object.__dir__(self) if not n.startswith("_") or n.endswith("__")]

    def __repr__(self) -> str:
        return f"<View {self.name}({', '.join(self.columns)}): {len(self)} rows>"

    def _repr_html_(self) -> str:
        columns = [(name, str(type)) for name, type in self.types]
        moment = moment_of(self, SHOWN_ROWS)
        return view_html(self.name, columns, moment.rows, moment.total)

    def _encoded(self, key: Any) -> Row:
        """A user's key as the engine knows it; KeyError if no row can have it."""
        assert self._keys is not None
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(self._keys):
            raise KeyError(key)
        try:
            return encoded_key(self._keys, values)
        except DataError:
            raise KeyError(key) from None

    def _decoded(self, row: Row) -> Any:
        types = (column.type for column in self._query.columns)
        return self._row(*map(decode, row, types))

    def _decoded_rows(self, batch: Batch) -> Iterator[Any]:
        return python_rows([c.type for c in self._query.columns], batch, self._row._make)

    def _current(self) -> dict[Any, Any]:
        version, batch = self._read.columns()
        if version != self._version:
            rows = self._decoded_rows(batch)
            if self._identity is None:
                self._records = dict(Counter(rows))
            elif len(self._identity) == 1:
                (position,) = self._identity
                self._records = {row[position]: row for row in rows}
            else:
                self._records = {self._key(row): row for row in rows}
            self._version = version
        return self._records

    def _key(self, row: Any) -> Any:
        assert self._identity is not None
        return tuple(row[position] for position in self._identity)


@dataclass(frozen=True)
class ViewMoment:
    """The first rows of a view at a version, how many there are, and where their key is."""

    version: int
    total: int
    rows: list[Any]
    key: tuple[int, ...]


def moment_of(view: View, limit: int) -> ViewMoment:
    """At most `limit` rows of a view as it is now."""
    version, batch = view._read.columns()
    rows = list(islice(view._decoded_rows(batch), limit))
    return ViewMoment(version, int(batch.weights.sum()), rows, view._identity or ())


def point_keys(
    query: Query, identity: tuple[int, ...] | None
) -> tuple[tuple[int, Column], ...] | None:
    """For each part of a key: its position in the query's keys, and the column that it is of.

    None where a key does not say which record to look at: MIN and MAX, LIMIT, rows without keys,
    records with more keys than GROUP BY names.
    """
    if query.kind is not ViewKind.GROUP or not identity or query.lets:
        return None
    if len(identity) < len(query.keys):
        return None
    if query.limit is not None or query.offset:
        return None
    keys = []
    for position in identity:
        column = query.columns[position]
        assert isinstance(column.scalar, Ref)
        key_position = query.keys.index(column.scalar.name)
        keys.append((key_position, Column(column.name, column.type, True)))
    return tuple(keys)


def encoded_key(keys: tuple[tuple[int, Column], ...], values: Sequence[Any]) -> Row:
    """The values of a key as the engine knows them; DataError if no row can have them."""
    encoded = {p: encode(v, c) for v, (p, c) in zip(values, keys, strict=True)}
    return tuple(encoded[position] for position in range(len(encoded)))


def identity(query: Query) -> tuple[int, ...] | None:
    """Positions of the output columns that tell rows apart, or None if a row may occur twice.

    They are the group's keys where all of them are selected: of those, the ones that GROUP BY
    names. In row form (MIN and MAX), Sum[k](Exists(Sum[g](Q)) * (m := ...) * ...), the group is g.
    """
    if query.kind is ViewKind.TOTAL:
        return ()
    if query.group is not None:
        return _positions(query, query.group)
    return record_identity(query)


def record_identity(query: Query) -> tuple[int, ...] | None:
    """The same, of all keys of the group."""
    if query.kind is ViewKind.TOTAL:
        return ()
    group: frozenset[str] | None = frozenset(query.keys)
    if query.kind is ViewKind.BAG:
        group = _row_form_group(query)
    return None if group is None else _positions(query, group)


def _positions(query: Query, group: Iterable[str]) -> tuple[int, ...] | None:
    positions: dict[str, int] = {}
    for index, column in enumerate(query.columns):
        if isinstance(column.scalar, Ref):
            positions.setdefault(column.scalar.name, index)
    if not positions.keys() >= set(group):
        return None
    return tuple(sorted(positions[name] for name in group))


def _row_form_group(query: Query) -> frozenset[str] | None:
    body = dict(query.components)[COUNT]
    if isinstance(body, Sum):
        body = body.body
    groups = []
    for factor in factors_of(body):
        if isinstance(factor, Exists):
            groups.append(outputs(factor))
        elif not isinstance(factor, Binder | Cond):
            return None
    return groups[0] if len(groups) == 1 else None
