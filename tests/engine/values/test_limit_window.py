"""What subscribers of ORDER BY ... LIMIT hear, batch by batch, adds up to what is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import viewlet
from viewlet.engine.values import limit_window as window
from viewlet.interfaces.database import Database


@pytest.fixture(scope="module")
def made() -> Iterator[Database]:
    with viewlet.connect("local") as db:
        db.execute(
            """
            CREATE TABLE t (id INT NOT NULL, g INT, x INT);
            CREATE VIEW top AS
              SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g ORDER BY n DESC, g LIMIT 4;
            CREATE VIEW bag AS SELECT g, x FROM t ORDER BY x LIMIT 5 OFFSET 2;
            CREATE VIEW ties AS SELECT x FROM t LIMIT 6;
            """
        )
        yield db


def test_a_mirror_of_windows(made: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few spare rows, so that the border is reached and crossed all the time."""
    monkeypatch.setattr(window, "_SPARE", 1)
    random = Random(5)
    mirrors: dict[str, Counter[Any]] = {name: Counter() for name in ("top", "bag", "ties")}
    quiet = False

    def update(batch: viewlet.ViewBatch) -> None:
        mirrors[batch.view].update(batch.inserted)
        mirrors[batch.view].subtract(batch.deleted)

    def refuse(batch: viewlet.ViewBatch) -> None:
        if quiet:
            raise ValueError("not this one")

    subscriptions = [made.subscribe(name, update) for name in mirrors]
    subscriptions += [made.subscribe(name, refuse) for name in mirrors]
    held: list[tuple[int, ...]] = []
    for number in range(250):
        quiet = random.random() < 0.1
        coming = [
            (number, random.randrange(30), random.choice([None, *range(12)]))
            for _ in range(random.choice([1, 3, 20]))
        ]
        random.shuffle(held)
        going = held[: random.choice([0, 1, 8]) if number < 200 else 9]
        try:
            made.apply([viewlet.Change("t", coming, 1), viewlet.Change("t", going, -1)])
        except viewlet.ViewletError:
            assert quiet
        else:
            held = held[len(going) :] + coming
        for name, mirror in mirrors.items():
            assert +mirror == Counter(made.view(name).rows()), f"{name} after batch {number}"
            assert not -mirror
    for subscription in subscriptions:
        subscription.close()


def test_explain_says_how_changes_are_found(made: Database) -> None:
    assert "# changes of view top: in O(limit + batch)" in made.explain("top", "kernels")
