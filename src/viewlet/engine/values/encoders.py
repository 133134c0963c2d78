"""Values one by one: `schema.encode`, with a short way for those of a column's own type."""

from __future__ import annotations

import datetime as dt
import decimal
import sys
from collections.abc import Callable
from typing import Any

from viewlet.errors import DataError
from viewlet.schema import (
    EPOCH_DATE,
    INT32,
    INT64,
    NAN,
    Column,
    Kind,
    Scalar,
    encode,
    signed_range,
)

Encoder = Callable[[Any], Scalar]


def encoder(column: Column) -> Encoder:
    """`schema.encode` for one column, with a short way for values of the column's own type."""
    make = _SHORT.get(column.type.kind)
    return make(column) if make is not None else lambda value: encode(value, column)


def _integers(column: Column) -> Encoder:
    low, high = INT32 if column.type.kind is Kind.INTEGER else INT64
    if column.limit is not None:
        low, high = signed_range(column.limit)

    def code(value: Any) -> Scalar:
        if type(value) is int and low <= value <= high:
            return value
        return encode(value, column)

    return code


def _booleans(column: Column) -> Encoder:
    return lambda value: value if type(value) is bool else encode(value, column)


def _doubles(column: Column) -> Encoder:
    def code(value: Any) -> Scalar:
        if type(value) is float:
            return value + 0.0 if value == value else NAN
        return encode(value, column)

    return code


def _texts(column: Column) -> Encoder:
    most = sys.maxsize if column.limit is None else column.limit

    def code(value: Any) -> Scalar:
        if type(value) is str and len(value) <= most and value.isascii():
            return value
        return encode(value, column)

    return code


def _dates(column: Column) -> Encoder:
    first = EPOCH_DATE.toordinal()

    def code(value: Any) -> Scalar:
        return value.toordinal() - first if type(value) is dt.date else encode(value, column)

    return code


def _decimals(column: Column) -> Encoder:
    factor = 10**column.type.scale
    limit = min(10**column.type.precision, 2**63)
    shift = -column.type.scale

    def code(value: Any) -> Scalar:
        if type(value) is int:
            number: int = value * factor
            if -limit < number < limit:
                return number
        if type(value) is decimal.Decimal:
            _, digits, exponent = value.as_tuple()
            if exponent == shift and len(digits) < 19:
                number = int(value.scaleb(-shift))
                if -limit < number < limit:
                    return number
        return _fitting(encode(value, column))

    def _fitting(number: Scalar) -> Scalar:
        if isinstance(number, int) and not -limit < number < limit:
            raise DataError(
                f"column {column.name}: a value is out of range for {column.type}",
                hint="engines keep DECIMAL as 64-bit integers: 18 digits",
            )
        return number

    return code


_SHORT: dict[Kind, Callable[[Column], Encoder]] = {
    Kind.INTEGER: _integers,
    Kind.BIGINT: _integers,
    Kind.DOUBLE: _doubles,
    Kind.VARCHAR: _texts,
    Kind.BOOLEAN: _booleans,
    Kind.DATE: _dates,
    Kind.DECIMAL: _decimals,
}
