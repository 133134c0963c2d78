"""One column of values, in whatever they are held -> an encoded array and its null mask.

Many values go through Arrow, which holds those of one type without an object for each, and are
read from its buffers by native code (arrow_columns). A few, values of several types, and all that
native code finds no place for are encoded one by one by the definition, `schema.encode`: what
it says of a value holds for all ways in, and its errors say what is wrong with which row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from viewlet.engine.values.arrow_columns import (
    ColumnReader,
    Misfit,
    arrow_type_of,
    read_column,
    reader_of,
)
from viewlet.engine.values.batch_memory import LARGE, BatchMemory
from viewlet.engine.values.declared_sizes import first_longer_text, rounded_moments
from viewlet.engine.values.encoders import encoder
from viewlet.engine.values.instants import instants
from viewlet.engine.values.row_errors import InRow, not_text, null_error, range_error
from viewlet.engine.values.string_codes import StringCodes, form_of
from viewlet.errors import DataError
from viewlet.schema import (
    INT64,
    TIMESTAMP_RANGE,
    Column,
    Kind,
    Physical,
    Relation,
    Scalar,
    encode,
    shown_value,
)
from viewlet.storage.columns import Array

_FEW = 32
"""Values that are encoded one by one as fast as through Arrow, and without importing it."""

NOTHING: Array = np.zeros(0, np.int64)
"""The values of a column that nobody wants."""


class ColumnPlan:
    """What encoding the values of one column needs to know, found out once."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.code = encoder(column)
        self.is_text = column.type.physical is Physical.STR
        self.second_digits = column.limit if column.type.kind is Kind.TIMESTAMP else None
        self.dtype: Any = np.float64 if column.type.physical is Physical.FLOAT else np.int64
        self._cached: tuple[Any, ColumnReader | None] | None = None

    def reader(self, source: Any) -> ColumnReader | None:
        """How values of an Arrow type are read: mostly it is the type of the batch before."""
        cached = self._cached
        if cached is None or not source.equals(cached[0]):
            cached = self._cached = source, reader_of(self.column, source)
        return cached[1]


_PLANS: dict[int, tuple[Relation, list[ColumnPlan]]] = {}
_MOST_PLANS = 1024


def plans_of(relation: Relation) -> list[ColumnPlan]:
    """The plans of a relation's columns, by the relation itself: comparing it would take longer."""
    cached = _PLANS.get(id(relation))
    if cached is None or cached[0] is not relation:
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        cached = _PLANS[id(relation)] = relation, [ColumnPlan(c) for c in relation.columns]
    return cached[1]


