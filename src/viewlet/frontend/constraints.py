"""What the rows of a table are held to beside its primary key, as statements say it.

b INT UNIQUE                                  UniqueKey("t_b_key", (b))
CHECK (a < b)                                 Check("t_check", "a < b")
d INT REFERENCES p ON DELETE CASCADE          ForeignKey("t_d_fkey", (d), p, (), "CASCADE")
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
