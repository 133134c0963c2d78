"""Columns of Arrow -> encoded columns, from Arrow's own buffers.

    decimal128(15, 2) for DECIMAL(12, 2)   ->  read_decimals, times 1, below 10**12
    timestamp[ns] for TIMESTAMP            ->  read_quotients by 1000
    string_view for VARCHAR                ->  StringCodes.read

`reader_of` says how, once for each column and Arrow type; where it knows nothing, or a value does
not fit, the caller encodes value by value, which says what is wrong.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.schema import DATE_RANGE, INT32, INT64, TIMESTAMP_RANGE, Column, Kind, signed_range
from viewlet.storage.arrow_buffers import (
    read_booleans,
    read_decimals,
    read_double_units,
    read_doubles,
    read_halves,
    read_integral_doubles,
    read_nulls,
    read_quotients,
    read_rounded_decimals,
    read_words,
)
from viewlet.storage.columns import Array
from viewlet.storage.memory import address_of

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400

Read = Callable[[int, int, int, int, int], int]
"""(address of the buffer, offset, count, address of null bytes, target) -> -1, or what is wrong."""


@dataclass(frozen=True)
class ColumnReader:
    """How a column is read: by native code from the buffer with its values.

    Strings have several buffers, and no `read`. `cast` is the Arrow type that values are brought to
    before, `is_checked` is whether some values of the type do not fit.
    """

    read: Read | None = None
    cast: Any = None
    is_checked: bool = True
    is_dictionary: bool = False


class Misfit(Exception):
    """A value that native code does not encode, by its row."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def read_column(
    values: Any, reader: ColumnReader, encoded: Array, texts: Callable[[Any, int, Array], int]
) -> Array | None:
    """A chunked array -> `encoded` and null bytes; Misfit says which row is not like that.

    `texts` encodes an array of strings: (array, address of its null bytes, target) -> -1 or a row.
    """
    length = len(values)
    nulls: Array | None = None
    at = 0
    for chunk in values.chunks:
        count = len(chunk)
        gaps = 0
        if chunk.null_count:
            if nulls is None:
                nulls = np.zeros(length, np.uint8)
            gaps = address_of(nulls) + at
            read_nulls(chunk.buffers()[0].address, chunk.offset, count, gaps)
        if count:
            part = encoded[at : at + count]
            values_buffer = chunk.buffers()[1] if reader.read is not None else None
            if reader.read is None:
                row = texts(chunk, gaps, part)
            elif values_buffer is None:  # all are NULL
                part[:], row = 0, -1
            else:
                data = values_buffer.address
                row = reader.read(data, chunk.offset, count, gaps, address_of(part))
            if row >= 0:
                raise Misfit(at + row)
        at += count
    return nulls


def reader_of(column: Column, source: Any) -> ColumnReader | None:
    """How values of an Arrow type are encoded for a column; None: one by one."""
    import pyarrow as pa

    types, kind, is_sized = pa.types, column.type.kind, column.limit is not None
    if types.is_dictionary(source):
        is_text = kind is Kind.VARCHAR and _is_string(source.value_type)
        return ColumnReader(is_checked=is_sized, is_dictionary=True) if is_text else None
    if _is_string(source):
        return ColumnReader(is_checked=is_sized) if kind is Kind.VARCHAR else None
    if types.is_boolean(source):
        return ColumnReader(read_booleans, is_checked=False) if kind is Kind.BOOLEAN else None
    if types.is_integer(source):
        return _of_integers(column, source)
    if types.is_floating(source):
        cast = None if types.is_float64(source) else pa.float64()
        return _of_doubles(column, cast)
    if types.is_decimal(source):
        return _of_decimals(column, source)
    if types.is_temporal(source):
        return _of_moments(kind, source)
    return None


def _is_string(source: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_string(source) or types.is_large_string(source) or types.is_string_view(source)
    )


def _bounds(column: Column) -> tuple[int, int]:
    """The smallest and the largest encoded number of a column of an exact type."""
    type = column.type
    if column.limit is not None:
        return signed_range(column.limit)
    if type.kind is Kind.INTEGER:
        return INT32
    if type.kind is Kind.BIGINT:
        return INT64
    # Engines keep DECIMAL in 64 bits.
    high = min(10**type.precision - 1, INT64[1] - 1)
    return -high, high


