"""The rows of TABLEs: what a batch may not do to them, and the slow definition of a table.

    delete of a row that is not there      DataError naming the row
    two rows with one primary key          DataError naming the key

Both are judged by the whole batch. `Table` is the interpreter's; `engine.host.stored_tables` has
the same rules over flat arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.calculus.ring import Gmr, Key, multiplicity
from viewlet.errors import DataError, RangeError
from viewlet.schema import INT64, Relation, Scalar, decode


class Table:
    """The kept rows of one relation, with its primary key enforced.

    `check` raises and changes nothing; `apply` trusts that `check` passed.
    """

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        self.rows = Gmr()
        self._positions = tuple(relation.names.index(name) for name in relation.key)
        self._by_key: dict[Key, Key] = {}

    def check(self, delta: Gmr) -> None:
        """Raise where rows would be deleted that are not there, or a key would be there twice."""
        for row, weight in delta.items():
            present = multiplicity(self.rows[row])
            if present + multiplicity(weight) < 0:
                raise missing_row(self.relation, row, present)
            if present + multiplicity(weight) > INT64[1]:
                raise too_many_copies()
        if self._positions:
            self._check_key(delta)

    def _check_key(self, delta: Gmr) -> None:
        after: dict[Key, Gmr] = {}
        for row, weight in delta.items():
            key = self._key(row)
            if key not in after:
                stored_row = self._by_key.get(key)
                after[key] = Gmr([(stored_row, 1)] if stored_row is not None else [])
            after[key].add(row, weight)
        for key, rows in after.items():
            if sum(multiplicity(weight) for _, weight in rows.items()) > 1:
                raise duplicate_key(self.relation, key)

    def with_key_of(self, row: Sequence[Scalar]) -> Key | None:
        """The row that is there with the primary key of another."""
        return self._by_key.get(self._key(tuple(row)))

    def apply(self, delta: Gmr) -> None:
        """Add the rows: deletions first, so that a key may go from one row to another."""
        counted = [(row, multiplicity(weight)) for row, weight in delta.items()]
        going = [(row, count) for row, count in counted if count < 0]
        coming = [(row, count) for row, count in counted if count > 0]
        for row, weight in going + coming:
            self.rows.add(row, weight)
            if self._positions:
                if weight > 0:
                    self._by_key[self._key(row)] = row
                else:
                    del self._by_key[self._key(row)]

    def _key(self, row: Key) -> Key:
        return tuple(row[position] for position in self._positions)


def negated(delta: Gmr) -> Gmr:
    """The same rows, deleted where they were inserted."""
    return Gmr((row, -multiplicity(weight)) for row, weight in delta.items())


def missing_row(relation: Relation, row: Sequence[Scalar], count: int) -> DataError:
    """The error of a delete of what is not there."""
    copies = f" only {count} times" if count else " not"
    return DataError(
        f"cannot delete from table {relation.name}: row {row_text(relation, row)} is{copies} there",
        hint="delete rows with exactly the values that were inserted",
    )


def too_many_copies() -> RangeError:
    """The error of a row whose count leaves 64 bits."""
    return RangeError("a row of a table occurs too often")


def duplicate_key(relation: Relation, key: Sequence[Scalar]) -> DataError:
    """The error of a second row with a primary key."""
    named = ", ".join(
        f"{name}={decode(value, relation.column(name).type)!r}"
        for name, value in zip(relation.key, key, strict=True)
    )
    return DataError(
        f"duplicate primary key ({named}) in table {relation.name}",
        hint="delete the old row in the same batch, or use UPDATE",
    )


def row_text(relation: Relation, row: Sequence[Scalar]) -> str:
    """A row as an error names it: (a=1, b='x')."""
    values = (
        f"{column.name}={decode(value, column.type)!r}"
        for column, value in zip(relation.columns, row, strict=True)
    )
    return f"({', '.join(values)})"
