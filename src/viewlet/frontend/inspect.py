"""SHOW, DESCRIBE, EXPLAIN and SET -> statements that say what there is, and change nothing.

SHOW TABLES | STREAMS | VIEWS | COLUMNS FROM t | CREATE TABLE t | CREATE VIEW v
DESCRIBE t | SELECT ...
EXPLAIN v | SELECT ... | CREATE MATERIALIZED VIEW v AS SELECT ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position, UnsupportedError
from viewlet.frontend.parameters import written
from viewlet.frontend.statements import Inspect, InspectKind, SetOption

FIRST_WORDS = frozenset(("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "SET"))

_HARMLESS = frozenset(
    (
        *("application_name", "client_encoding", "client_min_messages", "datestyle"),
        *("extra_float_digits", "search_path", "standard_conforming_strings", "timezone"),
    )
)
"""What clients set when they connect; nothing that is answered depends on it."""


def read_inspection(
    tokens: Sequence[Token], text: str, position_of: Callable[[int], Position]
) -> Inspect | SetOption:
    """SHOW TABLES | VIEWS | COLUMNS FROM t, DESCRIBE t, EXPLAIN v | query, SET name = value"""
    words = [token.text.upper() for token in tokens]
    start = position_of(tokens[0].start)
    first = words[0]
    if first == "SET":
        return _set(tokens, start)
    if first == "EXPLAIN":
        return _explain(tokens, text, start)
    rest = list(tokens[1:])
    if first == "SHOW":
        if words[1:] in (["TABLES"], ["VIEWS"], ["STREAMS"]):
            return Inspect(InspectKind(words[1].lower()), "", start)
        if words[1:2] == ["CREATE"]:
            return _show_create(tokens, start)
        if words[1:3] not in (["COLUMNS", "FROM"], ["COLUMNS", "IN"]):
            raise UnsupportedError(
                f"SHOW {' '.join(words[1:3])} is not supported".replace("  ", " "),
                position=start,
                hint="write SHOW TABLES, SHOW STREAMS, SHOW VIEWS, SHOW COLUMNS FROM t or SHOW"
                " CREATE TABLE t",
            )
        rest = list(tokens[3:])
    elif words[1:2] in (["SELECT"], ["WITH"], ["VALUES"]):
        return Inspect(InspectKind.QUERY_COLUMNS, written(text, rest), start)
    elif words[1:2] in (["TABLE"], ["VIEW"]):
        rest = list(tokens[2:])
    name = _one_name(rest)
    if name is None:
        raise ParseError(
            f"{first} takes the name of one table or view",
            position=start,
            hint=f"write {first} t" if first != "SHOW" else "write SHOW COLUMNS FROM t",
        )
    return Inspect(InspectKind.COLUMNS, name, start)


def _show_create(tokens: Sequence[Token], start: Position) -> Inspect:
    """SHOW CREATE TABLE | STREAM | [MATERIALIZED] VIEW name"""
    words = [token.text.upper() for token in tokens]
    at = 4 if words[2:4] == ["MATERIALIZED", "VIEW"] else 3
    name = _one_name(tokens[at:]) if words[at - 1] in ("TABLE", "STREAM", "VIEW") else None
    if name is None:
        hint = "write SHOW CREATE TABLE t or SHOW CREATE VIEW v"
        raise ParseError("SHOW CREATE takes one name", position=start, hint=hint)
    return Inspect(InspectKind.DEFINITION, name, start)


def _one_name(tokens: Sequence[Token]) -> str | None:
    """t, public.t, "T" -> the name; None for anything else"""
    if len(tokens) == 3 and tokens[1].token_type is TokenType.DOT:
        tokens = tokens[2:] if tokens[0].text.lower() in ("public", "main") else ()
    if len(tokens) != 1 or tokens[0].token_type in (TokenType.STRING, TokenType.NUMBER):
        return None
    is_quoted = tokens[0].token_type is TokenType.IDENTIFIER
    return tokens[0].text if is_quoted else tokens[0].text.lower()


def _explain(tokens: Sequence[Token], text: str, start: Position) -> Inspect:
    rest = tokens[1:]
    word = rest[0].text.upper() if rest else ""
    if word in ("ANALYZE", "VERBOSE", "("):
        raise UnsupportedError(
            f"EXPLAIN {word} is not supported", position=start, hint="write EXPLAIN SELECT ..."
        )
    query = _query_of_view(rest) if word == "CREATE" else rest
    if query and query[0].text.upper() in ("SELECT", "WITH", "VALUES"):
        return Inspect(InspectKind.QUERY_PLAN, written(text, query), start)
    if word == "VIEW":
        rest = rest[1:]
    name = _one_name(rest)
    if name is None:
        raise ParseError("EXPLAIN takes a view or a query", position=start, hint="write EXPLAIN v")
    return Inspect(InspectKind.VIEW_PLAN, name, start)


def _query_of_view(tokens: Sequence[Token]) -> Sequence[Token]:
    """CREATE MATERIALIZED VIEW v AS SELECT ... -> SELECT ...; nothing for what is no view"""
    words = [token.text.upper() for token in tokens]
    is_view = "VIEW" in words[:5] and "AS" in words
    return tokens[words.index("AS") + 1 :] if is_view else ()


def _set(tokens: Sequence[Token], start: Position) -> SetOption:
    words = [token.text for token in tokens[1:]]
    if words and words[0].upper() in ("SESSION", "LOCAL"):
        words = words[1:]
    if len(words) < 3 or words[1].upper() not in ("=", "TO"):
        raise ParseError(
            "SET needs a name and a value", position=start, hint="write SET name = value"
        )
    name = words[0].lower()
    if name not in _HARMLESS:
        raise UnsupportedError(
            f"SET {name} is not supported",
            position=start,
            hint=f"accepted, without effect, are {', '.join(sorted(_HARMLESS))}",
        )
    return SetOption(name, start)
