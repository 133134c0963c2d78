"""docs/howto.md as a new engineer reads it: every toy on the page is added, and used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import viewlet
from tests.planner.support import assert_maintains, catalog_of
from tests.test_docs import ROOT, blocks
from viewlet.calculus import delta, evaluate, expr, scope, text, typing
from viewlet.calculus.query import Query, ViewKind
from viewlet.calculus.simplify import simplify
from viewlet.cli import app
from viewlet.frontend.moments import FORMULAS
from viewlet.functions import CALLS, FUNCTIONS, NATIVES
from viewlet.pipeline.sinks import SINKS
from viewlet.pipeline.sources import SOURCES

PAGE = ROOT / "docs/howto.md"
TABLES: tuple[dict[Any, Any], ...] = (
    *(SOURCES, SINKS, FUNCTIONS, CALLS, NATIVES, FORMULAS),
    *(expr.BUILD, scope.OUTPUTS, scope.INPUTS, evaluate.ROWS, delta.DELTAS),
    *(typing.SLOTS, typing.WEIGHTS, text.TEXTS, text.PREFIXES),
)
"""Where the page puts what it adds."""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the Python blocks define; the files of the SQL blocks are in the working directory."""
    monkeypatch.chdir(tmp_path)
    before = [dict(table) for table in TABLES]
    module = ModuleType("howto")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for kind, block in blocks(PAGE):
        if kind == "python":
            exec(compile(block, PAGE.name, "exec", dont_inherit=True), vars(module))
        elif block.startswith("-- file: "):
            (tmp_path / block.splitlines()[0].removeprefix("-- file: ")).write_text(block)
    yield vars(module)
    for table, old in zip(TABLES, before, strict=True):
        table.clear()
        table.update(old)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


ROWS = [(a, x) for a in range(3) for x in (-7.5, -1.0, 0.0, 0.5, 3.0, 1e9, None)]


@pytest.mark.parametrize("engine", ["local", "interpreter"])
def test_a_scalar_function(page: dict[str, Any], engine: str) -> None:
    """In a condition and in a sum, maintained and asked of DuckDB."""
    with viewlet.connect(engine) as db:
        db.execute(Path("softsign.sql").read_text())
        db.insert("r", ROWS)
        db.delete("r", ROWS[:4])
        asked = db.query(
            "SELECT a, SUM(SOFTSIGN(x)) AS s FROM r WHERE SOFTSIGN(x) < 0.9 GROUP BY a"
        )
        rows = {row.a: row for row in db.view("v").rows()}
    softsign = page["softsign"]
    for a in range(3):
        values = [x for key, x in ROWS[4:] if key == a and x is not None and softsign(x) < 0.9]
        assert rows[a].s == pytest.approx(sum(map(softsign, values)))
        assert rows[a].n == len(values)
    assert {row["a"]: row["s"] for row in asked.to_pylist()} == pytest.approx(
        {a: row.s for a, row in rows.items()}
    )


@pytest.mark.parametrize("engine", ["local", "interpreter"])
def test_an_aggregate(page: dict[str, Any], engine: str) -> None:
    """Maintained through inserts and deletes, and what DuckDB has under another name."""
    rows = [(a, x) for a in range(3) for x in (-7.5, -1.0, 0.5, 0.5, 3.0 * a, None)]
    with viewlet.connect(engine) as db:
        db.execute(Path("kurtosis.sql").read_text())
        db.insert("r", [*rows, (7, 1.0), (7, 1.0), (8, None)])
        db.delete("r", rows[:2])
        maintained = {row.a: row.k for row in db.view("v").rows()}
        asked = db.query("SELECT a, KURTOSIS_POP(x) AS k FROM r WHERE a < 3 GROUP BY a").to_pylist()
    assert {a: maintained[a] for a in range(3)} == pytest.approx({r["a"]: r["k"] for r in asked})
    assert (maintained[7], maintained[8]) == (None, None)


@pytest.mark.parametrize(
    "written",
    ["Even(Sum[a](R(a, b)))", "Sum[c](S(a, c) * Even(Sum[a](R(a, b) * {b > 1})) * c)"],
)
def test_a_node(page: dict[str, Any], written: str) -> None:
    """It prints, parses, and views over it are kept current batch by batch."""
    parsed = text.parse(written)
    assert text.to_text(parsed) == written
    body = simplify(parsed)
    keys = tuple(sorted(scope.outputs(body)))
    query = Query("q", ViewKind.GROUP, keys, (("count", body),), ())
    rows = {name: [(a, b) for a in range(3) for b in range(4)] * 2 for name in "RS"}
    for size in (1, 5):
        assert_maintains(catalog_of("R(a, b) S(a, c)"), [query], rows, size, seed=size)


def test_a_source(page: dict[str, Any]) -> None:
    run("counting.sql", "--engine", "local", "--once")
    assert parquet.read_table("total.parquet").to_pylist() == [{"n": 1000, "sum": 499_500}]


def test_a_source_goes_on_after_a_restart(page: dict[str, Any]) -> None:
    """The run is cut short after three batches; the next one counts nothing twice."""
    counter = page["Counter"]
    changes, calls = counter.changes, []

    def three(self: Any, read: Any) -> Any:
        calls.append(self.next)
        if len(calls) > 3:
            raise RuntimeError("the power is cut")
        return changes(self, read)

    counter.changes = three
    with pytest.raises(RuntimeError):
        run("counting.sql", "--engine", "local", "--every", "0")
    assert calls == [0, 100, 200, 300]
    counter.changes = changes
    run("counting.sql", "--engine", "local", "--once")
    assert parquet.read_table("total.parquet").to_pylist() == [{"n": 1000, "sum": 499_500}]


def test_a_sink(page: dict[str, Any]) -> None:
    Path("sales.csv").write_text("shop,price\n1,2.50\n1,1.00\n2,4.00\n")
    run("page.sql", "--engine", "local", "--once")
    heading, _, *rows = Path("totals.md").read_text().splitlines()
    assert heading == "# totals after batch 1"
    assert rows[:2] == ["| shop | total |", "| --- | --- |"]
    assert sorted(rows[2:]) == ["| 1 | 3.50 |", "| 2 | 4.00 |"]


def test_a_misspelled_option_of_either_is_one_message(page: dict[str, Any]) -> None:
    for clause, message in (
        ("FROM counter '9' WITH (step = 2)", "counter has no option step"),
        ("FROM counter", "counter needs a path"),
    ):
        sql = Path("counting.sql").read_text().replace("FROM counter '1000'", clause)
        Path("wrong.sql").write_text(sql)
        result = CliRunner().invoke(app, ["run", "wrong.sql", "--engine", "local"])
        assert message in str(result.exception)
