"""More of the calendar: parts of ISO's weeks, centuries, seconds since 1970, and buckets of time.

Parts are whole numbers as DuckDB's; EPOCH is a DOUBLE.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from viewlet.errors import RangeFailure
from viewlet.functions.dates import (
    DAY,
    MINUTE,
    YEARS_HINT,
    civil,
    day_in_range,
    days_of,
    define_moments,
    moment_in_range,
)
from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.sql_forms import DATE, TIMESTAMP, SqlCall, SqlSyntax
from viewlet.functions.trends import RISING
from viewlet.functions.vector_forms import by_row
from viewlet.schema import BIGINT, DOUBLE, EPOCH, EPOCH_DATE, Physical
from viewlet.schema import DATE as DATE_TYPE
from viewlet.schema import TIMESTAMP as TIMESTAMP_TYPE


def date_decade(days: int) -> int:
    """EXTRACT(DECADE FROM date): the year without its last digit"""
    return civil(days)[0] // 10


def date_century(days: int) -> int:
    """EXTRACT(CENTURY FROM date): 2000 is in the 20th, 2001 in the 21st."""
    return (civil(days)[0] + 99) // 100


def date_millennium(days: int) -> int:
    """EXTRACT(MILLENNIUM FROM date): 2000 is in the 2nd, 2001 in the 3rd."""
    return (civil(days)[0] + 999) // 1000


def date_isodow(days: int) -> int:
    """EXTRACT(ISODOW FROM date): Monday is 1, Sunday 7."""
    return (days + 3) % 7 + 1


def date_isoyear(days: int) -> int:
    """EXTRACT(ISOYEAR FROM date): the year in which the Thursday of its week lies"""
    return civil(days - (days + 3) % 7 + 3)[0]


def date_week(days: int) -> int:
    """EXTRACT(WEEK FROM date): ISO's number, 1 to 53; week 1 has the year's first Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return (thursday - days_of(civil(thursday)[0], 1, 1)) // 7 + 1


def date_millisecond(days: int) -> int:
    """EXTRACT(MILLISECOND FROM date): a date is its midnight."""
    return 0


def date_microsecond(days: int) -> int:
    """EXTRACT(MICROSECOND FROM date): a date is its midnight."""
    return 0


