"""SQL text -> statements, with the place of every node, and errors in viewlet's own words.

The dialect is PostgreSQL's, with what Spark users write where it does not collide: backquoted
names, STRING, LONG. CREATE STREAM is read as CREATE TABLE with a mark. Names that are not quoted
fold to lower case.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position, UnsupportedError
from viewlet.frontend.declare import create_relation
from viewlet.frontend.scalars import Constants
from viewlet.frontend.statements import (
    Copy,
    CreateView,
    Delete,
    Drop,
    Insert,
    InsertSelect,
    Select,
    Statement,
    Update,
)
from viewlet.frontend.syntax import COMMA, POSITION, did_you_mean, fault, position_of
from viewlet.functions import Const
from viewlet.schema import decode


class ViewletParser(PostgresParser):
    """Marks what the tree alone does not tell: which joins are commas, and where a join stands."""

    def _warn_unsupported(self) -> None:
        """What sqlglot cannot read becomes an error here, which says it once."""

    def _parse_join(self, *args: Any, **options: Any) -> exp.Join | None:
        first = self._curr
        join = super()._parse_join(*args, **options)
        if join is not None and first is not None:
            join.meta[COMMA] = first.token_type is TokenType.COMMA
            join.meta["start"] = first.start
        return join


class ViewletDialect(Postgres):
    """PostgreSQL's dialect with the words of ours."""

    Parser = ViewletParser

    class Tokenizer(Postgres.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Postgres.Tokenizer.KEYWORDS,
            "LONG": TokenType.BIGINT,
        }


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
    """All statements of a text; the first error ends it."""
    source = SourceText(text)
    return [statement_of(source, tokens) for tokens in split(source)]


def split(source: SourceText) -> list[list[Token]]:
    """The tokens of each statement, without the semicolons."""
    dialect = ViewletDialect()
    try:
        tokens = dialect.tokenize(source.text)
    except TokenError as error:
        raise _token_error(source, str(error)) from None
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _token_error(source: SourceText, message: str) -> ParseError:
    """An unfinished string or comment; the place is the last quote before the end."""
    place = max(source.text.rfind(quote) for quote in ("'", '"', "`", "/*", "$"))
    return ParseError(
        "a string, quoted name or comment is not closed",
        position=source.position(max(place, 0)),
        hint="write '' for a quote inside of a string" if "'" in source.text else None,
    )


def statement_of(source: SourceText, tokens: Sequence[Token]) -> Statement:
    """The tokens of one statement -> the statement"""
    start = source.position(tokens[0].start)
    text = source.text[tokens[0].start : tokens[-1].end + 1]
    _check_words(source, tokens)
    tokens, is_stream = _without_stream(list(tokens))
    tree = _tree(source, tokens)
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
    if isinstance(tree, exp.Create):
        return _create(tree, text, start, is_stream)
    if isinstance(tree, exp.Insert):
        return _insert(tree, start)
    if isinstance(tree, exp.Delete):
        return _delete(tree, start)
    if isinstance(tree, exp.Update):
        return _update(tree, start)
    if isinstance(tree, exp.Copy):
        return _copy(tree, start)
    if isinstance(tree, exp.Drop):
        return _drop(tree, start, is_stream)
    if isinstance(tree, exp.Query | exp.Values):
        return Select(text, start, tree)
    raise _no_statement(source, tokens)


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
        " COPY, DROP and SELECT",
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
    return ParseError(message, position=source.position(at.start), hint=hint)


