"""Calls of every scalar function: what the tests of all engines run. A new function adds one line.

`scalars` are in the calculus' own form, over the columns below; kernels, the interpreter and whole
columns must agree on them. `sql` is the same for users: views of all engines and ad-hoc queries
must agree on it.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from viewlet.functions import FUNCTIONS

COLUMNS: dict[str, str] = {
    "i": "INTEGER",
    "j": "INTEGER",
    "f": "DOUBLE",
    "g": "DOUBLE",
    "b": "BOOLEAN",
    "c": "BOOLEAN",
    "s": "VARCHAR",
    "t": "VARCHAR",
    "d": "DATE",
    "m": "TIMESTAMP",
    "e": "DECIMAL(8,2)",
}

VALUES: dict[str, tuple[Any, ...]] = {
    "i": tuple(range(-3, 160, 7)),
    "j": (0, 1, 2, 3, -2),
    "f": (-2.5, -0.5, 0.0, 0.25, 1.5, 2.5, 1e6, -8.0, 1e300, math.inf, math.nan),
    "g": (-1.0, 0.0, 0.25, 3.0, 1000.0, -math.inf),
    "b": (True, False),
    "c": (True, False),
    "s": ("xa", "xAb", "", " y ", "b", "straße", "a%b", "axb", "a\\xb", "İ"),
    "t": ("xa", "a", "x%", "b", "a\\%b", "_\\_"),
    "d": tuple(
        map(dt.date.fromisoformat, ("1999-12-31", "2000-02-29", "1970-01-01", "1969-03-30"))
    ),
    "m": tuple(
        map(
            dt.datetime.fromisoformat,
            ("1999-12-31 23:59:59.5", "2024-02-29 00:00:00", "1969-12-31 12:30:00.125"),
        )
    ),
    "e": tuple(map(Decimal, ("0.00", "1.25", "-1.25", "2.50", "99.99", "-0.01"))),
}


BUILT_IN = dict(FUNCTIONS)
"""Those of viewlet: tests that run in the same process define functions of their own."""


@dataclass(frozen=True)
class Calls:
    scalars: tuple[str, ...]
    sql: tuple[str, ...] = ()


def _calls(*scalars: str, sql: str = "") -> Calls:
    return Calls(scalars, tuple(part.strip() for part in sql.split(";") if part.strip()))


def _of_dates() -> dict[str, Calls]:
    """date_year(d), timestamp_year(m) and their like, with SQL for the parts."""
    made: dict[str, Calls] = {}
    for part in (
        *("year", "quarter", "month", "day", "hour", "minute", "second", "dow", "doy"),
        *("week", "isodow", "isoyear", "decade", "century", "millennium", "epoch"),
        *("millisecond", "microsecond"),
    ):
        made[f"date_{part}"] = _calls(f"date_{part}(d)", sql=f"EXTRACT({part.upper()} FROM d)")
        made[f"timestamp_{part}"] = _calls(
            f"timestamp_{part}(m)", sql=f"EXTRACT({part.upper()} FROM m)"
        )
    for part in ("decade", "year", "quarter", "month", "week", "day"):
        sql = f"CAST(DATE_TRUNC('{part}', d) AS DATE)"
        made[f"date_trunc_{part}"] = _calls(f"date_trunc_{part}(d)", sql=sql)
    for part in (
        *("decade", "year", "quarter", "month", "week", "day", "hour", "minute", "second"),
        *("millisecond", "microsecond"),
    ):
        sql = f"DATE_TRUNC('{part}', m)"
        made[f"timestamp_trunc_{part}"] = _calls(f"timestamp_trunc_{part}(m)", sql=sql)
    return made


CALLS: dict[str, Calls] = {
    # arithmetic
    "+": _calls("i + j", "f + g", sql="i + j; f + g; e + i; e + f"),
    "-": _calls("i - j", "f - g", sql="i - j; f - g; e - 1.5"),
    "*": _calls("i * j", "f * g", sql="i * j; f * g; e * e"),
    "/": _calls("i / j", "f / g", sql="i / j; f / g; e / j; f / 0"),
    "neg": _calls("neg(i)", "neg(f)", sql="-i; -f; -e"),
    "div": _calls("div(i, j)"),
    "mod": _calls("mod(i, j)", "mod(f, g)", sql="i % j; MOD(i, j); f % g; MOD(e, 0.75)"),
    "abs": _calls("abs(i)", "abs(f)", sql="ABS(i); ABS(f); ABS(e)"),
    "bit_weight": _calls("bit_weight(i, 3)", "bit_weight(i, abs(j))"),
    "sign": _calls("sign(i)", "sign(f)", sql="SIGN(i); SIGN(f); SIGN(e)"),
    # rounding
    "floor": _calls("floor(f)", sql="FLOOR(f)"),
    "ceil": _calls("ceil(f)", sql="CEIL(f); CEILING(f)"),
    "decimal_floor": _calls("decimal_floor(i, 100)", sql="FLOOR(e); FLOOR(i)"),
    "decimal_ceil": _calls("decimal_ceil(i, 100)", sql="CEIL(e); CEIL(i)"),
    "round": _calls(
        "round(f, 1)", "round(f, -1)", sql="ROUND(f); ROUND(f, 1); ROUND(f, -1); ROUND(e, 1)"
    ),
    "rescale": _calls("rescale(i, 100)"),
    # exponentials
    **{
        name: _calls(f"{name}(f)", f"{name}(i)")
        for name in ("x_high", "x_low", "square_high", "square_middle", "square_low")
    },
    **{f"product_{part}": _calls(f"product_{part}(f, g)") for part in ("high", "middle", "low")},
    "deviations": _calls("deviations(i, f, g, f * f, g, f)"),
    "co_deviations": _calls("co_deviations(i, f, g, g, f, f * g, g, f)"),
    "single": _calls("single(case(b, 1, 0))"),
    "sqrt": _calls("sqrt(f)", "sqrt(i)", sql="SQRT(f); SQRT(i)"),
    "cbrt": _calls("cbrt(f)", "cbrt(i)", sql="CBRT(f); CBRT(i)"),
    "exp": _calls("exp(g)", sql="EXP(g); EXP(i)"),
    "ln": _calls("ln(f)", "ln(i)", sql="LN(f); LN(i)"),
    "log10": _calls("log10(f)", sql="LOG(f); LOG10(f); LOG(i)"),
    "power": _calls("power(f, 2)", "power(abs(f), 0.5)", "power(f, g)", sql="POWER(f, g); f ^ 2"),
    # comparison
    "=": _calls("i = j", "g = 0.25", "s = t", sql="i = j; s = t; b = c; d = m; e = 1.25"),
    "<>": _calls("i <> j", "g <> 0.25", "s <> t", sql="i <> j; s <> t; b <> c"),
    "<": _calls("i < j", "g < 2.5", "s < t", "b < c", sql="i < j; s < t; b < c; d < m"),
    "<=": _calls("i <= j", "g <= 2.5", "s <= t", sql="i <= j; s <= t; b <= c"),
    ">": _calls("i > j", "g > -1.0", "s > t", sql="i > j; s > t; b > c"),
    ">=": _calls("i >= j", "g >= -1.0", "s >= t", sql="i >= j; s >= t; b >= c; e >= i"),
    "==": _calls("i == j", "s == t", "b == c", sql="i IS NOT DISTINCT FROM j"),
    # logic
    "and": _calls("b and c", "i < j and is_null(s)", sql="b AND c; b AND NULL"),
    "or": _calls("b or c", "i < j or is_null(s)", sql="b OR c; b OR NULL; i = 4 OR j = 1 OR b"),
    "not": _calls("not(b)", sql="NOT b"),
    "is_null": _calls("is_null(i)", "is_null(concat(s, t))", sql="i IS NULL; s IS NOT NULL"),
    "is_true": _calls("is_true(b)", sql="b IS TRUE; b IS NOT FALSE"),
    "in": _calls("in(i, 1, j, NULL)", "in(s, 'xa', t)", sql="i IN (4, j, NULL); s NOT IN ('b', t)"),
    # choice
    "case": _calls(
        "case(i > j, i, b, j, NULL)",
        "case(b, s, c, t, 'else')",
        "case(b, f, 1)",
        sql="CASE WHEN b THEN i WHEN c THEN j END; NULLIF(i, j); CASE i WHEN 4 THEN 'four' END",
    ),
    "coalesce": _calls(
        "coalesce(i, j, 7)", "coalesce(s, t)", "coalesce(concat(s, t), s)", sql="COALESCE(i, j, 0)"
    ),
    "nullif": _calls("nullif(i, j)", "nullif(s, t)"),
    **{
        name: _calls(f"{name}(i, j)", f"{name}(g, i)", f"{name}(s, t)", f"{name}(i, j, 3)")
        for name in ("least", "greatest")
    },
    **{
        f"{name}_known": _calls(
            f"{name}_known(i, j)",
            f"{name}_known(g, i)",
            f"{name}_known(s, t)",
            f"{name}_known(i, j, 3, i, j)",
            sql=f"{name}(i, j, 3); {name}(s, t); {name}(b, c); {name}(d, DATE '1980-01-01')",
        )
        for name in ("least", "greatest")
    },
    # text
    "like": _calls(
        "like(s, 'x%')",
        "like(s, t)",
        sql=r"s LIKE 'x%'; s NOT LIKE '_a%'; s LIKE t; s LIKE 'a\%b'; s NOT LIKE 'a\%b'; "
        r"s LIKE 'a!%b' ESCAPE '!'; s LIKE 'a\\x_' ESCAPE '!'; (s LIKE NULL ESCAPE '~') IS NULL",
    ),
    "ilike": _calls(
        "ilike(s, 'x%')", "ilike(s, t)", sql=r"s ILIKE 'XA%'; s ILIKE 'A\%B'; s NOT ILIKE 'i%'"
    ),
    "upper": _calls("upper(s)", "upper(concat(s, t))", sql="UPPER(s); UPPER('ŉ')"),
    "lower": _calls("lower(s)", "lower(concat(s, t))", sql="LOWER(s); LOWER('ΑΣ')"),
    "length": _calls("length(s)", "length(concat(s, t))", sql="LENGTH(s)"),
    "trim": _calls("trim(s)", "trim(concat(' ', t))", sql="TRIM(s)"),
    "ltrim": _calls("ltrim(s)", "ltrim(concat(' ', t))", sql="LTRIM(s)"),
    "rtrim": _calls("rtrim(s)", "rtrim(concat(' ', t))", sql="RTRIM(s)"),
    "substring": _calls(
        "substring(s, 2, 1)",
        "substring(s, i)",
        "substring(s, i, j)",
        sql="SUBSTRING(s, 2, 1); SUBSTRING(s, -1); SUBSTRING(s, 0, 2); SUBSTRING(s, -1, 3); "
        "SUBSTRING(s, i, j); SUBSTR(s, -2)",
    ),
    "concat": _calls(
        "concat(s, '-', t)",
        "concat(s, to_text(i))",
        "concat(upper(t), date_text(d))",
        sql="s || t; CONCAT(s, i, t); s || NULL; CONCAT_WS('-', s, i, t); CONCAT_WS(s, t, t); "
        "CONCAT_WS('+', t)",
    ),
    "replace": _calls(
        "replace(s, 'x', 'yy')",
        "replace(s, t, 'z')",
        sql="REPLACE(s, 'x', 'yy'); REPLACE(s, t, '')",
    ),
    "split_part": _calls(
        "split_part(s, 'A', j)",
        sql="SPLIT_PART(s, 'a', 2); SPLIT_PART(s, 'a', j); SPLIT_PART(s, t, -1); "
        "SPLIT_PART(s, '', j); SPLIT_INDEX(s, 'a', 1); SPLIT_INDEX(s, t, j); SPLIT_INDEX(s, '', j)",
    ),
    "strftime": _calls(
        "strftime(m, '%Y-%m-%d %H:%M:%S.%f')",
        sql="STRFTIME(m, '%d.%m.%Y'); DATE_FORMAT(m, 'yyyy-MM-dd HH:mm:ss.SSS'); "
        "TO_CHAR(m, 'YYYY/MM/DD HH12:MI:SS.US AM'); TO_CHAR(d, 'YY DDD'); STRFTIME(m, '%%%j%%'); "
        "DATE_FORMAT(m, 'yyyy''-MM T ''dd'); TO_CHAR(d, '\"Year\" YYYY')",
    ),
    "left": _calls("left(s, 1)", "left(s, j)", sql="LEFT(s, 2); LEFT(s, j)"),
    "right": _calls("right(s, 1)", "right(s, j)", sql="RIGHT(s, 2); RIGHT(s, j)"),
    "strpos": _calls(
        "strpos(s, t)", sql="STRPOS(s, 'b'); POSITION('x' IN s); INSTR(s, t); STRPOS(s, '')"
    ),
    "starts_with": _calls(
        "starts_with(s, t)", sql="STARTS_WITH(s, 'x'); STARTS_WITH(s, t); PREFIX(s, 'a')"
    ),
    "ends_with": _calls("ends_with(s, t)", sql="ENDS_WITH(s, 'b'); SUFFIX(s, t)"),
    "contains": _calls("contains(s, t)", sql="CONTAINS(s, 'b'); CONTAINS(s, t)"),
    "trim_of": _calls("trim_of(s, 'xb')", sql="TRIM(BOTH 'xb' FROM s); TRIM(s, t); BTRIM(s, '')"),
    "ltrim_of": _calls("ltrim_of(s, t)", sql="TRIM(LEADING 'x ' FROM s); LTRIM(s, 'xa')"),
    "rtrim_of": _calls("rtrim_of(s, t)", sql="TRIM(TRAILING 'b' FROM s); RTRIM(s, t)"),
    "repeat": _calls("repeat(s, j)", sql="REPEAT(s, j); REPEAT(s, 2)"),
    "lpad": _calls(
        "lpad(s, j, t)", sql="LPAD(s, 3); LPAD(s, j, 'xy'); LPAD(s, 6, ''); LPAD(s, 7, t)"
    ),
    "rpad": _calls(
        "rpad(s, j, t)", sql="RPAD(s, 3); RPAD(s, j, 'xy'); RPAD(s, 6, ''); RPAD(s, 7, t)"
    ),
    "reverse": _calls("reverse(s)", sql="REVERSE(s)"),
    "initcap": _calls("initcap(s)", sql="INITCAP(s); INITCAP(s || ' éa1b_c-d ' || t)"),
    "translate": _calls(
        "translate(s, 'ab', 'c')",
        sql="TRANSLATE(s, 'xa', 'yz'); TRANSLATE(s, 'xab', 'y'); TRANSLATE(s, 'aa', 'xy')",
    ),
    "ascii": _calls("ascii(s)", sql="ASCII(s)"),
    "chr": _calls("chr(abs(i) + 1)", sql="CHR(ABS(i) + 65)"),
    "md5": _calls("md5(s)", sql="MD5(s)"),
    "sha1": _calls("sha1(s)", sql="SHA1(s)"),
    "sha256": _calls("sha256(s)", sql="SHA256(s)"),
    # regular expressions
    "regexp_like": _calls(
        "regexp_like(s, '^x')",
        sql=r"s ~ '^x'; s !~ 'a.?b$'; s ~* 'XA'; REGEXP_MATCHES(s, '[ab%]+'); "
        r"REGEXP_LIKE(s, '\w\Wb|\d'); REGEXP_MATCHES(s, 'A', 'i'); s ~ '[[:upper:]]'; s ~ '\s'",
    ),
    "regexp_full_match": _calls(
        "regexp_full_match(s, 'x.')", sql="REGEXP_FULL_MATCH(s, 'x.'); REGEXP_FULL_MATCH(s, 'x|xa')"
    ),
    "regexp_extract": _calls(
        "regexp_extract(s, '(x)(a?)', 2)",
        sql="REGEXP_EXTRACT(s, 'x.'); REGEXP_EXTRACT(s, '(x)(a)?', 2); REGEXP_EXTRACT(t, '.$', 0)",
    ),
    "regexp_replace": _calls(
        "regexp_replace(s, '[ab]', '-')",
        sql=r"REGEXP_REPLACE(s, '[ab]', '<\0>'); REGEXP_REPLACE(s, '(x)(.)', '\2\1\\'); "
        r"REGEXP_REPLACE(s, 'A', '', 'i')",
    ),
    "regexp_replace_all": _calls(
        "regexp_replace_all(s, 'a*', '-')",
        sql="REGEXP_REPLACE(s, 'a*', '-', 'g'); REGEXP_REPLACE(s, 'B|x', '+', 'gi')",
    ),
    # dates
    **_of_dates(),
    "date_add_days": _calls("date_add_days(d, i)", sql="d + i; d - j; d + INTERVAL '0' DAY = d"),
    "timestamp_add": _calls(
        "timestamp_add(m, i)",
        sql="m + INTERVAL '90' MINUTE; m - INTERVAL '1 day 2 hours -3 minutes 4.5 seconds'; "
        "m + INTERVAL '1.5 days'; m + INTERVAL '1 week 04:05:06.5'; m + INTERVAL '20 ms'",
    ),
    "date_add_months": _calls("date_add_months(d, i)", sql="CAST(d + INTERVAL '1' MONTH AS DATE)"),
    "timestamp_add_months": _calls(
        "timestamp_add_months(m, i)",
        sql="m + INTERVAL '1 year 2 months -3 days 01:00:00'; m - INTERVAL '13' MONTH; "
        "m + INTERVAL '1' YEAR",
    ),
    "timestamp_bin": _calls(
        "timestamp_bin(m, 300000000, 0)",
        sql="DATE_BIN(INTERVAL '5 minutes', m); DATE_BIN('7 days', m); "
        "DATE_BIN('90 s', m, TIMESTAMP '2000-01-01 00:00:07'); TIME_BUCKET(INTERVAL '1' WEEK, m); "
        "TIME_BUCKET('5 hours', m, TIMESTAMP '1969-05-05 00:00:01')",
    ),
    # casts
    "to_float": _calls("to_float(i)", sql="CAST(i AS DOUBLE); CAST(e AS DOUBLE)"),
    "to_int": _calls(
        "to_int(case(abs(f) < 1e9, f, 0.5))",
        sql="CAST(CASE WHEN ABS(f) < 1e9 THEN f END AS BIGINT)",
    ),
    "within": _calls("within(i, -3, 200)", sql="CAST(i AS SMALLINT); CAST(e AS DECIMAL(5,2))"),
    "double_to_decimal": _calls(
        "double_to_decimal(case(abs(f) < 1e9, f, 0.0), 100)",
        sql="CAST(CASE WHEN ABS(f) < 1e9 THEN f END AS DECIMAL(12,2))",
    ),
    "bool_to_int": _calls("bool_to_int(b)", sql="CAST(b AS INTEGER)"),
    "to_text": _calls(
        "to_text(i)", "to_text(b)", "to_text(f)", sql="CAST(i AS VARCHAR); CAST(b AS VARCHAR)"
    ),
    "decimal_text": _calls("decimal_text(i, 2)", "decimal_text(i, 0)", sql="CAST(e AS VARCHAR)"),
    "date_text": _calls("date_text(d)", sql="CAST(d AS VARCHAR)"),
    "timestamp_text": _calls("timestamp_text(m)", sql="CAST(m AS VARCHAR)"),
    "date_of_timestamp": _calls("date_of_timestamp(m)", sql="CAST(m AS DATE)"),
    "timestamp_of_date": _calls("timestamp_of_date(d)", sql="CAST(d AS TIMESTAMP)"),
    "timestamp_round": _calls("timestamp_round(m, 1000000)", sql="CAST(m AS TIMESTAMP(0))"),
}
