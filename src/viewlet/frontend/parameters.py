"""Parameters of a text: `?`, `$1` and `:name`, whose values travel beside it and never inside.

    WHERE a = ? AND b = ?        $p1, $p2: by their order in the whole text
    WHERE a = $2 AND b = $1      $p2, $p1
    WHERE a = :low               $n_low

The right column is what every later reader sees: tokens, syntax trees, and DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import DataError, ParseError

_ENDS_OF_VALUES = frozenset(
    (
        *(TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER),
        *(TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.L_BRACKET),
    )
)
"""What stands before the colon of {'a': b} and x[1:n], and never before that of a parameter."""


@dataclass(frozen=True)
class StatementParameter:
    """A place in a statement for a value that comes with the call."""

    name: str


def may_have_parameters(text: str) -> bool:
    """Whether one of the characters is there that parameters start with."""
    return "?" in text or "$" in text or ":" in text


def with_named_parameters(tokens: Sequence[Token]) -> list[Token]:
    """? -> $ p1;  $1 -> $ p1;  :low -> $ n_low"""
    named: list[Token] = []
    questions = 0
    at = 0
    while at < len(tokens):
        token = tokens[at]
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.token_type is TokenType.PLACEHOLDER and token.text == "?":
            questions += 1
            named += _pair(token, token, f"p{questions}")
        elif after is not None and is_dollar(token) and _touches(token, after):
            prefix = "p" if after.token_type is TokenType.NUMBER else "n_"
            named += _pair(token, after, f"{prefix}{after.text}")
            at += 1
        elif after is not None and _is_named(tokens, at):
            named += _pair(token, after, f"n_{after.text}")
            at += 1
        else:
            named.append(token)
        at += 1
    return named


def _is_named(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is the colon of :name"""
    token, after = tokens[at], tokens[at + 1]
    return (
        token.token_type is TokenType.COLON
        and _touches(token, after)
        and after.text.isidentifier()
        and at > 0
        and tokens[at - 1].token_type not in _ENDS_OF_VALUES
    )


def is_dollar(token: Token) -> bool:
    """Whether a token is the $ of a parameter, and not the @ of a table elsewhere."""
    return token.token_type is TokenType.PARAMETER and token.text == "$"


def _touches(token: Token, after: Token) -> bool:
    return after.start == token.end + 1


def _pair(first: Token, last: Token, name: str) -> list[Token]:
    line, column = first.line, first.col
    return [
        Token(TokenType.PARAMETER, "$", line, column, first.start, first.start),
        Token(TokenType.VAR, name, line, column, first.start, last.end),
    ]


def written(text: str, tokens: Sequence[Token]) -> str:
    """The text of tokens as it was written, its parameters as $p1 and $n_low."""
    if not tokens:
        return ""
    parts, end = [], tokens[0].start
    for token, name in pairwise(tokens):
        if is_dollar(token):
            parts += [text[end : token.start], f"${name.text}"]
            end = name.end + 1
    return "".join((*parts, text[end : tokens[-1].end + 1]))


def parameter_names(tokens: Sequence[Token]) -> dict[str, Token]:
    """The parameters of a text, each with the first token of it."""
    names: dict[str, Token] = {}
    for token, name in pairwise(tokens):
        if is_dollar(token):
            names.setdefault(name.text, token)
    return names


def bound_values(names: Sequence[str], arguments: Any) -> dict[str, Any]:
    """The value of each parameter: from a sequence by number, from a mapping by name.

    An error for values that are missing, and for those that the text has no place for.
    """
    if arguments is None:
        arguments = ()
    if isinstance(arguments, Mapping):
        values = {f"n_{name}": value for name, value in arguments.items()}
        shown, hint = "by name", "write :name in the text, and give a mapping of names to values"
    elif isinstance(arguments, Sequence) and not isinstance(arguments, str | bytes):
        values = {f"p{number}": value for number, value in enumerate(arguments, 1)}
        shown, hint = "in a sequence", "write ? or $1 in the text, and give a sequence of values"
    else:
        raise DataError(
            f"parameters are {type(arguments).__name__}",
            hint="give a sequence for ? and $1, or a mapping for :name",
        )
    missing = [name for name in names if name not in values]
    if missing and not values:
        raise ParseError(f"no value for parameter {shown_parameter(missing[0])}", hint=hint)
    if missing:
        raise ParseError(
            f"no value for parameter {shown_parameter(missing[0])}: {len(values)} given {shown}",
            hint=hint,
        )
    extra = [name for name in values if name not in names]
    if extra:
        raise ParseError(
            f"the text has no parameter {shown_parameter(extra[0])}: it has {len(names)},"
            f" and {len(values)} values are given",
            hint=hint,
        )
    return values


def shown_parameter(name: str) -> str:
    """p2 -> 2, n_low -> :low"""
    return f":{name[2:]}" if name.startswith("n_") else name[1:]
