"""Moments as text: STRFTIME, and what DATE_FORMAT and TO_CHAR become by `date_patterns`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from viewlet.functions.kernel_forms import REMEMBERED
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.sql_forms import SqlSyntax
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import EPOCH, Physical

PARTS: dict[str, Callable[[datetime], str]] = {
    "Y": lambda t: f"{t.year:04}",
    "y": lambda t: f"{t.year % 100:02}",
    "m": lambda t: f"{t.month:02}",
    "d": lambda t: f"{t.day:02}",
    "j": lambda t: f"{t.timetuple().tm_yday:03}",
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{(t.hour + 11) % 12 + 1:02}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "M": lambda t: f"{t.minute:02}",
    "S": lambda t: f"{t.second:02}",
    "g": lambda t: f"{t.microsecond // 1000:03}",
    "f": lambda t: f"{t.microsecond:06}",
    "%": lambda t: "%",
}
"""What may follow % in a pattern: the parts of STRFTIME in DuckDB that every place writes alike."""


def strftime(moment: int, pattern: str) -> str:
    """Microseconds since 1970 -> text: %Y-%m-%d is 2026-01-31"""
    at = EPOCH + timedelta(microseconds=moment)
    first, *others = pattern.split("%")
    texts, skip = [first], False
    for number, part in enumerate(others):
        if skip:
            texts.append(part)
            skip = False
        elif part:
            texts += [PARTS[part[0]](at), part[1:]]
        else:  # %% stands for one
            texts.append("%")
            skip = number + 1 < len(others)
    return "".join(texts)


def _macro(name: str, words: tuple[tuple[str, str], ...], quote: str) -> str:
    """DuckDB wants a constant as the pattern of STRFTIME: each word of one gives way to digits.

    What stands in quotes, every second piece between them, is text as it is; a letter outside of
    them that is in no word is the error that views have.
    """
    digits = "piece"
    for word, part in words:
        digits = f"replace({digits}, '{word}', strftime(t::TIMESTAMP, '{part}'))"
    known = "|".join(word for word, _ in words)
    of_piece = (
        "CASE WHEN number % 2 = 0 THEN piece "
        f"WHEN regexp_matches(regexp_replace(piece, '{known}', '', 'g'), '[[:alpha:]]') THEN "
        f"error('a letter in ' || p || ' is no part of a moment: known are {known}') "
        f"ELSE {digits} END"
    )
    pieces = f"list_transform(string_split(p, {quote}), lambda piece, number: {of_piece})"
    return f"{name}(t, p) AS CASE WHEN t IS NOT NULL THEN array_to_string({pieces}, '') END"


JAVA = (
    *(("yyyy", "%Y"), ("yy", "%y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("hh", "%I")),
    *(("mm", "%M"), ("ss", "%S"), ("SSS", "%g")),
)
"""The words of DATE_FORMAT in Flink and Spark, longer ones first."""

POSTGRES = (
    *(("YYYY", "%Y"), ("YY", "%y"), ("MM", "%m"), ("DDD", "%j"), ("DD", "%d"), ("HH24", "%H")),
    *(("HH12", "%I"), ("MI", "%M"), ("SS", "%S"), ("MS", "%g"), ("US", "%f"), ("AM", "%p")),
)
"""The words of TO_CHAR in PostgreSQL."""

define(
    ScalarFunction(
        name="strftime",
        meaning=strftime,
        result=Physical.STR,
        nulls=STRICT,
        sql=SqlSyntax(
            "STRFTIME(a, '%Y'), DATE_FORMAT(a, 'yyyy'), TO_CHAR(a, 'YYYY')",
            duckdb=(
                _macro("date_format", JAVA, "chr(39)"),
                _macro("to_char", POSTGRES, "chr(34)"),
            ),
        ),
        kernel=REMEMBERED,
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)