_FIRST_WORDS = frozenset(
    ("CREATE", "SELECT", "WITH", "INSERT", "DELETE", "UPDATE", "COPY", "DROP", "VALUES")
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


def _create(tree: exp.Create, text: str, start: Position, is_stream: bool) -> Statement:
    kind = str(tree.args.get("kind") or "").upper()
    if kind == "TABLE":
        return create_relation(tree, text, start, is_stream)
    if kind != "VIEW":
        raise UnsupportedError(
            f"CREATE {kind} is not supported",
            position=start,
            hint="create a TABLE, a STREAM or a MATERIALIZED VIEW",
        )
    named = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(named, exp.Schema):
        columns = tuple(column.name for column in named.expressions)
        named = named.this
    if tree.expression is None or not isinstance(tree.expression, exp.Query | exp.Values):
        raise ParseError(
            f"view {named.name} has no query", position=start, hint="write AS SELECT ..."
        )
    return CreateView(
        name=_plain_name(named),
        select=tree.expression,
        text=text,
        position=position_of(named) or start,
        columns=columns,
        if_not_exists=bool(tree.args.get("exists")),
        replace=bool(tree.args.get("replace")),
    )


def _plain_name(table: exp.Expr) -> str:
    """A name without a schema in front."""
    if isinstance(table, exp.Table) and table.db:
        raise fault(
            UnsupportedError,
            f"schemas are not supported: {table.db}.{table.name}",
            table,
            f"write {table.name}",
        )
    return table.name


def _target(tree: exp.Expr) -> tuple[str, tuple[str, ...]]:
    """The table of a statement and the columns named after it."""
    target = tree.this
    if isinstance(target, exp.Schema):
        return _plain_name(target.this), tuple(c.name for c in target.expressions)
    return _plain_name(target), ()


def _insert(tree: exp.Insert, start: Position) -> Insert | InsertSelect:
    table, columns = _target(tree)
    for clause, name in (("conflict", "ON CONFLICT"), ("returning", "RETURNING")):
        if tree.args.get(clause) is not None:
            raise fault(UnsupportedError, f"{name} is not supported", tree.args[clause])
    query = tree.expression
    if not isinstance(query, exp.Values):
        if not isinstance(query, exp.Query):
            raise ParseError("INSERT needs VALUES or a query", position=start)
        return InsertSelect(table, columns, query.sql(dialect="duckdb"), start)
    rows = []
    for row in query.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        if columns and len(cells) != len(columns):
            raise fault(ParseError, f"{len(cells)} values for {len(columns)} columns", row)
        rows.append(tuple(_constant(cell) for cell in cells))
    return Insert(table, columns, tuple(rows), start)


def _constant(node: exp.Expr) -> object:
    value = Constants().lower(node)
    if not isinstance(value.scalar, Const):
        raise fault(UnsupportedError, "VALUES needs constants", node)
    return decode(value.scalar.value, value.type)


def _delete(tree: exp.Delete, start: Position) -> Delete:
    for clause in ("using", "returning"):
        if tree.args.get(clause):
            raise UnsupportedError(f"DELETE ... {clause.upper()} is not supported", position=start)
    return Delete(_target(tree)[0], _where(tree), start)


def _where(tree: exp.Expr) -> str | None:
    where = tree.args.get("where")
    return _sql(where.this, tree.this) if where is not None else None


def _sql(node: exp.Expr, table: exp.Expr) -> str:
    """The SQL of a part of a change, which may call the table by its name only."""
    node = node.copy()
    for column in node.find_all(exp.Column):
        if table.alias and column.table == table.alias:
            column.set("table", exp.to_identifier(table.name))
    return node.sql(dialect="duckdb")


def _update(tree: exp.Update, start: Position) -> Update:
    for clause in ("from_", "returning"):
        if tree.args.get(clause):
            name = clause.rstrip("_").upper()
            raise UnsupportedError(f"UPDATE ... {name} is not supported", position=start)
    assignments = []
    for part in tree.expressions:
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            raise fault(ParseError, "SET needs column = value", part)
        assignments.append((part.this.name, _sql(part.expression, tree.this)))
    return Update(_target(tree)[0], tuple(assignments), _where(tree), start)


def _copy(tree: exp.Copy, start: Position) -> Copy:
    """COPY table FROM 'file' [(FORMAT csv | parquet)]"""
    files = tree.args.get("files") or []
    if not tree.args.get("kind") or len(files) != 1 or not isinstance(files[0], exp.Literal):
        raise UnsupportedError(
            "COPY reads one file into a table", position=start, hint="write COPY t FROM 'file.csv'"
        )
    path = files[0].name
    format_ = PurePosixPath(path).suffix.lower().lstrip(".")
    for parameter in tree.args.get("params") or []:
        if parameter.name.upper() == "FORMAT":
            value = parameter.expression
            format_ = value.name.lower() if value is not None else format_
    if format_ not in ("csv", "tbl", "parquet"):
        raise fault(
            UnsupportedError,
            f"the format of {path!r} is not known",
            files[0],
            "name the file .csv or .parquet, or add (FORMAT csv)",
        )
    return Copy(_target(tree)[0], path, format_, start)


def _drop(tree: exp.Drop, start: Position, is_stream: bool) -> Drop:
    kind = str(tree.args.get("kind") or "").lower()
    if kind not in ("table", "view"):
        raise UnsupportedError(
            f"DROP {kind.upper()} is not supported",
            position=start,
            hint="drop a TABLE, a STREAM or a VIEW",
        )
    names = tree.args.get("tables") or []
    if len(names) != 1 or tree.args.get("cascade"):
        raise UnsupportedError(
            "DROP takes one name and no CASCADE", position=start, hint="drop one after the other"
        )
    name = _plain_name(names[0])
    return Drop("stream" if is_stream else kind, name, start, bool(tree.args.get("exists")))
