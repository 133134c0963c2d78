"""The shapes in which users have rows -> one sequence of values for each column.

Rows come as a tuple (one row), a mapping of values (one row), a mapping of columns, an iterable of
tuples or mappings, a NumPy array, or anything that speaks Arrow: pyarrow, pandas, polars, DuckDB.
Columns that a mapping or a table leaves out have their default, and the order of named columns does
not matter.
"""

from __future__ import annotations

import datetime as dt
import decimal
import difflib
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from viewlet.errors import DataError
from viewlet.functions.arrival_time import current_default
from viewlet.schema import Relation, shown_value


def columns_of(relation: Relation, rows: Any) -> list[Any]:
    """One sequence for each column: a list, a tuple, a NumPy or an Arrow array, of equal length."""
    if isinstance(rows, Mapping):
        return _from_mapping(relation, rows)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return _from_arrow(relation, rows)
    if hasattr(rows, "dtype") and hasattr(rows, "tolist"):
        if rows.dtype.names:
            return _named_columns(relation, {name: rows[name] for name in rows.dtype.names})
        rows = rows.tolist()
    if isinstance(rows, tuple) and not (rows and _is_row(rows[0])):
        rows = [rows]
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise _shape_error(relation, rows)
    return _from_rows(relation, rows)


def _from_rows(relation: Relation, rows: Iterable[Any]) -> list[Any]:
    listed: Sequence[Any] = rows if isinstance(rows, list | tuple) else list(rows)
    kinds = set(map(type, listed))
    if kinds == {dict}:
        columns = _from_dicts(relation, listed)
        if columns is not None:
            return columns
    if not kinds <= {tuple, list}:
        listed = [_from_item(relation, row) for row in listed]
    width = len(relation.columns)
    if not listed:
        return [()] * width
    if set(map(len, listed)) != {width}:
        number, row = next((n, r) for n, r in enumerate(listed, 1) if len(r) != width)
        raise DataError(
            f"row {number} for {relation.name} has {len(row)} values, "
            f"and {relation.name} has {width} columns",
            hint=f"columns are ({', '.join(relation.names)})",
        )
    return list(zip(*listed, strict=True))


def _from_dicts(relation: Relation, rows: Sequence[dict[str, Any]]) -> list[Any] | None:
    """Rows that all have the same names, column by column; None if they do not."""
    names = tuple(rows[0])
    if len(names) < 2 or set(map(len, rows)) != {len(names)}:
        return None
    try:
        columns = zip(*map(itemgetter(*names), rows), strict=True)
    except KeyError:
        return None
    return _ordered(relation, dict(zip(names, columns, strict=True)), len(rows))


def _is_row(value: Any) -> bool:
    return isinstance(value, tuple | list | Mapping)


def _from_item(relation: Relation, row: Any) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return _ordered(relation, row, None)
    if isinstance(row, tuple | list):
        return row
    raise _shape_error(relation, row)


def _shape_error(relation: Relation, rows: Any) -> DataError:
    return DataError(
        f"{shown_value(rows)} is not a row of {relation.name}",
        hint="give a tuple, a list of tuples or dicts, a dict of columns, or an Arrow, pandas or "
        "polars table",
    )


def _from_mapping(relation: Relation, rows: Mapping[str, Any]) -> list[Any]:
    columns = [_is_column(value) for value in rows.values()]
    if not any(columns):
        return [(value,) for value in _ordered(relation, rows, None)]
    if not all(columns):
        raise DataError(
            f"a dict for {relation.name} mixes single values and columns",
            hint="give a list for every column, or a single value for every column",
        )
    return _named_columns(relation, {name: _plain(value) for name, value in rows.items()})


def _is_column(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, Sequence) or bool(getattr(value, "shape", ())) or _is_arrow(value)


def _plain(values: Any) -> Any:
    """Lists, NumPy and Arrow arrays as they are; a pandas or polars Series as Arrow."""
    if isinstance(values, list | tuple) or _is_arrow(values):
        return values
    if type(values).__module__ == "numpy":
        return values if values.ndim == 1 else list(values)
    if hasattr(values, "to_arrow"):
        return values.to_arrow()
    if hasattr(values, "iloc"):
        return _from_series(values)
    return list(values)


def _from_series(series: Any) -> Any:
    """A pandas Series, whose missing values are NaN, as Arrow or as a list without any."""
    import pyarrow as pa

    if series.dtype == object:
        values: list[Any] = series.tolist()
        kinds = set(map(type, values))
        kinds.discard(type(None))
        if len(kinds) == 1 and kinds <= _PLAIN:
            return values
    try:
        return pa.array(series, from_pandas=True)
    except Exception:  # Arrow's, and those of the objects in it, which are told apart later
        return series.tolist()


_PLAIN = {str, bool, int, decimal.Decimal, dt.date}
"""Types of objects in a Series of which none is a missing value."""


def _is_arrow(values: Any) -> bool:
    return type(values).__module__.startswith("pyarrow")


def _named_columns(relation: Relation, columns: Mapping[str, Any]) -> list[Any]:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"columns for {relation.name} differ in length: {shown}")
    count = next(iter(lengths.values()), 0)
    return _ordered(relation, columns, count)


def _ordered(relation: Relation, named: Mapping[str, Any], length: int | None) -> list[Any]:
    """The named values in the relation's order; where there is none the column's default, as often
    as columns are long."""
    names = relation.names
    for name in named:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, 1)
            raise DataError(
                f"{relation.name} has no column {name}",
                hint=f"did you mean {close[0]}?" if close else f"columns are ({', '.join(names)})",
            )
    if len(named) == len(names):
        return [named[name] for name in names]
    ordered = []
    for column in relation.columns:
        if column.name in named:
            ordered.append(named[column.name])
        else:
            default = current_default(column.default)
            ordered.append(default if length is None else (default,) * length)
    return ordered


def _from_arrow(relation: Relation, rows: Any) -> list[Any]:
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        table = rows
    elif isinstance(rows, pa.RecordBatch):
        table = pa.Table.from_batches([rows])
    elif hasattr(rows, "iloc"):  # pandas
        frame = _with_index(relation, rows)
        _check_distinct(relation, list(map(str, frame.columns)))
        columns = {str(name): _from_series(frame[name]) for name in frame.columns}
        return _named_columns(relation, columns)
    else:
        table = pa.table(rows)
    _check_distinct(relation, table.column_names)
    return _named_columns(relation, dict(zip(table.column_names, table.columns, strict=True)))


def _with_index(relation: Relation, frame: Any) -> Any:
    """A pandas frame with the named levels of its index that are columns of the relation, and of
    which it has no column; other levels are none of its data."""
    columns = set(map(str, frame.columns))
    names = [name for name in frame.index.names if name is not None]
    levels = [name for name in names if str(name) in relation.names and str(name) not in columns]
    if not levels:
        return frame
    if len(set(names)) < len(names):
        raise DataError(
            f"the index of the rows for {relation.name} has a name twice",
            hint="reset_index(names=[...]) makes columns of it",
        )
    frame = frame.copy(deep=False)
    for name in levels:
        frame[name] = frame.index.get_level_values(name)
    return frame


def _check_distinct(relation: Relation, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        name = next(name for position, name in enumerate(names) if name in names[:position])
        raise DataError(f"the rows for {relation.name} have two columns {name}")
