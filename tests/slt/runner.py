"""Queries of sqllogictest files as views: equal to DuckDB, refused, wrong, or an internal error.

    python -m tests.slt.runner [--engine local] FILE...

Statements change the tables of a DuckDB database. Every query becomes a view over tables that are
still empty; then the rows that DuckDB has come in two batches, and between them all rows come and
go again. The view must then have the rows that DuckDB gives for the query.
"""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import decimal
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

import viewlet
from tests.slt.records import Record, read_records
from viewlet.errors import ViewletError

EQUAL, WRONG, REFUSED, INTERNAL, SKIPPED = "equal", "wrong", "refused", "internal", "skipped"


@dataclass
class Outcome:
    """What became of one query."""

    kind: str
    record: Record
    detail: str = ""


@dataclass
class Report:
    """The outcomes of a file or of many."""

    outcomes: list[tuple[Path, Outcome]] = field(default_factory=list)

    def count(self, kind: str) -> int:
        """How many queries ended this way."""
        return sum(outcome.kind == kind for _, outcome in self.outcomes)

    def text(self) -> str:
        """The counts, every wrong answer and internal error, and why queries were refused."""
        kinds = (EQUAL, WRONG, REFUSED, INTERNAL, SKIPPED)
        lines = [", ".join(f"{kind} {self.count(kind)}" for kind in kinds)]
        for path, outcome in self.outcomes:
            if outcome.kind in (WRONG, INTERNAL):
                where = f"{path}:{outcome.record.line}"
                lines.append(f"{outcome.kind}: {where}: {outcome.detail}\n    {outcome.record.sql}")
        reasons = collections.Counter(
            outcome.detail.split(":")[0] for _, outcome in self.outcomes if outcome.kind == REFUSED
        )
        lines += [f"refused {count:4}  {reason}" for reason, count in reasons.most_common()]
        return "\n".join(lines)


class FileRun:
    """One file: its tables in DuckDB, and each query as a view of a new database."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._duck = duckdb.connect()
        self._duck.execute("SET enable_external_access = false; SET TimeZone = 'UTC'")

    def run(self, records: Iterable[Record]) -> Iterable[Outcome]:
        """The outcome of every query."""
        for record in records:
            if record.kind == "statement" and record.applies_to("viewlet"):
                self._statement(record)
            elif record.kind == "query":
                if record.applies_to("viewlet") and not record.must_fail:
                    yield self._query(record)
                else:
                    yield Outcome(SKIPPED, record, "not for viewlet")
        self._duck.close()

    def _statement(self, record: Record) -> None:
        try:
            self._duck.execute(record.sql)
        except duckdb.Error:
            return  # meant to fail, or of another product

    def _query(self, record: Record) -> Outcome:
        try:
            expected = self._duck.execute(record.sql).fetchall()
        except duckdb.Error as problem:
            return Outcome(SKIPPED, record, f"DuckDB refuses it: {problem}")
        try:
            rows = self._as_view(record.sql)
        except ViewletError as problem:
            return Outcome(REFUSED, record, problem.message)
        except Exception as problem:
            return Outcome(INTERNAL, record, f"{type(problem).__name__}: {problem}")
        if rows is None:
            return Outcome(SKIPPED, record, "reads no table that viewlet can have")
        if same_rows(rows, expected):
            return Outcome(EQUAL, record)
        return Outcome(
            WRONG, record, f"{sorted_rows(rows)[:3]} instead of {sorted_rows(expected)[:3]}"
        )

    def _as_view(self, sql: str) -> list[tuple[Any, ...]] | None:
        with viewlet.connect(engine=self._engine) as db:
            tables = self._create_tables(db)
            db.execute(f"CREATE VIEW answer AS {sql}")
            for table in tables:
                rows = self._duck.sql(f'SELECT * FROM "{table}"').to_arrow_table()
                half = rows.num_rows // 2
                db.insert(table, rows.slice(0, half))
                db.insert(table, rows)
                db.delete(table, rows)
                db.insert(table, rows.slice(half))
            return [tuple(row.values()) for row in db.view("answer").to_arrow().to_pylist()]

    def _create_tables(self, db: viewlet.Database) -> list[str]:
        """The tables that DuckDB has, those whose columns viewlet does not know left out."""
        made = []
        tables = self._duck.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
        ).fetchall()
        for (table,) in tables:
            columns = self._duck.execute(
                "SELECT column_name, data_type, is_nullable FROM duckdb_columns() "
                "WHERE table_name = ? ORDER BY column_index",
                [table],
            ).fetchall()
            parts = [
                f'"{name}" {kind}{"" if nullable else " NOT NULL"}'
                for name, kind, nullable in columns
            ]
            try:
                db.execute(f'CREATE TABLE "{table}" ({", ".join(parts)})')
            except ViewletError:
                continue
            made.append(table)
        return made


def same_rows(left: Sequence[tuple[Any, ...]], right: Sequence[tuple[Any, ...]]) -> bool:
    """As multisets; floats by nine digits, whole numbers and decimals by value."""
    return sorted_rows(left) == sorted_rows(right)


def sorted_rows(rows: Sequence[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows whose values are texts that are equal where the values are."""
    return sorted(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, decimal.Decimal | int | float):
        number = float(value)
        if math.isfinite(number):
            return f"{number + 0.0:.9g}"
        return str(number)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    return str(value)


def run_files(paths: Iterable[Path], engine: str) -> Report:
    """All queries of some files."""
    report = Report()
    for path in paths:
        for outcome in FileRun(engine).run(read_records(path)):
            report.outcomes.append((path, outcome))
    return report


def main() -> None:
    """Run from the command line; exit code 1 if an answer is wrong or an error internal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="local", choices=["local", "interpreter"])
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    report = run_files(given.files, given.engine)
    print(report.text())
    sys.exit(bool(report.count(WRONG) + report.count(INTERNAL)))


if __name__ == "__main__":
    main()
