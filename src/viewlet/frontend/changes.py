"""INSERT, DELETE, UPDATE and COPY -> statements.

DuckDB evaluates their queries, conditions and new values. It gets the text of those parts as it was
written: what sqlglot would make of it could be something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position, UnsupportedError
from viewlet.frontend.read_arguments import check_node
from viewlet.frontend.scalars import Constants
from viewlet.frontend.statements import Copy, Delete, Insert, InsertSelect, Update
from viewlet.frontend.syntax import fault, plain_name, plain_names
from viewlet.functions import Const
from viewlet.schema import decode

_TARGET = frozenset(("this", "alias", "db", "only"))
"""What a table may be that rows go into or out of: no joins, no partitions."""

_COPY_OPTIONS = {"HEADER": "header", "DELIMITER": "delimiter", "NULL": "nullvalue"}


def insert(
    tree: exp.Insert, text: str, tokens: Sequence[Token], start: Position
) -> Insert | InsertSelect:
    """INSERT INTO table [(columns)] VALUES ... or a query"""
    table, columns = _target(tree)
    query = tree.expression
    if isinstance(query, exp.Query):
        return InsertSelect(table, columns, _text(text, _query(tree, tokens)), start)
    if not isinstance(query, exp.Values):
        raise ParseError("INSERT needs VALUES or a query", position=start)
    rows = []
    for row in query.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        if columns and len(cells) != len(columns):
            raise fault(ParseError, f"{len(cells)} values for {len(columns)} columns", row)
        rows.append(tuple(_constant(cell) for cell in cells))
    return Insert(table, columns, tuple(rows), start)


def _query(tree: exp.Insert, tokens: Sequence[Token]) -> Sequence[Token]:
    """What follows INSERT INTO [TABLE] name [AS alias] [(columns)]"""
    at = 3 if tokens[2].token_type is TokenType.TABLE else 2
    while at + 2 < len(tokens) and tokens[at + 1].token_type is TokenType.DOT:
        at += 2
    at += 1
    if tree.this.find(exp.TableAlias) is not None:
        at += 2 if tokens[at].token_type is TokenType.ALIAS else 1
    if isinstance(tree.this, exp.Schema):
        depths = _depths(tokens[at:])
        at += 1 + next(i for i, depth in enumerate(depths) if depth == 0 and i)
    return tokens[at:]


def _constant(node: exp.Expr) -> object:
    value = Constants().lower(node)
    if not isinstance(value.scalar, Const):
        raise fault(UnsupportedError, "VALUES needs constants", node)
    return decode(value.scalar.value, value.type)


def delete(tree: exp.Delete, text: str, tokens: Sequence[Token], start: Position) -> Delete:
    """DELETE FROM table [AS alias] [WHERE condition]"""
    where = _text(text, _clauses(tokens)[-1]) if tree.args.get("where") else None
    return Delete(_target(tree)[0], where, start, _alias(tree))


def update(tree: exp.Update, text: str, tokens: Sequence[Token], start: Position) -> Update:
    """UPDATE table [AS alias] SET column = value, ... [WHERE condition]"""
    _, values, *where = _clauses(tokens)
    assignments: list[tuple[str, str]] = []
    for part, written in zip(tree.expressions, _listed(values), strict=True):
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            raise fault(ParseError, "SET needs column = value", part)
        if part.this.table:
            hint = f"write {part.this.name}: UPDATE changes columns of its own table alone"
            raise fault(UnsupportedError, "a table's name in SET is not supported", part.this, hint)
        if any(part.this.name == name for name, _ in assignments):
            raise fault(ParseError, f"SET names {part.this.name} twice", part)
        equals = next(i for i, token in enumerate(written) if token.token_type is TokenType.EQ)
        assignments.append((part.this.name, _text(text, written[equals + 1 :])))
    condition = _text(text, where[0]) if where else None
    return Update(_target(tree)[0], tuple(assignments), condition, start, _alias(tree))


def copy(tree: exp.Copy, start: Position) -> Copy:
    """COPY table FROM 'file' [(FORMAT csv | json | parquet, HEADER, DELIMITER ';', NULL '')]"""
    files = tree.args.get("files") or []
    if not tree.args.get("kind") or len(files) != 1 or not isinstance(files[0], exp.Literal):
        raise UnsupportedError(
            "COPY reads one file into a table", position=start, hint="write COPY t FROM 'file.csv'"
        )
    table, columns = _target(tree)
    if columns:
        raise fault(
            UnsupportedError,
            "COPY with a list of columns is not supported",
            tree.this,
            "name the columns in the file's first line",
        )
    path = files[0].name
    format_ = PurePosixPath(path).suffix.lower().lstrip(".")
    options = {}
    for parameter in tree.args.get("params") or []:
        option, value = parameter.name.upper(), parameter.expression
        if option == "FORMAT" and value is not None:
            format_ = value.name.lower()
        elif option in _COPY_OPTIONS:
            options[_COPY_OPTIONS[option]] = _option_text(parameter)
        else:
            raise fault(
                UnsupportedError,
                f"COPY ... {option} is not supported",
                parameter,
                "options are FORMAT, HEADER, DELIMITER and NULL",
            )
    if format_ not in ("arrow", "csv", "json", "parquet", "tbl"):
        raise fault(
            UnsupportedError,
            f"the format of {path!r} is not known",
            files[0],
            "name the file .csv or .parquet, or add (FORMAT csv)",
        )
    if options and format_ not in ("csv", "tbl"):
        raise UnsupportedError(
            f"{', '.join(options).upper()} is of CSV files, and this one is read as {format_}",
            position=start,
            hint="leave the option out, or add FORMAT csv",
        )
    return Copy(table, path, format_, start, tuple(options.items()))


def _option_text(parameter: exp.Expr) -> str:
    """HEADER  ->  true        HEADER false  ->  false        DELIMITER ';'  ->  ;"""
    value = parameter.expression
    if value is None:
        return "true"
    if isinstance(value, exp.Boolean):
        return str(value.this).lower()
    if isinstance(value, exp.Null):
        raise fault(ParseError, f"{parameter.name.upper()} is NULL", parameter, "write a text")
    return str(value.name)


# --- the parts of a statement ---------------------------------------------------------------------


def _target(tree: exp.Expr) -> tuple[str, tuple[str, ...]]:
    """The table of a statement and the columns named after it."""
    target: exp.Expr = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        target, columns = target.this, plain_names(target.expressions)
    check_node(target, _TARGET)
    return plain_name(target), columns


def _alias(tree: exp.Expr) -> str:
    return tree.this.alias if isinstance(tree.this, exp.Table) else ""


def _text(text: str, tokens: Sequence[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _clauses(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """DELETE FROM t WHERE p -> [DELETE FROM t], [p];  UPDATE t SET a = 1 WHERE p likewise"""
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if not depth and token.token_type in (TokenType.SET, TokenType.WHERE):
            parts.append([])
        else:
            parts[-1].append(token)
    return list(parts)


def _listed(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """a = 1, b = f(2, 3) -> [a = 1], [b = f(2, 3)]"""
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if not depth and token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return list(parts)


_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def _depths(tokens: Sequence[Token]) -> Iterator[int]:
    """How many brackets are open after each token."""
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        yield depth
