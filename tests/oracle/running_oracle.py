"""DuckDB beside a long run of batches: tables that get the changes, queries that are planned once.

A batch costs what it changes, and a query whose relations did not change has the answer it had.
Each row is stored with a number, so that one of several equal rows can go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import sqlglot
from sqlglot import exp
from tests.oracle.harness import Batch, DuckOracle, Row

from viewlet.engine.values.arrow import arrow_type
from viewlet.schema import Relation

FEW_ROWS = 8
"""So many go through Arrow."""
BATCHES_OF_A_TABLE = 400
"""Then tables are made anew, without the deleted rows that DuckDB still walks over."""


class RunningOracle:
    """The answers of several queries after each batch."""

    def __init__(self, relations: Sequence[Relation], selects: Sequence[str]) -> None:
        self.connection = DuckOracle([]).connection
        self.connection.execute("PRAGMA disable_optimizer")  # half the time for so few rows
        self._relations = {relation.name: relation for relation in relations}
        self._schemas = {
            relation.name: pa.schema(
                [(c.name, arrow_type(c.type)) for c in relation.columns]
                + [("row_number", pa.int64())]
            )
            for relation in relations
        }
        self._numbers: dict[str, dict[Row, list[int]]] = {name: {} for name in self._relations}
        self._next = 0
        self._batches = 0
        self._selects = list(selects)
        self._reads = [tables_of(select) & self._relations.keys() for select in selects]
        self._answers: list[list[Row] | None] = [None] * len(self._selects)
        self._fill()

    def apply(self, batch: Batch) -> set[int]:
        """Insert and delete what the batch changes in all; which queries name what has changed."""
        self._batches += 1
        changes: dict[str, Counter[Row]] = {}
        for name, row, weight in batch:
            changes.setdefault(name, Counter())[row] += weight
        changed = {name for name, weights in changes.items() if any(weights.values())}
        for name in changed:
            self._change(name, changes[name])
        asked = {at for at, reads in enumerate(self._reads) if not reads.isdisjoint(changed)}
        for at in asked:
            self._answers[at] = None
        if self._batches % BATCHES_OF_A_TABLE == 0:
            self._fill()
        return asked

    def _change(self, name: str, weights: Counter[Row]) -> None:
        numbers = self._numbers[name]
        gone: list[int] = []
        inserted: list[Row] = []
        for row, weight in weights.items():
            if weight > 0:
                inserted += [(*row, self._number(name, row)) for _ in range(weight)]
            for _ in range(-weight):
                gone.append(numbers[row].pop())
            if row in numbers and not numbers[row]:
                del numbers[row]
        if gone:
            listed = ", ".join(map(str, gone))
            self.connection.execute(f"DELETE FROM {name}_rows WHERE row_number IN ({listed})")
        if inserted:
            self._insert(name, inserted)

    def _number(self, name: str, row: Row) -> int:
        self._next += 1
        self._numbers[name].setdefault(row, []).append(self._next)
        return self._next

    def _insert(self, name: str, rows: list[Row]) -> None:
        schema = self._schemas[name]
        if len(rows) < FEW_ROWS:
            marks = ", ".join([f"({', '.join('?' * len(schema))})"] * len(rows))
            values = [value for row in rows for value in row]
            self.connection.execute(f"INSERT INTO {name}_rows VALUES {marks}", values)
            return
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        self.connection.register("inserted", pa.table(columns, schema=schema))
        self.connection.execute(f"INSERT INTO {name}_rows SELECT * FROM inserted")

    def _fill(self) -> None:
        """Tables with the rows that are there, and the queries prepared over them."""
        for name, schema in self._schemas.items():
            rows = [(*row, n) for row, numbers in self._numbers[name].items() for n in numbers]
            arrays = [
                pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)
            ]
            self.connection.register("present", pa.table(arrays, schema=schema))
            columns = ", ".join(self._relations[name].names)
            self.connection.execute(f"CREATE OR REPLACE TABLE {name}_rows AS FROM present")
            self.connection.execute(
                f"CREATE OR REPLACE VIEW {name} AS SELECT {columns} FROM {name}_rows"
            )
        for at, select in enumerate(self._selects):
            self.connection.execute(f"PREPARE q{at} AS {select}")

    def present(self) -> Batch:
        """All rows that are there, as inserts."""
        return [
            (name, row, len(numbers))
            for name, rows in self._numbers.items()
            for row, numbers in rows.items()
        ]

    def answer(self, at: int) -> list[Row]:
        """What DuckDB says to a query now; duckdb.OutOfRangeException where it has no answer."""
        known = self._answers[at]
        if known is None:
            known = self._answers[at] = self.connection.execute(f"EXECUTE q{at}").fetchall()
        return known

    def fresh_answer(self, at: int) -> list[Row]:
        """The same from a plan that is made now, which no change of data can have made wrong."""
        return self.connection.execute(self._selects[at]).fetchall()

    def close(self) -> None:
        self.connection.close()


def tables_of(select: str) -> set[str]:
    """Names of relations, views and WITH queries in a text."""
    tree = sqlglot.parse_one(select, dialect="duckdb")
    return {table.name for table in tree.find_all(exp.Table)}
