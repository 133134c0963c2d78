"""Users' rows -> encoded rows, and encoded rows -> Arrow.

Rows come as a tuple (one row), a mapping of values (one row), a mapping of columns, an iterable of
tuples or mappings, a NumPy array, or anything that speaks Arrow: pyarrow, pandas, polars, DuckDB.
Columns that a mapping or a table leaves out are NULL; the order of named columns does not matter.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewlet.calculus.ring import Key
from viewlet.errors import DataError, RangeError
from viewlet.schema import Kind, Relation, Scalar, Type, decode, encode

if TYPE_CHECKING:
    import pyarrow as pa


def encode_rows(relation: Relation, rows: Any) -> list[Key]:
    """Every row checked and encoded, in order; DataError names the first that does not fit."""
    encoded = []
    for number, row in enumerate(_plain_rows(relation, rows), 1):
        if len(row) != len(relation.columns):
            raise DataError(
                f"row {number} for {relation.name} has {len(row)} values, "
                f"and {relation.name} has {len(relation.columns)} columns",
                hint=f"columns are ({', '.join(relation.names)})",
            )
        try:
            encoded.append(tuple(map(encode, row, relation.columns)))
        except DataError as error:
            raise type(error)(
                f"row {number} for {relation.name}: {error.message}", hint=error.hint
            ) from None
    return encoded


def _plain_rows(relation: Relation, rows: Any) -> Iterable[Sequence[Any]]:
    if isinstance(rows, Mapping):
        return _from_mapping(relation, rows)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return _from_arrow(relation, rows)
    if hasattr(rows, "dtype") and hasattr(rows, "tolist"):
        rows = rows.tolist()
    if isinstance(rows, tuple) and not (rows and _is_row(rows[0])):
        return [rows]
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise _shape_error(relation, rows)
    return [_from_item(relation, row) for row in rows]


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
        f"{rows!r} is not a row of {relation.name}",
        hint="give a tuple, a list of tuples or dicts, a dict of columns, or an Arrow, pandas or "
        "polars table",
    )


def _from_mapping(relation: Relation, rows: Mapping[str, Any]) -> Iterable[Sequence[Any]]:
    columns = [_is_column(value) for value in rows.values()]
    if not any(columns):
        return [_ordered(relation, rows, None)]
    if not all(columns):
        raise DataError(
            f"a dict for {relation.name} mixes single values and columns",
            hint="give a list for every column, or a single value for every column",
        )
    lists = {name: _column_values(value) for name, value in rows.items()}
    return _from_columns(relation, lists)


def _is_column(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, Sequence) or bool(getattr(value, "shape", ()))


def _column_values(values: Any) -> list[Any]:
    if isinstance(values, list | tuple):
        return list(values)
    import pyarrow as pa

    found = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    return list(found.to_pylist())


def _from_columns(relation: Relation, columns: Mapping[str, list[Any]]) -> Iterable[Sequence[Any]]:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"columns for {relation.name} differ in length: {shown}")
    count = next(iter(lengths.values()), 0)
    return list(zip(*_ordered(relation, columns, [None] * count), strict=True))


def _ordered(relation: Relation, named: Mapping[str, Any], missing: Any) -> list[Any]:
    """The named values in the relation's order, `missing` where there is none."""
    for name in named:
        if name not in relation.names:
            close = difflib.get_close_matches(str(name), relation.names, 1)
            raise DataError(
                f"{relation.name} has no column {name}",
                hint=f"did you mean {close[0]}?"
                if close
                else f"columns are ({', '.join(relation.names)})",
            )
    return [named.get(name, missing) for name in relation.names]


def _from_arrow(relation: Relation, rows: Any) -> Iterable[Sequence[Any]]:
    import pyarrow as pa

    if hasattr(rows, "iloc"):  # pandas: its missing values are NaN, and its index is no column
        table = pa.Table.from_pandas(rows, preserve_index=False)
    else:
        table = pa.table(rows)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        columns[name] = column.to_pylist()
    return _from_columns(relation, columns)


# --- out ------------------------------------------------------------------------------------------


def arrow_type(type: Type) -> pa.DataType:
    import pyarrow as pa

    if type.kind is Kind.DECIMAL:
        return pa.decimal128(min(type.precision or 38, 38), type.scale)
    return {
        Kind.BOOLEAN: pa.bool_(),
        Kind.INTEGER: pa.int32(),
        Kind.BIGINT: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.VARCHAR: pa.string(),
        Kind.NULL: pa.null(),
    }[type.kind]


def to_arrow(columns: Sequence[tuple[str, Type]], rows: Sequence[tuple[Scalar, ...]]) -> pa.Table:
    """Encoded rows -> a table with these columns; RangeError where a number outgrew its type."""
    import pyarrow as pa

    arrays = []
    for index, (name, type) in enumerate(columns):
        values = [decode(row[index], type) for row in rows]
        try:
            arrays.append(pa.array(values, arrow_type(type)))
        except (pa.ArrowInvalid, OverflowError) as error:
            raise RangeError(f"column {name} left the range of {type}: {error}") from None
    schema = pa.schema([(name, arrow_type(type)) for name, type in columns])
    return pa.Table.from_arrays(arrays, schema=schema)


def table_columns(relation: Relation) -> list[tuple[str, Type]]:
    return [(column.name, column.type) for column in relation.columns]
