"""Regular expressions: Python's, as far as RE2 and so DuckDB reads them in the same way.

A pattern is a constant: a wrong one is an error when the view is made. Classes are of ASCII, $ is
the end of the text alone, and a dot is no line break. Look-around and references to groups inside
of a pattern are refused, as in RE2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from viewlet.functions.kernel_forms import REMEMBERED
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.scalars import Const
from viewlet.functions.sql_forms import TEXT, Accepts, Parameter, SqlCall
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import BOOLEAN, VARCHAR, Type

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_NAMED = {
    "alpha": "A-Za-z",
    "digit": "0-9",
    "alnum": "0-9A-Za-z",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\t\n\v\f\r ",
    "blank": r"\t ",
    "xdigit": "0-9A-Fa-f",
    "word": "0-9A-Za-z_",
    "punct": r"!-/:-@\[-`{-~",
}
_ESCAPED = frozenset("dwsDWSbBtnrfvAzZx")


class WrongPattern(ValueError):
    """A text that is no regular expression, or one with a part that is not supported."""


@cache
def pattern_of(text: str) -> re.Pattern[str]:
    """A regular expression of SQL, compiled"""
    try:
        return re.compile(_translated(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise WrongPattern(str(error)) from None


def _translated(text: str) -> str:
    out: list[str] = []
    at, is_in_class = 0, False
    while at < len(text):
        character, following = text[at], text[at + 1 : at + 2]
        if character == "\\":
            out.append(_escape(following, is_in_class))
            at += 2
            continue
        named = re.match(r"\[:(\w+):\]", text[at:]) if is_in_class else None
        if named is not None:
            if named[1] not in _NAMED:
                raise WrongPattern(f"there is no class [:{named[1]}:]")
            out.append(_NAMED[named[1]])
            at += len(named[0])
            continue
        if is_in_class:
            out.append("\\[" if character == "[" else character)
            is_in_class = character != "]"
        elif character == "[":
            start = re.match(r"\[\^?\]?", text[at:])
            assert start is not None
            # A bracket that stands first in a class is one of its characters.
            out.append(start[0].replace("]", "\\]"))
            at += len(start[0])
            is_in_class = True
            continue
        elif re.match(r"\(\?(?:[=!>#(]|<[=!]|P[=>])", text[at:]):
            raise WrongPattern("look-around and references are not supported")
        elif character in "*+?}" and following == "+":
            raise WrongPattern("possessive quantifiers are not supported")
        else:
            out.append(r"\Z" if character == "$" else character)
        at += 1
    return "".join(out)


def _escape(character: str, is_in_class: bool) -> str:
    if character.lower() in _CLASSES and character:
        members = _CLASSES[character.lower()]
        if character.islower():
            return members if is_in_class else f"[{members}]"
        if is_in_class:
            raise WrongPattern(f"\\{character} inside of brackets is not supported")
        return f"[^{members}]"
    if character.isdigit():
        raise WrongPattern("references to groups are not supported inside of a pattern")
    if character.isalpha() and character not in _ESCAPED:
        raise WrongPattern(f"\\{character} is not supported")
    return "\\Z" if character == "z" else f"\\{character}"


def _define(
    name: str,
    meaning: Callable[..., object],
    more: tuple[Parameter, ...],
    result: Type,
    spellings: tuple[str, ...],
) -> None:
    define(
        ScalarFunction(
            name=name,
            meaning=meaning,
            result=result.physical,
            nulls=STRICT,
            sql=SqlCall(spellings, (TEXT, PATTERN, *more), result, duckdb=DUCKDB.get(name, ())),
            kernel=REMEMBERED,
            vector=by_row,
            monotone=NOT_MONOTONE,
            hint="",
        )
    )


PATTERN = Parameter(Accepts.TEXT, constant="regular expression")
DUCKDB = {
    "regexp_like": (
        "regexp_like(s, p) AS regexp_matches(s, p), (s, p, f) AS regexp_matches(s, p, f)",
    )
}


def matches(text: str, pattern: str) -> bool:
    """Whether a part of a text is as the pattern says"""
    return pattern_of(pattern).search(text) is not None


def extract(text: str, pattern: str, group: int) -> str:
    """The first part that is as the pattern says, or one of its groups; '' where there is none"""
    match = pattern_of(pattern).search(text)
    return (match[group] or "") if match is not None else ""


def replaced(text: str, pattern: str, replacement: str, *, everywhere: bool) -> str:
    """The text with other parts: the first one, or all that do not overlap"""
    out: list[str] = []
    end = -1
    copied = 0
    for match in pattern_of(pattern).finditer(text):
        # An empty match that touches the last one is none, as in RE2 and in PostgreSQL.
        if match.end() == match.start() == end:
            continue
        out += [text[copied : match.start()], _filled(match, replacement)]
        copied = end = match.end()
        if not everywhere:
            break
    return "".join((*out, text[copied:]))


def _filled(match: re.Match[str], replacement: str) -> str:
    return re.sub(
        r"\\(.)",
        lambda part: (match[int(part[1])] or "") if part[1].isdigit() else part[1],
        replacement,
        flags=re.DOTALL,
    )


def check_replacement(pattern: str, replacement: str) -> None:
    """Refuse \\2 where the pattern has one group"""
    groups = pattern_of(pattern).groups
    for part in re.findall(r"\\(.?)", replacement, re.DOTALL):
        if part.isdigit() and int(part) > groups:
            raise WrongPattern(f"the pattern has no group {part}")
        if not part.isdigit() and part != "\\":
            raise WrongPattern(f"\\{part} is not supported in a replacement")


_REPLACEMENT = Parameter(Accepts.TEXT, constant="replacement")
_define("regexp_like", matches, (), BOOLEAN, ("REGEXP_LIKE", "REGEXP_MATCHES"))
_define(
    "regexp_full_match",
    lambda text, pattern: pattern_of(pattern).fullmatch(text) is not None,
    (),
    BOOLEAN,
    ("REGEXP_FULL_MATCH",),
)
_define(
    "regexp_extract",
    extract,
    (Parameter(Accepts.INTEGER, Const(0), constant="number of a group"),),
    VARCHAR,
    ("REGEXP_EXTRACT",),
)
_define(
    "regexp_replace",
    lambda text, pattern, other: replaced(text, pattern, other, everywhere=False),
    (_REPLACEMENT,),
    VARCHAR,
    ("REGEXP_REPLACE",),
)
_define(
    "regexp_replace_all",
    lambda text, pattern, other: replaced(text, pattern, other, everywhere=True),
    (_REPLACEMENT,),
    VARCHAR,
    ("REGEXP_REPLACE ALL",),
)
