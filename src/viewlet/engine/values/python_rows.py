"""Columns of encoded values -> what a user reads: Python's values, and named rows of them.

The same as `schema.decode` value by value, in loops of C: a column at a time, rows from columns.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from viewlet.engine.values.batching import Batch, plain_values
from viewlet.schema import Kind, Scalar, Type, decode
from viewlet.storage.columns import Array

CHUNK = 16_384
"""Rows that are decoded at a time, so that the first ones need not wait for the last ones."""

_DECIMALS = decimal.Context(prec=80)
_DAYS = (-719_162, 2_932_896)
"""The dates that Python has, 0001-01-01 to 9999-12-31, as days."""
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def python_values(values: Array, nulls: Array | None, type: Type) -> list[Any]:
    """One column, None where it is NULL."""
    if nulls is not None or values.dtype == object:
        plain = plain_values(values, nulls)
        if type.kind is Kind.VARCHAR:
            return plain
        return [decode(value, type) for value in plain]
    return _non_null(values, type)


def _non_null(values: Array, type: Type) -> list[Any]:
    if type.kind is Kind.DECIMAL and values.dtype.kind == "i":
        # Exact, and in less time than scaleb takes.
        unit = repeat(decimal.Decimal((0, (1,), -type.scale)), len(values))
        return list(map(_DECIMALS.multiply, map(decimal.Decimal, values.tolist()), unit))
    if type.kind is Kind.DATE and _are_within(values, _DAYS):
        return list(values.astype("datetime64[D]").tolist())
    if type.kind is Kind.TIMESTAMP and _are_within(values, _MICROSECONDS):
        return list(values.astype("datetime64[us]").tolist())
    plain: list[Scalar] = plain_values(values, None)
    if type.kind is Kind.DOUBLE:
        return list(map(float, plain))  # type: ignore[arg-type]
    if type.kind is Kind.BOOLEAN:
        return list(map(bool, plain))
    if type.kind in (Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP):
        return [decode(value, type) for value in plain]
    return plain


def _are_within(values: Array, limits: tuple[int, int]) -> bool:
    if values.dtype.kind != "i":
        return False
    return not len(values) or bool(limits[0] <= values.min() and values.max() <= limits[1])


def python_rows(types: Sequence[Type], batch: Batch, make: Callable[[Any], Any]) -> Iterator[Any]:
    """Rows one after the other; `make` makes one of a tuple of values."""
    return chain.from_iterable(
        _rows(types, batch.rows(start, start + CHUNK), make)
        for start in range(0, len(batch), CHUNK)
    )


def _rows(types: Sequence[Type], batch: Batch, make: Callable[[Any], Any]) -> Iterator[Any]:
    columns = [
        python_values(values, nulls, type)
        for values, nulls, type in zip(batch.columns, batch.nulls, types, strict=True)
    ]
    tuples: Any = zip(*columns, strict=True) if columns else repeat((), len(batch))
    return map(make, tuples)
