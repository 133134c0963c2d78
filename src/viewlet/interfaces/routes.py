"""Where the rows of each relation go: found once, used for every batch until definitions change."""

from __future__ import annotations

import datetime as dt
import decimal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from viewlet.errors import DataError
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.stats import Timings
from viewlet.schema import (
    EPOCH_DATE,
    INT32,
    INT64,
    Column,
    Kind,
    Relation,
    Scalar,
    encode,
    signed_range,
)

Encoder = Callable[[Any], Scalar]


class RelationRoute:
    """One relation: how its rows are encoded, what they are fed to, and whom they concern."""

    def __init__(
        self, relation: Relation, definitions: Definitions, timings: dict[str, Timings]
    ) -> None:
        self.relation = relation
        self.width = len(relation.columns)
        self.encoders = [encoder(column) for column in relation.columns]
        self.instances = definitions.instances(relation.name)
        if not relation.is_stream:
            self.instances = [relation.name]
        self.views = definitions.users_of(relation.name)
        self.static_users = self.views if relation.static else []
        self.timings = [timings.setdefault(view, Timings()) for view in self.views]
        self.only = self.instances[0] if len(self.instances) == 1 else None
        self.has_rows = False

    def encode(self, row: Sequence[Any]) -> tuple[Scalar, ...]:
        """One row of the right width; DataError says which value does not fit."""
        try:
            return tuple([code(value) for code, value in zip(self.encoders, row, strict=True)])
        except DataError as error:
            raise type(error)(
                f"row 1 for {self.relation.name}: {error.message}", hint=error.hint
            ) from None


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


def _of_type(kind: type) -> Callable[[Column], Encoder]:
    def make(column: Column) -> Encoder:
        def code(value: Any) -> Scalar:
            return value if type(value) is kind else encode(value, column)  # type: ignore[return-value]

        return code

    return make


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
    Kind.DOUBLE: _of_type(float),
    Kind.VARCHAR: _texts,
    Kind.BOOLEAN: _of_type(bool),
    Kind.DATE: _dates,
    Kind.DECIMAL: _decimals,
}