def timestamp_decade(moment: int) -> int:
    """EXTRACT(DECADE FROM timestamp)"""
    return date_decade(moment // DAY)


def timestamp_century(moment: int) -> int:
    """EXTRACT(CENTURY FROM timestamp)"""
    return date_century(moment // DAY)


def timestamp_millennium(moment: int) -> int:
    """EXTRACT(MILLENNIUM FROM timestamp)"""
    return date_millennium(moment // DAY)


def timestamp_isodow(moment: int) -> int:
    """EXTRACT(ISODOW FROM timestamp)"""
    return date_isodow(moment // DAY)


def timestamp_isoyear(moment: int) -> int:
    """EXTRACT(ISOYEAR FROM timestamp)"""
    return date_isoyear(moment // DAY)


def timestamp_week(moment: int) -> int:
    """EXTRACT(WEEK FROM timestamp)"""
    return date_week(moment // DAY)


def timestamp_millisecond(moment: int) -> int:
    """EXTRACT(MILLISECOND FROM timestamp), 0 to 59999: with the seconds"""
    return moment % MINUTE // 1000


def timestamp_microsecond(moment: int) -> int:
    """EXTRACT(MICROSECOND FROM timestamp), 0 to 59999999: with the seconds"""
    return moment % MINUTE


_PARTS: Mapping[
    str, tuple[Callable[[dt.datetime], int], Callable[[int], int], Callable[[int], int]]
] = {
    "week": (lambda d: d.isocalendar().week, date_week, timestamp_week),
    "isodow": (lambda d: d.isoweekday(), date_isodow, timestamp_isodow),
    "isoyear": (lambda d: d.isocalendar().year, date_isoyear, timestamp_isoyear),
    "decade": (lambda d: d.year // 10, date_decade, timestamp_decade),
    "century": (lambda d: (d.year - 1) // 100 + 1, date_century, timestamp_century),
    "millennium": (lambda d: (d.year - 1) // 1000 + 1, date_millennium, timestamp_millennium),
    "millisecond": (
        lambda d: d.second * 1000 + d.microsecond // 1000,
        date_millisecond,
        timestamp_millisecond,
    ),
    "microsecond": (
        lambda d: d.second * 1_000_000 + d.microsecond,
        date_microsecond,
        timestamp_microsecond,
    ),
}
"""Part -> its meaning, and its kernels for DATE and TIMESTAMP."""

for _part, (_of, _of_date, _of_moment) in _PARTS.items():
    _names = (f"{_part.upper()}S",) if _part.endswith("second") else ()
    _spellings = (
        f"EXTRACT {_part.upper()}",
        *(f"EXTRACT {name}" for name in _names),
        _part.upper(),
    )
    define_moments(
        f"date_{_part}",
        lambda days, of=_of: of(EPOCH + dt.timedelta(days=days)),
        _of_date,
        SqlCall(_spellings, (DATE,), BIGINT),
    )
    define_moments(
        f"timestamp_{_part}",
        lambda moment, of=_of: of(EPOCH + dt.timedelta(microseconds=moment)),
        _of_moment,
        SqlCall(_spellings, (TIMESTAMP,), BIGINT),
    )


# Seconds since 1970.


def date_epoch(days: int) -> float:
    """EXTRACT(EPOCH FROM date)"""
    return float(days * 86400)


def timestamp_epoch(moment: int) -> float:
    """EXTRACT(EPOCH FROM timestamp), with the fraction"""
    return float(moment) / 1e6


for _of_epoch, _parameter in ((date_epoch, DATE), (timestamp_epoch, TIMESTAMP)):
    define(
        ScalarFunction(
            name=_of_epoch.__name__,
            meaning=_of_epoch,
            result=Physical.FLOAT,
            nulls=STRICT,
            sql=SqlCall(("EXTRACT EPOCH", "EPOCH"), (_parameter,), DOUBLE),
            kernel=expression(f"{_of_epoch.__name__}({{0}})", natives=(_of_epoch,)),
            vector=by_row,
            monotone=RISING,
            hint="",
        )
    )


# DATE_TRUNC to a decade, and below a second.


def date_trunc_decade(days: int) -> int:
    """DATE_TRUNC('decade', date): 1 January of the year that ends in 0"""
    return day_in_range(days_of(civil(days)[0] // 10 * 10, 1, 1))


def timestamp_trunc_decade(moment: int) -> int:
    """DATE_TRUNC('decade', timestamp)"""
    return date_trunc_decade(moment // DAY) * DAY


def timestamp_trunc_millisecond(moment: int) -> int:
    """DATE_TRUNC('millisecond', timestamp)"""
    return moment - moment % 1000


def timestamp_trunc_microsecond(moment: int) -> int:
    """DATE_TRUNC('microsecond', timestamp): the timestamp itself"""
    return moment


_no_decade = RangeFailure("a date left the years 1 to 9999", YEARS_HINT)


def _decade(days: int) -> int:
    year = (EPOCH_DATE + dt.timedelta(days=days)).year // 10 * 10
    if not year:
        _no_decade()
    return (dt.date(year, 1, 1) - EPOCH_DATE).days


define_moments(
    "date_trunc_decade",
    _decade,
    date_trunc_decade,
    SqlCall(("DATE_TRUNC DECADE",), (DATE,), DATE_TYPE),
    monotone=RISING,
    hint=YEARS_HINT,
)
define_moments(
    "timestamp_trunc_decade",
    lambda moment: _decade(moment // DAY) * DAY,
    timestamp_trunc_decade,
    SqlCall(("DATE_TRUNC DECADE",), (TIMESTAMP,), TIMESTAMP_TYPE),
    monotone=RISING,
    hint=YEARS_HINT,
)
for _part, _unit, _truncated in (
    ("millisecond", 1000, timestamp_trunc_millisecond),
    ("microsecond", 1, timestamp_trunc_microsecond),
):
    define_moments(
        f"timestamp_trunc_{_part}",
        lambda moment, unit=_unit: moment // unit * unit,
        _truncated,
        SqlCall(
            (f"DATE_TRUNC {_part.upper()}", f"DATE_TRUNC {_part.upper()}S"),
            (TIMESTAMP,),
            TIMESTAMP_TYPE,
        ),
        monotone=RISING,
    )


# Buckets. The frontend checks that the stride is positive.


def timestamp_bin(moment: int, stride: int, origin: int) -> int:
    """The start of the bucket of `stride` microseconds that a moment is in, counted from origin."""
    return moment_in_range(moment - (moment - origin) % stride)


_DATE_BIN = (
    "date_bin(w, t) AS time_bucket(w::INTERVAL, t::TIMESTAMP, TIMESTAMP '1970-01-01'), "
    "(w, t, o) AS time_bucket(w::INTERVAL, t::TIMESTAMP, o::TIMESTAMP)"
)

define_moments(
    "timestamp_bin",
    timestamp_bin,
    timestamp_bin,
    SqlSyntax("DATE_BIN(a, b, c), TIME_BUCKET(a, b, c)", duckdb=(_DATE_BIN,)),
    monotone=RISING,
    hint=YEARS_HINT,
)
