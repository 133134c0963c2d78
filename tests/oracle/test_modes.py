"""Views in every maintenance mode, and in changing ones, equal DuckDB's answers when they are read.

tests/conformance runs the same on the local engine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from tests.oracle.engines import ENGINES
from tests.oracle.generate import Generator
from tests.oracle.harness import REGRESSIONS, Case, new_database
from tests.oracle.modes import MODES, run_in_mode, run_switching
from tests.oracle.test_named import QUERIES, replay, views_of

from viewlet.errors import UnsupportedError


def check(seed: int, run: Callable[[Case], None]) -> None:
    try:
        run(Generator(Random(seed), Random(seed)).case((1, 7, 1)[seed % 3]))
    except (duckdb.Error, UnsupportedError) as error:
        pytest.skip(f"outside of what both can do: {error}")


def few_and_many(few: int, many: int) -> list[Any]:
    """Seeds, of which all but the first few are for the slow suite."""
    return [s if s < few else pytest.param(s, marks=pytest.mark.slow) for s in range(many)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", few_and_many(1, 12))
def test_random_queries(seed: int, mode: str, engine: str) -> None:
    check(seed, lambda case: run_in_mode(case, engine, mode))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", few_and_many(4, 300))
def test_switches(seed: int, engine: str, tmp_path: Path) -> None:
    check(100 + seed, lambda case: run_switching(case, engine, 100 + seed, tmp_path))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["split", "deferred"])
@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.json")), ids=lambda path: path.stem)
def test_regressions(path: Path, mode: str, engine: str) -> None:
    run_in_mode(Case.load(path), engine, mode)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["split", "deferred"])
@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_named_queries(workload: str, query: str, mode: str, engine: str) -> None:
    view = views_of(workload, query)[-1].name
    alter = f"ALTER MATERIALIZED VIEW {view} SET (maintenance = '{mode}')"
    with new_database(engine) as database:
        replay(workload, query, 7, database, begin=lambda made: made.execute(alter))
