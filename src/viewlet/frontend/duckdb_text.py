"""SQL as DuckDB gets it: as it was written, except for names that DuckDB reads otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise, zip_longest

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


def with_quoted_schema(
    text: str, schema: str, tokens_of: Callable[[str], Sequence[Token]]
) -> tuple[str, frozenset[str]]:
    """FROM schema.x -> FROM "schema.x", and the names that stand there then.

    FROM schema.x WHERE x.a > 1 -> FROM "schema.x" AS x WHERE x.a > 1
    """
    if schema not in text.lower():
        return text, frozenset()
    tokens = tokens_of(text)
    names, parts, end = set(), [], 0
    for at, (first, dot, name) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        is_schema = first.text.lower() == schema and first.token_type is not TokenType.STRING
        if not is_schema or dot.token_type is not TokenType.DOT:
            continue
        table = name.text.lower()
        after = tokens[at + 3] if at + 3 < len(tokens) else None
        if after is not None and after.token_type is TokenType.DOT:
            parts += [text[end : first.start], quoted(table)]  # schema.x.a, a column
        else:
            has_alias = after is not None and after.token_type in _ALIASES
            alias = f" AS {quoted(table)}" if not has_alias and _is_qualifier(table, tokens) else ""
            parts += [text[end : first.start], quoted(f"{schema}.{table}"), alias]
            names.add(f"{schema}.{table}")
        end = name.end + 1
    return "".join((*parts, text[end:])), frozenset(names)


_ALIASES = (TokenType.ALIAS, TokenType.VAR, TokenType.IDENTIFIER)


def _is_qualifier(table: str, tokens: Sequence[Token]) -> bool:
    """Whether a text says table.column anywhere."""
    return any(
        token.text.lower() == table and dot.token_type is TokenType.DOT
        for token, dot in pairwise(tokens)
    )


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
