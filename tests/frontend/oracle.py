"""Views evaluated by their definition, and by DuckDB, on the same rows."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from viewlet.calculus.database import Atoms
from viewlet.calculus.expr import ZERO
from viewlet.calculus.query import Query, evaluate_query, sort_rows
from viewlet.calculus.ring import Gmr
from viewlet.calculus.scope import check, outputs
from viewlet.calculus.text import parse as parse_expr
from viewlet.calculus.text import to_text
from viewlet.frontend.lower import lower_view
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation, CreateView
from viewlet.schema import Catalog, decode, encode

SQL = Path(__file__).parents[2] / "src/viewlet_bench/sql"

Rows = Mapping[str, Sequence[tuple[Any, ...]]]


class Memory(Atoms):
    """Relations in memory, for the calculus' evaluator."""

    def __init__(self, catalog: Catalog, rows: Rows) -> None:
        super().__init__(relations=lambda name: self.relations[name])
        self.relations = {relation.name: Gmr() for relation in catalog}
        for relation in catalog:
            for row in rows.get(relation.name, ()):
                key = tuple(encode(v, c) for v, c in zip(row, relation.columns, strict=True))
                self.relations[relation.name].add(key, 1)


def read_catalog(text: str) -> Catalog:
    catalog = Catalog()
    for statement in parse(text):
        assert isinstance(statement, CreateRelation)
        catalog.add(statement.relation)
    return catalog


def lower_last(text: str, catalog: Catalog) -> Query:
    """The Query of the last view of a text, checked for form; the others are its inner views."""
    views: dict[str, CreateView] = {}
    for statement in parse(text):
        assert isinstance(statement, CreateView)
        query = lower_view(statement, catalog, views)
        check_form(query)
        views[statement.name] = statement
    return query


def check_form(query: Query) -> None:
    """Components bind their keys and nothing else, and their text reads back."""
    for _, component in query.components:
        check(component)
        assert outputs(component) == set(query.keys) or component == ZERO
        assert parse_expr(to_text(component)) == component
    names = [*query.keys, *(name for name, _ in query.components)]
    assert len(set(names)) == len(names)
    for let in query.lets:
        check(let, frozenset(names))


def connect(catalog: Catalog, rows: Rows) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    for relation in catalog:
        columns = ", ".join(
            f'"{c.name}" {c.type}{"" if c.nullable else " NOT NULL"}' for c in relation.columns
        )
        database.execute(f'CREATE TABLE "{relation.name}" ({columns})')
        holes = ", ".join("?" for _ in relation.columns)
        found = list(rows.get(relation.name, ()))
        if found:
            database.executemany(f'INSERT INTO "{relation.name}" VALUES ({holes})', found)
    return database


def duckdb_rows(
    text: str, database: duckdb.DuckDBPyConnection, *, keep_limit: bool = False
) -> list[tuple[Any, ...]]:
    """The rows of the last view of a text, as DuckDB finds them."""
    for statement in parse(text):
        assert isinstance(statement, CreateView)
        sql = re.sub(
            r"(?i)^create\s+(materialized\s+)?view", "CREATE OR REPLACE VIEW", statement.text
        )
        if not keep_limit:
            sql = re.sub(r"(?i)\blimit\s+\d+(\s+offset\s+\d+)?\s*$", "", sql)
        database.execute(sql)
    query = (
        re.split(r"(?i)\bas\b", sql, maxsplit=1)[1]
        if keep_limit
        else f"SELECT * FROM {statement.name}"
    )
    return database.execute(query).fetchall()


def viewlet_rows(query: Query, memory: Memory, *, ordered: bool = False) -> list[tuple[Any, ...]]:
    found = evaluate_query(query, memory)
    flat = (
        sort_rows(query, found)
        if ordered
        else [r[: len(query.columns)] for r, n in found for _ in range(n)]
    )
    return [
        tuple(decode(v, c.type) for v, c in zip(row, query.columns, strict=True)) for row in flat
    ]


def assert_same(
    ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], *, ordered: bool = False
) -> None:
    """The same rows as bags (or lists): floats nearly, everything else to the digit."""
    assert len(ours) == len(theirs), f"{ours}\n!=\n{theirs}"
    if not ordered:
        ours, theirs = sorted(ours, key=_sort_key), sorted(theirs, key=_sort_key)
    for a, b in zip(ours, theirs, strict=True):
        assert len(a) == len(b) and all(map(_near, a, b)), f"{ours}\n!=\n{theirs}"


def _near(a: Any, b: Any) -> bool:
    if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def _sort_key(row: Iterable[Any]) -> list[tuple[int, Any]]:
    key: list[tuple[int, Any]] = []
    for value in row:
        if value is None:
            key.append((0, 0))
        elif isinstance(value, float | int | decimal.Decimal):
            key.append((1, float(f"{float(value):.7g}")))
        else:
            key.append((2, str(value)))
    return key


Both = tuple[Memory, duckdb.DuckDBPyConnection]


def load(catalog: Catalog, rows: Rows) -> Both:
    """The same rows for the calculus and for DuckDB."""
    return Memory(catalog, rows), connect(catalog, rows)


def compare(
    text: str, catalog: Catalog, both: Both, *, ordered: bool = False
) -> list[tuple[Any, ...]]:
    """Check one view text both ways; gives the rows."""
    query = lower_last(text, catalog)
    memory, database = both
    ours = viewlet_rows(query, memory, ordered=ordered)
    theirs = duckdb_rows(text, database, keep_limit=ordered)
    assert_same(ours, theirs, ordered=ordered)
    for column, values in zip(query.columns, zip(*ours, strict=True), strict=True) if ours else ():
        assert column.nullable or None not in values, f"{column.name} is declared NOT NULL"
    return ours
