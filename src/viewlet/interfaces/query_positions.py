"""Where in a user's text a query's error is: every one has a line and a column."""

from __future__ import annotations

import re
from typing import TypeVar

from viewlet.errors import Position, ViewletError

_PARAMETER = re.compile(r"\?|\$\w+|(?<![:\w]):[A-Za-z_]\w*")
"""? and $1 and :name, and what they become."""

_Error = TypeVar("_Error", bound=ViewletError)


def positioned(error: _Error, text: str, query: str) -> _Error:
    """The error of the text that DuckDB ran -> that of the user's, from which it was made.

    One that has no position is about the whole, and has its beginning.
    """
    at = error.position
    if at is None:
        start = len(text) - len(text.lstrip())
        line_start = text.rfind("\n", 0, start) + 1
        return moved(error, Position(text.count("\n", 0, start) + 1, start - line_start + 1))
    if query == text:
        return error
    lines, query_lines = text.split("\n"), query.split("\n")
    if len(lines) != len(query_lines) or at.line > len(lines):
        return error
    line = lines[at.line - 1]
    return moved(error, Position(at.line, _column(line, query_lines[at.line - 1], at.column)))


def within(error: _Error, start: Position) -> _Error:
    """The error of a statement -> that of the text in which the statement stands at `start`."""
    at = error.position or Position(1, 1)
    column = at.column if at.line > 1 else start.column + at.column - 1
    return moved(error, Position(start.line + at.line - 1, column))


def moved(error: _Error, position: Position) -> _Error:
    """The error with another position."""
    return type(error)(error.message, position=position, hint=error.hint)


def _column(line: str, query: str, column: int) -> int:
    """Where a column of a line was before quotes and names of parameters came into it:

    at, 2 -> "at", 3;  ? + b, 5 -> $p1 + b, 7
    """
    before = 0
    line = _PARAMETER.sub(lambda match: "$" * len(match[0]), line)
    for character in _PARAMETER.sub("$", query[: column - 1]):
        if character == "$":
            # One of the query stands for all characters of a parameter in the line.
            while line[before : before + 1] == "$":
                before += 1
            continue
        is_quote = character == '"' and line[before : before + 1] == "`"
        if is_quote or character == line[before : before + 1]:
            before += 1
    return before + 1
