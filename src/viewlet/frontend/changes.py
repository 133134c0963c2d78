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
from viewlet.frontend.parameters import StatementParameter, written
from viewlet.frontend.read_arguments import check_node
from viewlet.frontend.scalars import Constants
from viewlet.frontend.statements import (
    DEFAULT,
    Copy,
    Delete,
    Insert,
    InsertSelect,
    OnConflict,
    Update,
)
from viewlet.frontend.syntax import fault, plain_name, plain_names, position_of
from viewlet.functions import Const
from viewlet.schema import decode

_TARGET = frozenset(("this", "alias", "db", "only"))
"""What a table may be that rows go into or out of: no joins, no partitions."""

_COPY_OPTIONS = {"HEADER": "header", "DELIMITER": "delimiter", "NULL": "nullvalue"}


def insert(
    tree: exp.Insert, text: str, tokens: Sequence[Token], start: Position
) -> Insert | InsertSelect:
    """INSERT INTO table [(columns)] VALUES ... or a query, [ON CONFLICT ...] [RETURNING ...]"""
    table, columns = _target(tree)
    parts = _clauses(tokens, _INSERT_CLAUSES)
    conflict = _on_conflict(tree, parts, text)
    returning = _returning(parts, text)
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    alias = target.alias if isinstance(target, exp.Table) else ""
    query = tree.expression
    if tree.args.get("default"):
        return Insert(table, (), ((),), start, alias, conflict, returning)
    if isinstance(query, exp.Values) and not _is_computed(query):
        rows = []
        for row in query.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            if columns and len(cells) != len(columns):
                raise fault(ParseError, f"{len(cells)} values for {len(columns)} columns", row)
            rows.append(tuple(_constant(cell) for cell in cells))
        return Insert(table, columns, tuple(rows), start, alias, conflict, returning)
    if not isinstance(query, exp.Query | exp.Values):
        raise ParseError("INSERT needs VALUES or a query", position=start)
    query_text = written(text, _query(tree, parts[""]))
    return InsertSelect(table, columns, query_text, start, alias, conflict, returning)


def _is_computed(values: exp.Values) -> bool:
    """Whether VALUES computes with parameters or has subqueries: DuckDB does that."""
    cells = [
        cell
        for row in values.expressions
        for cell in (row.expressions if isinstance(row, exp.Tuple) else [row])
        if not isinstance(cell, exp.Parameter)
    ]
    return any(cell.find(exp.Parameter, exp.Query) is not None for cell in cells)


def _on_conflict(
    tree: exp.Insert, parts: dict[str, Sequence[Token]], text: str
) -> OnConflict | None:
    """ON CONFLICT [(a, b)] DO NOTHING | DO UPDATE SET ... [WHERE ...]"""
    node = tree.args.get("conflict")
    if node is None:
        return None
    keys = []
    for part in node.args.get("conflict_keys") or ():
        column = part.this if isinstance(part, exp.Ordered) else part
        if not isinstance(column, exp.Column | exp.Identifier):
            raise fault(UnsupportedError, "ON CONFLICT takes names of columns", part)
        keys.append(column.name)
    assignments: tuple[tuple[str, str], ...] = ()
    where = None
    if "UPDATE" in str(node.args.get("action")).upper():
        clauses = _clauses(parts["CONFLICT"], _SET_CLAUSES)
        assignments = assignments_of(node.expressions, clauses["SET"], text)
        where = written(text, clauses["WHERE"]) if "WHERE" in clauses else None
    return OnConflict(tuple(keys), assignments, where, position_of(node) or Position(1, 1))


def _returning(parts: dict[str, Sequence[Token]], text: str) -> str | None:
    return written(text, parts["RETURNING"]) if "RETURNING" in parts else None


def _query(tree: exp.Insert, tokens: Sequence[Token]) -> Sequence[Token]:
    """What follows INSERT INTO [TABLE] name [AS alias] [(columns)]"""
    at = 3 if tokens[2].token_type is TokenType.TABLE else 2
    while at + 2 < len(tokens) and tokens[at + 1].token_type is TokenType.DOT:
        at += 2
    at += 1
    if tree.this.find(exp.TableAlias) is not None:
        at += 2 if tokens[at].token_type is TokenType.ALIAS else 1
    if isinstance(tree.this, exp.Schema):
        at += 1 + next(i for i, depth in enumerate(depths(tokens[at:])) if depth == 0 and i)
    return tokens[at:]


