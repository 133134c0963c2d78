"""Functions of strings over strings that functions make, from few letters: equal to DuckDB.

A string may come first as the value of a function and then as a row's own, or the other way round;
both ways every function of it has to be there for kernels.
"""

from __future__ import annotations

from contextlib import closing
from random import Random

import duckdb
import pytest

import viewlet

CALLS = (
    *("SUBSTRING({}, 2)", "SUBSTRING({}, 2, 3)", "LEFT({}, 2)", "RIGHT({}, 2)", "REVERSE({})"),
    *("UPPER({})", "LOWER({})", "TRIM({})", "REPLACE({}, 'a', 'bb')", "{} || 'x'"),
    *("LPAD({}, 3, 'z')", "REPEAT({}, 2)", "MD5({})", "SPLIT_PART({}, 'b', 2)"),
)
QUERIES = (
    "SELECT {a} AS x, {b} AS y FROM t",
    "SELECT {a} AS x, COUNT(*) AS n, MIN({b}) AS m FROM t GROUP BY 1",
    "SELECT s FROM t WHERE {a} = {b} OR {a} LIKE '%b%'",
    "SELECT x, LENGTH(x) AS l, COUNT(*) AS n FROM (SELECT {a} AS x FROM t) q GROUP BY 1, 2",
    "SELECT q.x, u.s FROM (SELECT {a} AS x FROM t) q JOIN t u ON u.s = q.x",
    "SELECT {c} AS z, COUNT(*) AS n FROM (SELECT {a} AS x FROM t GROUP BY 1) q GROUP BY 1",
)
BATCHES = 12
LATE = 5
"""The batch after which late views are made."""


def term(draw: Random) -> str:
    inner = draw.choice(CALLS).format("s")
    return inner if draw.random() < 0.5 else draw.choice(CALLS).format(inner)


def word(draw: Random) -> str | None:
    if draw.random() < 0.1:
        return None
    return "".join(draw.choice("ab c") for _ in range(draw.randint(0, 5)))


@pytest.mark.parametrize(
    "seed",
    [104, 108, *range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(100, 160))],
)
def test_equal_to_duckdb(seed: int) -> None:
    draw = Random(seed)
    chosen = [*draw.choices(QUERIES, k=draw.randint(1, 3)), QUERIES[-1]]
    queries = [
        query.format(a=term(draw), b=term(draw), c=draw.choice(CALLS).format("x"))
        for query in chosen
    ]
    begin = LATE if draw.random() < 0.3 else 0
    rows: list[tuple[str | None]] = []
    with closing(viewlet.connect()) as db, closing(duckdb.connect()) as oracle:
        for database in (db, oracle):
            database.execute("CREATE TABLE t (s VARCHAR)")
        for step in range(BATCHES):
            if step == begin:
                for number, query in enumerate(queries):
                    db.execute(f"CREATE VIEW v{number} AS {query}")
            if rows and draw.random() < 0.4:
                gone = rows.pop(draw.randrange(len(rows)))
                db.delete("t", [gone])
                oracle.execute(
                    "DELETE FROM t WHERE rowid ="
                    " (SELECT MIN(rowid) FROM t WHERE s IS NOT DISTINCT FROM ?)",
                    gone,
                )
            fresh = [(word(draw),) for _ in range(draw.choice((1, 1, 3, 40)))]
            db.insert("t", fresh if len(fresh) > 1 else fresh[0])
            oracle.executemany("INSERT INTO t VALUES (?)", fresh)
            rows += fresh
            for number, query in enumerate(queries if step >= begin else ()):
                ours = sorted(repr(tuple(row)) for row in db.view(f"v{number}").rows())
                assert ours == sorted(map(repr, oracle.execute(query).fetchall())), query
