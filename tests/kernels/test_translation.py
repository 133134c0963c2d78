"""Every kernel of every query that we have can be compiled: it is translated, and LLVM reads it.

Compiling takes seconds, translating milliseconds: so no query waits for somebody's first INSERT to
say that there is no native code for it. CREATE VIEW does the same before it says yes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from tests.frontend.oracle import SQL, lower_last, read_catalog
from tests.frontend.random_queries import random_query
from tests.frontend.test_features import CATALOG, ORDERED, QUERIES, VIEWS_OVER_VIEWS
from tests.kernels.test_workloads import QUERIES as WORKLOADS
from tests.oracle.generate import Generator
from tests.oracle.harness import REGRESSIONS, Case

import viewlet
from viewlet.calculus.query import Query
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.kernels import jit
from viewlet.native.generated import Generated
from viewlet.native.intrinsics import INTRINSICS
from viewlet.native.machine import parsed
from viewlet.native.switch import is_enabled
from viewlet.planner.viewlets import compile_program
from viewlet.schema import Catalog
from viewlet.storage.arithmetic import plus

pytestmark = pytest.mark.skipif(not is_enabled(), reason="native code is off")


def translate(catalog: Catalog, queries: Iterable[Query], *, single: bool = False) -> None:
    """All kernels of a program, whether they have been translated before or not."""
    module = jit.compile_program(compile_program(catalog, list(queries)))
    generated = Generated(module.source)
    for name in {*module.batch.values(), *(module.single.values() if single else ())}:
        parsed(generated.functions[name]).verify()


@pytest.mark.parametrize("query", [*QUERIES, *ORDERED])
def test_features(query: str) -> None:
    text = f"CREATE MATERIALIZED VIEW v AS {query}"
    translate(CATALOG, [lower_last(text, CATALOG)], single=True)


@pytest.mark.parametrize("text", VIEWS_OVER_VIEWS)
def test_views_over_views(text: str) -> None:
    translate(CATALOG, [lower_last(text, CATALOG)])


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.json")), ids=lambda path: path.stem)
def test_regressions(path: Path) -> None:
    translate_case(Case.load(path))


def workload(name: str) -> Catalog:
    return read_catalog((SQL / name / "schema.sql").read_text())


@pytest.mark.parametrize(("name", "query"), WORKLOADS, ids=lambda value: str(value))
def test_workloads(name: str, query: str) -> None:
    catalog = workload(name)
    text = (SQL / name / f"{query}.sql").read_text()
    translate(catalog, [lower_last(text, catalog)], single=True)


@pytest.mark.parametrize(
    "name",
    ["finance", *(pytest.param(each, marks=pytest.mark.slow) for each in ("tpcds", "tpch"))],
)
def test_workloads_as_one_program(name: str) -> None:
    """Views share maps then, and their statements loops."""
    catalog = workload(name)
    texts = [(SQL / name / f"{query}.sql").read_text() for each, query in WORKLOADS if each == name]
    translate(catalog, [lower_last(text, catalog) for text in texts])


def translate_case(case: Case) -> None:
    catalog = read_catalog(";".join(case.tables))
    translate(catalog, [lower_last(f"CREATE VIEW v AS {case.select}", catalog)])


def check_random(first: int, count: int, depth: int) -> None:
    for seed in range(first, first + count):
        translate(CATALOG, [lower_last(f"CREATE VIEW v AS {random_query(seed, depth)}", CATALOG)])


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_flat_queries(first: int) -> None:
    check_random(first, 25, depth=0)


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_nested_queries(first: int) -> None:
    check_random(first, 10, depth=1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_more_random_nested_queries(first: int) -> None:
    check_random(first, 20, depth=2)


def check_random_cases(first: int, count: int) -> None:
    """Over random schemas as well; what viewlet does not maintain it refuses before."""
    done = 0
    for seed in range(first, first + count):
        case = Generator(Random(seed), Random(seed)).case(1)
        catalog = read_catalog(";".join(case.tables))
        try:
            query = lower_last(f"CREATE VIEW v AS {case.select}", catalog)
        except UnsupportedError:
            continue
        translate(catalog, [query])
        done += 1
    assert done > count * 3 // 4


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_cases(first: int) -> None:
    check_random_cases(first, 20)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1400, 20))
def test_more_random_cases(first: int) -> None:
    check_random_cases(first, 20)


# CREATE VIEW.


def test_what_cannot_be_compiled_is_said_at_create(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing has changed: as if the language had no sums."""
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    view = "CREATE VIEW v AS SELECT a, SUM(b * 7919) AS s FROM r GROUP BY a"
    with viewlet.connect("local") as db:
        db.execute("CREATE TABLE r (a INT, b INT); CREATE VIEW w AS SELECT COUNT(*) AS n FROM r")
        with monkeypatch.context() as without:
            without.delitem(INTRINSICS, plus)
            without.setattr(jit, "_generated", Generated)
            with pytest.raises(UnsupportedError, match=r"(?s)no native code.*hint: connect"):
                db.execute(view)
        with pytest.raises(ResolutionError, match="there is no view v"):
            db.view("v")
        db.insert("r", [(1, 2), (1, 3)])
        assert db.view("w")[()].n == 2
        db.execute(view)
        assert db.view("v")[1].s == 5 * 7919


def test_what_was_translated_is_compiled_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from viewlet.native import translate as translating

    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path))
    translated = []
    body = translating._Body

    def counted(function, *arguments):  # type: ignore[no-untyped-def]
        translated.append(function.__name__)
        return body(function, *arguments)

    monkeypatch.setattr(translating, "_Body", counted)
    with viewlet.connect("local") as db:
        db.execute("CREATE TABLE r (a INT, b INT)")
        db.execute("CREATE VIEW v AS SELECT a, SUM(b * 7907) AS s FROM r GROUP BY a")
        assert translated.count("on_r") == 1
        db.insert("r", [(1, 2)])
        db.execute("CREATE VIEW w AS SELECT a FROM r")
    assert translated.count("on_r") == 2
    translated.clear()
    jit._generated.cache_clear()
    with viewlet.connect("local") as db:
        db.execute("CREATE TABLE r (a INT, b INT)")
        db.execute("CREATE VIEW v AS SELECT a, SUM(b * 7907) AS s FROM r GROUP BY a")
        db.execute("CREATE VIEW w AS SELECT a FROM r")
    assert "on_r" not in translated
