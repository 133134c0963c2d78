"""More functions of text: parts by separators and by count, padding, codes and digests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from viewlet.errors import RangeError
from viewlet.functions.kernel_forms import REMEMBERED
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.scalars import Const
from viewlet.functions.sql_forms import INTEGER, TEXT, Accepts, Parameter, SqlCall
from viewlet.functions.text import lower, upper
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import BIGINT, BOOLEAN, VARCHAR, Type

LONGEST = 10_000_000
"""Characters that REPEAT and LPAD make; more is an error of the batch."""

_TOO_LONG = f"texts are made of at most {LONGEST} characters: leave such rows out with WHERE"


def _define(
    name: str,
    meaning: Callable[..., object],
    parameters: tuple[Parameter, ...] = (TEXT,),
    *,
    result: Type = VARCHAR,
    spellings: tuple[str, ...] = (),
    duckdb: tuple[str, ...] = (),
    hint: str = "",
) -> None:
    define(
        ScalarFunction(
            name=name,
            meaning=meaning,
            result=result.physical,
            nulls=STRICT,
            sql=SqlCall(spellings or (name.upper(),), parameters, result, duckdb=duckdb),
            kernel=REMEMBERED,
            vector=by_row,
            monotone=NOT_MONOTONE,
            hint=hint,
            can_refuse=bool(hint),
        )
    )


# Parts.


def split_part(text: str, separator: str, number: int) -> str:
    """The part with this number, from 1, or from the end if it is negative; '' where is none."""
    parts = text.split(separator) if separator else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if number and 0 <= at < len(parts) else ""


_define(
    "split_part",
    split_part,
    (TEXT, TEXT, INTEGER),
    duckdb=(
        "split_part(s, d, n) AS CASE WHEN d = '' THEN CASE WHEN n IN (1, -1) THEN s "
        "WHEN n IS NOT NULL AND s IS NOT NULL THEN '' END "
        "ELSE system.main.split_part(s, d, n) END",
        # One of the frontend's calls, which is written with this one (frontend/text_calls.py).
        "split_index(s, d, n) AS CASE WHEN d = '' THEN CASE WHEN n = 0 THEN s END "
        "WHEN n >= 0 AND len(s) - len(replace(s, d, '')) >= n * len(d) "
        "THEN system.main.split_part(s, d, (n + 1)::BIGINT) END",
    ),
)
_define("left", lambda text, n: text[:n] if n else "", (TEXT, INTEGER))
_define(
    "right",
    lambda text, n: text[max(len(text) - n, 0) :] if n > 0 else text[-n:] if n else "",
    (TEXT, INTEGER),
)
_define("strpos", lambda text, part: text.find(part) + 1, (TEXT, TEXT), result=BIGINT)
for _name, _test, _spellings in (
    ("starts_with", str.startswith, ("STARTS_WITH", "PREFIX")),
    ("ends_with", str.endswith, ("ENDS_WITH", "SUFFIX")),
    ("contains", str.__contains__, ("CONTAINS",)),
):
    _define(
        _name,
        lambda text, part, test=_test: test(text, part),
        (TEXT, TEXT),
        result=BOOLEAN,
        spellings=_spellings,
    )
_BTRIM = ("btrim(s) AS trim(s), (s, c) AS trim(s, c)",)

for _name, _strip, _spelling in (
    ("trim_of", str.strip, "TRIM BOTH"),
    ("ltrim_of", str.lstrip, "TRIM LEADING"),
    ("rtrim_of", str.rstrip, "TRIM TRAILING"),
):
    _define(
        _name,
        lambda text, characters, strip=_strip: strip(text, characters) if characters else text,
        (TEXT, TEXT),
        spellings=(_spelling,),
        duckdb=_BTRIM if _name == "trim_of" else (),
    )


# Made longer, or turned.


def _fits(length: int) -> None:
    if length > LONGEST:
        raise RangeError("a text became too long", hint=_TOO_LONG)


def repeat(text: str, count: int) -> str:
    """REPEAT(text, count), '' for a count below 1"""
    _fits(len(text) * max(count, 0))
    return text * max(count, 0)


def padding(text: str, length: int, fill: str) -> str:
    """What stands before or after a text to give it the length; nothing if there is no fill."""
    _fits(length)
    missing = max(length - len(text), 0)
    return (fill * (missing // len(fill) + 1))[:missing] if fill else ""


_define("repeat", repeat, (TEXT, INTEGER), hint=_TOO_LONG)
_PADDED = (TEXT, INTEGER, Parameter(Accepts.TEXT, Const(" ")))


def _pad_macro(name: str) -> str:
    return (
        f"{name}(s, n) AS system.main.{name}(s, n, ' '), (s, n, f) AS CASE WHEN f = '' "
        f"THEN s[1:greatest(n, 0)] ELSE system.main.{name}(s, n, f) END"
    )


_define(
    "lpad",
    lambda text, length, fill: padding(text, length, fill) + text[: max(length, 0)],
    _PADDED,
    hint=_TOO_LONG,
    duckdb=(_pad_macro("lpad"),),
)
_define(
    "rpad",
    lambda text, length, fill: text[: max(length, 0)] + padding(text, length, fill),
    _PADDED,
    hint=_TOO_LONG,
    duckdb=(_pad_macro("rpad"),),
)
_define("reverse", lambda text: text[::-1])


def initcap(text: str) -> str:
    """Words, which are letters and digits, with their first character large and the others small"""
    return re.sub(r"[^\W_]+", lambda word: upper(word[0][0]) + lower(word[0][1:]), text)


_define(
    "initcap",
    initcap,
    duckdb=(
        "initcap(s) AS array_to_string(list_transform("
        r"regexp_extract_all(s, '[\p{L}\p{N}]+|[^\p{L}\p{N}]+'), "
        "lambda w: upper(w[1]) || lower(w[2:])), '')",
    ),
)
_define(
    "translate",
    lambda text, of, to: text.translate(
        {ord(c): to[k] if k < len(to) else None for k, c in reversed(list(enumerate(of)))}
    ),
    (TEXT, TEXT, TEXT),
)


# Codes and digests.

_define("ascii", lambda text: ord(text[0]) if text else 0, result=BIGINT)


def character(code: int) -> str:
    """CHR(code): the character with this code point"""
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise RangeError("CHR of a number that is no character", hint=_NO_CHARACTER)
    return chr(code)


_NO_CHARACTER = "characters are 1 to 1114111: leave other rows out with WHERE"

_define("chr", character, (INTEGER,), hint=_NO_CHARACTER)
_define("md5", lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
_define("sha1", lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
_define("sha256", lambda text: hashlib.sha256(text.encode()).hexdigest())
