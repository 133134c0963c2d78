"""Dates and timestamps: days and microseconds since 1970-01-01, from year 1 to year 9999.

A function that leaves these years is an error of the batch. Meanings are by Python's calendar,
kernels by eras of 400 years.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from viewlet.errors import RangeFailure
from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import STRICT, IdentityRule, ScalarFunction, define
from viewlet.functions.scalars import Const, ScalarExpr
from viewlet.functions.sql_forms import DATE, TIMESTAMP, Internal, SqlCall, SqlForm
from viewlet.functions.trends import NOT_MONOTONE, RISING, SUM, Monotone
from viewlet.functions.vector_forms import by_row
from viewlet.schema import BIGINT, EPOCH, EPOCH_DATE, Physical
from viewlet.schema import DATE as DATE_TYPE
from viewlet.schema import TIMESTAMP as TIMESTAMP_TYPE

DAY = 86_400_000_000
"""Microseconds of a day."""
HOUR = 3_600_000_000
MINUTE = 60_000_000
SECOND = 1_000_000

FIRST_DAY = (dt.date.min - EPOCH_DATE).days
LAST_DAY = (dt.date.max - EPOCH_DATE).days
FIRST_MOMENT = FIRST_DAY * DAY
LAST_MOMENT = LAST_DAY * DAY + DAY - 1

YEARS_HINT = "dates are from 0001-01-01 to 9999-12-31: leave such rows out with WHERE"
_out_of_years = RangeFailure("a date left the years 1 to 9999", YEARS_HINT)


def define_moments(
    name: str,
    meaning: Callable[..., int],
    native: Callable[..., int],
    sql: SqlForm,
    *,
    monotone: Monotone = NOT_MONOTONE,
    hint: str = "",
    identity: IdentityRule | None = None,
) -> None:
    """A function of dates or timestamps, with whole numbers as arguments and result."""
    holes = ", ".join(f"{{{i}}}" for i in range(native.__code__.co_argcount))
    define(
        ScalarFunction(
            name=name,
            meaning=meaning,
            result=Physical.INT,
            nulls=STRICT,
            sql=sql,
            kernel=expression(f"{native.__name__}({holes})", natives=(native,)),
            vector=by_row,
            monotone=monotone,
            hint=hint,
            identity=identity,
            can_refuse=bool(hint),
        )
    )


def _date(days: int) -> dt.date:
    return EPOCH_DATE + dt.timedelta(days=days)


def _moment(microseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=microseconds)


def day_in_range(days: int) -> int:
    """A DATE, if it is one."""
    if days < FIRST_DAY or days > LAST_DAY:
        _out_of_years()
    return days


def moment_in_range(moment: int) -> int:
    """A TIMESTAMP, if it is one."""
    if moment < FIRST_MOMENT or moment > LAST_MOMENT:
        _out_of_years()
    return moment


# The calendar in kernels.


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of the proleptic Gregorian calendar, by eras of 400 years."""
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (1 if month <= 2 else 0), month, day


