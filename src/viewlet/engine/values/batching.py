"""Batches of changes as columns, from whatever rows a user has.

A batch holds one array for each column of its relation, in the representation of viewlet.schema:
int64 (also BOOLEAN, DATE, TIMESTAMP, scaled DECIMAL), float64, or object arrays of str; a null mask
where there are NULLs (the value beneath is then 0, 0.0 or None); and an int64 weight for each row.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from viewlet.engine.values.declared_sizes import DoesNotFit, held_column
from viewlet.engine.values.shapes import columns_of
from viewlet.errors import DataError, RangeError
from viewlet.schema import (
    EPOCH_DATE,
    INT32,
    INT64,
    NAN,
    Column,
    Kind,
    Physical,
    Relation,
    Scalar,
    encode,
)
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
    """Rows in any of the shapes of `shapes` -> a batch; DataError names what does not fit."""
    columns = columns_of(relation, rows)
    length = len(columns[0]) if columns else 0
    found: list[Array] = []
    nulls: list[Array | None] = []
    for values, column in zip(columns, relation.columns, strict=True):
        try:
            encoded, gaps = _encode_column(values, column)
            found.append(held_column(encoded, gaps, values, column))
        except DoesNotFit as error:
            raise type(error.cause)(
                f"row {error.place + 1} for {relation.name}: {error.cause.message}",
                hint=error.cause.hint,
            ) from None
        nulls.append(gaps)
    return Batch(found, nulls, _weights(relation, weights, length))


def batch_of(relation: Relation, items: Iterable[tuple[Sequence[Scalar], int]]) -> Batch:
    """Encoded rows with weights -> a batch."""
    listed = list(items)
    columns: list[Array] = []
    nulls: list[Array | None] = []
    for i, column in enumerate(relation.columns):
        values, gaps = _as_arrays([row[i] for row, _ in listed], column)
        columns.append(values)
        nulls.append(gaps)
    weights = np.fromiter((int(weight) for _, weight in listed), np.int64, len(listed))
    return Batch(columns, nulls, weights)


def weighted_rows(relation: Relation, batch: Batch) -> Iterator[tuple[tuple[Scalar, ...], int]]:
    """The inverse: encoded rows with weights, of a batch whose strings are no codes."""
    columns = []
    for column, values, nulls in zip(relation.columns, batch.columns, batch.nulls, strict=True):
        truths = column.type.physical is Physical.BOOL
        columns.append(plain_values(values.astype(bool) if truths else values, nulls))
    rows: Any = zip(*columns, strict=True) if columns else iter([()] * len(batch))
    return zip(rows, batch.weights.tolist(), strict=True)


def plain_values(values: Array, nulls: Array | None) -> list[Scalar]:
    """An array and its null mask -> Python values with None, and one NaN."""
    found: list[Scalar] = values.tolist()
    if values.dtype.kind == "f":
        for place in np.flatnonzero(np.isnan(values)).tolist():
            found[place] = NAN
    if nulls is None:
        return found
    return [None if gap else value for value, gap in zip(found, nulls.tolist(), strict=True)]


def normalized_doubles(values: Array) -> Array:
    """Doubles with one zero and one NaN, as schema.normalized has them."""
    found = values + 0.0
    nans = np.isnan(found)
    if nans.any():
        found[nans] = NAN
    return found


def _weights(relation: Relation, weights: Any, length: int) -> Array:
    if weights is None:
        return np.ones(length, np.int64)
    if isinstance(weights, SupportsIndex) and not isinstance(weights, np.ndarray):
        return np.full(length, operator.index(weights), np.int64)
    values = weights.to_numpy() if hasattr(weights, "to_numpy") else weights
    if not isinstance(values, np.ndarray):
        values = list(values)
    if len(values) != length:
        raise DataError(f"{len(values)} weights for {length} rows of {relation.name}")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return np.ascontiguousarray(values, np.int64)
    for value in values:
        if not isinstance(value, SupportsIndex) or isinstance(value, bool):
            raise DataError(
                f"{value!r} is not a weight of {relation.name}", hint="weights are whole numbers"
            )
    return np.fromiter(map(operator.index, values), np.int64, length)


def _null_error(place: int, column: Column) -> DoesNotFit:
    return DoesNotFit(place, DataError(f"NULL in column {column.name}, which is NOT NULL"))


def _encode_column(values: Any, column: Column) -> tuple[Array, Array | None]:
    if type(values).__module__.startswith("pyarrow"):
        return _from_arrow(values, column)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufbM":
        return _from_numpy(values, column)
    return _from_values(values, column)


def _from_values(values: Sequence[Any], column: Column) -> tuple[Array, Array | None]:
    """Python objects: all at once where they are of the column's own type, else one by one."""
    whole = _whole(values, column)
    if whole is not None:
        return whole, None
    encoded = []
    for place, value in enumerate(values):
        try:
            encoded.append(encode(value, column))
        except DataError as error:
            raise DoesNotFit(place, error) from None
    return _as_arrays(encoded, column)


