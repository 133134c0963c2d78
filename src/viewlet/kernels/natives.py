"""Scalar functions as native code; each has the meaning of its namesake in viewlet.functions.

Arguments are never NULL here: the code around a call sees to that. Dates are days and timestamps
microseconds since 1970-01-01.
"""

from __future__ import annotations

import math

from viewlet.storage.compiled import compiled

DAY = 86_400_000_000


@compiled
def divide_whole(a: int, b: int) -> int:
    """Truncates towards zero; 0 for b = 0, which the caller makes NULL."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


@compiled
def modulo(a: int, b: int) -> int:
    return a - b * divide_whole(a, b) if b != 0 else 0


@compiled
def modulo_float(a: float, b: float) -> float:
    return math.fmod(a, b) if b != 0.0 else 0.0


@compiled
def divide(a: float, b: float) -> float:
    return a / b if b != 0 else 0.0


@compiled
def rescale(value: int, factor: int) -> int:
    quotient = abs(value) // factor
    if 2 * (abs(value) - quotient * factor) >= factor:
        quotient += 1
    return quotient if value >= 0 else -quotient


@compiled
def decimal_floor(value: int, unit: int) -> int:
    return value // unit


@compiled
def decimal_ceil(value: int, unit: int) -> int:
    return -(-value // unit)


@compiled
def floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


@compiled
def ceil(value: float) -> float:
    return float(math.ceil(value)) if math.isfinite(value) else value


@compiled
def round_half_away(value: float, digits: int) -> float:
    if not math.isfinite(value):
        return value
    factor = 10.0**digits
    return math.copysign(math.floor(abs(value) * factor + 0.5), value) / factor


@compiled
def root(value: float) -> float:
    return math.sqrt(value) if value >= 0.0 else 0.0


@compiled
def logarithm(value: float) -> float:
    return math.log(value) if value > 0.0 else 0.0


@compiled
def sign(value: float) -> int:
    return 1 if value > 0 else (-1 if value < 0 else 0)


@compiled
def to_int(value: float) -> int:
    """Half to even."""
    return int(round(value)) if math.isfinite(value) else 0  # noqa: RUF046


@compiled
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


@compiled
def days_of(year: int, month: int, day: int) -> int:
    """The inverse of civil."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@compiled
def date_year(days: int) -> int:
    return civil(days)[0]


@compiled
def date_quarter(days: int) -> int:
    return (civil(days)[1] + 2) // 3


@compiled
def date_month(days: int) -> int:
    return civil(days)[1]


@compiled
def date_day(days: int) -> int:
    return civil(days)[2]


@compiled
def date_hour(days: int) -> int:
    return 0


date_minute = date_second = date_hour


@compiled
def date_dow(days: int) -> int:
    """Sunday is 0; 1970-01-01 was a Thursday."""
    return (days + 4) % 7


@compiled
def date_doy(days: int) -> int:
    return days - days_of(civil(days)[0], 1, 1) + 1


@compiled
def date_of_timestamp(moment: int) -> int:
    return moment // DAY


@compiled
def timestamp_of_date(days: int) -> int:
    return days * DAY


@compiled
def timestamp_year(moment: int) -> int:
    return civil(moment // DAY)[0]


@compiled
def timestamp_quarter(moment: int) -> int:
    return (civil(moment // DAY)[1] + 2) // 3


@compiled
def timestamp_month(moment: int) -> int:
    return civil(moment // DAY)[1]


@compiled
def timestamp_day(moment: int) -> int:
    return civil(moment // DAY)[2]


@compiled
def timestamp_hour(moment: int) -> int:
    return moment % DAY // 3_600_000_000


@compiled
def timestamp_minute(moment: int) -> int:
    return moment % 3_600_000_000 // 60_000_000


@compiled
def timestamp_second(moment: int) -> int:
    return moment % 60_000_000 // 1_000_000


@compiled
def timestamp_dow(moment: int) -> int:
    return (moment // DAY + 4) % 7


@compiled
def timestamp_doy(moment: int) -> int:
    return date_doy(moment // DAY)


@compiled
def date_trunc_year(days: int) -> int:
    return days_of(civil(days)[0], 1, 1)


@compiled
def date_trunc_quarter(days: int) -> int:
    year, month, _ = civil(days)
    return days_of(year, (month - 1) // 3 * 3 + 1, 1)


@compiled
def date_trunc_month(days: int) -> int:
    year, month, _ = civil(days)
    return days_of(year, month, 1)


@compiled
def date_trunc_week(days: int) -> int:
    """Back to Monday."""
    return days - (days + 3) % 7


@compiled
def date_trunc_day(days: int) -> int:
    return days


@compiled
def timestamp_trunc_year(moment: int) -> int:
    return date_trunc_year(moment // DAY) * DAY


@compiled
def timestamp_trunc_quarter(moment: int) -> int:
    return date_trunc_quarter(moment // DAY) * DAY


@compiled
def timestamp_trunc_month(moment: int) -> int:
    return date_trunc_month(moment // DAY) * DAY


@compiled
def timestamp_trunc_week(moment: int) -> int:
    return date_trunc_week(moment // DAY) * DAY


@compiled
def timestamp_trunc_day(moment: int) -> int:
    return moment // DAY * DAY


@compiled
def timestamp_trunc_hour(moment: int) -> int:
    return moment - moment % 3_600_000_000


@compiled
def timestamp_trunc_minute(moment: int) -> int:
    return moment - moment % 60_000_000


@compiled
def timestamp_trunc_second(moment: int) -> int:
    return moment - moment % 1_000_000


@compiled
def date_add_months(days: int, months: int) -> int:
    """The same day of a later month, or that month's last day."""
    year, month, day = civil(days)
    index = year * 12 + month - 1 + months
    year, month = index // 12, index % 12 + 1
    following = index + 1
    last = days_of(following // 12, following % 12 + 1, 1) - days_of(year, month, 1)
    return days_of(year, month, min(day, last))


@compiled
def timestamp_add_months(moment: int, months: int) -> int:
    return date_add_months(moment // DAY, months) * DAY + moment % DAY
