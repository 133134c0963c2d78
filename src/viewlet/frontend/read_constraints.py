"""UNIQUE, CHECK, FOREIGN KEY and REFERENCES of a CREATE TABLE -> what batches are held to.

Names that are not given are PostgreSQL's. NOT ENFORCED keys of other tables are read and promise
nothing; what would be enforced in another way than written is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import Position, ResolutionError, TypingError, UnsupportedError
from viewlet.frontend.constraints import Check, Constraint, ForeignKey, UniqueKey
from viewlet.frontend.lower import lower_view
from viewlet.frontend.parameters import written
from viewlet.frontend.statements import CreateView
from viewlet.frontend.syntax import (
    did_you_mean,
    fault,
    plain_name,
    plain_names,
    position_of,
    sql_of,
)
from viewlet.schema import Catalog, Relation

DELETE_ACTIONS = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL")
_UPDATE_ACTIONS = ("NO ACTION", "RESTRICT")


class ConstraintReader:
    """Collects the constraints of one table in the order of its text."""

    def __init__(self, table: str, tokens: Sequence[Token], text: str) -> None:
        self._table = table
        self._checks = check_texts(tokens, text)
        self.constraints: list[Constraint] = []

    def read_column(self, kind: exp.Expr, column: str, name: str) -> bool:
        """One that stands behind a column's type; False if it is none of these."""
        if isinstance(kind, exp.UniqueColumnConstraint):
            self._unique(kind, (column,), name)
        elif isinstance(kind, exp.CheckColumnConstraint):
            self._check(kind, name or f"{self._table}_{column}_check")
        elif isinstance(kind, exp.Reference):
            self._foreign_key(kind, (column,), name)
        else:
            return False
        return True

    def read_table(self, node: exp.Expr, name: str) -> bool:
        """One that stands among the columns; False if it is none of these."""
        if isinstance(node, exp.UniqueColumnConstraint):
            columns = plain_names(node.this.expressions) if node.this is not None else ()
            self._unique(node, columns, name)
        elif isinstance(node, exp.CheckColumnConstraint):
            self._check(node, name or f"{self._table}_check")
        elif isinstance(node, exp.ForeignKey):
            for argument in ("delete", "update"):
                if node.args.get(argument):
                    words = f"ON {argument.upper()} {node.args[argument]}"
                    node.args["reference"].append("options", words)
            self._foreign_key(node.args["reference"], plain_names(node.expressions), name)
        else:
            return False
        return True

    def _unique(self, node: exp.Expr, columns: tuple[str, ...], name: str) -> None:
        if node.args.get("nulls"):
            hint = "leave it out: rows with a NULL are no duplicates"
            raise fault(UnsupportedError, "NULLS NOT DISTINCT is not supported", node, hint)
        self._add(UniqueKey(name or f"{self._table}_{'_'.join(columns)}_key", columns), node)

    def _check(self, node: exp.Expr, name: str) -> None:
        self._add(Check(name, next(self._checks), node.this), node)

    def _foreign_key(self, node: exp.Expr, columns: tuple[str, ...], name: str) -> None:
        target = node.this
        names: tuple[str, ...] = ()
        if isinstance(target, exp.Schema):
            target, names = target.this, plain_names(target.expressions)
        if names and len(names) != len(columns):
            raise fault(
                ResolutionError,
                f"{len(columns)} columns refer to {len(names)}",
                target,
                "a foreign key has as many columns as the key that it refers to",
            )
        options = [str(option).upper() for option in node.args.get("options") or ()]
        action = "NO ACTION"
        for option in options:
            verb, _, what = option.removeprefix("ON ").partition(" ")
            if option.startswith("ON DELETE ") and what in DELETE_ACTIONS:
                action = what
            elif option.startswith("ON UPDATE ") and what in _UPDATE_ACTIONS:
                continue
            elif option.startswith("ON "):
                known = DELETE_ACTIONS if verb == "DELETE" else _UPDATE_ACTIONS
                hint = f"ON {verb} can be {', '.join(known)}"
                raise fault(UnsupportedError, f"{option} is not supported", target, hint)
            elif option.startswith("MATCH ") and option != "MATCH SIMPLE" and len(columns) > 1:
                hint = "leave it out: a key with a NULL refers to nothing"
                raise fault(UnsupportedError, f"{option} is not supported", target, hint)
        if "NOT ENFORCED" in options:
            return
        key_name = name or f"{self._table}_{'_'.join(columns)}_fkey"
        table = plain_name(target)
        key = ForeignKey(key_name, columns, table, names, action, position_of(target))
        self._add(key, target)

    def _add(self, constraint: Constraint, node: exp.Expr) -> None:
        columns = constraint.columns if not isinstance(constraint, Check) else ()
        twice = next((c for c in columns if columns.count(c) > 1), None)
        if twice is not None:
            raise fault(ResolutionError, f"the key names {twice} twice", node)
        taken = {other.name for other in self.constraints}
        name, number = constraint.name, 1
        while name in taken:
            name, number = f"{constraint.name}{number}", number + 1
        self.constraints.append(replace(constraint, name=name))