def _whole(values: Sequence[Any], column: Column) -> Array | None:
    """The values as one array where their types say that nothing has to be looked at singly."""
    kind, types = column.type.kind, set(map(type, values))
    if kind in (Kind.INTEGER, Kind.BIGINT) and types == {int}:
        low, high = INT32 if kind is Kind.INTEGER else INT64
        if low <= min(values) and max(values) <= high:
            return np.fromiter(values, np.int64, len(values))
    elif kind is Kind.DOUBLE and types == {float}:
        return normalized_doubles(np.fromiter(values, np.float64, len(values)))
    elif kind is Kind.VARCHAR and types == {str}:
        return _objects(values)
    elif kind is Kind.DATE and types == {type(EPOCH_DATE)}:
        first = EPOCH_DATE.toordinal()
        return np.fromiter((day.toordinal() - first for day in values), np.int64, len(values))
    return None


def _as_arrays(encoded: Sequence[Scalar], column: Column) -> tuple[Array, Array | None]:
    nulls = None
    if None in encoded:
        nulls = np.fromiter((value is None for value in encoded), np.uint8, len(encoded))
    if column.type.physical is Physical.STR:
        return _objects(encoded), nulls
    kind = np.float64 if column.type.physical is Physical.FLOAT else np.int64
    try:
        return np.fromiter((value or 0 for value in encoded), kind, len(encoded)), nulls
    except OverflowError:
        large = (isinstance(v, int) and not INT64[0] <= v <= INT64[1] for v in encoded)
        place = list(large).index(True)
        raise DoesNotFit(
            place,
            RangeError(
                f"column {column.name}: the value is out of range for {column.type}",
                hint="engines keep DECIMAL as 64-bit integers: 18 digits",
            ),
        ) from None


def _objects(values: Sequence[Any]) -> Array:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _from_numpy(values: Array, column: Column) -> tuple[Array, Array | None]:
    """Whole arrays where the representation is the same; value by value otherwise."""
    kind, source = column.type.kind, values.dtype.kind
    if kind is Kind.DOUBLE and source in "iuf":
        return normalized_doubles(np.ascontiguousarray(values, np.float64)), None
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
        raise _null_error(int(np.argmax(gaps)), column)
    found = found.copy()
    found[gaps] = 0
    return found, np.ascontiguousarray(gaps, np.uint8)


def _check_integers(values: Array, column: Column) -> None:
    if not len(values):
        return
    low, high = INT32 if column.type.kind is Kind.INTEGER else INT64
    if int(values.min()) < low or int(values.max()) > high:
        place = int(np.argmax((values < low) | (values > high)))
        raise DoesNotFit(
            place,
            RangeError(
                f"column {column.name}: {int(values[place])} is out of range for {column.type}"
            ),
        )


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
            raise _null_error(int(np.argmax(gaps)), column)
        nulls = np.ascontiguousarray(gaps, np.uint8) if gaps.any() else None
        return values.to_numpy(zero_copy_only=False), nulls
    wanted = _arrow_type(column)
    if kind is Kind.DECIMAL and pa.types.is_decimal(source) and source.scale <= column.type.scale:
        return _with_gaps(_unscaled(values, column), gaps, column)
    if wanted is not None and _same_family(source, wanted):
        try:
            # Nanoseconds of other libraries are cut; every other loss is an error.
            whole = values.cast(wanted, safe=not pa.types.is_timestamp(source))
        except pa.ArrowInvalid as error:
            raise DataError(f"column {column.name} is {column.type}: {error}") from None
        physical = pa.float64() if kind is Kind.DOUBLE else pa.int64()
        plain = whole.cast(pa.int32()) if kind is Kind.DATE else whole
        found = plain.cast(physical).fill_null(0).to_numpy(zero_copy_only=False)
        if kind is Kind.DOUBLE:
            found = normalized_doubles(found)
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
