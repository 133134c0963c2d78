"""MERGE and TRUNCATE as changes: which rows go and which come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from viewlet.errors import DataError, ParseError, Position, ResolutionError
from viewlet.frontend.statements import Merge, MergeAction, MergeCase, MergeClause
from viewlet.interfaces.adhoc import quoted
from viewlet.interfaces.dml import Change, Effect, Rows, assigned_text
from viewlet.schema import Relation

if TYPE_CHECKING:
    import pyarrow as pa

_ROW, _OLD, _NEW = "viewlet_row", "viewlet_old_", "viewlet_new_"


def merge_effect(statement: Merge, relation: Relation, rows: Rows) -> Effect:
    """All clauses see the table as it is before the statement; a row takes the first that fits.

    A row of the table that two rows of the source would change is an error.
    """
    if relation.is_stream:
        raise ResolutionError(
            f"MERGE needs the rows of {relation.name}, which is a stream and keeps none",
            position=statement.position,
            hint=f"declare {relation.name} with CREATE TABLE",
        )
    merging = _Merging(statement, relation, rows)
    changes: list[Change] = []
    touched: Counter[int] = Counter()
    count = 0
    updates_keys = False
    for case in MergeCase:
        earlier: list[str] = []
        for clause in (c for c in statement.clauses if c.case is case):
            where = merging.where(clause, earlier)
            earlier.append(clause.condition or "TRUE")
            if clause.action is MergeAction.NOTHING:
                continue
            if clause.action is MergeAction.INSERT:
                new = merging.inserted(clause, where)
                changes.append(Change(relation.name, new))
                count += new.num_rows
                continue
            numbers, old, new_rows = merging.changed(clause, where)
            touched.update(numbers)
            changes.append(Change(relation.name, old, -1))
            if new_rows is not None:
                changes.append(Change(relation.name, new_rows))
                updates_keys = True
            count += len(numbers)
    if any(times > 1 for times in touched.values()):
        raise DataError(
            "MERGE would change one row twice",
            position=statement.position,
            hint="let each row of the table match at most one row of the source",
        )
    return Effect(changes, count, deletes_cascade=not updates_keys)


def truncate_effect(relations: Sequence[Relation], position: Position, rows: Rows) -> Effect:
    """All rows of some tables go, as one batch."""
    changes = []
    for relation in relations:
        if relation.is_stream:
            raise ResolutionError(
                f"{relation.name} is a stream and keeps no rows",
                position=position,
                hint="TRUNCATE takes tables",
            )
        old = rows.query(f"SELECT * FROM {quoted(relation.name)}", {})
        changes.append(Change(relation.name, old, -1))
    return Effect(changes, sum(change.rows.num_rows for change in changes))


class _Merging:
    """The queries of one MERGE."""

    def __init__(self, statement: Merge, relation: Relation, rows: Rows) -> None:
        self._statement = statement
        self._relation = relation
        self._rows = rows
        self._name = quoted(statement.alias or relation.name)
        numbered = f"(SELECT *, row_number() OVER () AS {_ROW} FROM {quoted(relation.name)})"
        self._target = f"{numbered} AS {self._name}"

    def where(self, clause: MergeClause, earlier: Sequence[str]) -> str:
        """The rows of a clause: those that match or not, and fit no clause before it."""
        statement = self._statement
        if clause.case is MergeCase.MATCHED:
            text = f"FROM {self._target}, {statement.source} WHERE ({statement.on})"
        elif clause.case is MergeCase.NO_TARGET:
            inner = f"SELECT 1 FROM {self._target} WHERE ({statement.on})"
            text = f"FROM {statement.source} WHERE NOT EXISTS ({inner})"
        else:
            inner = f"SELECT 1 FROM {statement.source} WHERE ({statement.on})"
            text = f"FROM {self._target} WHERE NOT EXISTS ({inner})"
        if clause.condition is not None:
            text += f" AND ({clause.condition})"
        return text + "".join(f" AND ({condition}) IS NOT TRUE" for condition in earlier)

    def inserted(self, clause: MergeClause, where: str) -> pa.Table:
        """The new rows of a clause."""
        relation = self._relation
        names = clause.columns or relation.names
        self._check_columns(names)
        if len(names) != len(clause.values):
            raise ParseError(
                f"{len(clause.values)} values for {len(names)} columns of {relation.name}",
                position=self._statement.position,
            )
        values = [
            f"{assigned_text(value, relation.column(name))} AS {_NEW}{i}"
            for i, (name, value) in enumerate(zip(names, clause.values, strict=True))
        ]
        result = self._rows.query(f"SELECT {', '.join(values)} {where}", {})
        return result.rename_columns(list(names))

    def changed(
        self, clause: MergeClause, where: str
    ) -> tuple[list[int], pa.Table, pa.Table | None]:
        """The rows of the table that a clause takes: their numbers, as they are, as they become."""
        relation = self._relation
        self._check_columns(clause.columns)
        values = dict(zip(clause.columns, clause.values, strict=True))
        names = list(relation.names)
        old = [f"{self._name}.{quoted(n)} AS {_OLD}{i}" for i, n in enumerate(names)]
        new = [
            f"{assigned_text(values[c.name], c)} AS {_NEW}{i}"
            for i, c in enumerate(relation.columns)
            if c.name in values
        ]
        row = f"{self._name}.{_ROW} AS {_ROW}"
        result = self._rows.query(f"SELECT {', '.join((row, *old, *new))} {where}", {})
        numbers = result.column(0).to_pylist()
        went = result.select(range(1, 1 + len(names))).rename_columns(names)
        if clause.action is MergeAction.DELETE:
            return numbers, went, None
        picked = [f"{_NEW if n in values else _OLD}{i}" for i, n in enumerate(names)]
        return numbers, went, result.select(picked).rename_columns(names)

    def _check_columns(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._relation.names:
                raise ResolutionError(
                    f"{self._relation.name} has no column {name}",
                    position=self._statement.position,
                    hint=f"columns are ({', '.join(self._relation.names)})",
                )
            if list(names).count(name) > 1:
                raise ResolutionError(
                    f"MERGE names {name} twice", position=self._statement.position
                )
