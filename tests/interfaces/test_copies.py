"""Rows that are there a great many times: counted, never listed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import RangeError
from viewlet.interfaces.database import Database

MANY = 2**40


@pytest.fixture(params=["local", "interpreter"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with viewlet.connect(request.param) as database:
        database.execute("""
        CREATE TABLE t (a INT);
        CREATE VIEW bag AS SELECT a FROM t;
        CREATE VIEW groups AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
        CREATE VIEW first AS SELECT a FROM t ORDER BY a LIMIT 2;
        """)
        database.apply([viewlet.Change("t", [(1,), (2,)], [MANY, 1])])
        yield database


READS: list[Callable[[Database], Any]] = [
    lambda db: db.view("bag").rows(),
    lambda db: db.view("bag").to_arrow(),
    lambda db: dict(db.view("bag").items()),
    lambda db: db.query("SELECT COUNT(*) AS n FROM t"),
    lambda db: db.query("SELECT * FROM bag"),
    lambda db: db.execute("DELETE FROM t WHERE a = 1"),
    lambda db: db.execute("UPDATE t SET a = 3"),
]


@pytest.mark.parametrize("read", READS)
def test_copies_are_not_listed(db: Database, read: Callable[[Database], Any]) -> None:
    with pytest.raises(RangeError, match=r"at most 67108864 .*\n.*COUNT"):
        read(db)
    assert sorted(db.view("groups").rows()) == [(1, MANY), (2, 1)]


def test_what_is_counted_can_be_read(db: Database, tmp_path: Path) -> None:
    assert db.view("first").rows() == [(1,), (1,)]
    assert db.changes("bag").to_pydict() == {"a": [1, 2], "_weight": [MANY, 1]}
    assert db.changes("first").to_pydict() == {"a": [1], "_weight": [2]}
    db.checkpoint(str(tmp_path / "saved"))
    with viewlet.restore(str(tmp_path / "saved")) as again:
        again.apply([viewlet.Change("t", [(1,)], -MANY)])
        assert again.view("bag").rows() == [(2,)]


def test_a_subscriber_refuses_them_and_hears_of_others(db: Database) -> None:
    heard: list[Any] = []
    db.subscribe("bag", heard.append)
    with pytest.raises(RangeError, match="at most"):
        db.apply([viewlet.Change("t", [(5,)], MANY)])
    db.insert("t", [(7,)])
    assert [(batch.inserted, batch.deleted) for batch in heard] == [([(7,)], [])]
    assert sorted(db.view("groups").rows()) == [(1, MANY), (2, 1), (7, 1)]


def test_a_count_beyond_64_bits_is_refused(db: Database) -> None:
    with pytest.raises(RangeError):
        db.apply([viewlet.Change("t", [(1,)], 2**63 - 1)])
    assert sorted(db.view("groups").rows()) == [(1, MANY), (2, 1)]
