"""Batches of changes as columns, from whatever rows a user has.

A batch holds one array for each column of its relation, in the representation of viewlet.schema:
int64 (also BOOLEAN, DATE, TIMESTAMP, scaled DECIMAL), float64, or object arrays of str; a null mask
where there are NULLs (the value beneath is then 0, 0.0 or None); and an int64 weight for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import DataError, RangeError
from viewlet.schema import INT32, Column, Kind, Physical, Relation, encode
from viewlet.storage.columns import Array


@dataclass
class Batch:
    """Columns, null masks (None: no NULLs) and weights. `coded`: strings are codes already."""

    columns: list[Array]
    nulls: list[Array | None]
    weights: Array
    coded: bool = False

    def __len__(self) -> int:
        return len(self.weights)

    def rows(self, low: int, high: int) -> Batch:
        return Batch(
            [column[low:high] for column in self.columns],
            [None if nulls is None else nulls[low:high] for nulls in self.nulls],
            self.weights[low:high],
            self.coded,
        )


def make_batch(relation: Relation, rows: Any, weights: Any = None) -> Batch:
    """Rows in any of the accepted shapes -> a batch; DataError where they do not fit.

    A tuple, a list of tuples or dicts, a dict of columns, an Arrow table or record batch, a pandas
    or polars frame.
    """
    columns = _columns(relation, rows)
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise DataError(f"columns of {relation.name} have different lengths")
    length = lengths.pop() if lengths else 0
    pairs = [
        _encode_column(values, column)
        for values, column in zip(columns, relation.columns, strict=True)
    ]
    return Batch([p[0] for p in pairs], [p[1] for p in pairs], _weights(weights, length))


def _weights(weights: Any, length: int) -> Array:
    if weights is None:
        return np.ones(length, np.int64)
    if isinstance(weights, int):
        return np.full(length, weights, np.int64)
    found = np.asarray(weights)
    if found.shape != (length,) or (length and found.dtype.kind not in "iu"):
        raise DataError(f"weights are {length} integers, one for each row")
    return np.ascontiguousarray(found, np.int64)


def _columns(relation: Relation, rows: Any) -> list[Any]:
    """One sequence of values for each column."""
    if isinstance(rows, tuple):
        rows = [rows]
    if isinstance(rows, Mapping):
        return _by_name(relation, rows, list(rows))
    if isinstance(rows, Sequence) and not isinstance(rows, str):
        return _from_sequence(relation, rows)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__dataframe__"):
        table = _arrow_table(rows)
        return _by_name(relation, table, table.column_names)
    if isinstance(rows, np.ndarray) and rows.dtype.names:
        return _by_name(relation, rows, list(rows.dtype.names))
    raise DataError(
        f"cannot read rows of {relation.name} from {type(rows).__name__}",
        hint="give tuples, dicts, a dict of columns, or an Arrow, pandas or polars table",
    )


def _arrow_table(rows: Any) -> Any:
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if type(rows).__module__.split(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    return pa.table(rows)


def _by_name(relation: Relation, table: Any, names: list[str]) -> list[Any]:
    unknown = [name for name in names if name not in relation.names]
    missing = [name for name in relation.names if name not in names]
    if unknown or missing:
        wrong = f"no column {unknown[0]}" if unknown else f"column {missing[0]} is missing"
        raise DataError(
            f"rows of {relation.name}: {wrong}", hint=f"its columns: {', '.join(relation.names)}"
        )
    return [table[name] for name in relation.names]


def _from_sequence(relation: Relation, rows: Sequence[Any]) -> list[Any]:
    if rows and isinstance(rows[0], Mapping):
        for row in rows:
            if not isinstance(row, Mapping) or row.keys() != set(relation.names):
                _by_name(relation, row, list(row) if isinstance(row, Mapping) else [])
        return [[row[name] for row in rows] for name in relation.names]
    width = len(relation.columns)
    for row in rows:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != width:
            raise DataError(
                f"{row!r} is not a row of {relation.name}",
                hint=f"its columns: {', '.join(relation.names)}",
            )
    return [[row[i] for row in rows] for i in range(width)]


def _encode_column(values: Any, column: Column) -> tuple[Array, Array | None]:
    if type(values).__module__.startswith("pyarrow"):
        return _from_arrow(values, column)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufbM":
        return _from_numpy(values, column)
    return _from_values(values, column)


def _from_values(values: Any, column: Column) -> tuple[Array, Array | None]:
    """Value by value, for Python objects."""
    encoded = [encode(value, column) for value in values]
    nulls = None
    if None in encoded:
        nulls = np.fromiter((value is None for value in encoded), np.uint8, len(encoded))
    if column.type.physical is Physical.STR:
        found = np.empty(len(encoded), object)
        found[:] = encoded
        return found, nulls
    kind = _dtype(column)
    return np.fromiter((value or 0 for value in encoded), kind, len(encoded)), nulls


def _dtype(column: Column) -> Any:
    return np.float64 if column.type.physical is Physical.FLOAT else np.int64


def _from_numpy(values: Array, column: Column) -> tuple[Array, Array | None]:
    """Whole arrays where the representation is the same; value by value otherwise."""
    kind, source = column.type.kind, values.dtype.kind
    if kind is Kind.DOUBLE and source in "iuf":
        return np.ascontiguousarray(values, np.float64), None
    if kind in (Kind.INTEGER, Kind.BIGINT) and source in "iu":
        _check_integers(values, column)
        return np.ascontiguousarray(values, np.int64), None
    if kind is Kind.BOOLEAN and source == "b":
        return np.ascontiguousarray(values, np.int64), None
    if kind in (Kind.DATE, Kind.TIMESTAMP) and source == "M":
        unit = "D" if kind is Kind.DATE else "us"
        gaps = np.isnat(values)
        found = values.astype(f"datetime64[{unit}]").astype(np.int64)
        return _with_gaps(found, gaps, column)
    return _from_values(values.tolist(), column)


def _with_gaps(found: Array, gaps: Array, column: Column) -> tuple[Array, Array | None]:
    if not gaps.any():
        return np.ascontiguousarray(found), None
    if not column.nullable:
        raise DataError(f"NULL in column {column.name}, which is NOT NULL")
    found = found.copy()
    found[gaps] = 0
    return found, np.ascontiguousarray(gaps, np.uint8)


def _check_integers(values: Array, column: Column) -> None:
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    limit = INT32 if column.type.kind is Kind.INTEGER else (-(2**63), 2**63 - 1)
    if low < limit[0] or high > limit[1]:
        bad = low if low < limit[0] else high
        raise RangeError(f"column {column.name}: {bad} is out of range for {column.type}")


def _from_arrow(values: Any, column: Column) -> tuple[Array, Array | None]:
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([])
    if pa.types.is_dictionary(values.type):
        values = _plain_strings(values.dictionary).take(values.indices)
    values = _plain_strings(values)
    kind, source = column.type.kind, values.type
    gaps = np.asarray(values.is_null())
    if kind is Kind.VARCHAR and (pa.types.is_string(source) or pa.types.is_large_string(source)):
        if gaps.any() and not column.nullable:
            raise DataError(f"NULL in column {column.name}, which is NOT NULL")
        nulls = np.ascontiguousarray(gaps, np.uint8) if gaps.any() else None
        return values.to_numpy(zero_copy_only=False), nulls
    wanted = _arrow_type(column)
    if kind is Kind.DECIMAL and pa.types.is_decimal(source) and source.scale <= column.type.scale:
        return _with_gaps(_unscaled(values, column), gaps, column)
    if wanted is not None and _same_family(source, wanted):
        try:
            whole = values.cast(wanted)
        except pa.ArrowInvalid as error:
            raise DataError(f"column {column.name} is {column.type}: {error}") from None
        physical = pa.float64() if kind is Kind.DOUBLE else pa.int64()
        plain = whole.cast(pa.int32()) if kind is Kind.DATE else whole
        found = plain.cast(physical).fill_null(0).to_numpy(zero_copy_only=False)
        if kind is Kind.INTEGER:
            _check_integers(found, column)
        return _with_gaps(found, gaps, column)
    return _from_values(values.to_pylist(), column)


def _plain_strings(values: Any) -> Any:
    """Strings as Arrow's kernels know them: polars gives views, which `take` does not."""
    import pyarrow as pa

    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _arrow_type(column: Column) -> Any:
    import pyarrow as pa

    return {
        Kind.INTEGER: pa.int64(),
        Kind.BIGINT: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.BOOLEAN: pa.bool_(),
    }.get(column.type.kind)


def _same_family(source: Any, wanted: Any) -> bool:
    """Casts that keep the meaning; all others go value by value."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(source) and source.tz is not None:
        return False
    return bool(
        (types.is_integer(source) and types.is_integer(wanted))
        or ((types.is_floating(source) or types.is_integer(source)) and types.is_floating(wanted))
        or (types.is_date32(source) and types.is_date(wanted))
        or (types.is_timestamp(source) and types.is_timestamp(wanted))
        or (types.is_boolean(source) and types.is_boolean(wanted))
    )


def _unscaled(values: Any, column: Column) -> Array:
    """DECIMAL as its scaled integers: the low word of Arrow's 128 bits, where the high is sign."""
    import pyarrow as pa

    try:
        wide = values.cast(pa.decimal128(38, column.type.scale)).fill_null(0)
    except pa.ArrowInvalid as error:
        raise RangeError(f"column {column.name} is {column.type}: {error}") from None
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
    low, high = words[::2].copy(), words[1::2]
    limit = 10**column.type.precision if column.type.precision < 19 else 2**63 - 1
    if (high != (low >> 63)).any() or (np.abs(low) >= limit).any():
        raise RangeError(f"column {column.name}: a value is out of range for {column.type}")
    return low