def check_texts(tokens: Sequence[Token], text: str) -> Iterator[str]:
    """CREATE TABLE t (a INT CHECK (a > 1), CHECK (f(a))) -> a > 1 and f(a)"""
    for at, token in enumerate(tokens):
        is_word = token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        if is_word and token.text.upper() == "CHECK" and at + 1 < len(tokens):
            depth, end = 0, at + 1
            while end < len(tokens):
                depth += tokens[end].token_type is TokenType.L_PAREN
                depth -= tokens[end].token_type is TokenType.R_PAREN
                if not depth:
                    break
                end += 1
            yield written(text, tokens[at + 2 : end])


def check_constraints(
    relation: Relation, constraints: Iterable[Constraint], node: exp.Expr
) -> None:
    """What can be said of a table's constraints without other tables."""
    for constraint in constraints:
        if isinstance(constraint, Check):
            _check_condition(relation, constraint)
            continue
        for column in constraint.columns:
            if column not in relation.names:
                raise fault(
                    ResolutionError,
                    f"constraint {constraint.name} names {column}, which {relation.name} does not"
                    " have",
                    node,
                    did_you_mean(column, relation.names),
                )
        if relation.is_stream:
            what = "UNIQUE" if isinstance(constraint, UniqueKey) else "a foreign key"
            raise fault(
                UnsupportedError,
                f"{what} of a stream cannot be checked, since its rows are not kept",
                node,
                f"declare {relation.name} with CREATE TABLE",
            )
        if isinstance(constraint, ForeignKey) and constraint.on_delete == "SET NULL":
            for column in constraint.columns:
                if not relation.column(column).nullable:
                    raise fault(
                        ResolutionError,
                        f"ON DELETE SET NULL of {column}, which is NOT NULL",
                        node,
                        "use ON DELETE CASCADE or RESTRICT",
                    )


def _check_condition(relation: Relation, check: Check) -> None:
    """The condition is one of a row alone, of the columns that there are, and a truth."""
    nested = check.condition.find(exp.Query)
    if nested is not None:
        hint = "use a foreign key, or a view that shows the rows that are wrong"
        raise fault(UnsupportedError, "a subquery in CHECK is not supported", nested, hint)
    for call in check.condition.find_all(exp.AggFunc, exp.Window):
        raise fault(TypingError, f"{sql_of(call)} in CHECK", call, "CHECK is about one row")
    select = exp.select(exp.Literal.number(1).as_("x")).from_(exp.to_table(relation.name))
    select = select.where(exp.Not(this=exp.Paren(this=check.condition.copy())), copy=False)
    text = f"CHECK ({check.text})"
    statement = CreateView("viewlet_check", select, text, Position(1, 1))
    lower_view(statement, Catalog({relation.name: relation}), {})


def target_of(
    key: ForeignKey, relation: Relation, target: Relation, unique: Iterable[UniqueKey]
) -> ForeignKey:
    """The foreign key with its target columns, which must be a key of the other table."""
    columns = key.target_columns or target.key
    if not columns:
        raise ResolutionError(
            f"{key.name} refers to {target.name}, which has no primary key",
            position=key.position,
            hint=f"write REFERENCES {target.name} (columns)",
        )
    for column in columns:
        if column not in target.names:
            raise ResolutionError(
                f"{target.name} has no column {column}",
                position=key.position,
                hint=did_you_mean(column, target.names),
            )
    keys = [set(target.key), *(set(other.columns) for other in unique)]
    if target.is_stream or set(columns) not in keys or len(columns) != len(key.columns):
        why = "is a stream" if target.is_stream else f"has no key ({', '.join(columns)})"
        if len(columns) != len(key.columns):
            why = f"has a key of {len(columns)} columns"
        raise ResolutionError(
            f"{key.name} refers to {target.name}, which {why}",
            position=key.position,
            hint="refer to the PRIMARY KEY or to UNIQUE columns of a table",
        )
    for own, other in zip(key.columns, columns, strict=True):
        left, right = relation.column(own).type, target.column(other).type
        if (left.physical, left.scale, left.is_number) != (
            right.physical,
            right.scale,
            right.is_number,
        ):
            raise TypingError(
                f"{key.name}: {own} is {left}, and {target.name}.{other} is {right}",
                position=key.position,
                hint="give both columns the same type",
            )
    return replace(key, target_columns=columns)
