"""The public surface as a stranger meets it: docstrings with examples that run, and types."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewlet
import viewlet.linalg
import viewlet.signals
from viewlet.interfaces.database import Database
from viewlet.interfaces.events import Watch
from viewlet.interfaces.stats import Stats
from viewlet.interfaces.subscribe import Subscription

ROOT = Path(__file__).parents[2]

PUBLIC = {name: getattr(viewlet, name) for name in viewlet.__all__ if name != "errors"} | {
    "Stats": Stats,
    "Subscription": Subscription,
    "Watch": Watch,
}
"""What `viewlet` exports, and what its methods hand out."""

PLAIN = {
    *(
        "Database.close",
        "Database.complete",
        "Subscription.close",
        "EventLoop.close",
        "Watch.close",
        "Watch.missed",
    ),
    *("View.name", "View.columns", "View.types", "ViewBatch.inverse"),
    *("EventLoop.on", "EventLoop.step", "EventLoop.run", "EventLoop.stop"),
    *("Subscription", "Stats", "Watch"),
}
"""Said well enough without an example, or shown in the example of their class or in docs/."""

INSIDE = {"Subscription.settle", "Watch.put", "Watch.aclose"}
"""Called by the database and by Python, not by users."""

PACKAGE_OWN = {
    *("by_source", "columns_of", "flush_columns", "instant", "load", "memory", "note_times"),
    *("push_columns", "read", "shown", "take", "in_ticks", "reach", "schema"),
}
"""Of signals' classes, called by the package's other modules and not by users."""

ASYNC = {"Database.watch"}
"""Of another kind; docs/python-reference.md runs it."""

ON_SPARK = {
    *("Database.apply_spark", "Database.repartition", "Database.sink", "View.to_spark"),
    "spark_session",
}


def documented() -> Iterator[tuple[str, Any]]:
    """Every public class, function and method of ours by its name."""
    for name, made in PUBLIC.items():
        yield name, made
        if not inspect.isclass(made):
            continue
        for member, value in vars(made).items():
            whole = f"{name}.{member}"
            described = callable(value) or isinstance(value, property)
            if described and not member.startswith("_") and whole not in INSIDE:
                yield whole, value


EVERYTHING = dict(documented())


def test_dir_shows_what_is_public() -> None:
    def shown(thing: Any) -> list[str]:
        return [name for name in dir(thing) if not name.startswith("_")]

    assert set(shown(viewlet)) == {*viewlet.__all__, "dbapi", "linalg", "notebook", "signals"}
    with viewlet.connect("interpreter") as db:
        db.execute("CREATE TABLE r (a INT); CREATE VIEW v AS SELECT a FROM r")
        for thing in (db, db.view("v")):
            assert all(not name.startswith("_") or name.endswith("__") for name in dir(thing))
        assert {"tables", "views", "schema", "execute"} <= set(shown(db))
        assert {"rows", "to_pandas", "keys"} <= set(shown(db.view("v")))


def test_every_public_name_is_in_the_reference() -> None:
    """The names are taken from the package, so that a new one without a line there fails."""
    pages = {
        "python-reference.md": {
            *(name.rpartition(".")[2] for name in EVERYTHING),
            *(name for name, made in vars(viewlet.errors).items() if is_error(made)),
            *("Position", "dbapi", "notebook", "live"),
            *(
                field.name
                for made in (Stats, viewlet.ViewBatch)
                for field in dataclasses.fields(made)
            ),
        },
        "linalg.md": {*viewlet.linalg.__all__, *members(viewlet.linalg)},
        "signals.md": {*viewlet.signals.__all__, *members(viewlet.signals)},
    }
    missing = {
        page: sorted(n for n in names if not re.search(rf"\b{n}\b", code_of(ROOT / "docs" / page)))
        for page, names in pages.items()
    }
    assert not any(missing.values()), missing


def members(package: Any) -> set[str]:
    """The public methods and properties of what a package exports."""
    made = [getattr(package, name) for name in package.__all__]
    return {
        name
        for each in made
        if inspect.isclass(each) and not issubclass(each, Exception)
        for name, value in inspect.getmembers(each)
        if (callable(value) or isinstance(value, property)) and not name.startswith("_")
    } - PACKAGE_OWN


def is_error(made: Any) -> bool:
    return inspect.isclass(made) and issubclass(made, viewlet.ViewletError)


@functools.cache
def code_of(page: Path) -> str:
    """What a page says as code: between backquotes, and in blocks."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL))


def test_every_name_has_a_docstring_with_an_example() -> None:
    missing = [name for name, made in EVERYTHING.items() if not inspect.getdoc(made)]
    assert missing == []
    plain = [name for name, made in EVERYTHING.items() if ">>>" not in (inspect.getdoc(made) or "")]
    assert set(plain) <= PLAIN, "give it an example, or say in PLAIN that it needs none"
    assert set(EVERYTHING) >= ON_SPARK | PLAIN


