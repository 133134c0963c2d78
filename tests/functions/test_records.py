"""A record that lacks a part, or whose parts do not fit, is an error when it is defined."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from viewlet.functions import FUNCTIONS, NATIVES, THEMES, ScalarFunction
from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import IncompleteRecord, define
from viewlet.functions.sql_forms import DOUBLE, SqlCall
from viewlet.schema import DOUBLE as DOUBLE_TYPE

ROOT = Path(__file__).parent.parent.parent
CBRT = FUNCTIONS["cbrt"]


@pytest.mark.parametrize(
    "part", ["meaning", "result", "nulls", "sql", "kernel", "vector", "monotone", "hint"]
)
def test_no_part_may_be_missing(part: str) -> None:
    given = {field.name: getattr(CBRT, field.name) for field in fields(CBRT) if field.init}
    del given[part]
    with pytest.raises(TypeError, match=part):
        ScalarFunction(**given)


def native(value: float) -> float:
    return value


native.__name__ = "absolute"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (CBRT, "cbrt is defined twice"),
        (replace(CBRT, name="x"), "x and cbrt are both CBRT"),
        (replace(CBRT, name="x", sql=SqlCall((), (DOUBLE,), DOUBLE_TYPE)), "no name in SQL"),
        (
            replace(CBRT, name="x", sql=SqlCall(("X",), (DOUBLE, DOUBLE), DOUBLE_TYPE)),
            "x does not take 2 arguments",
        ),
        (replace(CBRT, name="x", kernel=expression("cube({0})")), "its kernel calls cube"),
        (
            replace(CBRT, name="x", kernel=expression("absolute({0})", natives=(native,))),
            "two native absolute",
        ),
    ],
)
def test_parts_that_do_not_fit(record: ScalarFunction, message: str) -> None:
    before = dict(FUNCTIONS), dict(NATIVES)
    with pytest.raises(IncompleteRecord, match=message):
        define(record)
    assert before == (FUNCTIONS, NATIVES)


def test_every_theme_is_imported() -> None:
    """A file with records that nobody imports would define nothing."""
    folder = ROOT / "src" / "viewlet" / "functions"
    defining = {p.stem for p in folder.glob("*.py") if "\ndefine(" in p.read_text("utf-8")}
    assert defining <= {theme.__name__.rpartition(".")[2] for theme in THEMES}


def test_functions_load_no_heavy_library() -> None:
    heavy = ("numpy", "pyarrow", "llvmlite", "numba", "sqlglot", "duckdb")
    code = f"import sys, viewlet.functions; print([m for m in {heavy!r} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src"
    )
    assert run.stdout.strip() == "[]"
