"""Programs from calculus text, and the check that a program keeps all its maps right."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.frontend.oracle import SQL, lower_last, read_catalog
from viewlet.calculus.database import Atoms
from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.query import Query, ViewKind, evaluate_query
from viewlet.calculus.ring import Gmr, Key
from viewlet.calculus.scope import outputs
from viewlet.calculus.text import parse
from viewlet.planner.viewlets import compile_program
from viewlet.program.interpret import Interpreter, relations_of
from viewlet.program.ir import Program
from viewlet.schema import INTEGER, Catalog, Column, Relation


def catalog_of(text: str) -> Catalog:
    """`R(a*, b) S(b, c)`: relations of integers, none of them NULL; a star marks a key."""
    catalog = Catalog()
    for part in text.replace(")", ")\n").split("\n"):
        if part.strip():
            name, _, columns = part.strip().rstrip(")").partition("(")
            names = [c.strip() for c in columns.split(",")]
            found = tuple(Column(n.rstrip("*"), INTEGER, False) for n in names)
            key = tuple(n.rstrip("*") for n in names if n.endswith("*"))
            catalog.add(Relation(name, found, key))
    return catalog


def compile_text(text: str, relations: str) -> Program:
    expr = parse(text)
    keys = tuple(sorted(outputs(expr)))
    query = Query("q", ViewKind.GROUP, keys, (("count", expr),), ())
    return compile_program(catalog_of(relations), [query])


def workload(folder: str, name: str) -> tuple[Catalog, Query]:
    catalog = read_catalog((SQL / folder / "schema.sql").read_text())
    return catalog, lower_last(Path(SQL / folder / f"{name}.sql").read_text(), catalog)


def assert_maintains(
    catalog: Catalog,
    queries: Iterable[Query],
    rows: Mapping[str, list[Key]],
    batch_size: int,
    seed: int,
    every: int = 1,
) -> None:
    """Replay the rows as inserts with some deletes; every map must equal its definition."""
    queries = list(queries)
    program = compile_program(catalog, queries)
    tables = {relation.name: Gmr() for relation in catalog}
    for relation in catalog:
        if relation.static:
            for row in rows[relation.name]:
                tables[relation.name].add(row, 1)
    relations = relations_of(tables)
    interpreter = Interpreter(program)
    interpreter.load(tables)
    for step, changes in enumerate(stream(catalog, rows, batch_size, seed), start=1):
        for name, delta in changes.items():
            interpreter.apply(name, delta)
            for row, weight in delta.items():
                tables[name].add(row, weight)
        if step % every == 0:
            assert_exact(program, interpreter, relations, queries)
    assert_exact(program, interpreter, relations, queries)


def assert_exact(
    program: Program, interpreter: Interpreter, relations: Atoms, queries: list[Query]
) -> None:
    for map in (*program.state, *program.constants):
        for column in map.columns:
            assert column.definition is not None
            wanted = evaluate(column.definition, map.key_names, relations)
            found = interpreter.store[map.name, column.name]
            assert found == wanted, f"{map.name}.{column.name}"
    for view, query in zip(program.views, queries, strict=True):
        wanted_rows = sorted(map_repr(evaluate_query(query, relations)))
        assert sorted(map_repr(interpreter.rows(view))) == wanted_rows


def map_repr(rows: Iterable[object]) -> list[str]:
    return [repr(row) for row in rows]


def stream(
    catalog: Catalog, rows: Mapping[str, list[Key]], batch_size: int, seed: int
) -> Iterable[dict[str, Gmr]]:
    """Batches over several relations: mostly inserts, a quarter deletes of rows that are there."""
    chance = random.Random(seed)
    waiting = [(r.name, row) for r in catalog if not r.static for row in rows[r.name]]
    chance.shuffle(waiting)
    live: list[tuple[str, Key]] = []
    while waiting:
        changes: dict[str, Gmr] = {}
        for _ in range(batch_size):
            if live and chance.random() < 0.25:
                name, row = live.pop(chance.randrange(len(live)))
                changes.setdefault(name, Gmr()).add(row, -1)
            elif waiting:
                name, row = waiting.pop()
                live.append((name, row))
                changes.setdefault(name, Gmr()).add(row, 1)
        yield changes
