"""ALTER TABLE: the definitions after it, and what becomes of the table's rows.

The table is declared anew. A view's text stays where it says the same over the new table; else, as
after RENAME, it reads a subquery that has the columns as they were (frontend/view_text.py). A view
that reads a column keeps it from being dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from viewlet.calculus.expr import ONE, Expr, children, with_fields
from viewlet.calculus.query import Query, with_expressions
from viewlet.calculus.scope import outputs
from viewlet.errors import DataError, Position, ResolutionError, UnsupportedError, ViewletError
from viewlet.frontend.constraints import Check, Constraint, ForeignKey, renamed
from viewlet.frontend.declare import default_value
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import (
    AddColumn,
    AlterTable,
    ChangeDefault,
    ColumnChange,
    CreateRelation,
    CreateView,
    DropColumn,
    RenameColumn,
)
from viewlet.frontend.syntax import did_you_mean
from viewlet.frontend.table_text import table_text
from viewlet.frontend.view_text import mentioned, over_columns, reads_table, without_column
from viewlet.functions.arrival_time import ArrivalTime
from viewlet.interfaces.definitions import Definitions, ViewDefinition, unknown
from viewlet.program.reshape import Reshape, adapted, says_the_same
from viewlet.schema import Relation, folded_name


@dataclass(frozen=True)
class AlteredTable:
    """The definitions after an ALTER TABLE; no `reshape` where the table is as it was."""

    definitions: Definitions
    reshape: Reshape | None


def altered(statement: AlterTable, before: Definitions, *, has_rows: bool) -> AlteredTable:
    """Apply the changes one after the other; an error at the first that cannot be."""
    name = statement.name
    definitions = before.copy()
    if name not in before.relations:
        if statement.if_exists:
            return AlteredTable(definitions, None)
        raise unknown("table", name, before.relations, statement.position)
    old = before.relation(name)
    if old.is_stream:
        raise UnsupportedError(
            f"{name} is a stream, and its columns stay as they are",
            position=statement.position,
            hint="make another stream; views over this one keep what they have",
        )
    if old.static and before.users_of(name):
        raise UnsupportedError(
            f"{name} is static and cannot change while views use it:"
            f" {', '.join(before.users_of(name))}",
            position=statement.position,
            hint="drop the views first",
        )
    sources: list[int | None] = list(range(len(old.columns)))
    for change in statement.changes:
        sources = _Alteration(definitions, name, has_rows).apply(change, sources)
    relation = definitions.relation(name)
    if relation == old and definitions.relations == before.relations:
        return AlteredTable(definitions, None)
    return AlteredTable(definitions, Reshape(old, relation, tuple(sources)))


class _Alteration:
    """One change of one table; `definitions` are changed in place."""

    def __init__(self, definitions: Definitions, name: str, has_rows: bool) -> None:
        self._definitions = definitions
        self._declaration = definitions.relations[name]
        self._relation = self._declaration.relation
        self._has_rows = has_rows

    def apply(self, change: ColumnChange, sources: list[int | None]) -> list[int | None]:
        """Where each column of the table has its values from afterwards."""
        relation = self._relation
        if isinstance(change, AddColumn):
            if self._has_column(change):
                return sources
            self._add(change)
            return [*sources, None]
        is_optional = isinstance(change, DropColumn) and change.if_exists
        if is_optional and change.name not in relation.names:
            return sources
        at = self._position(change.name, change.position)
        if isinstance(change, DropColumn):
            self._drop(change)
            return [source for i, source in enumerate(sources) if i != at]
        if isinstance(change, RenameColumn):
            self._rename(change)
        else:
            self._change_default(change, at)
        return sources

    def _position(self, column: str, position: Position) -> int:
        if column not in self._relation.names:
            raise ResolutionError(
                f"{self._relation.name} has no column {column}",
                position=position,
                hint=did_you_mean(column, self._relation.names),
            )
        return self._relation.names.index(column)

    def _check_free(self, column: str, position: Position) -> None:
        if any(folded_name(name) == folded_name(column) for name in self._relation.names):
            raise ResolutionError(
                f"{self._relation.name} has a column {column} already",
                position=position,
                hint="choose another name, or write ADD COLUMN IF NOT EXISTS",
            )

    # Each change.

    def _has_column(self, change: AddColumn) -> bool:
        (column,) = change.relation.relation.columns
        return change.if_not_exists and column.name in self._relation.names

    def _add(self, change: AddColumn) -> None:
        (column,) = change.relation.relation.columns
        self._check_free(column.name, change.position)
        if isinstance(column.default, ArrivalTime):
            raise UnsupportedError(
                f"nobody knows when the rows of {self._relation.name} arrived",
                position=change.position,
                hint=f"add {column.name} without DEFAULT NOW(), and ALTER COLUMN ... SET DEFAULT",
            )
        if self._has_rows and not column.nullable and column.default is None:
            raise DataError(
                f"column {column.name} is NOT NULL, and the rows of {self._relation.name} would"
                " have NULL",
                position=change.position,
                hint="give it a DEFAULT, which the rows get",
            )
        constraints = change.relation.constraints
        is_null = column.default is None and not any(isinstance(c, Check) for c in constraints)
        if constraints and self._has_rows and not is_null:
            raise UnsupportedError(
                f"column {column.name} cannot be added with a constraint that the rows of"
                f" {self._relation.name} may break",
                position=change.position,
                hint="add it without DEFAULT and CHECK, or make another table",
            )
        own = tuple(
            replace(c, name=c.name.replace("added_", f"{self._relation.name}_", 1))
            for c in constraints
        )
        columns = (*self._relation.columns, column)
        self._declare(
            replace(self._relation, columns=columns), (*self._declaration.constraints, *own)
        )
        self._follow(change, [(name, name) for name in self._relation.names])

    def _drop(self, change: DropColumn) -> None:
        relation, name = self._relation, change.name
        if len(relation.columns) == 1:
            hint = f"write DROP TABLE {relation.name}"
            problem = f"{name} is the only column of {relation.name}"
            raise UnsupportedError(problem, position=change.position, hint=hint)
        if name in relation.key:
            raise UnsupportedError(
                f"{name} is in the primary key of {relation.name}",
                position=change.position,
                hint="make another table with CREATE TABLE, and INSERT INTO it SELECT ...",
            )
        for other, declaration in self._definitions.relations.items():
            for key in declaration.constraints:
                is_target = isinstance(key, ForeignKey) and key.table == relation.name
                if is_target and other != relation.name and name in _target_columns(key):
                    raise UnsupportedError(
                        f"column {name} of {relation.name} cannot be dropped while {key.name} of"
                        f" {other} refers to it",
                        position=change.position,
                        hint=f"first drop {other}",
                    )
        columns = tuple(column for column in relation.columns if column.name != name)
        constraints = [c for c in self._declaration.constraints if name not in _named_in(c)]
        self._declare(replace(relation, columns=columns), constraints)
        self._follow(change, None)

    def _rename(self, change: RenameColumn) -> None:
        relation = self._relation
        old, new = change.name, change.new_name
        if old == new:
            return
        if folded_name(old) != folded_name(new):
            self._check_free(new, change.position)
        columns = tuple(replace(c, name=new) if c.name == old else c for c in relation.columns)
        key = tuple(new if name == old else name for name in relation.key)
        definitions = self._definitions
        for other, declaration in list(definitions.relations.items()):
            constraints = [
                renamed(c, relation.name, old, new, is_own=other == relation.name)
                for c in declaration.constraints
            ]
            if other == relation.name:
                self._declare(replace(relation, columns=columns, key=key), constraints)
            elif tuple(constraints) != declaration.constraints:
                made = replace(declaration, constraints=tuple(constraints))
                definitions.relations[other] = replace(made, text=table_text(made))
        self._follow(change, [(new if name == old else name, name) for name in relation.names])

    def _change_default(self, change: ChangeDefault, at: int) -> None:
        columns = list(self._relation.columns)
        columns[at] = replace(columns[at], default=default_value(columns[at], change.value))
        relation = replace(self._relation, columns=tuple(columns))
        self._declare(relation, self._declaration.constraints)

    def _declare(self, relation: Relation, constraints: Sequence[Constraint]) -> None:
        """The table as its text says it, from which restarts make it."""
        made = replace(self._declaration, relation=relation, constraints=tuple(constraints))
        (statement,) = parse(table_text(made))
        assert isinstance(statement, CreateRelation)
        self._definitions.relations[relation.name] = self._definitions.with_targets(statement)

    # Views.

    def _follow(self, change: ColumnChange, shown: Sequence[tuple[str, str]] | None) -> None:
        """Views over the table as it is now; `shown` are its columns by the names they know."""
        definitions, name = self._definitions, self._relation.name
        users = set(definitions.users_of(name))
        made: dict[str, ViewDefinition] = {}
        for view, definition in definitions.views.items():
            if view in users:
                definition = self._followed(change, view, made, shown)
            made[view] = definition
        definitions.views = made

    def _followed(
        self,
        change: ColumnChange,
        view: str,
        made: Mapping[str, ViewDefinition],
        shown: Sequence[tuple[str, str]] | None,
    ) -> ViewDefinition:
        """A view's text as it was, if it says the same; else over a subquery, if there is one."""
        definitions, old = self._definitions, self._definitions.views[view]
        epochs = definitions.epochs_read(view)
        statement = old.statement
        names_table = reads_table(statement, self._relation.name)

        def lowered(text: CreateView) -> ViewDefinition:
            return definitions.definition(text, made, old.options, epochs)

        if isinstance(change, RenameColumn):
            assert shown is not None
            if names_table:
                used = set(mentioned(statement, [by for _, by in shown]))
                is_taken = mentioned(statement, [change.new_name])
                if change.name in used or is_taken:
                    columns = [pair for pair in shown if pair[1] in used] or list(shown[:1])
                    statement = over_columns(statement, self._relation.name, columns)
            return lowered(statement)
        texts = [statement]
        if isinstance(change, DropColumn) and names_table:
            texts.append(without_column(statement, self._relation.name, change.name))
        for text in texts:
            try:
                now = lowered(text)
            except ViewletError:
                continue
            if not names_table or self._is_same(old.query, now.query):
                return now
        if shown is None:
            assert isinstance(change, DropColumn)
            raise UnsupportedError(
                f"column {change.name} of {self._relation.name} cannot be dropped while views use"
                f" it: {view}",
                position=change.position,
                hint=f"first drop {view}",
            )
        return lowered(over_columns(statement, self._relation.name, shown))

    def _is_same(self, old: Query, new: Query) -> bool:
        """Whether a view's rows are what they were, and come from the same columns."""
        name = self._relation.name
        after = self._definitions.relation(name)
        reshape = _reshape(self._relation, after)

        def is_same(before: Expr, now: Expr, keys: Sequence[str]) -> bool:
            then = adapted(before, keys, {name: reshape})
            return then is not None and says_the_same(then, now, keys)

        def outline(query: Query) -> Query:
            return with_expressions(query, lambda _: ONE)

        if outline(old) != outline(new):
            return False
        pairs = [
            *((a.body, b.body, a.keys) for a, b in zip(old.inner, new.inner, strict=True)),
            *(
                (a, b, old.keys)
                for (_, a), (_, b) in zip(old.components, new.components, strict=True)
            ),
        ]
        for a, b in zip(old.lets, new.lets, strict=True):
            if with_fields(a, part=lambda _: ONE) != with_fields(b, part=lambda _: ONE):
                return False
            pairs += (
                (x, y, tuple(outputs(x))) for x, y in zip(children(a), children(b), strict=True)
            )
        return all(is_same(*pair) for pair in pairs)


def _reshape(old: Relation, new: Relation) -> Reshape:
    """Between two shapes that differ in one column that came or went."""
    sources = tuple(old.names.index(n) if n in old.names else None for n in new.names)
    return Reshape(old, new, sources)


def _target_columns(key: Constraint) -> tuple[str, ...]:
    return key.target_columns if isinstance(key, ForeignKey) else ()


def _named_in(constraint: Constraint) -> frozenset[str]:
    """The columns of its own table that a constraint is about."""
    if isinstance(constraint, Check):
        return constraint.column_names
    return frozenset(constraint.columns)
