"""Messages of calls that went to the wrong place say what was called, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from viewlet.errors import ParseError, StateError


@pytest.mark.parametrize("text", ["MERGE INTO t USING s", "MERGE INTO t USING s ON t.a = s.a"])
def test_a_merge_without_clauses(text: str) -> None:
    with viewlet.connect("interpreter") as db:
        db.execute("CREATE TABLE t (a INT); CREATE TABLE s (a INT)")
        with pytest.raises(ParseError, match="MERGE needs USING, ON, WHEN and THEN") as caught:
            db.execute(text)
    assert caught.value.position is not None
    assert "WHEN MATCHED THEN" in str(caught.value)


@pytest.mark.parametrize("text", ["PRAGMA table_info('t')", "VACUUM", "ANALYZE"])
def test_what_is_no_query(text: str) -> None:
    with viewlet.connect("interpreter") as db:
        word = text.split()[0]
        with pytest.raises(ParseError, match=f"{word} is not a query") as caught:
            db.query(text)
    assert "json" not in str(caught.value)
    assert caught.value.position is not None


def test_a_database_that_is_open_in_the_same_process(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with (
        viewlet.connect("interpreter", path=path),
        pytest.raises(StateError, match="this process has the database"),
    ):
        viewlet.connect("interpreter", path=path)
    with viewlet.connect("interpreter", path=path) as again:
        again.execute("CREATE TABLE t (a INT)")
    with viewlet.connect("interpreter", path=path) as again:
        assert again.query("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 0}]
