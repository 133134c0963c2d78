"""SQL as DuckDB gets it: as it was written, except for names that DuckDB reads otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest

from sqlglot.tokenizer_core import Token, TokenType

KEYWORDS = frozenset(
    (
        *("anti", "asof", "at", "by", "columns", "describe", "generated", "glob", "lambda", "map"),
        *("pivot", "pivot_longer", "pivot_wider", "positional", "qualify", "semi", "show"),
        *("struct", "summarize", "try_cast", "tuple", "unpack", "unpivot"),
    )
)
"""Words that are names in PostgreSQL, and that DuckDB keeps for itself."""

_MAY_DIFFER = re.compile(rf"`|\b({'|'.join(sorted(KEYWORDS))})\b", re.IGNORECASE)


def duckdb_text(
    text: str,
    tokens_of: Callable[[str], Sequence[Token]],
    columns_of: Callable[[], frozenset[str]],
) -> str:
    """`a b` -> "a b", and a column that is called as a keyword of DuckDB: at -> "at" """
    if not _MAY_DIFFER.search(text):
        return text
    tokens, columns = tokens_of(text), columns_of()
    parts, end = [], 0
    for token, after in zip_longest(tokens, tokens[1:]):
        if text[token.start] == "`" or _is_column(token, after, columns):
            parts += [text[end : token.start], quoted(token.text)]
            end = token.end + 1
    return "".join((*parts, text[end:]))


def _is_column(token: Token, after: Token | None, columns: frozenset[str]) -> bool:
    """Whether a word is a name: not the AT of AT TIME ZONE, the ASOF of a join, or a call."""
    word = token.text.lower()
    if word not in columns or word not in KEYWORDS:
        return False
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return False
    return after is None or after.text.upper() not in ("TIME", "(", "{", "JOIN")


def quoted(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'