def _of_integers(column: Column, source: Any) -> ColumnReader | None:
    import pyarrow as pa

    type = column.type
    if not type.is_number:
        return None
    if type.kind is Kind.DOUBLE:
        return ColumnReader(_doubles, cast=pa.float64(), is_checked=False)
    width = source.bit_width
    is_unsigned = pa.types.is_unsigned_integer(source)
    cast = None if width == 64 or (width == 32 and not is_unsigned) else pa.int64()
    factor = 10**type.scale
    low, high = _bounds(column)
    low, high = -(-low // factor), high // factor
    if width == 64 and is_unsigned:
        low = 0  # those above 2**63 look negative
    native = read_halves if width == 32 and cast is None else read_words
    size = 4 if native is read_halves else 8
    is_checked = low > -(2 ** (width - 1)) or high < 2 ** (width - 1) - 1
    return ColumnReader(_scaled(native, size, factor, low, high), cast, is_checked)


def _of_doubles(column: Column, cast: Any) -> ColumnReader | None:
    type = column.type
    if type.kind is Kind.DOUBLE:
        return ColumnReader(_doubles, cast, is_checked=False)
    if type.kind is Kind.DECIMAL:
        units, high = 10**type.scale, _bounds(column)[1]
        return ColumnReader(
            lambda data, offset, count, nulls, target: read_double_units(
                data + 8 * offset, count, nulls, units, high, target
            ),
            cast,
        )
    if type.is_exact:
        low, high = _bounds(column)
        return ColumnReader(
            lambda data, offset, count, nulls, target: read_integral_doubles(
                data + 8 * offset, count, nulls, low, high, target
            ),
            cast,
        )
    return None


def _of_decimals(column: Column, source: Any) -> ColumnReader | None:
    import pyarrow as pa

    type = column.type
    if not type.is_exact or (type.kind is not Kind.DECIMAL and source.scale != 0):
        return None
    if pa.types.is_decimal256(source):
        return None
    cast = None
    if not pa.types.is_decimal128(source):
        cast = pa.decimal128(source.precision, source.scale)
    shift = type.scale - source.scale
    low, high = _bounds(column)
    if abs(shift) > 18:
        return None
    if shift >= 0:
        factor = 10**shift
        return ColumnReader(
            _scaled(read_decimals, 16, factor, -(-low // factor), high // factor), cast
        )
    divisor = 10**-shift
    return ColumnReader(
        lambda data, offset, count, nulls, target: read_rounded_decimals(
            data + 16 * offset, count, nulls, divisor, high, target
        ),
        cast,
    )


def _of_moments(kind: Kind, source: Any) -> ColumnReader | None:
    """Dates and timestamps; with a time zone Arrow has the moment in UTC, as encoded values are."""
    import pyarrow as pa

    types = pa.types
    if types.is_date32(source) and kind is Kind.DATE:
        return ColumnReader(_scaled(read_halves, 4, 1, *DATE_RANGE))
    if types.is_date32(source) and kind is Kind.TIMESTAMP:
        return ColumnReader(_scaled(read_halves, 4, _DAY * 10**6, *DATE_RANGE))
    if not (types.is_timestamp(source) or types.is_date64(source)):
        return None
    per_second = _PER_SECOND[source.unit if types.is_timestamp(source) else "ms"]
    if kind is Kind.DATE:
        unit = _DAY * per_second
        low, high = DATE_RANGE
        return ColumnReader(_quotients(unit, True, low * unit, (high + 1) * unit - 1))
    if kind is not Kind.TIMESTAMP:
        return None
    low, high = TIMESTAMP_RANGE
    if per_second <= 10**6:
        factor = 10**6 // per_second
        return ColumnReader(_scaled(read_words, 8, factor, -(-low // factor), high // factor))
    low, high = max(INT64[0], low * 1000), min(INT64[1], high * 1000 + 999)
    return ColumnReader(_quotients(1000, False, low, high))


def _scaled(native: Callable[..., int], size: int, factor: int, low: int, high: int) -> Read:
    return lambda data, offset, count, nulls, target: native(
        data + size * offset, count, nulls, factor, low, high, target
    )


def _quotients(divisor: int, is_exact: bool, low: int, high: int) -> Read:
    exact = int(is_exact)
    low, high = max(INT64[0], low), min(INT64[1], high)
    return lambda data, offset, count, nulls, target: read_quotients(
        data + 8 * offset, count, nulls, divisor, exact, low, high, target
    )


def _doubles(data: int, offset: int, count: int, nulls: int, target: int) -> int:
    return read_doubles(data + 8 * offset, count, nulls, target)


def arrow_type_of(values: Sequence[Any], column: Column) -> Any:
    """The Arrow type that holds Python's values as they are; None where there is no one such."""
    import pyarrow as pa

    kinds = set(map(type, values))
    kinds.discard(type(None))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    declared = column.type.kind
    if kind is int and column.type.is_exact:
        return pa.int64()
    if kind is float and column.type.is_number:
        return pa.float64()
    if kind is decimal.Decimal and declared is Kind.DECIMAL:
        return pa.decimal128(38, column.type.scale)
    exact = {
        Kind.VARCHAR: (str, pa.large_string()),
        Kind.BOOLEAN: (bool, pa.bool_()),
        Kind.DATE: (dt.date, pa.date32()),
        Kind.TIMESTAMP: (dt.datetime, pa.timestamp("us")),
    }.get(declared)
    return exact[1] if exact is not None and exact[0] is kind else None
