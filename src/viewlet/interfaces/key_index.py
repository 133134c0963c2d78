"""Rows of a table by some of their columns, for keys that no engine has an index for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from viewlet.engine.contract import Row
from viewlet.schema import Relation

Key = tuple[object, ...]
Delta = Mapping[Row, int]
"""Rows with how often they come, or go where it is negative; never 0."""


class KeyIndex:
    """Key -> rows and how often each is there. A key with a NULL is none."""

    def __init__(self, relation: Relation, columns: Sequence[str]) -> None:
        self._positions = [relation.names.index(name) for name in columns]
        self._rows: dict[Key, dict[Row, int]] = {}

    def key(self, row: Row) -> Key | None:
        """The key of a row."""
        key = tuple(row[position] for position in self._positions)
        return None if None in key else key

    def keys(self, rows: Iterable[Row]) -> dict[Key, Row]:
        """The keys of some rows, each with the first row that has it."""
        keys: dict[Key, Row] = {}
        for row in rows:
            key = self.key(row)
            if key is not None:
                keys.setdefault(key, row)
        return keys

    def apply(self, delta: Iterable[tuple[Row, int]]) -> None:
        """Rows that came and went."""
        for row, count in delta:
            key = self.key(row)
            if key is None:
                continue
            rows = self._rows.setdefault(key, {})
            total = rows.get(row, 0) + count
            if total:
                rows[row] = total
            else:
                del rows[row]
                if not rows:
                    del self._rows[key]

    def rows(self, key: Key) -> Mapping[Row, int]:
        """The rows that are there with a key."""
        return self._rows.get(key, {})


class KeysAfter:
    """What an index will have once a delta is applied to it."""

    def __init__(self, index: KeyIndex, delta: Delta) -> None:
        self._index = index
        self._touched: dict[Key, dict[Row, int]] = {}
        for row, count in delta.items():
            key = index.key(row)
            if key is not None:
                rows = self._touched.setdefault(key, {})
                rows[row] = rows.get(row, 0) + count

    def rows(self, key: Key) -> dict[Row, int]:
        """The rows with a key."""
        rows = dict(self._index.rows(key))
        for row, count in self._touched.get(key, {}).items():
            rows[row] = rows.get(row, 0) + count
        return {row: count for row, count in rows.items() if count > 0}

    def duplicates(self) -> list[Key]:
        """The touched keys that more than one row will have."""
        return [key for key in self._touched if sum(self.rows(key).values()) > 1]

    def gone(self) -> list[Key]:
        """The touched keys that a row had and none will have."""
        return [key for key in self._touched if self._index.rows(key) and not self.rows(key)]
