"""SQL text -> statements, with the position of every node, and errors in viewlet's own words.

The dialect is PostgreSQL's, with what Spark users write where it does not collide: backquoted
names, STRING, LONG. CREATE STREAM is read as CREATE TABLE with a mark. Names that are not quoted
fold to lower case.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position, UnsupportedError
from viewlet.frontend import changes
from viewlet.frontend.alter_table import read_alter_table
from viewlet.frontend.declare import check_view_options, create_relation, create_table_as
from viewlet.frontend.dialect import ViewletDialect
from viewlet.frontend.duckdb_text import duckdb_text, with_quoted_schema
from viewlet.frontend.inspect import FIRST_WORDS as INSPECTION_WORDS
from viewlet.frontend.inspect import read_inspection
from viewlet.frontend.maintenance_options import (
    options_of,
    read_alter,
    read_complete,
    read_refresh,
)
from viewlet.frontend.merge import MERGE_HINT, merge
from viewlet.frontend.parameters import (
    bound_values,
    is_dollar,
    may_have_parameters,
    parameter_names,
    shown_parameter,
    with_named_parameters,
    written,
)
from viewlet.frontend.read_arguments import check_arguments
from viewlet.frontend.session_windows import expand_sessions, with_session_names
from viewlet.frontend.spellings import expand_spellings
from viewlet.frontend.statements import (
    CreateView,
    Drop,
    ReplaceQuery,
    Select,
    Statement,
    Truncate,
)
from viewlet.frontend.syntax import (
    POSITION,
    did_you_mean,
    fault,
    plain_name,
    plain_names,
    position_of,
)
from viewlet.frontend.temporal_joins import mark_temporal_joins
from viewlet.frontend.time_windows import expand_time_windows, without_flink_words
from viewlet.frontend.transactions import FIRST_WORDS as TRANSACTION_WORDS
from viewlet.frontend.transactions import read_transaction
from viewlet.frontend.view_options import is_strict, plan_of


class SourceText:
    """A text with its line starts, to turn offsets into places."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def position(self, offset: int) -> Position:
        """The line and column of an offset, both counted from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)


def parse(text: str) -> list[Statement]:
    """All statements of a text without parameters; the first error ends it."""
    source = SourceText(text)
    return [statement_of(source, tokens) for tokens in split(source)]


def parse_with_parameters(text: str, arguments: Any) -> tuple[list[Statement], dict[str, Any]]:
    """The statements of a text and the values of its parameters, each by its name there."""
    source = SourceText(text)
    tokens = _named(source)
    values = bound_values(list(parameter_names(tokens)), arguments)
    return [statement_of(source, part) for part in _split(tokens)], values


def query_with_parameters(text: str, arguments: Any) -> tuple[str, dict[str, Any]]:
    """A query with its parameters by name, and their values."""
    tokens = _named(SourceText(text)) if may_have_parameters(text) else []
    values = bound_values(list(parameter_names(tokens)), arguments)
    return (text[: tokens[0].start] + written(text, tokens) if tokens else text), values


def query_text(text: str, columns: Callable[[], frozenset[str]]) -> str:
    """A query for DuckDB: with other quotes, and around `columns` that are its keywords."""
    return duckdb_text(text, lambda text: _tokens(SourceText(text)), columns)


def schema_text(text: str, schema: str) -> tuple[str, frozenset[str]]:
    """A query in which schema.x is one name, and those names."""
    return with_quoted_schema(text, schema, lambda text: _tokens(SourceText(text)))


def _tokens(source: SourceText) -> list[Token]:
    try:
        return ViewletDialect().tokenize(source.text)
    except TokenError as error:
        raise _token_error(source, str(error)) from None


def _named(source: SourceText) -> list[Token]:
    """The tokens of a text, its parameters by name."""
    tokens = _tokens(source)
    questions = [token for token in tokens if token.token_type is TokenType.PLACEHOLDER]
    numbered = [token for token in tokens if is_dollar(token)]
    if questions and numbered:
        first = min(questions[0], numbered[0], key=lambda token: token.start)
        raise ParseError(
            "? and $1 are in one text",
            position=source.position(first.start),
            hint="number all parameters, or none",
        )
    return with_named_parameters(tokens)


def split(source: SourceText) -> list[list[Token]]:
    """The tokens of each statement, without the semicolons; parameters have no values here."""
    tokens = _named(source)
    for name, token in parameter_names(tokens).items():
        raise ParseError(
            f"parameter {shown_parameter(name)} has no value",
            position=source.position(token.start),
            hint="write the value itself",
        )
    return _split(tokens)


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _token_error(source: SourceText, message: str) -> ParseError:
    """An unfinished string or comment; the place is the last quote before the end."""
    offset = max(source.text.rfind(quote) for quote in ("'", '"', "`", "/*", "$"))
    return ParseError(
        "a string, quoted name or comment is not closed",
        position=source.position(max(offset, 0)),
        hint="write '' for a quote inside of a string" if "'" in source.text else None,
    )


def statement_of(source: SourceText, tokens: Sequence[Token]) -> Statement:
    """The tokens of one statement -> the statement"""
    _check_words(source, tokens)
    statement = _statement_of_words(source, tokens)
    return statement if statement is not None else _statement_of_tree(source, tokens)


def _statement_of_words(source: SourceText, tokens: Sequence[Token]) -> Statement | None:
    """What is read token by token, since sqlglot does not know it; None for all else."""
    text = written(source.text, tokens)
    if tokens[0].text.upper() == "REFRESH":
        return read_refresh(tokens, source.position)
    if tokens[0].text.upper() in INSPECTION_WORDS:
        return read_inspection(tokens, source.text, source.position)
    if tokens[0].text.upper() in TRANSACTION_WORDS:
        return read_transaction(tokens, source.position)
    words = [token.text.upper() for token in tokens[:2]]
    if words in (["ALTER", "MATERIALIZED"], ["ALTER", "VIEW"]):
        query = _query_of_alter(tokens)
        if query is not None:
            return _replace_query(source, tokens, query, text)
        return read_alter(tokens, source.position, text)
    if words in (["ALTER", "TABLE"], ["ALTER", "STREAM"]):
        complete = read_complete(tokens, source.position)
        if complete is not None:
            return complete
    if words == ["ALTER", "TABLE"]:
        return read_alter_table(
            tokens, source.position, text, lambda part: statement_of(source, part)
        )
    return None


def _statement_of_tree(source: SourceText, tokens: Sequence[Token]) -> Statement:
    """What sqlglot reads, by the node that it makes of it."""
    start = source.position(tokens[0].start)
    text = written(source.text, tokens)
    tokens, is_stream = _without_stream(list(tokens))
    tokens = without_flink_words(with_session_names(_without_data(source, tokens)))
    tree = _tree(source, tokens)
    _prepare_names(source, tree)
    if isinstance(tree, exp.Query | exp.Values | exp.Create):
        expand_time_windows(tree)
        expand_sessions(tree)
        mark_temporal_joins(tree)
    expand_spellings(tree)
    if isinstance(tree, exp.Query | exp.Values):
        return Select(text, start, tree)
    if isinstance(tree, exp.Create):
        return _create(tree, source.text, tokens, text, start, is_stream)
    if isinstance(tree, exp.Drop):
        return _drop(tree, start, is_stream)
    if isinstance(tree, exp.Merge):
        return merge(tree, source, tokens, start)
    if isinstance(tree, exp.TruncateTable):
        return truncate(tree, start)
    if not isinstance(tree, exp.Insert | exp.Delete | exp.Update | exp.Copy):
        raise _no_statement(source, tokens)
    check_arguments(tree)
    if isinstance(tree, exp.Insert):
        return changes.insert(tree, source.text, tokens, start)
    if isinstance(tree, exp.Delete):
        return changes.delete(tree, source.text, tokens, start)
    if isinstance(tree, exp.Update):
        return changes.update(tree, source.text, tokens, start)
    return changes.copy(tree, start)


def _prepare_names(source: SourceText, tree: exp.Expr) -> None:
    """Each node gets its position; names without quotes become lower case, and no word of SQL is
    one.
    """
    for node in tree.walk():
        offset = node.meta_get("start")
        if offset is not None:
            node.meta[POSITION] = source.position(int(offset))
        if isinstance(node, exp.Identifier) and not node.args.get("quoted"):
            if node.name.upper() in _RESERVED:
                raise fault(
                    ParseError,
                    f"unexpected {node.name!r}",
                    node,
                    f'quote it as "{node.name}" if it is a name',
                )
            node.set("this", node.name.lower())


def _query_of_alter(tokens: Sequence[Token]) -> int | None:
    """ALTER MATERIALIZED VIEW v AS SELECT ... -> where AS stands, if it is behind the name"""
    at = 3 if tokens[1].text.upper() == "MATERIALIZED" else 2
    has_query = len(tokens) > at + 1 and tokens[at + 1].text.upper() == "AS"
    return at + 1 if has_query else None


def _replace_query(
    source: SourceText, tokens: Sequence[Token], query_at: int, text: str
) -> ReplaceQuery:
    first = tokens[0]
    create = Token(TokenType.CREATE, "CREATE", first.line, first.col, first.start, first.end)
    view = statement_of(source, [create, *tokens[1:]])
    assert isinstance(view, CreateView)
    name = written(source.text, tokens[query_at - 1 : query_at])
    query = written(source.text, tokens[query_at:])
    made = replace(view, text=f"CREATE MATERIALIZED VIEW {name} {query}")
    return ReplaceQuery(made, view.position, text)


def view_of(query: Select, name: str) -> CreateView:
    """CREATE MATERIALIZED VIEW name AS query"""
    check_arguments(query.select)
    text = f"CREATE MATERIALIZED VIEW {name} AS {query.text}"
    return CreateView(name, query.select, text, query.position)


def _without_stream(tokens: list[Token]) -> tuple[list[Token], bool]:
    """CREATE STREAM -> CREATE TABLE, DROP STREAM -> DROP TABLE"""
    for at, token in enumerate(tokens[:5]):
        if at and token.text.upper() == "STREAM" and tokens[0].text.upper() in ("CREATE", "DROP"):
            table = Token(TokenType.TABLE, "TABLE", token.line, token.col, token.start, token.end)
            return [*tokens[:at], table, *tokens[at + 1 :]], True
        if token.token_type not in (TokenType.CREATE, TokenType.DROP, TokenType.OR) and (
            token.text.upper() not in ("REPLACE",)
        ):
            break
    return tokens, False


def _without_data(source: SourceText, tokens: list[Token]) -> list[Token]:
    """CREATE VIEW ... WITH DATA -> CREATE VIEW ...; a view WITH NO DATA there cannot be."""
    words = [token.text.upper() for token in tokens[-3:]]
    is_table = any(token.token_type is TokenType.TABLE for token in tokens[:4])
    if tokens[0].token_type is not TokenType.CREATE or is_table or words[-1] != "DATA":
        return tokens
    if words == ["WITH", "NO", "DATA"]:
        raise UnsupportedError(
            "WITH NO DATA is not supported",
            position=source.position(tokens[-3].start),
            hint="views are always current",
        )
    return tokens[:-2] if words[-2:] == ["WITH", "DATA"] else tokens


def _tree(source: SourceText, tokens: list[Token]) -> exp.Expr:
    try:
        trees = ViewletDialect().parser().parse(tokens, source.text)
    except SqlglotParseError as error:
        raise _parse_error(source, error, tokens) from None
    except RecursionError:
        raise ParseError(
            "the statement is nested too deeply", position=source.position(tokens[0].start)
        ) from None
    tree = trees[0] if trees else None
    if tree is None or isinstance(tree, exp.Command):
        raise _unreadable(source, tokens)
    return tree


def _unreadable(source: SourceText, tokens: list[Token]) -> ParseError | UnsupportedError:
    """What is wrong with a statement that sqlglot gives up on as a whole.

    CREATE and DROP: the word for what is made, else the query after AS, which has its own error.
    """
    words = [token.text.upper() for token in tokens]
    if words[0] not in _FIRST_WORDS:
        return _no_statement(source, tokens)
    if words[0] in ("CREATE", "DROP"):
        at = next((at for at in range(1, len(words)) if words[at] not in _BEFORE_KINDS), 0)
        if at and words[at] not in _KINDS:
            return ParseError(
                f"{words[0]} cannot be followed by {tokens[at].text!r}",
                position=source.position(tokens[at].start),
                hint=did_you_mean(words[at], _KINDS),
            )
        if "AS" in words[:-1] and (query := tokens[words.index("AS") + 1 :]):
            _check_words(source, query)
            _tree(source, query)
    return UnsupportedError(
        f"{words[0]} ... cannot be read",
        position=source.position(tokens[0].start),
        hint="check the spelling after the first word",
    )


def _no_statement(source: SourceText, tokens: Sequence[Token]) -> UnsupportedError:
    return UnsupportedError(
        f"{tokens[0].text.upper()} is not a statement of viewlet",
        position=source.position(tokens[0].start),
        hint="statements are CREATE TABLE, STREAM or MATERIALIZED VIEW, INSERT, DELETE, UPDATE,"
        " MERGE, TRUNCATE, COPY, DROP, REFRESH, ALTER TABLE, ALTER VIEW and SELECT",
    )


def _check_words(source: SourceText, tokens: Sequence[Token]) -> None:
    """Mistakes that the grammar would read as something else: SELEC 1, and SELECT a, FROM r."""
    first = tokens[0]
    if first.token_type is TokenType.VAR and first.text.upper() not in _FIRST_WORDS:
        raise ParseError(
            f"{first.text!r} does not start a statement",
            position=source.position(first.start),
            hint=did_you_mean(first.text.upper(), _FIRST_WORDS),
        )
    for token, after in pairwise(tokens):
        if token.token_type is TokenType.COMMA and after.text.upper() in _AFTER_LISTS:
            raise ParseError(
                f"unexpected {after.text!r} after a comma", position=source.position(after.start)
            )


def _parse_error(source: SourceText, error: SqlglotParseError, tokens: list[Token]) -> ParseError:
    """sqlglot's first complaint, without its token dumps."""
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    at = next((t for t in tokens if t.line == line and t.col == column), tokens[-1])
    complaint = str(first.get("description") or "bad syntax")
    if complaint.startswith("Invalid expression"):
        message = f"unexpected {at.text!r}"
    elif complaint.startswith("Required keyword"):
        message = f"something is missing near {at.text!r}"
    else:
        message = re.sub(r"\s*but got <Token.*", "", complaint)
        message = f"{message[:1].lower()}{message[1:]}, near {at.text!r}"
    hint = f"after {at.text!r} the text ends" if at is tokens[-1] else None
    if tokens[0].text.upper() == "MERGE" and not {"WHEN", "THEN"} <= _words(tokens):
        message, hint = "MERGE needs USING, ON, WHEN and THEN", MERGE_HINT
    return ParseError(message, position=source.position(at.start), hint=hint)


