"""The oracle: a view kept by viewlet and the same query recomputed by DuckDB, after every batch.

A case is plain data (SQL and rows), so that a failing one can be written to a file and replayed.
DuckDB gets the rows straight from the case, without passing through viewlet's own conversions.

Where the two systems differ by choice, the case keeps to what both mean the same way: division by
zero is NULL in viewlet (DuckDB is set to that), and ORDER BY states where NULLs go.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from operator import eq
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot

import viewlet
from viewlet.engine.values.arrow import arrow_type
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation
from viewlet.interfaces.connect import ENGINES
from viewlet.interfaces.database import Database
from viewlet.interfaces.database_state import Compiler
from viewlet.native.instructions import Untranslatable
from viewlet.schema import Kind, Relation

Row = tuple[Any, ...]
Batch = list[tuple[str, Row, int]]
"""(relation, row, weight): one atomic batch."""

REGRESSIONS = Path(__file__).parent / "regressions"


@dataclass
class Case:
    """Tables, one view's SELECT, and what happens to the tables."""

    tables: list[str]
    select: str
    batches: list[Batch] = field(default_factory=list)
    note: str = ""

    def relations(self) -> list[Relation]:
        made = [statement for text in self.tables for statement in parse(text)]
        return [m.relation for m in made if isinstance(m, CreateRelation)]

    def save(self, path: Path) -> None:
        content = {
            "note": self.note,
            "tables": self.tables,
            "select": self.select,
            "batches": [
                [[name, [_to_json(v) for v in row], weight] for name, row, weight in batch]
                for batch in self.batches
            ],
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Case:
        content = json.loads(path.read_text(encoding="utf-8"))
        case = cls(content["tables"], content["select"], note=content["note"])
        columns = {relation.name: relation.columns for relation in case.relations()}
        for batch in content["batches"]:
            rows: Batch = []
            for name, values, weight in batch:
                kinds = [column.type.kind for column in columns[name]]
                rows.append((name, tuple(map(_from_json, values, kinds)), weight))
            case.batches.append(rows)
        return case


def _to_json(value: Any) -> Any:
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    return str(value) if isinstance(value, decimal.Decimal) else value


def _from_json(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind is Kind.DATE:
        return dt.date.fromisoformat(value)
    if kind is Kind.TIMESTAMP:
        return dt.datetime.fromisoformat(value)
    return decimal.Decimal(value) if kind is Kind.DECIMAL else value


class Mismatch(AssertionError):
    """The two answers differ; the message shows how."""


class DuckOracle:
    """The tables as DuckDB sees them, refilled from Python rows before every query."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self.relations = relations
        self.rows: dict[str, Counter[Row]] = {r.name: Counter() for r in relations}
        self.connection = duckdb.connect(config={"threads": 1})
        for setting in ("error_on_division_by_zero", "ieee_floating_point_ops"):
            self.connection.execute(f"SET {setting} = false")

    def apply(self, batch: Batch) -> None:
        for name, row, weight in batch:
            self.rows[name][row] += weight
            if not self.rows[name][row]:
                del self.rows[name][row]

    def answer(self, select: str) -> list[Row]:
        return self.answers([select])[0]

    def answers(self, selects: Sequence[str]) -> list[list[Row]]:
        """The answers of several queries over the same rows."""
        self.fill()
        return [self.connection.execute(select).fetchall() for select in selects]

    def fill(self) -> None:
        for relation in self.relations:
            rows = list(self.rows[relation.name].elements())
            arrays = [
                pa.array([row[i] for row in rows], arrow_type(column.type))
                for i, column in enumerate(relation.columns)
            ]
            self.connection.register(relation.name, pa.table(arrays, names=list(relation.names)))

    def close(self) -> None:
        self.connection.close()


def new_database(engine: str, compiler: Compiler | None = None) -> Database:
    if compiler is None:
        return viewlet.connect(engine)
    return Database(ENGINES[engine](), engine, compiler, None)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A compiler that does not end must fail its test, not stop the suite."""

    def stop(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_case(case: Case, engine: str = "interpreter", compiler: Compiler | None = None) -> None:
    """Raise Mismatch where a batch leaves the view different from DuckDB's answer."""
    with time_limit(300):
        run_with(case, lambda: new_database(engine, compiler))


def run_with(case: Case, *makes: Callable[[], Database]) -> None:
    """The case on one database of each kind, side by side."""
    ordered = is_ordered(case.select)
    with closing(DuckOracle(case.relations())) as oracle, ExitStack() as opened:
        databases = [opened.enter_context(make()) for make in makes]
        for database in databases:
            for text in case.tables:
                database.execute(text)
            _create(database, case)
        for number, batch in enumerate([[], *case.batches]):
            oracle.apply(batch)
            expected = oracle.answer(case.select)
            for database in databases:
                if number:
                    changes = (viewlet.Change(name, [row], w) for name, row, w in batch)
                    database.apply(changes)
                compare(database.view("the_view").rows(), expected, case, number, ordered)


@cache
def is_ordered(select: str) -> bool:
    """Whether the query itself, not a window or a subquery of it, says in which order rows come."""
    return sqlglot.parse_one(select, dialect="duckdb").args.get("order") is not None


def _create(database: Database, case: Case) -> None:
    """What viewlet does not maintain is refused with an UnsupportedError, and that is no mismatch;
    a kernel that cannot be compiled is one."""
    try:
        database.execute(f"CREATE MATERIALIZED VIEW the_view AS {case.select}")
    except Untranslatable as error:
        raise Mismatch(f"{error}\nof {case!r}") from error


def compare(
    ours: Sequence[Row], theirs: Sequence[Row], case: Case, number: int, ordered: bool = False
) -> None:
    """Equal as bags, or as lists where the view is ordered; DOUBLE within a relative 1e-9."""
    if _are_identical(ours, theirs, ordered):
        return
    left, right = [tuple(row) for row in ours], [tuple(row) for row in theirs]
    if not ordered:
        left, right = sorted(left, key=_sort_key), sorted(right, key=_sort_key)
    if len(left) == len(right) and all(map(same_row, left, right)):
        return
    raise Mismatch(
        f"after batch {number} of\n  {case.select}\nwith\n  "
        + "\n  ".join(case.tables)
        + f"\nviewlet: {left}\nDuckDB:  {right}"
    )


def _are_identical(left: Sequence[Row], right: Sequence[Row], ordered: bool) -> bool:
    """Whether they are equal by value and type, as most are: quicker than sorting them."""
    if len(left) != len(right):
        return False
    is_equal = all(map(eq, left, right)) if ordered else Counter(left) == Counter(right)
    if not is_equal:
        return False
    return all(
        set(map(type, ours)) == set(map(type, theirs))
        for ours, theirs in zip(zip(*left, strict=True), zip(*right, strict=True), strict=True)
    )


def same_row(left: Row, right: Row) -> bool:
    return len(left) == len(right) and all(map(same_value, left, right))


def same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, float) and isinstance(right, float | decimal.Decimal | int):
        return math.isclose(left, float(right), rel_tol=1e-9, abs_tol=1e-9)
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dt.date) and isinstance(right, dt.date) and type(left) is not type(right):
        return False
    return bool(left == right)


def _sort_key(row: Row) -> list[Any]:
    """A total order in which equal rows of both systems stand at the same place."""
    return [_sortable(value) for value in row]


def _sortable(value: Any) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float | decimal.Decimal):
        return (3, 0) if math.isnan(value) else (2, round(float(value), 6))
    return 4, str(value)


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case with fewer batches and rows that fails still."""
    batches = [list(batch) for batch in case.batches]

    def attempt(candidate: list[Batch]) -> bool:
        return fails(Case(case.tables, case.select, candidate, case.note))

    for index in reversed(range(len(batches))):
        without = batches[:index] + batches[index + 1 :]
        if attempt(without):
            batches = without
    for index in range(len(batches)):
        for row in reversed(range(len(batches[index]))):
            smaller = [*batches]
            smaller[index] = batches[index][:row] + batches[index][row + 1 :]
            if smaller[index] and attempt(smaller):
                batches = smaller
    return Case(case.tables, case.select, batches, case.note)
