"""Values of one type as another: CAST, and what SQL converts by itself.

A number that the target cannot hold is an error of the batch; text is cut to the target's length.
"""

from __future__ import annotations

import datetime as dt

from viewlet.errors import RangeFailure
from viewlet.functions.dates import DAY, moment_in_range
from viewlet.functions.kernel_forms import REMEMBERED, expression
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.scalars import Const
from viewlet.functions.sql_forms import Internal, SqlCast
from viewlet.functions.trends import NOT_MONOTONE, RISING, RISING_IN_DESCENTS
from viewlet.functions.vector_forms import Vector, by_row
from viewlet.schema import EPOCH, EPOCH_DATE, Kind, Physical, Scalar, units_of_double

_FITS = "CAST to a wider type, or leave such rows out with WHERE"

_no_integer = RangeFailure("a DOUBLE does not fit into 64-bit integers", _FITS)
_does_not_fit = RangeFailure("a number does not fit into the type that it is cast to", _FITS)

# Numbers.


def _to_float_vector(a: Vector) -> Vector:
    import numpy as np

    return Vector(a.values.astype(np.float64))


define(
    ScalarFunction(
        name="to_float",
        meaning=lambda number: float(number),
        result=Physical.FLOAT,
        nulls=STRICT,
        sql=Internal("any number as DOUBLE: conversions.as_double"),
        kernel=expression("float({0})"),
        vector=_to_float_vector,
        monotone=RISING_IN_DESCENTS,
        hint="",
    )
)


def to_int(value: float) -> int:
    """Half to even, as PostgreSQL and DuckDB cast."""
    if not -9223372036854775808.0 <= value < 9223372036854775808.0:
        _no_integer()
    return int(round(value))  # noqa: RUF046


define(
    ScalarFunction(
        name="to_int",
        meaning=to_int,
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCast(((Kind.DOUBLE, Kind.INTEGER), (Kind.DOUBLE, Kind.BIGINT))),
        kernel=expression("to_int(float({0}))", natives=(to_int,)),
        vector=by_row,
        monotone=RISING,
        hint=_FITS,
        can_refuse=True,
    )
)


def within(value: int, least: int, greatest: int) -> int:
    """The value, if the type that it is for can hold it."""
    if value < least or value > greatest:
        _does_not_fit()
    return value


define(
    ScalarFunction(
        name="within",
        meaning=within,
        result=Physical.INT,
        nulls=STRICT,
        sql=Internal("a whole number for a type with fewer digits"),
        kernel=expression("within({0}, {1}, {2})", natives=(within,)),
        vector=by_row,
        monotone=RISING,
        hint=_FITS,
        can_refuse=True,
    )
)

define(
    ScalarFunction(
        name="double_to_decimal",
        meaning=units_of_double,
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCast(
            ((Kind.DOUBLE, Kind.DECIMAL),), lambda source, target: (Const(10**target.scale),)
        ),
        kernel=expression("units_of_double({0}, {1})", natives=(units_of_double,)),
        vector=by_row,
        monotone=RISING,
        hint=_FITS,
        can_refuse=True,
    )
)

define(
    ScalarFunction(
        name="bool_to_int",
        meaning=lambda truth: int(truth),
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCast(((Kind.BOOLEAN, Kind.INTEGER), (Kind.BOOLEAN, Kind.BIGINT))),
        kernel=expression("(1 if {0} else 0)"),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)


# Dates.


def date_of_timestamp(moment: int) -> int:
    """CAST(timestamp AS DATE): microseconds -> the day that they are in, before 1970 as well."""
    return moment // DAY


def timestamp_of_date(days: int) -> int:
    """CAST(date AS TIMESTAMP): days -> the microseconds of their midnight."""
    return days * DAY


define(
    ScalarFunction(
        name="date_of_timestamp",
        meaning=date_of_timestamp,
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCast(((Kind.TIMESTAMP, Kind.DATE),)),
        kernel=expression("date_of_timestamp({0})", natives=(date_of_timestamp,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)

define(
    ScalarFunction(
        name="timestamp_of_date",
        meaning=timestamp_of_date,
        result=Physical.INT,
        nulls=STRICT,
        sql=SqlCast(((Kind.DATE, Kind.TIMESTAMP),)),
        kernel=expression("timestamp_of_date({0})", natives=(timestamp_of_date,)),
        vector=by_row,
        monotone=RISING,
        hint="",
    )
)


def timestamp_round(moment: int, unit: int) -> int:
    """To whole units, half away from 1970: TIMESTAMP(0) has the unit of a second."""
    whole = moment // unit
    rest = 2 * (moment - whole * unit)
    if rest > unit or (rest == unit and moment >= 0):
        whole += 1
    return moment_in_range(whole * unit)


define(
    ScalarFunction(
        name="timestamp_round",
        meaning=timestamp_round,
        result=Physical.INT,
        nulls=STRICT,
        sql=Internal("a TIMESTAMP of fewer digits"),
        kernel=expression("timestamp_round({0}, {1})", natives=(timestamp_round,)),
        vector=by_row,
        monotone=RISING,
        hint=_FITS,
        can_refuse=True,
    )
)


# Text.


def _to_text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


define(
    ScalarFunction(
        name="to_text",
        meaning=_to_text,
        result=Physical.STR,
        nulls=STRICT,
        sql=SqlCast(
            tuple(
                (kind, Kind.VARCHAR)
                for kind in (Kind.BOOLEAN, Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE)
            )
        ),
        kernel=REMEMBERED,
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)


def _decimal_text(value: int, scale: int) -> str:
    sign, digits = "-" if value < 0 else "", str(abs(value)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


define(
    ScalarFunction(
        name="decimal_text",
        meaning=_decimal_text,
        result=Physical.STR,
        nulls=STRICT,
        sql=SqlCast(((Kind.DECIMAL, Kind.VARCHAR),), lambda source, target: (Const(source.scale),)),
        kernel=REMEMBERED,
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)

define(
    ScalarFunction(
        name="date_text",
        meaning=lambda days: (EPOCH_DATE + dt.timedelta(days=days)).isoformat(),
        result=Physical.STR,
        nulls=STRICT,
        sql=SqlCast(((Kind.DATE, Kind.VARCHAR),)),
        kernel=REMEMBERED,
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)


def _timestamp_text(moment: int) -> str:
    """2024-01-01 10:30:00.5: as many digits of a second as there are"""
    text = (EPOCH + dt.timedelta(microseconds=moment)).isoformat(" ")
    return text.rstrip("0") if "." in text else text


define(
    ScalarFunction(
        name="timestamp_text",
        meaning=_timestamp_text,
        result=Physical.STR,
        nulls=STRICT,
        sql=SqlCast(((Kind.TIMESTAMP, Kind.VARCHAR),)),
        kernel=REMEMBERED,
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)