def _constant(node: exp.Expr) -> object:
    if isinstance(node, exp.Parameter):
        return StatementParameter(node.name)
    if isinstance(node, exp.Var) and node.name.upper() == "DEFAULT":
        return DEFAULT
    value = Constants().lower(node)
    if not isinstance(value.scalar, Const):
        raise fault(UnsupportedError, "VALUES needs constants", node)
    return decode(value.scalar.value, value.type)


def delete(tree: exp.Delete, text: str, tokens: Sequence[Token], start: Position) -> Delete:
    """DELETE FROM table [AS alias] [USING sources] [WHERE condition] [RETURNING ...]"""
    parts = _clauses(tokens, _DELETE_CLAUSES)
    where = written(text, parts["WHERE"]) if "WHERE" in parts else None
    sources = written(text, parts["USING"]) if "USING" in parts else ""
    returning = _returning(parts, text)
    return Delete(_target(tree)[0], where, start, _alias(tree), sources, returning)


def update(tree: exp.Update, text: str, tokens: Sequence[Token], start: Position) -> Update:
    """UPDATE table [AS alias] SET column = value, ... [FROM sources] [WHERE condition]"""
    parts = _clauses(tokens, _UPDATE_CLAUSES)
    assignments = assignments_of(tree.expressions, parts["SET"], text)
    where = written(text, parts["WHERE"]) if "WHERE" in parts else None
    sources = written(text, parts["FROM"]) if "FROM" in parts else ""
    returning = _returning(parts, text)
    return Update(_target(tree)[0], assignments, where, start, _alias(tree), sources, returning)


def assignments_of(
    nodes: Sequence[exp.Expr], tokens: Sequence[Token], text: str
) -> tuple[tuple[str, str], ...]:
    """a = 1, b = f(2, 3) -> ("a", "1"), ("b", "f(2, 3)")"""
    assignments: list[tuple[str, str]] = []
    for part, tokens_of_part in zip(nodes, listed(tokens), strict=True):
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            raise fault(ParseError, "SET needs column = value", part)
        if part.this.table:
            hint = f"write {part.this.name}: UPDATE changes columns of its own table alone"
            raise fault(UnsupportedError, "a table's name in SET is not supported", part.this, hint)
        if any(part.this.name == name for name, _ in assignments):
            raise fault(ParseError, f"SET names {part.this.name} twice", part)
        kinds = [token.token_type for token in tokens_of_part]
        value = tokens_of_part[kinds.index(TokenType.EQ) + 1 :]
        assignments.append((part.this.name, written(text, value)))
    return tuple(assignments)


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


_INSERT_CLAUSES = frozenset(("CONFLICT", "RETURNING"))
_SET_CLAUSES = frozenset(("SET", "WHERE"))
_DELETE_CLAUSES = frozenset(("USING", "WHERE", "RETURNING"))
_UPDATE_CLAUSES = frozenset(("SET", "FROM", "WHERE", "RETURNING"))


def _clauses(tokens: Sequence[Token], names: frozenset[str]) -> dict[str, Sequence[Token]]:
    """DELETE FROM t WHERE p -> {"": DELETE FROM t, "WHERE": p};  ON CONFLICT is "CONFLICT"

    A clause is once in a statement, so that the FROM of IS DISTINCT FROM is none.
    """
    parts: dict[str, list[Token]] = {"": []}
    name = ""
    for at, (token, depth) in enumerate(zip(tokens, depths(tokens), strict=True)):
        word = token.text.upper()
        before = tokens[at - 1].text.upper() if at else ""
        is_clause = (
            not depth
            and at > 1
            and word in names
            and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
            and not (word == "FROM" and before == "DISTINCT")
            and not (word == "CONFLICT" and before != "ON")
        )
        if is_clause and word not in parts:
            if word == "CONFLICT":
                parts[name].pop()
            name = word
            parts[name] = []
        else:
            parts[name].append(token)
    return dict(parts)


def listed(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """a = 1, b = f(2, 3) -> [a = 1], [b = f(2, 3)]"""
    parts: list[list[Token]] = [[]]
    for token, depth in zip(tokens, depths(tokens), strict=True):
        if not depth and token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return list(parts)


_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def depths(tokens: Sequence[Token]) -> Iterator[int]:
    """How many brackets are open after each token."""
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        yield depth
