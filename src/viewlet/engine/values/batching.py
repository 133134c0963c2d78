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

from viewlet.engine.values.declared_sizes import held_column
from viewlet.engine.values.instants import instants
from viewlet.engine.values.row_errors import InRow, null_error, range_error
from viewlet.engine.values.shapes import columns_of
from viewlet.engine.values.texts import check_arrow_texts, check_texts
from viewlet.errors import DataError, ViewletError
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
    shown_value,
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
        """The rows from low up to high, as views of the same arrays."""
        return Batch(
            [column[low:high] for column in self.columns],
            [None if nulls is None else nulls[low:high] for nulls in self.nulls],
            self.weights[low:high],
            self.coded,
        )


def make_batch(relation: Relation, rows: Any, weights: Any = None) -> Batch:
    """Rows in any of the shapes of `shapes` -> a batch; DataError names what does not fit.

    Rows are objects of the user's: what one of them raises when it is looked at is the cause of a
    DataError.
    """
    try:
        return _make_batch(relation, rows, weights)
    except (ViewletError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {shown_value(error)}"
        raise DataError(f"the rows for {relation.name} cannot be read: {reason}") from error


def _make_batch(relation: Relation, rows: Any, weights: Any) -> Batch:
    columns = columns_of(relation, rows)
    length = len(columns[0]) if columns else 0
    encoded_columns: list[Array] = []
    nulls: list[Array | None] = []
    for values, column in zip(columns, relation.columns, strict=True):
        try:
            encoded, gaps = _encode_column(values, column)
            encoded_columns.append(held_column(encoded, gaps, values, column))
        except InRow as error:
            raise type(error.cause)(
                f"row {error.place + 1} for {relation.name}: {error.cause.message}",
                hint=error.cause.hint,
            ) from None
        nulls.append(gaps)
    return Batch(encoded_columns, nulls, _weights(relation, weights, length))


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
        return np.full(length, _weight(relation, weights, None), np.int64)
    if not isinstance(weights, Iterable) or isinstance(weights, str | bytes):
        raise _weight_error(relation, weights, None)
    values = weights.to_numpy() if hasattr(weights, "to_numpy") else weights
    if not isinstance(values, np.ndarray):
        values = list(values)
    if len(values) != length:
        raise DataError(f"{len(values)} weights for {length} rows of {relation.name}")
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 1:
        return np.ascontiguousarray(values, np.int64)
    listed = [_weight(relation, value, place) for place, value in enumerate(values)]
    return np.fromiter(listed, np.int64, length)


def _weight(relation: Relation, value: Any, place: int | None) -> int:
    """A whole number of 64 bits."""
    if isinstance(value, bool | np.bool_ | np.ndarray) or not isinstance(value, SupportsIndex):
        raise _weight_error(relation, value, place)
    number = operator.index(value)
    if not INT64[0] <= number <= INT64[1]:
        raise _weight_error(relation, value, place)
    return number


def _weight_error(relation: Relation, value: Any, place: int | None) -> DataError:
    where = relation.name if place is None else f"row {place + 1} for {relation.name}"
    return DataError(
        f"{shown_value(value)} is not a weight of {where}",
        hint="weights are whole numbers of 64 bits",
    )


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
            raise InRow(place, error) from None
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
        check_texts(values, column)
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
        hint = "engines keep DECIMAL as 64-bit integers: 18 digits"
        raise range_error(place, column, encoded[place], hint) from None


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
        gaps = np.isnat(values)
        unit, step = np.datetime_data(values.dtype)
        if step != 1:
            values = values.astype(f"datetime64[{unit}]")
        return _with_gaps(instants(values.view(np.int64), unit, gaps, column), gaps, column)
    return _from_values(values.tolist(), column)


def _with_gaps(found: Array, gaps: Array, column: Column) -> tuple[Array, Array | None]:
    if not gaps.any():
        return np.ascontiguousarray(found), None
    if not column.nullable:
        raise null_error(int(np.argmax(gaps)), column)
    found = found.copy()
    found[gaps] = 0
    return found, np.ascontiguousarray(gaps, np.uint8)


def _check_integers(values: Array, column: Column) -> None:
    if not len(values):
        return
    low, high = INT32 if column.type.kind is Kind.INTEGER else INT64
    if int(values.min()) < low or int(values.max()) > high:
        place = int(np.argmax((values < low) | (values > high)))
        raise range_error(place, column, int(values[place]))


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
            raise null_error(int(np.argmax(gaps)), column)
        check_arrow_texts(values, column)
        nulls = np.ascontiguousarray(gaps, np.uint8) if gaps.any() else None
        return values.to_numpy(zero_copy_only=False), nulls
    if kind in (Kind.DATE, Kind.TIMESTAMP) and pa.types.is_temporal(source):
        ticks = _ticks(values)
        if ticks is not None:
            return _with_gaps(instants(*ticks, gaps, column), gaps, column)
    if kind in (Kind.INTEGER, Kind.BIGINT) and pa.types.is_integer(source):
        whole = values.fill_null(0).to_numpy(zero_copy_only=False)
        _check_integers(whole, column)
        return _with_gaps(whole.astype(np.int64, copy=False), gaps, column)
    if kind is Kind.DOUBLE and (pa.types.is_floating(source) or pa.types.is_integer(source)):
        doubles = values.cast(pa.float64(), safe=False).fill_null(0)
        found = normalized_doubles(doubles.to_numpy(zero_copy_only=False))
        return _with_gaps(found, gaps, column)
    if kind is Kind.BOOLEAN and pa.types.is_boolean(source):
        truths = values.cast(pa.int64()).fill_null(0)
        return _with_gaps(truths.to_numpy(zero_copy_only=False), gaps, column)
    if kind is Kind.DECIMAL and pa.types.is_decimal(source) and source.scale <= column.type.scale:
        words = _unscaled(values, column)
        if words is not None:
            return _with_gaps(words, gaps, column)
    return _from_values(_python_values(values, column), column)


def _ticks(values: Any) -> tuple[Array, str] | None:
    """Whole numbers since 1970 and their unit; a moment with a time zone is UTC underneath."""
    import pyarrow as pa

    if pa.types.is_timestamp(values.type):
        ticks, unit = values.view(pa.int64()), values.type.unit
    elif pa.types.is_date32(values.type):
        ticks, unit = values.view(pa.int32()), "D"
    elif pa.types.is_date64(values.type):
        ticks, unit = values.view(pa.int64()), "ms"
    else:
        return None
    return ticks.fill_null(0).to_numpy(zero_copy_only=False), unit


def _python_values(values: Any, column: Column) -> list[Any]:
    """Arrow's values as Python's; what Python cannot hold is an error of its row."""
    try:
        listed: list[Any] = values.to_pylist()
        return listed
    except Exception:
        for place, value in enumerate(values):
            try:
                value.as_py()
            except Exception as error:
                reason = f"a value of {values.type} is not: {shown_value(error)}"
                text = f"column {column.name} is {column.type}, and {reason}"
                raise InRow(place, DataError(text)) from None
        raise


def _plain_strings(values: Any) -> Any:
    """Strings as Arrow's kernels know them: polars gives views, which `take` does not."""
    import pyarrow as pa

    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def _unscaled(values: Any, column: Column) -> Array | None:
    """DECIMAL as its scaled integers: the low word of Arrow's 128 bits, where the high is sign.

    None where some value has more than 38 digits.
    """
    import pyarrow as pa

    try:
        wide = values.cast(pa.decimal128(38, column.type.scale)).fill_null(0)
    except pa.ArrowInvalid:
        return None
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
    low, high = words[::2].copy(), words[1::2]
    limit = 10**column.type.precision if column.type.precision < 19 else 2**63 - 1
    beyond = (high != (low >> 63)) | (low >= limit) | (low <= -limit)
    if beyond.any():
        place = int(np.argmax(beyond))
        raise range_error(place, column, values[place].as_py())
    return low
