"""A process that writes to a database on disk until it is killed, and says what was acknowledged.

usage: python -m tests.interfaces.durable_writer PATH LEVEL SEED

One line for each acknowledged batch: its number. What a batch holds follows from its number, so
that whoever reads the lines knows what must be there.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

import pandas  # noqa: F401 - before it is forked: what opening a database would import

import viewlet
import viewlet.engine.local.native_engine
import viewlet.planner.viewlets
from viewlet.interfaces import durable_database
from viewlet.interfaces.database import Database

SCHEMA = """
CREATE TABLE r (n INT PRIMARY KEY, g INT NOT NULL, t VARCHAR);
CREATE STREAM s (n INT NOT NULL, x DOUBLE NOT NULL);
CREATE VIEW by_group AS SELECT g, COUNT(*) AS n, SUM(n) AS total FROM r GROUP BY g;
CREATE VIEW seen AS SELECT COUNT(*) AS n, SUM(n) AS total FROM s;
"""


def rows_of(number: int) -> int:
    """How many rows a batch has."""
    return 200 if number % 17 == 0 else 1 + number % 3


def write(db: Database, number: int) -> None:
    """One batch; batches of both relations are atomic."""
    if number % 5 == 0:
        rows = [(number, i / 4) for i in range(rows_of(number))]
        db.apply([viewlet.Change("s", rows), viewlet.Change("r", [(number, number % 7, "both")])])
    elif number % 2:
        db.insert("r", (number, number % 7, f"row {number}"))
    else:
        db.insert("s", [(number, i / 4) for i in range(rows_of(number))])


def run(path: str, level: str, seed: int, say: Callable[[str], None]) -> None:
    """Go on behind the last batch that the database has, until somebody ends the process."""
    durable_database.LOG_BYTES = 30_000  # snapshots often
    db = viewlet.connect(path, synchronous=level)  # type: ignore[arg-type]
    if "by_group" not in repr(db):
        db.execute(SCHEMA)
    draw = random.Random(seed)
    number = last_batch(db) + 1
    say(f"open {number - 1}")
    while True:
        write(db, number)
        say(str(number))
        if draw.random() < 0.01:
            db.checkpoint()
        number += 1


def run_as_process(path: str, level: str, seed: int, lines: Connection) -> None:
    """The same for a process that was made by another one and writes into its pipe."""
    run(path, level, seed, lambda line: write_all(lines.fileno(), f"{line}\n".encode()))


def write_all(file: int, data: bytes) -> None:
    """All of it: a line that is there in half was not said."""
    while data:
        data = data[os.write(file, data) :]


def main() -> None:
    """Run from the command line."""
    path, level, seed = sys.argv[1:]
    run(path, level, int(seed), lambda line: print(line, flush=True))


def last_batch(db: Database) -> int:
    """The number of the newest batch, by what the views say."""
    state = expected(0)
    current = contents(db)
    number = 0
    while state != current:
        number += 1
        state = expected(number, state)
        if state["rows"] > current["rows"]:
            raise SystemExit(f"the database is at no batch: {current}")
    return number


def contents(db: Database) -> dict[str, int]:
    """What tells all states of the writer apart."""
    groups = db.view("by_group").rows()
    seen = db.view("seen").rows()[0]
    return {
        "keys": sum(row.n for row in groups),
        "numbers": sum(row.total for row in groups),
        "rows": sum(row.n for row in groups) + seen.n,
        "seen": seen.total or 0,
    }


def expected(number: int, before: dict[str, int] | None = None) -> dict[str, int]:
    """What `contents` says after a batch, from what it said before it."""
    state = dict(before or {"keys": 0, "numbers": 0, "rows": 0, "seen": 0})
    if number == 0:
        return state
    if number % 5 == 0 or number % 2 == 0:
        state["rows"] += rows_of(number)
        state["seen"] += number * rows_of(number)
    if number % 5 == 0 or number % 2:
        state["keys"] += 1
        state["numbers"] += number
        state["rows"] += 1
    return state


if __name__ == "__main__":
    main()
