"""Ranges of DOUBLE keys, inf, -inf and NaN among them, as the interpreter has them."""

from __future__ import annotations

import math
import random

import viewlet

SCHEMA = """
CREATE TABLE a (g INTEGER NOT NULL, p DOUBLE NOT NULL, v DOUBLE NOT NULL);
CREATE TABLE b (g INTEGER NOT NULL, p DOUBLE NOT NULL, v DOUBLE NOT NULL);
"""
VIEWS = {
    **{
        name: f"SELECT a.g, COUNT(*) AS n, SUM(a.v - b.v) AS s FROM a, b "
        f"WHERE a.g = b.g AND {condition} GROUP BY a.g"
        for name, condition in {
            "above": "b.p > a.p",
            "not_below": "b.p >= a.p",
            "below": "b.p < a.p",
            "not_above": "b.p <= a.p",
            "apart": "(a.p - b.p > 2 OR b.p - a.p > 2)",
            "inside": "b.p > a.p AND b.p <= a.v",
        }.items()
    },
    "share": "SELECT SUM(x.p * x.v) AS s FROM a x WHERE 0.25 * (SELECT SUM(z.v) FROM a z) "
    "> (SELECT SUM(y.v) FROM a y WHERE y.p > x.p)",
}
KEYS = (math.inf, -math.inf, math.nan, -0.0, 0.0, *(k / 4 for k in range(-20, 20)))
AMOUNTS = (1.0, 2.0, 3.0, 0.1, 1e17, 0.25)


def rows(db: viewlet.Database) -> dict[str, list[str]]:
    return {name: sorted(map(repr, db.view(name).rows())) for name in VIEWS}


def test_ranges_of_doubles_are_those_of_the_interpreter() -> None:
    rng = random.Random(7)
    script = SCHEMA + "".join(
        f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in VIEWS.items()
    )
    native, slow = viewlet.connect(), viewlet.connect(engine="interpreter")
    live: list[tuple[str, tuple[int, float, float]]] = []
    for db in (native, slow):
        db.execute(script)
    for turn in range(40):
        keys = KEYS if turn % 20 > 9 else KEYS[3:]
        gone = [live.pop(rng.randrange(len(live))) for _ in range(min(len(live), turn % 7))]
        new = [
            (rng.choice("ab"), (rng.randrange(2), rng.choice(keys), rng.choice(AMOUNTS)))
            for _ in range(1 if turn % 3 else 25)
        ]
        live += new
        for db in (native, slow):
            for table in "ab":
                db.delete(table, [row for name, row in gone if name == table])
                db.insert(table, [row for name, row in new if name == table])
        assert rows(native) == rows(slow), turn
