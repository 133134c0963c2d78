"""SQL as DuckDB gets it: as it was written, except for names that DuckDB reads otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

KEYWORDS = frozenset(
    (
        *("anti", "asof", "at", "by", "columns", "describe", "generated", "glob", "lambda", "map"),
        *("pivot", "pivot_longer", "pivot_wider", "positional", "qualify", "semi", "show"),
        *("struct", "summarize", "try_cast", "tuple", "unpack", "unpivot"),
    )
)
"""Words that are names in PostgreSQL, and that DuckDB keeps for itself."""


def duckdb_text(text: str, tokens: Sequence[Token], columns: frozenset[str] = frozenset()) -> str:
    """`a b` -> "a b", and a column that is called as a keyword of DuckDB: at -> "at" """
    if not tokens:
        return ""
    parts, end = [], tokens[0].start
    for token, after in zip(tokens, (*tokens[1:], None), strict=True):
        if text[token.start] == "`" or _is_column(token, after, columns):
            parts += [text[end : token.start], quoted(token.text)]
            end = token.end + 1
    return "".join((*parts, text[end : tokens[-1].end + 1]))


def _is_column(token: Token, after: Token | None, columns: frozenset[str]) -> bool:
    """Whether a word is a name: not the AT of AT TIME ZONE, and not a call."""
    word = token.text.lower()
    if word not in columns or word not in KEYWORDS:
        return False
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    following = after.text.upper() if after is not None else ""
    return following not in ("TIME", "(", "JOIN")


def quoted(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'