def days_of(year: int, month: int, day: int) -> int:
    """The inverse of civil."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


# Parts: YEAR(d), EXTRACT(YEAR FROM d).


def date_year(days: int) -> int:
    """EXTRACT(YEAR FROM date)"""
    return civil(days)[0]


def date_quarter(days: int) -> int:
    """EXTRACT(QUARTER FROM date), 1 to 4"""
    return (civil(days)[1] + 2) // 3


def date_month(days: int) -> int:
    """EXTRACT(MONTH FROM date), 1 to 12"""
    return civil(days)[1]


def date_day(days: int) -> int:
    """EXTRACT(DAY FROM date), 1 to 31"""
    return civil(days)[2]


def date_hour(days: int) -> int:
    """EXTRACT(HOUR FROM date): a date is its midnight."""
    return 0


def date_minute(days: int) -> int:
    """EXTRACT(MINUTE FROM date): a date is its midnight."""
    return 0


def date_second(days: int) -> int:
    """EXTRACT(SECOND FROM date): a date is its midnight."""
    return 0


def date_dow(days: int) -> int:
    """Sunday is 0; 1970-01-01 was a Thursday."""
    return (days + 4) % 7


def date_doy(days: int) -> int:
    """EXTRACT(DOY FROM date), 1 to 366"""
    return days - days_of(civil(days)[0], 1, 1) + 1


def timestamp_year(moment: int) -> int:
    """EXTRACT(YEAR FROM timestamp)"""
    return civil(moment // DAY)[0]


def timestamp_quarter(moment: int) -> int:
    """EXTRACT(QUARTER FROM timestamp), 1 to 4"""
    return (civil(moment // DAY)[1] + 2) // 3


def timestamp_month(moment: int) -> int:
    """EXTRACT(MONTH FROM timestamp), 1 to 12"""
    return civil(moment // DAY)[1]


def timestamp_day(moment: int) -> int:
    """EXTRACT(DAY FROM timestamp), 1 to 31"""
    return civil(moment // DAY)[2]


def timestamp_hour(moment: int) -> int:
    """EXTRACT(HOUR FROM timestamp), 0 to 23"""
    return moment % DAY // HOUR


def timestamp_minute(moment: int) -> int:
    """EXTRACT(MINUTE FROM timestamp), 0 to 59"""
    return moment % HOUR // MINUTE


def timestamp_second(moment: int) -> int:
    """EXTRACT(SECOND FROM timestamp), 0 to 59 without the fraction"""
    return moment % MINUTE // SECOND


def timestamp_dow(moment: int) -> int:
    """EXTRACT(DOW FROM timestamp): 0 is Sunday, and 1970 began with a Thursday, 4."""
    return (moment // DAY + 4) % 7


def timestamp_doy(moment: int) -> int:
    """EXTRACT(DOY FROM timestamp), 1 to 366"""
    return date_doy(moment // DAY)


_PARTS: Mapping[
    str, tuple[Callable[[dt.datetime], int], Callable[[int], int], Callable[[int], int]]
] = {
    "year": (lambda d: d.year, date_year, timestamp_year),
    "quarter": (lambda d: (d.month + 2) // 3, date_quarter, timestamp_quarter),
    "month": (lambda d: d.month, date_month, timestamp_month),
    "day": (lambda d: d.day, date_day, timestamp_day),
    "hour": (lambda d: d.hour, date_hour, timestamp_hour),
    "minute": (lambda d: d.minute, date_minute, timestamp_minute),
    "second": (lambda d: d.second, date_second, timestamp_second),
    "dow": (lambda d: (d.weekday() + 1) % 7, date_dow, timestamp_dow),
    "doy": (lambda d: d.timetuple().tm_yday, date_doy, timestamp_doy),
}
"""Part -> its meaning, and its kernels for DATE and TIMESTAMP."""

_LONG_NAMES = {"day": "DAYOFMONTH", "dow": "DAYOFWEEK", "doy": "DAYOFYEAR"}

for _part, (_of, _of_date, _of_moment) in _PARTS.items():
    _short, _long = _part.upper(), _LONG_NAMES.get(_part)
    _spellings = (
        f"EXTRACT {_short}",
        *((f"EXTRACT {_long}", _long) if _long else ()),
        *((_short,) if _part not in ("dow", "doy") else ()),
    )
    define_moments(
        f"date_{_part}",
        lambda days, of=_of: of(_moment(days * DAY)),
        _of_date,
        SqlCall(_spellings, (DATE,), BIGINT),
    )
    define_moments(
        f"timestamp_{_part}",
        lambda moment, of=_of: of(_moment(moment)),
        _of_moment,
        SqlCall(_spellings, (TIMESTAMP,), BIGINT),
    )


# DATE_TRUNC, which keeps the type of its argument.


def date_trunc_year(days: int) -> int:
    """DATE_TRUNC('year', date): its 1 January"""
    return days_of(civil(days)[0], 1, 1)


def date_trunc_quarter(days: int) -> int:
    """DATE_TRUNC('quarter', date): the first of January, April, July or October"""
    year, month, _ = civil(days)
    return days_of(year, (month - 1) // 3 * 3 + 1, 1)


def date_trunc_month(days: int) -> int:
    """DATE_TRUNC('month', date): the first of its month"""
    year, month, _ = civil(days)
    return days_of(year, month, 1)


def date_trunc_week(days: int) -> int:
    """Back to Monday."""
    return days - (days + 3) % 7


def date_trunc_day(days: int) -> int:
    """DATE_TRUNC('day', date): the date itself"""
    return days


def timestamp_trunc_year(moment: int) -> int:
    """DATE_TRUNC('year', timestamp): midnight of its 1 January"""
    return date_trunc_year(moment // DAY) * DAY


def timestamp_trunc_quarter(moment: int) -> int:
    """DATE_TRUNC('quarter', timestamp): midnight of the quarter's first day"""
    return date_trunc_quarter(moment // DAY) * DAY


def timestamp_trunc_month(moment: int) -> int:
    """DATE_TRUNC('month', timestamp): midnight of the month's first day"""
    return date_trunc_month(moment // DAY) * DAY


def timestamp_trunc_week(moment: int) -> int:
    """DATE_TRUNC('week', timestamp): midnight of its Monday"""
    return date_trunc_week(moment // DAY) * DAY


def timestamp_trunc_day(moment: int) -> int:
    """DATE_TRUNC('day', timestamp): its midnight"""
    return moment // DAY * DAY


def timestamp_trunc_hour(moment: int) -> int:
    """DATE_TRUNC('hour', timestamp): 10:31:07 -> 10:00:00"""
    return moment - moment % HOUR


def timestamp_trunc_minute(moment: int) -> int:
    """DATE_TRUNC('minute', timestamp): 10:31:07 -> 10:31:00"""
    return moment - moment % MINUTE


def timestamp_trunc_second(moment: int) -> int:
    """DATE_TRUNC('second', timestamp): 10:31:07.25 -> 10:31:07"""
    return moment - moment % SECOND


def _start_of(part: str, date: dt.date) -> dt.date:
    if part == "year":
        return date.replace(month=1, day=1)
    if part == "quarter":
        return date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1)
    if part == "month":
        return date.replace(day=1)
    return date - dt.timedelta(days=date.weekday()) if part == "week" else date


_TRUNCATED: Mapping[str, tuple[Callable[[int], int], Callable[[int], int]]] = {
    "year": (date_trunc_year, timestamp_trunc_year),
    "quarter": (date_trunc_quarter, timestamp_trunc_quarter),
    "month": (date_trunc_month, timestamp_trunc_month),
    "week": (date_trunc_week, timestamp_trunc_week),
    "day": (date_trunc_day, timestamp_trunc_day),
}

for _part, (_of_date, _of_moment) in _TRUNCATED.items():
    # A DATE has nothing below a day.
    _same = (_part, "hour", "minute", "second") if _part == "day" else (_part,)
    define_moments(
        f"date_trunc_{_part}",
        lambda days, part=_part: (_start_of(part, _date(days)) - EPOCH_DATE).days,
        _of_date,
        SqlCall(tuple(f"DATE_TRUNC {part.upper()}" for part in _same), (DATE,), DATE_TYPE),
        monotone=RISING,
    )
    define_moments(
        f"timestamp_trunc_{_part}",
        lambda moment, part=_part: (
            (_start_of(part, _moment(moment).date()) - EPOCH_DATE).days * DAY
        ),
        _of_moment,
        SqlCall((f"DATE_TRUNC {_part.upper()}",), (TIMESTAMP,), TIMESTAMP_TYPE),
        monotone=RISING,
    )

for _part, _unit, _of_moment in (
    ("hour", HOUR, timestamp_trunc_hour),
    ("minute", MINUTE, timestamp_trunc_minute),
    ("second", SECOND, timestamp_trunc_second),
):
    define_moments(
        f"timestamp_trunc_{_part}",
        lambda moment, unit=_unit: moment - moment % unit,
        _of_moment,
        SqlCall((f"DATE_TRUNC {_part.upper()}",), (TIMESTAMP,), TIMESTAMP_TYPE),
        monotone=RISING,
    )


# Arithmetic.


def date_add_days(days: int, more: int) -> int:
    """So many days later. What is added is cut first, so that the sum has 64 bits."""
    span = LAST_DAY - FIRST_DAY + 1
    return day_in_range(days + max(-span, min(span, more)))


def timestamp_add(moment: int, more: int) -> int:
    """So many microseconds later."""
    span = LAST_MOMENT - FIRST_MOMENT + 1
    return moment_in_range(moment + max(-span, min(span, more)))


def _without_zero(arguments: tuple[ScalarExpr, ...]) -> ScalarExpr | None:
    """d + 0 -> d"""
    return arguments[0] if arguments[1] == Const(0) else None


define_moments(
    "date_add_days",
    date_add_days,
    date_add_days,
    Internal("a DATE and a number of days"),
    monotone=SUM,
    hint=YEARS_HINT,
    identity=_without_zero,
)
define_moments(
    "timestamp_add",
    timestamp_add,
    timestamp_add,
    Internal("a TIMESTAMP and an INTERVAL"),
    monotone=SUM,
    hint=YEARS_HINT,
    identity=_without_zero,
)


def date_add_months(days: int, months: int) -> int:
    """The same day of a later month, or that month's last day."""
    year, month, day = civil(days)
    index = year * 12 + month - 1 + max(-120000, min(120000, months))
    year, month = index // 12, index % 12 + 1
    following = index + 1
    last = days_of(following // 12, following % 12 + 1, 1) - days_of(year, month, 1)
    return day_in_range(days_of(year, month, min(day, last)))


def timestamp_add_months(moment: int, months: int) -> int:
    """timestamp + INTERVAL months: as for its date, at the same time of day"""
    return date_add_months(moment // DAY, months) * DAY + moment % DAY


def _add_months(date: dt.date, months: int) -> dt.date:
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        _out_of_years()
    for day in range(date.day, 27, -1):
        try:
            return dt.date(year, month + 1, day)
        except ValueError:  # the month has fewer days
            continue
    return dt.date(year, month + 1, date.day)


define_moments(
    "date_add_months",
    lambda days, months: (_add_months(_date(days), months) - EPOCH_DATE).days,
    date_add_months,
    Internal("a DATE and an INTERVAL of months"),
    monotone=RISING,
    hint=YEARS_HINT,
)
define_moments(
    "timestamp_add_months",
    lambda moment, months: (
        (_add_months(_date(moment // DAY), months) - EPOCH_DATE).days * DAY + moment % DAY
    ),
    timestamp_add_months,
    Internal("a TIMESTAMP and an INTERVAL of months"),
    monotone=RISING,
    hint=YEARS_HINT,
)
