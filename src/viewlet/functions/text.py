"""Text: strings of Unicode's code points, compared by code point.

Python computes each function once for every string or combination that comes (REMEMBERED).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from viewlet.functions.kernel_forms import REMEMBERED
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.scalars import Const
from viewlet.functions.sql_forms import (
    TEXT,
    Accepts,
    Parameter,
    SqlCall,
    SqlForm,
    SqlSyntax,
)
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import BIGINT, VARCHAR, Physical, Type


def _text_function(
    name: str,
    meaning: Callable[..., object],
    sql: SqlForm,
    result: Physical = Physical.STR,
    of_strings: Callable[..., Any] | None = None,
    *,
    settles: bool = False,
) -> None:
    define(
        ScalarFunction(
            name=name,
            meaning=meaning,
            result=result,
            nulls=STRICT,
            sql=sql,
            kernel=REMEMBERED,
            vector=by_row,
            monotone=NOT_MONOTONE,
            hint="",
            settles=settles,
            of_strings=of_strings,
        )
    )


def _of_text(*spellings: str, result: Type = VARCHAR, duckdb: tuple[str, ...] = ()) -> SqlCall:
    return SqlCall(spellings, (TEXT,), result, duckdb=duckdb)


# LIKE. A backslash takes the meaning of % and _ away, as in PostgreSQL; DuckDB has no default.


@cache
def like_pattern(pattern: str) -> re.Pattern[str]:
    """SQL's LIKE pattern -> a regular expression."""
    out, is_escaped = [], False
    for character in pattern:
        if is_escaped:
            out.append(re.escape(character))
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character == "%":
            out.append(".*")
        elif character == "_":
            out.append(".")
        else:
            out.append(re.escape(character))
    return re.compile("".join(out), re.DOTALL)


def like(value: str, pattern: str) -> bool:
    """value LIKE pattern"""
    return like_pattern(pattern).fullmatch(value) is not None


def _like_strings(strings: Any, pattern: str) -> Any:
    import pyarrow.compute as pc

    return pc.match_like(strings, pattern)


def _escaping(operator: str, escaping: str) -> str:
    """DuckDB's operator with the backslash as its default escape character."""
    return (
        f"\"{operator}\"(a, b) AS CASE WHEN contains(b, '\\') "
        f"THEN system.main.{escaping}(a, b, '\\') ELSE system.main.\"{operator}\"(a, b) END"
    )


_text_function(
    "like",
    like,
    SqlSyntax(
        "a LIKE b",
        duckdb=(_escaping("~~", "like_escape"), _escaping("!~~", "not_like_escape")),
    ),
    Physical.BOOL,
    _like_strings,
)
_text_function(
    "ilike",
    lambda value, pattern: like(lower(value), lower(pattern)),
    SqlSyntax(
        "a ILIKE b",
        duckdb=(_escaping("~~*", "ilike_escape"), _escaping("!~~*", "not_ilike_escape")),
    ),
    Physical.BOOL,
)


# Upper and lower case, one character for one: UPPER('straße') is 'STRAßE', as PostgreSQL's default
# has it. DuckDB differs in ß alone.


def upper(text: str) -> str:
    """UPPER(text)"""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def _upper(character: str) -> str:
    for cased in (character.upper(), character.title()):
        if len(cased) == 1:
            return cased
    return character


def lower(text: str) -> str:
    """LOWER(text)"""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def _lower(character: str) -> str:
    return "i" if character == "İ" else character.lower()


_UPPER = (
    "upper(x) AS CASE WHEN contains(x, 'ß') THEN array_to_string("
    "list_transform(string_split(x, 'ß'), lambda part: system.main.upper(part)), 'ß') "
    "ELSE system.main.upper(x) END"
)

_text_function("upper", upper, _of_text("UPPER", duckdb=(_UPPER,)), settles=True)
_text_function("lower", lower, _of_text("LOWER"), settles=True)


# Parts of text.


def substring(text: str, start: int, length: int | None = None) -> str:
    """Positions count from 1; a start before the text eats into the length."""
    begin = start - 1
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _from_first(name: str) -> str:
    """In DuckDB, a start below 1 counts from the end."""
    return (
        f"{name}(s, i) AS system.main.substring(s, CASE WHEN i < 1 THEN 1 ELSE i END), "
        "(s, i, n) AS CASE WHEN i < 1 AND n IS NOT NULL "
        "THEN system.main.substring(s, 1, greatest(i::BIGINT - 1 + greatest(n, 0), 0)) "
        "ELSE system.main.substring(s, i, CASE WHEN n < 0 THEN 0 ELSE n END) END"
    )


_text_function(
    "substring",
    substring,
    SqlCall(
        ("SUBSTRING", "SUBSTR"),
        (
            TEXT,
            Parameter(Accepts.INTEGER, Const(1)),
            Parameter(Accepts.INTEGER, is_optional=True),
        ),
        VARCHAR,
        duckdb=(_from_first("substring"), _from_first("substr")),
    ),
    settles=True,
)

_text_function("trim", lambda text: text.strip(" "), _of_text("TRIM BOTH"), settles=True)
_text_function("ltrim", lambda text: text.lstrip(" "), _of_text("TRIM LEADING"), settles=True)
_text_function("rtrim", lambda text: text.rstrip(" "), _of_text("TRIM TRAILING"), settles=True)
_text_function("length", len, _of_text("LENGTH", result=BIGINT), Physical.INT)
_text_function(
    "replace",
    lambda text, part, other: text.replace(part, other) if part else text,
    SqlCall(
        ("REPLACE",),
        (TEXT, TEXT, Parameter(Accepts.TEXT, Const(""))),
        VARCHAR,
        duckdb=(
            "replace(s, p) AS system.main.replace(s, p, ''), "
            "(s, p, o) AS system.main.replace(s, p, o)",
        ),
    ),
)
_text_function("concat", lambda *parts: "".join(parts), SqlSyntax("a || b, CONCAT(a, b)"))