class ColumnEncoder:
    """Encodes columns; strings become codes of `strings`, or without it stay as Python has them."""

    def __init__(self, strings: StringCodes | None, buffers: BatchMemory | None = None) -> None:
        self._strings = strings
        self._buffers = buffers
        self.borrowed: list[Array] = []
        """Of `buffers`, what encoded columns lie in."""

    def array(self, length: int, dtype: Any) -> Array:
        """Memory for a column."""
        if self._buffers is None or length < LARGE or dtype is object:
            return np.empty(length, dtype)
        buffer = self._buffers.take(length)
        self.borrowed.append(buffer)
        return buffer[:length].view(dtype)

    def encode(
        self, values: Any, plan: ColumnPlan, *, is_read: bool = True
    ) -> tuple[Array, Array | None]:
        """All values; InRow says which does not fit. One that is not read is only checked."""
        encoded, nulls = self._encode(values, plan, is_read)
        if is_read and plan.second_digits is not None:
            encoded = rounded_moments(encoded, plan.second_digits)
            if len(encoded) and int(encoded.max()) > TIMESTAMP_RANGE[1]:
                row = int(encoded.argmax())
                raise range_error(row, plan.column, values[row])
        return encoded, nulls

    def _encode(self, values: Any, plan: ColumnPlan, is_read: bool) -> tuple[Array, Array | None]:
        if type(values).__module__.startswith("pyarrow"):
            return self._from_arrow(values, plan, is_read)
        if isinstance(values, np.ndarray):
            return self._from_numpy(values, plan, is_read)
        return self._from_values(values, plan, is_read)

    # What holds the values.

    def _from_values(
        self, values: Sequence[Any], plan: ColumnPlan, is_read: bool
    ) -> tuple[Array, Array | None]:
        if len(values) > _FEW:
            source = arrow_type_of(values, plan.column)
            array = None if source is None else _as_arrow(values, source)
            if array is not None:
                return self._from_arrow(array, plan, is_read, values)
        return self._one_by_one(values, plan, is_read)

    def _from_numpy(
        self, values: Array, plan: ColumnPlan, is_read: bool
    ) -> tuple[Array, Array | None]:
        kind = values.dtype.kind
        if kind == "M" and plan.column.type.kind in (Kind.DATE, Kind.TIMESTAMP):
            return _from_moments(values, plan.column)
        if kind in "iufb" and len(values) > _FEW:
            array = _as_arrow(values, None)
            if array is not None:
                return self._from_arrow(array, plan, is_read)
        return self._from_values(values.tolist(), plan, is_read)

    def _from_arrow(
        self, values: Any, plan: ColumnPlan, is_read: bool, plain: Sequence[Any] | None = None
    ) -> tuple[Array, Array | None]:
        """`plain` are the same values as Python has them, where that is what they came as."""
        import pyarrow as pa

        column = plan.column
        chunked = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
        if chunked.null_count and not column.nullable:
            raise null_error(int(np.argmax(np.asarray(chunked.is_null()))), column)
        reader = plan.reader(chunked.type)
        row = -1
        if reader is not None and not (reader.is_dictionary and _has_null_entries(chunked)):
            if not (is_read or reader.is_checked):
                return NOTHING, None
            try:
                if reader.cast is not None:
                    chunked = chunked.cast(reader.cast, safe=column.type.kind is not Kind.DOUBLE)
                encoded = self.array(len(chunked), self._dtype(plan))
                texts = partial(self._texts, limit=column.limit, is_read=is_read)
                return encoded, read_column(chunked, reader, encoded, texts)
            except Misfit as misfit:
                row = misfit.row
            except pa.ArrowInvalid:
                row = -1
        if plain is None:
            _check_row(chunked, row, column)
            plain = _python_values(chunked, column)
        return self._one_by_one(plain, plan, is_read)

    def _dtype(self, plan: ColumnPlan) -> Any:
        return object if plan.is_text and self._strings is None else plan.dtype

    def _texts(
        self, values: Any, nulls: int, target: Array, *, limit: int | None, is_read: bool
    ) -> int:
        """An Arrow array of strings -> its codes, or its strings; the row of one that is none.

        Longer ones than `limit` are none either, and found before any gets a code.
        """
        import pyarrow as pa

        if limit is not None:
            row = first_longer_text(values, nulls, limit)
            if row >= 0:
                return row
        if not is_read:
            return -1
        if self._strings is None:
            try:
                target[:] = _plain_texts(values).to_numpy(zero_copy_only=False)
            except (UnicodeDecodeError, pa.ArrowException):
                return _first_bad_text(values)
            return -1
        if isinstance(values, pa.DictionaryArray):
            return self._strings.read_dictionary(values, nulls, target)
        count, form = len(values), form_of(values)
        return self._strings.read(values.buffers(), values.offset, count, nulls, target, form)

    # Values of Python.

    def _one_by_one(
        self, values: Sequence[Any], plan: ColumnPlan, is_read: bool
    ) -> tuple[Array, Array | None]:
        code, encoded = plan.code, []
        for row, value in enumerate(values):
            try:
                encoded.append(code(value))
            except DataError as error:
                raise InRow(row, error) from None
        array, nulls = as_arrays(encoded, plan.column)
        if is_read and plan.is_text and self._strings is not None:
            return self._strings.encode(array), nulls
        return array, nulls


