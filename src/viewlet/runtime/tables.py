"""The rows of a TABLE: a bag that checks what a batch wants to do to it before anything changes."""

from __future__ import annotations

from viewlet.calculus.ring import Gmr, Key
from viewlet.errors import DataError
from viewlet.schema import Relation, decode


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
        for row, weight in delta.items():
            held = self.rows[row]
            if held + weight < 0:
                copies = f" only {held} times" if held else ""
                raise DataError(
                    f"cannot delete from table {self.relation.name}: row "
                    f"{row_text(self.relation, row)} is{copies or ' not'} there",
                    hint="delete rows with exactly the values that were inserted",
                )
        if self._positions:
            self._check_key(delta)

    def _check_key(self, delta: Gmr) -> None:
        after: dict[Key, Gmr] = {}
        for row, weight in delta.items():
            key = self._key(row)
            if key not in after:
                held = self._by_key.get(key)
                after[key] = Gmr([(held, 1)] if held is not None else [])
            after[key].add(row, weight)
        for key, rows in after.items():
            if sum(int(weight) for _, weight in rows.items()) > 1:
                named = ", ".join(
                    f"{name}={decode(value, self.relation.column(name).type)!r}"
                    for name, value in zip(self.relation.key, key, strict=True)
                )
                raise DataError(
                    f"duplicate primary key ({named}) in table {self.relation.name}",
                    hint="delete the old row in the same batch, or use UPDATE",
                )

    def apply(self, delta: Gmr) -> None:
        going = [(row, weight) for row, weight in delta.items() if weight < 0]
        coming = [(row, weight) for row, weight in delta.items() if weight > 0]
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
    return Gmr((row, -weight) for row, weight in delta.items())


def row_text(relation: Relation, row: Key) -> str:
    """A row as an error names it: (a=1, b='x')."""
    values = (
        f"{column.name}={decode(value, column.type)!r}"
        for column, value in zip(relation.columns, row, strict=True)
    )
    return f"({', '.join(values)})"
