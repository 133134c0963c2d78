"""Every public method with arguments that nobody should give it: a ViewletError, and no change.

A seeded walk over all methods; a mapping's KeyError for a key that no row has is the one other
error that may come out.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from viewlet import ViewletError
from viewlet.interfaces.database import Database
from viewlet.interfaces.view import View


class Evil:
    """Raises whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("iter")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __fspath__(self) -> str:
        raise RuntimeError("fspath")


def odd_values() -> list[Any]:
    """New ones for each call: some can be used once."""
    return [
        None,
        0,
        1,
        -1,
        2**70,
        1.5,
        float("nan"),
        float("inf"),
        True,
        "",
        "r",
        "v",
        "R",
        "nope",
        "r; DROP TABLE r",
        "SELECT",
        "SELECT * FROM r WHERE",
        "SELECT '\ud800'",
        "\0",
        "\ud800",
        "x" * 10_000,
        "(" * 5_000,
        "CREATE VIEW w AS SELECT" + " NOT" * 3_000 + " TRUE AS x FROM r",
        b"",
        b"r",
        (),
        (1,),
        (1, 2),
        (None, None),
        ("r",),
        [],
        [None],
        [[]],
        [("r", 1)],
        [(1, 2), (3,)],
        {},
        {"a": 1},
        {"a": [1], "b": 2},
        {None: None},
        set(),
        object(),
        Evil(),
        [Evil()],
        (Evil(), Evil()),
        {"a": Evil()},
        Decimal("1e999999999"),
        1 + 2j,
        iter([1]),
        (row for row in [(1, "x")]),
        lambda batch: 1 / 0,
        print,
        Database,
        viewlet.Change("r", [(5, 5)], 1.5),  # type: ignore[arg-type]
        [viewlet.Change("r", [(5, 5)]), viewlet.Change("r", Evil())],
        [viewlet.Change(None, [(5, 5)])],  # type: ignore[arg-type]
        [viewlet.Change("r", [(5, 5)], Evil())],  # type: ignore[arg-type]
        np.array([[1, 2]], object),
        np.array(3),
        np.zeros(0),
        pa.table({"z": [1]}),
        pa.array([1]),
        Path("/nonexistent/\0"),
        Path("/proc/none"),
        "/proc/none",
        "no-such-scheme://x",
        ...,
    ]


READS = (
    *("changes", "expect", "explain", "function", "inserter", "query", "refresh", "schema"),
    *("stats", "view"),
)
WRITES = ("apply", "apply_spark", "delete", "execute", "insert", "sink", "upsert")
OTHERS = ("checkpoint", "repartition", "subscribe", "transaction", "watch")
ENDS = ("close", "complete")
"""After these no more rows are taken."""


def methods(kind: type) -> list[str]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return [name for name, _ in members if not name.startswith("_")]


def test_every_method_is_called() -> None:
    assert methods(Database) == sorted([*READS, *WRITES, *OTHERS, *ENDS])


@pytest.fixture(params=["local", "interpreter"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with viewlet.connect(request.param) as database:
        database.execute("CREATE TABLE r (a INT, b INT)")
        database.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a")
        database.execute("CREATE VIEW w AS SELECT a, b FROM r")
        database.insert("r", [(1, 2), (7, 2)])
        yield database


def contents(db: Database) -> Any:
    """What must not have changed."""
    return (
        sorted(db.query("SELECT * FROM r").to_pylist(), key=str),
        sorted(map(tuple, db.view("v").rows())),
        sorted(map(tuple, db.view("w").rows())),
        repr(db),
    )


def attempt(call: Callable[..., Any], arguments: list[Any], *allowed: type[Exception]) -> bool:
    """Whether the call went well; ViewletError and what is allowed may come out of it."""
    try:
        call(*arguments)
    except ViewletError as error:
        str(error)
        return False
    except allowed:
        return False
    return True


def arguments_for(call: Callable[..., Any], draw: random.Random) -> list[Any]:
    """Of each parameter what it should be, more often than not, or anything."""
    parameters = list(inspect.signature(call).parameters.values())
    arguments = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY:
            continue
        if parameter.name in ("relation", "view") and draw.random() < 0.6:
            arguments.append({"relation": "r", "view": "v"}[parameter.name])
        elif parameter.default is not parameter.empty and draw.random() < 0.5:
            break
        else:
            arguments.append(draw.choice(odd_values()))
    return arguments


@pytest.mark.parametrize("method", READS + WRITES + OTHERS)
def test_odd_arguments(db: Database, method: str, tmp_path: Path) -> None:
    draw = random.Random(f"{method} 1")
    call = getattr(db, method)
    before = contents(db)
    for _ in range(150):
        arguments = arguments_for(call, draw)
        if method == "checkpoint" and any(isinstance(a, str) for a in arguments):
            arguments = [f"{tmp_path}/{i}" for i in range(len(arguments))]
        if attempt(call, arguments) and method in WRITES:
            # What was taken was a change: rows that fit, or a statement.
            undo(db, before)
        db._subscribers.clear()
        assert contents(db) == before, arguments
    assert db.insert("r", (1, 5)) == 1
    assert db.view("v")[1].total == 7


def test_odd_names_of_what_is_complete(db: Database) -> None:
    before = contents(db)
    for value in odd_values():
        if not isinstance(value, str) or value.lower() != "r":
            assert not attempt(db.complete, [value]), value
    assert contents(db) == before
    db.insert("r", (1, 5))
    db.complete("r")
    assert not attempt(db.insert, ["r", (1, 5)])


def undo(db: Database, before: Any) -> None:
    """Put the rows back that a call has changed."""
    db.execute("DELETE FROM r")
    db.insert("r", [(row["a"], row["b"]) for row in before[0]])


def test_odd_keys(db: Database) -> None:
    for name in ("v", "w"):
        view = db.view(name)
        for key in odd_values():
            attempt(view.__getitem__, [key], KeyError)
            attempt(view.get, [key])
            attempt(view.__contains__, [key])
    assert db.view("v")[1].total == 2


@pytest.mark.parametrize("argument", ["database", "engine", "path", "synchronous", "checkpoint"])
def test_odd_connections(argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in odd_values():
        others = {"path": "d.viewlet"} if argument == "synchronous" else {}
        try:
            viewlet.connect(**{argument: value}, **others).close()
        except ViewletError as error:
            str(error)


def test_odd_restores(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    db.checkpoint(tmp_path / "saved")
    for value in odd_values():
        with pytest.raises(ViewletError):
            viewlet.restore(value)
        attempt(lambda engine: viewlet.restore("saved", engine=engine).close(), [value])


def test_odd_handlers(db: Database) -> None:
    loop = viewlet.EventLoop(db)
    for value in odd_values():
        attempt(loop.on, [value, print])
        attempt(loop.on, ["v", value])
    loop.close()
    assert isinstance(db.view("v"), View)
