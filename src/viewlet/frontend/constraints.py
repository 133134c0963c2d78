"""What the rows of a table are held to beside its primary key, as statements say it.

b INT UNIQUE                                  UniqueKey("t_b_key", (b))
CHECK (a < b)                                 Check("t_check", "a < b")
d INT REFERENCES p ON DELETE CASCADE          ForeignKey("t_d_fkey", (d), p, (), "CASCADE")
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewlet.errors import Position
from viewlet.frontend.duckdb_text import quoted


@dataclass(frozen=True)
class UniqueKey:
    """No two rows have the same values in these columns; a NULL is the same as nothing."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """A condition that is false for no row; `text` is as it was written."""

    name: str
    text: str
    condition: exp.Expr = field(compare=False, repr=False)

    @property
    def column_names(self) -> frozenset[str]:
        """The columns that the condition names."""
        return frozenset(column.name for column in self.condition.find_all(exp.Column))


@dataclass(frozen=True)
class ForeignKey:
    """The columns of each row, if none is NULL, are the `target_columns` of a row of `table`.

    No `target_columns` are its primary key.
    """

    name: str
    columns: tuple[str, ...]
    table: str
    target_columns: tuple[str, ...]
    on_delete: str = "NO ACTION"
    position: Position | None = field(default=None, compare=False)


Constraint = UniqueKey | Check | ForeignKey


def renamed(constraint: Constraint, table: str, old: str, new: str, *, is_own: bool) -> Constraint:
    """A constraint after a column of `table` got another name; `is_own`: it is that table's."""

    def names(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if name == old else name for name in columns)

    if isinstance(constraint, ForeignKey) and constraint.table == table:
        constraint = replace(constraint, target_columns=names(constraint.target_columns))
    if not is_own:
        return constraint
    if not isinstance(constraint, Check):
        return replace(constraint, columns=names(constraint.columns))
    if old not in constraint.column_names:
        return constraint
    condition = constraint.condition.copy()
    for column in condition.find_all(exp.Column):
        if column.name == old:
            column.set("this", exp.to_identifier(new, quoted=True))
    return replace(constraint, text=condition.sql(dialect="postgres"), condition=condition)


def constraint_text(constraint: Constraint) -> str:
    """What stands for it in a CREATE TABLE."""
    name = f"CONSTRAINT {quoted(constraint.name)}"
    if isinstance(constraint, Check):
        return f"{name} CHECK ({constraint.text})"
    columns = ", ".join(map(quoted, constraint.columns))
    if isinstance(constraint, UniqueKey):
        return f"{name} UNIQUE ({columns})"
    target = f"{quoted(constraint.table)} ({', '.join(map(quoted, constraint.target_columns))})"
    return f"{name} FOREIGN KEY ({columns}) REFERENCES {target} ON DELETE {constraint.on_delete}"
