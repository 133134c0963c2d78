"""The local engine gives the oracle's answers: uncompiled for everything, compiled for a sample.

A query's kernels take one to ten seconds to compile, and the oracle makes hundreds of queries. So
its tests run with the kernels as plain Python in a process of their own, and compiled code is held
against DuckDB for a few random queries here and for all named ones in the slow tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.oracle.generate import Generator
from tests.oracle.harness import REGRESSIONS, Case, new_database, run_case
from tests.oracle.modes import run_switching
from tests.oracle.test_named import QUERIES, replay

import viewlet
from viewlet.errors import UnsupportedError

ROOT = Path(__file__).parent.parent.parent


def run_unjitted(*arguments: str) -> None:
    """The oracle's tests with VIEWLET_NATIVE=0; they are about the local engine then."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, "VIEWLET_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "passed" in done.stdout


def test_regressions_uncompiled() -> None:
    run_unjitted("tests/oracle/test_regressions.py")


def test_finance_and_tpch_uncompiled() -> None:
    run_unjitted("tests/oracle/test_named.py", "-m", "not slow", "-k", "finance or tpch")


def test_maintenance_modes_uncompiled() -> None:
    run_unjitted("tests/oracle/test_modes.py", "-m", "not slow", "-k", "switches")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_maintenance_modes_compiled(seed: int, tmp_path: Path) -> None:
    case = Generator(Random(seed), Random(seed)).case(7)
    try:
        run_switching(case, "local", seed, tmp_path)
    except (duckdb.Error, UnsupportedError) as error:
        pytest.skip(f"outside of what both can do: {error}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("tests/oracle/test_named.py", "-k", "tpcds and test_batches"),
        ("tests/oracle/test_named.py", "-k", "(finance or tpch) and not test_batches"),
        ("tests/oracle/test_random.py",),
        ("tests/oracle/test_modes.py", "-k", "not tpcds"),
    ],
    ids=["tpcds", "single rows and large batches", "random", "maintenance modes"],
)
def test_all_uncompiled(arguments: Sequence[str]) -> None:
    run_unjitted(*arguments)


def check_seed(seed: int, size: int) -> None:
    case = Generator(Random(seed), Random(seed)).case(size)
    try:
        run_case(case, "local")
    except (duckdb.Error, UnsupportedError) as error:
        pytest.skip(f"outside of what both can do: {error}")


@pytest.mark.parametrize("seed", [1, 2])
def test_random_queries_compiled(seed: int) -> None:
    check_seed(seed, 7)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("seed", range(3, 15))
def test_more_random_queries_compiled(seed: int, size: int) -> None:
    check_seed(seed, size)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.json")), ids=lambda path: path.stem)
def test_regressions_compiled(path: Path) -> None:
    run_case(Case.load(path), "local")


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_named_queries_compiled(workload: str, query: str, size: int) -> None:
    with new_database("local") as database:
        replay(workload, query, size, database)


LARGE = """
CREATE TABLE o (k INT PRIMARY KEY, d DATE, s VARCHAR);
CREATE TABLE l (k INT, p DECIMAL(12,2), q INT, x DOUBLE);
CREATE VIEW joined AS
  SELECT o.s, COUNT(*) AS n, SUM(l.p) AS p, AVG(l.x) AS x FROM o JOIN l ON o.k = l.k GROUP BY o.s;
CREATE VIEW plain AS SELECT q, SUM(p) AS p, COUNT(x) AS n FROM l WHERE q > 2 GROUP BY q;
"""


@pytest.mark.parametrize("size", [100_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_large_batches(size: int) -> None:
    """Half of what came goes again, in one batch each; DECIMAL to the digit."""
    numbers = np.random.default_rng(size)
    orders = pa.table(
        {
            "k": np.arange(size, dtype=np.int32),
            "d": pa.array(numbers.integers(9000, 9400, size).astype(np.int32), pa.date32()),
            "s": [f"segment {i % 11}" if i % 17 else None for i in range(size)],
        }
    )
    cents = numbers.integers(-(10**9), 10**9, size)
    lines = pa.table(
        {
            "k": numbers.integers(0, 2 * size, size).astype(np.int32),
            "p": _cents(cents),
            "q": numbers.integers(0, 9, size).astype(np.int32),
            "x": pa.array(numbers.normal(size=size), mask=numbers.random(size) < 0.1),
        }
    )
    with viewlet.connect("local") as db, duckdb.connect() as duck:
        db.execute(LARGE)
        db.insert("o", orders)
        db.insert("l", lines)
        half = lines.slice(0, size // 2)
        db.delete("l", half)
        db.apply(
            [
                viewlet.Change("o", orders.slice(5, 100), -1),
                viewlet.Change("l", half, 1),
                viewlet.Change("l", half, -1),
            ]
        )
        duck.register("l", lines.slice(size // 2))
        duck.register("o", pa.concat_tables([orders.slice(0, 5), orders.slice(105)]))
        for name, select in (
            (
                "joined",
                "SELECT o.s, COUNT(*), SUM(l.p), AVG(l.x) FROM o JOIN l ON o.k = l.k "
                "GROUP BY o.s ORDER BY o.s",
            ),
            ("plain", "SELECT q, SUM(p), COUNT(x) FROM l WHERE q > 2 GROUP BY q ORDER BY q"),
        ):
            ours = sorted(db.view(name).rows(), key=lambda row: (row[0] is None, row[0]))
            theirs = duck.sql(select).fetchall()
            assert len(ours) == len(theirs)
            for left, right in zip(ours, theirs, strict=True):
                assert tuple(left)[:3] == right[:3]
                assert tuple(left)[3:] == pytest.approx(right[3:], rel=1e-9)
        assert db.query("SELECT COUNT(*) AS n FROM l")["n"][0].as_py() == size - size // 2


def _cents(values: np.ndarray) -> pa.Array:
    """Integers as DECIMAL(12,2) of so many hundredths."""
    words = np.stack([values, values >> 63], axis=1)
    return pa.Array.from_buffers(
        pa.decimal128(12, 2), len(values), [None, pa.py_buffer(np.ascontiguousarray(words))]
    )