def _words(tokens: Sequence[Token]) -> set[str]:
    return {token.text.upper() for token in tokens if token.token_type is not TokenType.STRING}


_FIRST_WORDS = frozenset(
    (
        *("CREATE", "SELECT", "WITH", "INSERT", "DELETE", "UPDATE", "COPY", "DROP", "VALUES"),
        *("REFRESH", "ALTER", "MERGE", "TRUNCATE", *TRANSACTION_WORDS),
        *INSPECTION_WORDS,
    )
)
_BEFORE_KINDS = frozenset(("OR", "REPLACE", "MATERIALIZED"))
_KINDS = ("TABLE", "STREAM", "VIEW", "MATERIALIZED VIEW")
_AFTER_LISTS = frozenset(("FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", ")"))
_RESERVED = frozenset(
    (
        *("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "UNION", "INTERSECT", "EXCEPT"),
        *("JOIN", "ON", "AND", "OR", "NOT", "CASE", "WHEN", "THEN", "ELSE", "LIMIT"),
    )
)


# --- statements -----------------------------------------------------------------------------------


def _create(
    tree: exp.Create,
    source: str,
    tokens: Sequence[Token],
    text: str,
    start: Position,
    is_stream: bool,
) -> Statement:
    kind = str(tree.args.get("kind") or "").upper()
    if kind == "TABLE" and tree.expression is not None and not isinstance(tree.this, exp.Schema):
        return create_table_as(tree, source, tokens, start)
    if kind == "TABLE":
        return create_relation(tree, source, tokens, text, start, is_stream)
    if kind != "VIEW":
        raise UnsupportedError(
            f"CREATE {kind} is not supported",
            position=start,
            hint="create a TABLE, a STREAM or a MATERIALIZED VIEW",
        )
    check_view_options(tree)
    check_arguments(tree)
    named = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(named, exp.Schema):
        columns, named = plain_names(named.expressions), named.this
    if tree.expression is None or not isinstance(tree.expression, exp.Query | exp.Values):
        raise ParseError(
            f"view {named.name} has no query", position=start, hint="write AS SELECT ..."
        )
    return CreateView(
        name=plain_name(named),
        select=tree.expression,
        text=text,
        position=position_of(named) or start,
        columns=columns,
        if_not_exists=bool(tree.args.get("exists")),
        replace=bool(tree.args.get("replace")),
        plan=plan_of(tree),
        strict=is_strict(tree),
        maintenance=options_of(tree),
    )


def truncate(tree: exp.TruncateTable, start: Position) -> Truncate:
    """TRUNCATE [TABLE] a, b"""
    for argument in ("identity", "option", "cluster", "partition", "exists"):
        if tree.args.get(argument):
            word = str(tree.args[argument]).upper()
            raise UnsupportedError(
                f"TRUNCATE ... {'IF EXISTS' if argument == 'exists' else word} is not supported",
                position=start,
                hint="write TRUNCATE a, b",
            )
    return Truncate(tuple(plain_name(table) for table in tree.expressions), start)


def _drop(tree: exp.Drop, start: Position, is_stream: bool) -> Drop:
    kind = str(tree.args.get("kind") or "").lower()
    if kind not in ("table", "view"):
        raise UnsupportedError(
            f"DROP {kind.upper()} is not supported",
            position=start,
            hint="drop a TABLE, a STREAM or a VIEW",
        )
    check_arguments(tree)
    names = tree.args.get("tables") or []
    if len(names) != 1:
        raise UnsupportedError(
            "DROP takes one name", position=start, hint="drop one after the other"
        )
    name = plain_name(names[0])
    return Drop("stream" if is_stream else kind, name, start, bool(tree.args.get("exists")))