def namespace(db: Database, folder: Path) -> dict[str, Any]:
    """What the examples take as given."""
    db.execute("CREATE TABLE r (a INT, b INT)")
    db.execute("CREATE VIEW v AS SELECT a, SUM(b) AS total FROM r GROUP BY a")
    db.insert("r", [(1, 2), (1, 3)])
    return {"db": db, "viewlet": viewlet, "folder": str(folder), "dataclasses": dataclasses}


def run(name: str, names: dict[str, Any]) -> None:
    made = EVERYTHING[name]
    check(name, inspect.getdoc(made.fget if isinstance(made, property) else made) or "", names)


def check(name: str, text: str, names: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)


EXAMPLES = [n for n, made in EVERYTHING.items() if ">>>" in (inspect.getdoc(made) or "")]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ON_SPARK | ASYNC])
def test_the_example_runs(name: str, tmp_path: Path) -> None:
    with viewlet.connect() as db:
        run(name, namespace(db, tmp_path / "folder"))


def packages() -> dict[str, Any]:
    """The public names of the sibling packages; errors say themselves what they are."""
    return {
        f"{package.__name__}.{name}": made
        for package in (viewlet.linalg, viewlet.signals)
        for name in package.__all__
        if not isinstance(made := getattr(package, name), type) or not issubclass(made, Exception)
    }


@pytest.mark.parametrize("name", packages())
def test_matrices_and_signals_have_examples_that_run(name: str) -> None:
    text = inspect.getdoc(packages()[name]) or ""
    assert ">>>" in text
    readings = {"sensor": [1, 1, 1], "t": [0, 2, 4], "v": [0.0, 2.0, 4.0]}
    names = {"np": np, "la": viewlet.linalg, "sg": viewlet.signals, "readings": readings}
    check(name, text, names)


@pytest.mark.slow
@pytest.mark.spark
def test_the_examples_on_spark_run(tmp_path: Path) -> None:
    from viewlet.engine.partitions.session import spark_session

    spark = spark_session(cores=2)
    folder = tmp_path / "folder"
    folder.mkdir()
    with viewlet.connect("spark", spark=spark, partitions=2) as db:
        names = {**namespace(db, folder), "spark": spark}
        for name in sorted(ON_SPARK, reverse=True):
            run(name, names)


# --- types ----------------------------------------------------------------------------------------

RIGHT = """
import viewlet

def alert(batch: viewlet.ViewBatch) -> None:
    print(batch.view, [row.total for row in batch.inserted])

def total(path: str) -> int:
    with viewlet.connect(engine="local", checkpoint=path) as db:
        db.execute("CREATE TABLE r (a INT, b INT)")
        changed: int = db.insert("r", [(1, 2)])
        changed += db.apply([viewlet.Change("r", {"a": [1], "b": [3]}, -1)])
        with db.subscribe("v", alert) as subscription:
            subscription.next().cancel()
        view: viewlet.View = db.view("v")
        text: str = db.explain("v", stage="program", format="svg")
        loop = viewlet.EventLoop(db)
        loop.on("v", alert)
        return changed + len(view) + len(text) + loop.run(timeout=0.1) + db.stats("v").rows

async def watch(db: viewlet.Database) -> str:
    async for batch in db.watch("v"):
        return batch.view
    return viewlet.restore("directory").view("v").name
"""

WRONG = {
    'viewlet.connect("local", "directory")': "call-arg|misc|arg-type",
    "viewlet.connect(engine=3)": "arg-type",
    'viewlet.connect().subscribe("v", lambda: None)': "arg-type|misc",
    'viewlet.connect().apply([("r", [(1, 2)])])': "list-item",
    'viewlet.connect().vew("v")': "attr-defined",
    'x: str = viewlet.connect().insert("r", (1,))': "assignment",
    'viewlet.connect(engine="lokal")': "arg-type",
    'viewlet.connect().explain("v", "kernel")': "arg-type",
    'viewlet.connect().explain("v", format="png")': "arg-type",
    'viewlet.connect().view("v").to_pandas(decimal="float")': "arg-type",
    'viewlet.connect().view("v").rows(Total)[0].totl': "attr-defined",
    'viewlet.Change("r", [(1,)], by=2)': "call-arg",
}
"""Calls that a type checker must refuse, with mypy's codes of the refusal."""


def test_a_type_checker_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    head = [
        *("import dataclasses", "import viewlet", "@dataclasses.dataclass"),
        *("class Total:", "    total: int"),
    ]
    lines = [*head, *WRONG]
    (tmp_path / "wrong.py").write_text("\n".join(lines) + "\n")
    said = subprocess.run(
        # As `make style` has run it: what it has found out about the package is kept.
        [sys.executable, "-m", "mypy", str(tmp_path / "right.py"), str(tmp_path / "wrong.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
    )
    lines: dict[int, str] = {}
    for line in said.stdout.splitlines():
        assert "right.py" not in line, said.stdout
        if "wrong.py" in line and "error:" in line:
            lines[int(line.partition("wrong.py:")[2].partition(":")[0])] = line
    for number, (call, codes) in enumerate(WRONG.items(), start=len(head) + 1):
        assert any(f"[{code}]" in lines.get(number, "") for code in codes.split("|")), (
            call,
            said.stdout,
        )
