"""The files beside this one as views: no wrong answer, no internal error."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from tests.slt.records import read_records
from tests.slt.runner import EQUAL, INTERNAL, REFUSED, WRONG, run_files, same_rows
from viewlet.errors import ViewletError

FILES = sorted((Path(__file__).parent / "files").glob("*.slt"))


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "some.slt"
    path.write_text(
        "# about\n\nhash-threshold 8\n\nonlyif sqlite\nstatement ok\nCREATE TABLE t (a INT)\n\n"
        "skipif viewlet\nquery I rowsort label-1\nSELECT a\nFROM t;\n----\n1\n2\n\n"
        "statement error no such\nSELECT\n\nhalt\n\nquery I\nSELECT 1\n----\n1\n"
    )
    records = read_records(path)
    assert [record.kind for record in records] == [
        "hash-threshold",
        "statement",
        "query",
        "statement",
    ]
    assert not records[1].applies_to("viewlet")
    assert records[1].applies_to("sqlite")
    assert not records[2].applies_to("viewlet")
    assert records[2].sql == "SELECT a\nFROM t"
    assert records[2].expected == ("1", "2")
    assert records[3].must_fail


def test_rows_are_compared_as_multisets() -> None:
    assert same_rows([(1, None), (2.0, "a")], [(2, "a"), (1, None)])
    assert not same_rows([(1,)], [(1,), (1,)])
    assert not same_rows([(float("nan"),)], [(1.0,)])


REFUSED_FILE = "refused"
LONG = ("select", "cockroach", "duckdb_test", "postgres_regress", "sqlite_evidence")
"""Files, by how their names begin, whose views take minutes to compile."""
RUNS = [
    pytest.param(
        path,
        engine,
        id=f"{path.stem}-{engine}",
        marks=[pytest.mark.slow] if engine == "local" and path.stem.startswith(LONG) else [],
    )
    for path in FILES
    for engine in ("interpreter", "local")
]


@pytest.mark.parametrize(("path", "engine"), RUNS)
def test_files(path: Path, engine: str) -> None:
    report = run_files([path], engine)
    assert report.count(WRONG) + report.count(INTERNAL) == 0, report.text()
    assert report.count(REFUSED if path.stem == REFUSED_FILE else EQUAL) >= 10, report.text()


def test_what_is_refused_has_a_place() -> None:
    (path,) = [path for path in FILES if path.stem == REFUSED_FILE]
    queries = [record.sql for record in read_records(path) if record.kind == "query"]
    with viewlet.connect("interpreter") as db:
        columns = "a INTEGER, b INTEGER, s VARCHAR, p BOOLEAN"
        db.execute(f"CREATE TABLE t1 ({columns}); CREATE TABLE t2 ({columns})")
        for sql in queries:
            with pytest.raises(ViewletError) as caught:
                db.execute(f"CREATE VIEW v AS {sql}")
            assert caught.value.position is not None, sql
