"""The named workloads as published: equal to DuckDB after every batch of inserts and deletes."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest
from tests.frontend.oracle import SQL
from tests.frontend.workloads import QUERIES, random_rows
from tests.oracle.engines import ENGINES
from tests.oracle.harness import Batch, Case, DuckOracle, compare, new_database

from viewlet import Change
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation, CreateView
from viewlet.interfaces.database import Database
from viewlet.schema import Catalog


def schema_of(workload: str) -> tuple[list[str], Catalog]:
    made = parse((SQL / workload / "schema.sql").read_text())
    catalog = Catalog()
    for statement in made:
        assert isinstance(statement, CreateRelation)
        catalog.add(statement.relation)
    return [statement.text for statement in made], catalog


def views_of(workload: str, query: str) -> list[CreateView]:
    """The file's views without LIMIT: which of several equal rows it cuts off is nobody's right."""
    text = (SQL / workload / f"{query}.sql").read_text()
    text = re.sub(r"(?i)\blimit\s+\d+(\s+offset\s+\d+)?\s*;?\s*$", "", text)
    return [statement for statement in parse(text) if isinstance(statement, CreateView)]


def stream(rows: dict[str, list[tuple]], catalog: Catalog, size: int, seed: int) -> list[Batch]:
    """All rows of tables that change, in random order, with three deletes for every ten inserts."""
    random = Random(seed)
    coming = [(name, row) for name in rows for row in rows[name] if not catalog[name].static]
    random.shuffle(coming)
    held: list[tuple[str, tuple]] = []
    changes: Batch = []
    while coming:
        if held and random.random() < 0.23:
            name, row = held.pop(random.randrange(len(held)))
            changes.append((name, row, -1))
        else:
            name, row = coming.pop()
            held.append((name, row))
            changes.append((name, row, 1))
    return [changes[i : i + size] for i in range(0, len(changes), size)]


class Recomputed(DuckOracle):
    """DuckDB with the file's views; the last one is the answer."""

    def __init__(self, catalog: Catalog, views: list[CreateView]) -> None:
        super().__init__(list(catalog))
        self.views = views

    def answer(self, select: str) -> list[tuple]:
        self.fill()
        for view in self.views:
            sql = re.sub(r"(?i)^create\s+(materialized\s+)?view", "", view.text.strip())
            self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {sql}").fetchall()
        return self.connection.execute(f"SELECT * FROM {self.views[-1].name}").fetchall()


def rows_that_count(catalog: Catalog, views: list[CreateView]) -> dict[str, list[tuple]]:
    """A random database on which the query finds something."""
    for seed in range(1, 60):
        rows = random_rows(catalog, seed)
        oracle = Recomputed(catalog, views)
        oracle.apply([(name, row, 1) for name in rows for row in rows[name]])
        found = oracle.answer("")
        oracle.close()
        if found and any(value is not None for value in found[0]):
            return rows
    raise AssertionError(f"{views[-1].name} finds rows on no database")


def replay(
    workload: str,
    query: str,
    size: int,
    *databases: Database,
    begin: Callable[[Database], None] = lambda _: None,
    check: Callable[[Database], None] = lambda _: None,
) -> None:
    """Run the whole stream on each of them and compare after every batch.

    `begin` sees a database once its views are there, `check` before every comparison.
    """
    texts, catalog = schema_of(workload)
    views = views_of(workload, query)
    rows = rows_that_count(catalog, views)
    oracle = Recomputed(catalog, views)
    for relation in catalog:
        if relation.static:
            oracle.apply([(relation.name, row, 1) for row in rows[relation.name]])
    for database in databases:
        for text in texts:
            database.execute(text)
        for relation in catalog:
            if relation.static:
                database.insert(relation.name, rows[relation.name])
        database.execute(";\n".join(view.text.strip().rstrip(";") for view in views))
        begin(database)
    case = Case(texts, views[-1].text)
    for number, batch in enumerate(stream(rows, catalog, size, seed=size), 1):
        oracle.apply(batch)
        expected = oracle.answer("")
        for database in databases:
            database.apply(Change(name, [row], weight) for name, row, weight in batch)
            check(database)
            compare(database.view(views[-1].name).rows(), expected, case, number)
    oracle.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_batches(workload: str, query: str, engine: str) -> None:
    with new_database(engine) as database:
        replay(workload, query, 7, database)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_single_rows_and_large_batches(workload: str, query: str, size: int, engine: str) -> None:
    with new_database(engine) as database:
        replay(workload, query, size, database)
