"""Random statements that change tables: INSERT, UPDATE, DELETE, MERGE, transactions of them.

DuckDB runs each on tables of its own, with the rows that are there; the rows before and after are
the batch. What DuckDB refuses is not drawn, but for a NULL where none may be: all refuse that.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import duckdb
from tests.oracle.generate import Generator, Rel, columns_of, literal
from tests.oracle.harness import Batch, Row


@dataclass
class Statements:
    """Texts for the tables of a generator, and what each one changes."""

    draw: Random
    generator: Generator
    present: dict[str, list[Row]]
    scratch: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        for relation in self.generator.relations:
            self.scratch.execute(relation.sql().replace("CREATE STREAM", "CREATE TABLE"))
        for setting in ("error_on_division_by_zero", "ieee_floating_point_ops"):
            self.scratch.execute(f"SET {setting} = false")

    @property
    def tables(self) -> list[Rel]:
        """What statements change."""
        return [relation for relation in self.generator.relations if not relation.stream]

    def next(self) -> tuple[str, Batch | None] | None:
        """A text and its batch, None in place of a batch that must be refused; None if nothing."""
        if not self.tables:
            return None
        relation = self.draw.choice(self.tables)
        count = self.draw.choice((1, 1, 2, 3))
        relations, self.generator.relations = self.generator.relations, self.tables
        texts = [self._statement(relation) for _ in range(count)]  # which can read tables alone
        self.generator.relations = relations
        text = "; ".join(texts) if count == 1 else f"BEGIN; {'; '.join(texts)}; COMMIT"
        self._fill()
        try:
            for each in texts:  # keys are looked at sooner by DuckDB within a transaction
                self.scratch.execute(each)
        except duckdb.ConstraintException as error:
            return (text, None) if "NOT NULL" in str(error) and count == 1 else None
        except duckdb.Error:
            return None
        after = [tuple(map(_plain, row)) for row in self._rows(relation)]
        return text, self._exchanged(relation, after)

    def _exchanged(self, relation: Rel, after: list[Row]) -> Batch:
        """What takes the rows that were present to those that are there after."""
        before = Counter(self.present[relation.name])
        changes = Counter(after)
        changes.subtract(before)
        for row, weight in changes.items():
            if weight < 0:
                for _ in range(-weight):
                    self.present[relation.name].remove(row)
            self.present[relation.name] += [row] * weight
        return [(relation.name, row, weight) for row, weight in changes.items() if weight]

    def _fill(self) -> None:
        for relation in self.generator.relations:
            name, rows = relation.name, self.present[relation.name]
            # Made anew: an index of DuckDB's remembers keys until their deletion is committed.
            text = relation.sql().replace("CREATE STREAM", "CREATE TABLE")
            self.scratch.execute(text.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"))
            if rows:
                marks = ", ".join([f"({', '.join('?' * len(relation.columns))})"] * len(rows))
                values = [value for row in rows for value in row]
                self.scratch.execute(f"INSERT INTO {name} VALUES {marks}", values)

    def _rows(self, relation: Rel) -> list[Row]:
        return self.scratch.execute(f"SELECT * FROM {relation.name}").fetchall()

    def _statement(self, relation: Rel) -> str:
        makes = [self._insert, self._insert_query, self._update, self._update, self._delete]
        if relation.key is not None:
            makes += [self._upsert, self._upsert]
        if relation.columns[1:]:
            makes.append(self._merge)
        return self.draw.choice(makes)(relation)

    def _row(self, relation: Rel) -> str:
        values = [
            "NULL" if column.nullable and self.draw.random() < 0.2 else literal(self.draw, c)
            for column, c in ((column, column.type) for column in relation.columns)
        ]
        return f"({', '.join(values)})"

    def _insert(self, relation: Rel) -> str:
        rows = ", ".join(self._row(relation) for _ in range(self.draw.randint(1, 3)))
        return f"INSERT INTO {relation.name} VALUES {rows}"

    def _insert_query(self, relation: Rel) -> str:
        """INSERT INTO t SELECT ... of another table, or of the table itself."""
        source = self.draw.choice(self.tables)
        scope = columns_of("q", source.columns)
        shown = ", ".join(self.generator.scalar(scope, c.type, 1) for c in relation.columns)
        where = f" WHERE {self.generator.comparison(scope, 0)}"
        return f"INSERT INTO {relation.name} SELECT {shown} FROM {source.name} AS q{where}"

    def _assignments(self, relation: Rel, prefix: str) -> str:
        columns = [c for at, c in enumerate(relation.columns) if at != relation.key]
        chosen = self.draw.sample(columns, self.draw.randint(1, len(columns)))
        scope = columns_of(prefix, relation.columns)
        return ", ".join(f"{c.name} = {self.generator.scalar(scope, c.type, 1)}" for c in chosen)

    def _condition(self, relation: Rel) -> str:
        if self.draw.random() < 0.1:
            return ""
        scope = columns_of(relation.name, relation.columns)
        return f" WHERE {self.generator.predicate(scope, self.draw.randint(0, 1), [])}"

    def _update(self, relation: Rel) -> str:
        changes = self._assignments(relation, relation.name)
        return f"UPDATE {relation.name} SET {changes}{self._condition(relation)}"

    def _delete(self, relation: Rel) -> str:
        return f"DELETE FROM {relation.name}{self._condition(relation)}"

    def _upsert(self, relation: Rel) -> str:
        """One row, which is there or not"""
        assert relation.key is not None
        key = relation.columns[relation.key].name
        text = f"INSERT INTO {relation.name} VALUES {self._row(relation)} ON CONFLICT ({key}) DO"
        others = [c.name for at, c in enumerate(relation.columns) if at != relation.key]
        if self.draw.random() < 0.4:
            return f"{text} NOTHING"
        return f"{text} UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"

    def _merge(self, relation: Rel) -> str:
        """USING one row for each key of another table."""
        source = self.draw.choice(self.tables)
        key = relation.columns[0]
        shown = [literal(self.draw, c.type) for c in relation.columns[1:]]
        match = source.columns[0].name
        inner = f"SELECT DISTINCT {match} AS a FROM {source.name} WHERE {match} IS NOT NULL"
        changes = self._assignments(relation, "target")
        matched = self.draw.choice((f"UPDATE SET {changes}", "DELETE"))
        clauses = [f"WHEN MATCHED THEN {matched}"]
        if self.draw.random() < 0.6:
            values = ", ".join(["source.a", *shown])
            clauses.append(f"WHEN NOT MATCHED THEN INSERT VALUES ({values})")
        return (
            f"MERGE INTO {relation.name} AS target USING ({inner}) AS source "
            f"ON target.{key.name} = source.a {' '.join(clauses)}"
        )

    def close(self) -> None:
        self.scratch.close()


def _plain(value: object) -> object:
    """The one NaN by which rows are known as equal."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value