def _from_moments(values: Array, column: Column) -> tuple[Array, Array | None]:
    """NumPy's moments, of which some units are not Arrow's."""
    gaps = np.isnat(values)
    unit, step = np.datetime_data(values.dtype)
    if step != 1:
        values = values.astype(f"datetime64[{unit}]")
    if gaps.any() and not column.nullable:
        raise null_error(int(np.argmax(gaps)), column)
    encoded = instants(values.view(np.int64), unit, gaps, column)
    return np.ascontiguousarray(encoded), gaps.astype(np.uint8) if gaps.any() else None


def as_arrays(encoded: Sequence[Scalar], column: Column) -> tuple[Array, Array | None]:
    """Encoded values, None for NULL -> an array and its null mask; strings stay what they are."""
    nulls = None
    if None in encoded:
        nulls = np.fromiter((value is None for value in encoded), np.uint8, len(encoded))
    if column.type.physical is Physical.STR:
        objects = np.empty(len(encoded), object)
        objects[:] = encoded
        return objects, nulls
    kind = np.float64 if column.type.physical is Physical.FLOAT else np.int64
    try:
        return np.fromiter((value or 0 for value in encoded), kind, len(encoded)), nulls
    except OverflowError:
        large = (isinstance(v, int) and not INT64[0] <= v <= INT64[1] for v in encoded)
        row = list(large).index(True)
        hint = "engines keep DECIMAL as 64-bit integers: 18 digits"
        raise range_error(row, column, encoded[row], hint) from None


def _as_arrow(values: Any, source: Any) -> Any:
    """Values as an Arrow array of a type, None where they do not fit it."""
    import pyarrow as pa

    try:
        return pa.array(values, source)
    except (pa.ArrowException, UnicodeError, ValueError, TypeError, OverflowError):
        return None


def _has_null_entries(values: Any) -> bool:
    """Whether NULLs are in the dictionary of an array, where null masks do not show them."""
    return any(chunk.dictionary.null_count for chunk in values.chunks)


def _check_row(values: Any, row: int, column: Column) -> None:
    """InRow if the value in a row is one that the definition refuses."""
    if row < 0:
        return
    ticks = _ticks(values.slice(row, 1))
    try:
        if ticks is not None and column.type.kind in (Kind.DATE, Kind.TIMESTAMP):
            instants(*ticks, np.zeros(1, bool), column)
        encode(_python_value(values[row], row, column), column)
    except DataError as error:
        raise InRow(row, error) from None
    except InRow as error:
        raise InRow(row, error.cause) from None


def _ticks(values: Any) -> tuple[Array, str] | None:
    """Whole numbers since 1970 and their unit; a moment with a time zone is UTC underneath."""
    import pyarrow as pa

    if pa.types.is_timestamp(values.type):
        ticks, unit = values.cast(pa.int64()), values.type.unit
    elif pa.types.is_date32(values.type):
        ticks, unit = values.cast(pa.int32()), "D"
    elif pa.types.is_date64(values.type):
        ticks, unit = values.cast(pa.int64()), "ms"
    else:
        return None
    return ticks.to_numpy(), unit


def _python_values(values: Any, column: Column) -> list[Any]:
    """Arrow's values as Python has them; InRow for one that Python cannot have."""
    try:
        listed: list[Any] = values.to_pylist()
    except Exception:
        listed = [_python_value(value, row, column) for row, value in enumerate(values)]
    return listed


def _python_value(value: Any, row: int, column: Column) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        raise InRow(row, not_text(column, error.object, error)) from None
    except Exception as error:
        reason = f"a value of {value.type} is not: {shown_value(error)}"
        text = f"column {column.name} is {column.type}, and {reason}"
        raise InRow(row, DataError(text)) from None


def _plain_texts(values: Any) -> Any:
    """An Arrow array of strings in the form that all of Arrow's functions know."""
    import pyarrow as pa

    if isinstance(values, pa.DictionaryArray):
        return values.dictionary.cast(pa.large_string()).take(values.indices)
    return values.cast(pa.large_string())


def _first_bad_text(values: Any) -> int:
    for row, value in enumerate(values):
        try:
            value.as_py()
        except UnicodeDecodeError:
            return row
    return 0
