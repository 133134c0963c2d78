"""Rows with values that are rare elsewhere, and a stream of batches that they come and go in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.oracle.generate import Rel
from tests.oracle.harness import Batch, Row
from tests.oracle.newer_constructs import NewerGenerator

WILD = (
    (math.inf, -math.inf, math.nan, -0.0, 1e17, 0.1),
    (math.inf, -math.inf, math.nan, 1e300, -1e300),
    (math.nan, -0.0, 1e-300, 5e-324),
)
"""One of these for each seed: sums of all at once need more binary places than the engines have."""
MANY_ROWS = 40
"""From here on a relation loses as many rows as it gets: answers stay quick to recompute."""


@dataclass
class WildGenerator(NewerGenerator):
    """Rows with values that are rare elsewhere."""

    doubles: tuple[float, ...] = ()
    strings: int = 0

    def row(self, relation: Rel) -> Row:
        """A row of the plain generator, some of its values exchanged."""
        values: list[Any] = list(super().row(relation))
        for i, column in enumerate(relation.columns):
            if values[i] is None or i == relation.key:
                continue
            if column.type == "DOUBLE" and self.rows.random() < 0.12:
                values[i] = self.rows.choice(self.doubles)
            elif column.type == "VARCHAR" and self.rows.random() < 0.2:
                self.strings += 1
                values[i] = f"fresh {self.strings}"
            elif column.type == "INTEGER" and self.rows.random() < 0.5:
                values[i] = 1
        return tuple(values)


@dataclass
class Stream:
    """The rows that are there, and the next batch of changes."""

    draw: Random
    generator: NewerGenerator
    present: dict[str, list[Row]]

    def next(self) -> Batch:
        """Some inserts and deletes; relations that have grown large shrink."""
        batch = self.generator.batch(self.draw.choice((1, 1, 1, 3, 8, 40)), self.present)
        for name, rows in self.present.items():
            while len(rows) > MANY_ROWS:
                batch.append((name, rows.pop(self.draw.randrange(len(rows))), -1))
        return batch

    def impossible(self) -> Batch | None:
        """A batch that no database may take: a row goes that was never there, or a key is twice."""
        tables = [r for r in self.generator.relations if not r.stream]
        if not tables:
            return None
        relation = self.draw.choice(tables)
        rows = self.present[relation.name]
        good = [(relation.name, row, -1) for row in rows[:1]]
        if relation.key is not None and len(rows) > 1:
            return [*good, (relation.name, rows[1], 1)]
        absent = tuple(None if c.nullable else _absent(c.type) for c in relation.columns)
        return None if absent in rows else [*good, (relation.name, absent, -1)]


def _absent(type: str) -> Any:
    made = {"VARCHAR": "nowhere", "BOOLEAN": True, "DOUBLE": 123.5}
    if type in made:
        return made[type]
    if type in ("DATE", "TIMESTAMP"):
        import datetime as dt

        day = dt.datetime(1901, 2, 3)
        return day if type == "TIMESTAMP" else day.date()
    return 99
