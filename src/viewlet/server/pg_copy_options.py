"""The options of COPY, in both of PostgreSQL's spellings.

WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')    WITH CSV HEADER DELIMITER AS ';'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from viewlet.errors import ParseError, UnsupportedError

_PIECES = re.compile(r"[eE]?'(?:[^']|'')*'|\w+|[(),*]|\S", re.DOTALL)
_NAMED = {"DELIMITER": "delimiter", "DELIMITERS": "delimiter", "NULL": "null", "QUOTE": "quote"}
_FALSE, _TRUE = ("FALSE", "OFF", "0"), ("TRUE", "ON", "1")
_FORMATS = ("TEXT", "CSV", "BINARY")
_FILLING = ("WITH", "AS", "(", ")", ",")


@dataclass(frozen=True)
class CopyFormat:
    """How rows are written: text, csv or binary."""

    kind: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    has_header: bool = False


def copy_format(text: str) -> CopyFormat:
    """What stands behind STDIN or STDOUT; UnsupportedError for what is not read."""
    pieces = [piece for piece in _PIECES.findall(text) if piece.upper() not in _FILLING]
    kind, has_header, named = "text", False, {}
    while pieces:
        piece = pieces.pop(0)
        word = piece.upper()
        if word == "FORMAT" and pieces and pieces[0].strip("'").upper() in _FORMATS:
            kind = pieces.pop(0).strip("'").lower()
        elif word in _FORMATS:
            kind = word.lower()
        elif word == "HEADER":
            has_header = True
            if pieces and pieces[0].upper() in (*_FALSE, *_TRUE):
                has_header = pieces.pop(0).upper() in _TRUE
        elif word in _NAMED:
            named[_NAMED[word]] = _value(word, pieces)
        elif word == "ENCODING":
            if _value(word, pieces).upper().replace("-", "").replace("_", "") != "UTF8":
                raise UnsupportedError("COPY is in UTF-8")
        elif word == "ESCAPE":
            if _value(word, pieces) != named.get("quote", '"'):
                raise UnsupportedError("COPY escapes a quote by another one")
        else:
            raise UnsupportedError(
                f"COPY has no option {piece[:40]}",
                hint="FORMAT text, csv or binary, HEADER, DELIMITER, NULL, QUOTE, ENCODING 'UTF8'",
            )
    if kind == "binary" and (named or has_header):
        raise ParseError("COPY in binary has no DELIMITER, NULL, QUOTE or HEADER")
    for name in ("delimiter", "quote"):
        if len(named.get(name, ",")) != 1 or named.get(name) in ("\n", "\r", "\\"):
            raise ParseError(f"the {name} of COPY is one character")
    plain = {"delimiter": ",", "null": ""} if kind == "csv" else {}
    return CopyFormat(kind, **{**plain, **named}, has_header=has_header)


def _value(word: str, pieces: list[str]) -> str:
    piece = pieces.pop(0) if pieces else ""
    if not piece.endswith("'"):
        raise ParseError(f"{word} of COPY has no value in quotes", hint=f"{word} ','")
    is_escaped = piece[0] in "eE"
    inner = piece[2 if is_escaped else 1 : -1].replace("''", "'")
    return inner.replace("\\t", "\t") if is_escaped or inner == "\\t" else inner
