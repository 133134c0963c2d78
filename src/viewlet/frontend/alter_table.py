"""ALTER TABLE -> AlterTable, by its tokens: ADD, DROP and RENAME of columns, and their defaults.

A column that is added is read as that of a table that has no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, UnsupportedError
from viewlet.frontend.statements import (
    AddColumn,
    AlterTable,
    ChangeDefault,
    ColumnChange,
    CreateRelation,
    DropColumn,
    RenameColumn,
    Select,
    Statement,
)
from viewlet.frontend.word_reader import Positions, WordReader

_SHAPES = (
    "write ALTER TABLE t ADD COLUMN c INT, DROP COLUMN c, RENAME COLUMN c TO d,"
    " or ALTER COLUMN c SET DEFAULT 1"
)
_CONSTRAINTS = frozenset(("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"))

Reader = Callable[[Sequence[Token]], Statement]
"""Reads the tokens of a whole statement."""


def read_alter_table(
    tokens: Sequence[Token], position_of: Positions, text: str, read: Reader
) -> AlterTable:
    """ALTER TABLE [IF EXISTS] t change, change"""
    reader = WordReader(tokens, position_of, _SHAPES)
    reader.expect("ALTER")
    reader.expect("TABLE")
    if_exists = reader.accept("IF", "EXISTS")
    position = reader.position()
    name = reader.name("the name of a table")
    changes = [_change(reader, tokens[0], read)]
    while reader.accept(","):
        changes.append(_change(reader, tokens[0], read))
    reader.end()
    return AlterTable(name, tuple(changes), position, text, if_exists)


def _change(reader: WordReader, first: Token, read: Reader) -> ColumnChange:
    if reader.accept("ADD"):
        return _added(reader, first, read)
    if reader.accept("DROP"):
        reader.accept("COLUMN")
        if_exists = reader.accept("IF", "EXISTS")
        position = reader.position()
        name = reader.name("the name of a column")
        if name == "constraint":
            raise _refused(reader, "DROP CONSTRAINT", back=1)
        if reader.accept("CASCADE"):
            raise _refused(reader, "DROP COLUMN ... CASCADE", "drop the views that use it first", 1)
        reader.accept("RESTRICT")
        return DropColumn(name, position, if_exists)
    if reader.accept("RENAME"):
        if reader.accept("TO"):
            hint = "make the table anew with CREATE TABLE new AS SELECT * FROM old"
            raise _refused(reader, "RENAME of a table", hint, 1)
        reader.accept("COLUMN")
        position = reader.position()
        name = reader.name("the name of a column")
        reader.expect("TO")
        return RenameColumn(name, reader.name("a new name"), position)
    if reader.accept("ALTER"):
        reader.accept("COLUMN")
        position = reader.position()
        name = reader.name("the name of a column")
        if reader.accept("DROP", "DEFAULT"):
            return ChangeDefault(name, exp.Null(), position)
        if not reader.accept("SET", "DEFAULT"):
            raise _refused(reader, "a change of a column's type or of NOT NULL")
        return ChangeDefault(name, _value(reader, first, read), position)
    raise reader.error("expected ADD, DROP, RENAME or ALTER")


def _added(reader: WordReader, first: Token, read: Reader) -> AddColumn:
    is_column = reader.accept("COLUMN")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    position = reader.position()
    definition = reader.until_comma()
    if not definition:
        raise reader.error("expected the name of a column")
    if not is_column and definition[0].text.upper() in _CONSTRAINTS:
        raise UnsupportedError(
            f"ADD {definition[0].text.upper()} is not supported",
            position=position,
            hint="constraints are declared with CREATE TABLE",
        )
    table = [
        *(_token(TokenType.CREATE, "CREATE", first), _token(TokenType.TABLE, "TABLE", first)),
        *(_token(TokenType.IDENTIFIER, "added", first), _token(TokenType.L_PAREN, "(", first)),
        *(*definition, _token(TokenType.R_PAREN, ")", definition[-1])),
    ]
    statement = read(table)
    assert isinstance(statement, CreateRelation)
    if statement.relation.key:
        raise UnsupportedError(
            f"column {statement.relation.columns[0].name} cannot be added as a PRIMARY KEY",
            position=position,
            hint="make another table with CREATE TABLE, and INSERT INTO it SELECT ...",
        )
    return AddColumn(statement, position, if_not_exists)


def _value(reader: WordReader, first: Token, read: Reader) -> exp.Expr:
    value = reader.until_comma()
    if not value:
        raise reader.error("expected a value")
    statement = read([_token(TokenType.SELECT, "SELECT", first), *value])
    query = statement.select if isinstance(statement, Select) else None
    selects = query.selects if isinstance(query, exp.Query) else []
    if len(selects) != 1 or isinstance(selects[0], exp.Alias):
        raise reader.error("expected one value", back=1)
    node: exp.Expr = selects[0]
    return node


def _token(kind: TokenType, text: str, near: Token) -> Token:
    return Token(kind, text, near.line, near.col, near.start, near.end)


def _refused(
    reader: WordReader, what: str, hint: str = _SHAPES, back: int = 0
) -> UnsupportedError | ParseError:
    error = reader.error(what, back)
    return UnsupportedError(f"{what} is not supported", position=error.position, hint=hint)
