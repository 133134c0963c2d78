"""Tables of string functions: what a function made, and a row brings later, is looked up too."""

from __future__ import annotations

import pytest

import viewlet


@pytest.mark.parametrize("at_once", [False, True])
def test_a_row_brings_what_was_the_last_of_a_chain(at_once: bool) -> None:
    """abcdefgh -> bcd -> cd: of cd nothing was looked up until a row had it."""
    rows = [("abcdefgh",), ("cd",), ("d",), ("",), (None,)]
    with viewlet.connect("local") as db:
        db.execute("CREATE TABLE t (s VARCHAR)")
        db.execute("CREATE VIEW v AS SELECT s, SUBSTRING(s, 2, 3) AS part FROM t")
        db.insert("t", rows[:1])
        if at_once:
            db.insert("t", rows[1:])
        else:
            for row in rows[1:]:
                db.insert("t", row)
        shown = {row.s: row.part for row in db.view("v").rows()}
    assert shown == {"abcdefgh": "bcd", "cd": "d", "d": "", "": "", None: None}


def test_a_row_brings_what_two_functions_made() -> None:
    with viewlet.connect("local") as db:
        db.execute("CREATE TABLE t (s VARCHAR)")
        db.execute("CREATE VIEW v AS SELECT SUBSTRING(s, 2, 3) AS x, LEFT(s, 2) AS y FROM t")
        for row in ("doh!", ""):
            db.insert("t", (row,))
        assert sorted(map(tuple, db.view("v").rows())) == [("", ""), ("oh!", "do")]
