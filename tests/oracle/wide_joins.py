"""Random joins of many tables: acyclic and cyclic, with self-joins, keys, NULLs and hot keys."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.oracle.harness import Batch, Case, Row

from viewlet.calculus.query import Plan, Query
from viewlet.interfaces.database_state import Compiler
from viewlet.planner.viewlets import compile_program
from viewlet.program.ir import Program
from viewlet.schema import Catalog

KEYED = 2
"""The first tables have a primary key."""
JOINED = ("k", "a", "b")
HOT = (0, 0, 0, 0, 0, 1, 1, 2, None)
"""Half of the rows meet in one value, or a join of ten tables would be empty."""
DECLARED = "k INT{key}, a INT, b INT NOT NULL, x DECIMAL(8,2), d DOUBLE, s VARCHAR"


def with_plan(plan: Plan) -> Compiler:
    """A compiler that takes no choice."""

    def compiler(catalog: Catalog, queries: list[Query]) -> Program:
        return compile_program(catalog, [replace(query, plan=plan) for query in queries])

    return compiler


def wide_join(seed: int, joined: int, finite: bool = False) -> Case:
    """A join of `joined` tables, some of them the same, and batches of inserts and deletes.

    `finite`: without infinities and NaN, which only the interpreter takes out of a sum again.
    """
    chance = random.Random(seed)
    tables = max(2, joined - chance.randrange(joined))
    declared = [
        f"CREATE TABLE t{i} ({DECLARED.format(key=' PRIMARY KEY' if i < KEYED else '')})"
        for i in range(tables)
    ]
    case = Case(declared, _select(chance, joined, tables), note=f"seed {seed}")
    case.batches = _batches(chance, tables, joined, finite)
    return case


def _select(chance: random.Random, joined: int, tables: int) -> str:
    sources = [f"t{chance.randrange(tables)} AS r{i}" for i in range(joined)]
    conditions = []
    for i in range(1, joined):
        other = chance.choice((i - 1, chance.randrange(i)))
        conditions.append(f"{_column(chance, other)} = {_column(chance, i)}")
    for _ in range(chance.choice((0, 0, 1, 2))):
        left, right = chance.sample(range(joined), 2)
        conditions.append(f"{_column(chance, left)} = {_column(chance, right)}")
    if chance.random() < 0.5:
        conditions.append(f"r{chance.randrange(joined)}.x > {chance.randrange(3)}")
    if chance.random() < 0.4:
        left, right = chance.sample(range(joined), 2)
        conditions.append(f"r{left}.x {chance.choice(('<', '<>'))} r{right}.x")
    one, two, three = (chance.randrange(joined) for _ in range(3))
    aggregates = [
        "COUNT(*) AS n",
        f"SUM(r{one}.x) AS total",
        f"SUM(r{one}.x * r{two}.b) AS products",
        f"COUNT(r{three}.a) AS known",
        f"SUM(r{two}.d) AS doubles",
        f"MIN(r{three}.s) AS least",
        f"MAX(r{one}.x + r{two}.b) AS most",
    ]
    chosen = chance.sample(aggregates, chance.randrange(1, 4))
    keys = [_column(chance, chance.randrange(joined)) for _ in range(chance.randrange(3))]
    if chance.random() < 0.15:
        columns = ", ".join(f"r{i}.s AS s{i}" for i in sorted(chance.sample(range(joined), 3)))
        return f"SELECT {columns} FROM {', '.join(sources)} WHERE {' AND '.join(conditions)}"
    named = [f"{key} AS g{i}" for i, key in enumerate(keys)]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return (
        f"SELECT {', '.join([*named, *chosen])} FROM {', '.join(sources)} "
        f"WHERE {' AND '.join(conditions)}{group}"
    )


def _column(chance: random.Random, source: int) -> str:
    return f"r{source}.{chance.choice(JOINED)}"


def _batches(chance: random.Random, tables: int, joined: int, finite: bool) -> list[Batch]:
    """A load that gives every table rows with a hot key, then inserts and deletes in turn."""
    most = 12 if joined < 6 else 7 if joined < 9 else 5
    rows: dict[str, list[Row]] = {f"t{i}": [] for i in range(tables)}
    batches: list[Batch] = [[]]
    for name in rows:
        for _ in range(most - 2):
            _insert(chance, name, rows[name], batches[0], finite)
    for _ in range(6):
        batch: Batch = []
        for _ in range(chance.choice((1, tables, 2 * tables))):
            name = f"t{chance.randrange(tables)}"
            kept = rows[name]
            if kept and (len(kept) >= most or chance.random() < 0.4):
                batch.append((name, kept.pop(chance.randrange(len(kept))), -1))
            else:
                _insert(chance, name, kept, batch, finite)
        batches.append(batch)
    return batches


def _insert(chance: random.Random, name: str, kept: list[Row], batch: Batch, finite: bool) -> None:
    if int(name[1:]) < KEYED:
        key = min({*range(20)} - {row[0] for row in kept})
    else:
        key = chance.choice(HOT)
    rare = chance.random() > 0.9 and not finite
    doubles = (float("inf"), -1e9, float("nan")) if rare else (None, 0.5, 2.0)
    row = (
        key,
        chance.choice(HOT),
        chance.choice(HOT[:-1]),
        chance.choice((None, 0, 1, 2, 3)),
        chance.choice(doubles),
        chance.choice((None, "a", "b", "c")),
    )
    kept.append(row)
    batch.append((name, row, 1))
