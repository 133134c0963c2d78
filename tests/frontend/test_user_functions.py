"""Functions of users: what they give, NULL, errors, and what cannot be one."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import DataError, RangeError, ResolutionError


def vowels(text: str) -> int:
    return sum(text.count(letter) for letter in "aeiou")


def day_after(day: date, days: int) -> date:
    return day + timedelta(days=days)


def half(x: float) -> float:
    if x > 100:
        raise ValueError("too much")
    return x / 2


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_views_call_them(engine: Any) -> None:
    db = viewlet.connect(engine)
    db.function("vowels", vowels)
    db.function("Day_After", lambda day, days: day_after(day, days), ["DATE", "BIGINT"], "DATE")
    db.function("half", half)
    db.execute("CREATE TABLE r (s VARCHAR, d DATE, x DOUBLE)")
    db.execute(
        "CREATE VIEW v AS SELECT vowels(s) AS n, SUM(half(x)) AS t FROM r WHERE half(x) < 40"
        " GROUP BY vowels(s);"
        "CREATE VIEW w AS SELECT day_after(d, vowels(s)) AS d FROM r"
    )
    db.insert("r", [("aab", date(2026, 1, 31), 3.0), (None, None, 5.0), ("eel", None, 90.0)])
    db.insert("r", [("ooh", date(2026, 1, 1), 7.0)])
    assert {(row.n, row.t) for row in db.view("v").rows()} == {(2, 5.0), (None, 2.5)}
    with pytest.raises(RangeError, match=r"half\(101.0\) failed: too much"):
        db.insert("r", [("uh", None, 101.0)])
    db.delete("r", ("ooh", date(2026, 1, 1), 7.0))
    assert {(row.n, row.t) for row in db.view("v").rows()} == {(2, 1.5), (None, 2.5)}
    assert [row.d for row in db.view("w").rows() if row.d] == [date(2026, 2, 2)]


def test_a_database_on_disk_finds_them_again(tmp_path: Path) -> None:
    viewlet.Database.function("vowels", vowels)
    path = str(tmp_path / "d.viewlet")
    for count in (1, 2):
        with viewlet.connect(path) as db:
            db.execute("CREATE TABLE IF NOT EXISTS r (s VARCHAR)")
            db.execute("CREATE VIEW IF NOT EXISTS v AS SELECT SUM(vowels(s)) AS n FROM r")
            db.insert("r", ("aloe",))
            assert db.view("v")[()].n == 3 * count


def test_what_is_refused() -> None:
    db = viewlet.connect()
    with pytest.raises(ResolutionError, match="there is a function upper already"):
        db.function("upper", vowels)
    db.function("vowels", vowels)
    with pytest.raises(ResolutionError, match="there is a function vowels already"):
        db.function("vowels", half)
    with pytest.raises(DataError, match="no type of an argument or the result"):
        db.function("untyped", lambda x: x)
    with pytest.raises(DataError, match="not the name of a function"):
        db.function("a b", vowels)
