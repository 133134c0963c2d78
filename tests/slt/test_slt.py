"""The files beside this one as views: no wrong answer, no internal error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slt.records import read_records
from tests.slt.runner import EQUAL, INTERNAL, WRONG, run_files, same_rows

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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_files(path: Path, engine: str) -> None:
    report = run_files([path], engine)
    assert report.count(WRONG) + report.count(INTERNAL) == 0, report.text()
    assert report.count(EQUAL) >= 10, report.text()
