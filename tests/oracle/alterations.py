"""ALTER TABLE in the middle of a hunt: columns come, go and are renamed.

Views were made when columns had other names, and their queries stay as they were written. Whoever
reads those again (DuckDB, and the definition) gets *wide* rows: a column under all names that it
ever had. New names are fresh, so that no two columns share one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.oracle.generate import TYPES, Col, Generator, Rel, literal, value
from tests.oracle.harness import Batch, Row

MOST_COLUMNS = 6


class Alterations:
    """Statements for the tables of a generator; what is accepted changes its relations and rows."""

    def __init__(self, draw: Random, generator: Generator, present: dict[str, list[Row]]) -> None:
        self._draw, self._generator, self._present = draw, generator, present
        self._fresh = 0
        self._names = {r.name: [[c.name] for c in r.columns] for r in generator.relations}

    def wide_tables(self) -> list[str]:
        """The relations with each column under all of its names."""
        wide = []
        for relation in self._generator.relations:
            columns = [
                Col(name, column.type, column.nullable)
                for column, names in zip(relation.columns, self._names[relation.name], strict=True)
                for name in names
            ]
            wide.append(Rel(relation.name, columns, relation.key, relation.stream).sql())
        return wide

    def wide(self, batch: Batch) -> Batch:
        """The same changes of the wide rows."""
        return [
            (
                name,
                tuple(
                    value
                    for value, names in zip(row, self._names[name], strict=True)
                    for _ in names
                ),
                weight,
            )
            for name, row, weight in batch
        ]

    def wide_rows(self) -> Batch:
        """All rows that are there, as inserts."""
        rows = [(name, row, 1) for name, rows in self._present.items() for row in rows]
        return self.wide(rows)

    def next(self) -> tuple[str, Callable[[], None]] | None:
        """A statement, and what to do when it was taken; a column that is read cannot be dropped"""
        tables = [relation for relation in self._generator.relations if not relation.stream]
        if not tables:
            return None
        relation = self._draw.choice(tables)
        self._fresh += 1
        makes = [self._rename]
        if len(relation.columns) < MOST_COLUMNS:
            makes.append(self._add)
        if len(relation.columns) > 2:
            makes.append(self._drop)
        text, accept = self._draw.choice(makes)(relation)
        return f"ALTER TABLE {relation.name} {text}", accept

    def _add(self, relation: Rel) -> tuple[str, Callable[[], None]]:
        name, type, seed = f"n{self._fresh}", self._draw.choice(TYPES), self._draw.random()
        default = value(Random(seed), type) if self._draw.random() < 0.6 else None
        text = f"ADD COLUMN {name} {type}"
        nullable = default is None or self._draw.random() < 0.7
        if default is not None:
            text += f"{'' if nullable else ' NOT NULL'} DEFAULT {literal(Random(seed), type)}"

        def accept() -> None:
            relation.columns.append(Col(name, type, nullable))
            self._names[relation.name].append([name])
            self._reshape(relation, lambda row: (*row, default))

        return text, accept

    def _rename(self, relation: Rel) -> tuple[str, Callable[[], None]]:
        at, new = self._draw.randrange(len(relation.columns)), f"m{self._fresh}"
        column = relation.columns[at]

        def accept() -> None:
            relation.columns[at] = Col(new, column.type, column.nullable)
            self._names[relation.name][at].append(new)

        return f"RENAME COLUMN {column.name} TO {new}", accept

    def _drop(self, relation: Rel) -> tuple[str, Callable[[], None]]:
        at = self._draw.randrange(1, len(relation.columns))

        def accept() -> None:
            del relation.columns[at]
            del self._names[relation.name][at]
            self._reshape(relation, lambda row: (*row[:at], *row[at + 1 :]))

        return f"DROP COLUMN {relation.columns[at].name}", accept

    def _reshape(self, relation: Rel, reshaped: Callable[[Row], Row]) -> None:
        rows = self._present[relation.name]
        rows[:] = map(reshaped, rows)
