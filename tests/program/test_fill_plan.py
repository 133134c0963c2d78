"""What a new program takes from an old one, from tables, and what it waits for."""

from __future__ import annotations

import pytest

import viewlet
from viewlet.errors import StateError
from viewlet.program.fill_plan import FillPlan, How, check_rebuildable, fill_plan, fill_text
from viewlet.program.ir import Program
from viewlet.program.text import parse_program

TABLES = """
CREATE TABLE r (a INT NOT NULL, b INT NOT NULL);
CREATE TABLE s (b INT NOT NULL, c BIGINT NOT NULL);
CREATE TABLE kind (b INT NOT NULL, name VARCHAR NOT NULL) WITH (static = true);
CREATE STREAM e (b INT NOT NULL);
"""
JOIN = "SELECT r.a, SUM(s.c) AS total FROM r JOIN s ON r.b = s.b GROUP BY r.a"
MET = "SELECT r.a, COUNT(*) AS n FROM r JOIN e ON r.b = e.b GROUP BY r.a"


class Programs:
    """The programs of a database, statement by statement."""

    def __init__(self) -> None:
        self.db = viewlet.connect("interpreter")
        self.db.execute(TABLES)

    def after(self, statement: str) -> str:
        """The plan from the program before a statement to the one after it."""
        before = self.program()
        self.db.execute(statement)
        ended = self.db._state.definitions.ended()
        return fill_text(fill_plan(before, self.program(), ["r", "s", "kind"], ended))

    def program(self) -> Program:
        return self.db._engine.program


def test_a_view_that_comes_and_goes() -> None:
    programs = Programs()
    assert programs.after(f"CREATE VIEW v AS {JOIN}") == (
        "filled  v[r_a]: from rows of r, s; new: count, sum\n"
        "filled  m_s[s_b]: from rows of s; new: count, sum_s_c\n"
        "filled  m_r[r_a, s_b]: from rows of r; new: count\n"
        "load    r, s into m_r, m_s, v\n"
    )
    assert programs.after("CREATE VIEW w AS SELECT b, COUNT(*) AS n FROM r GROUP BY b") == (
        "moved   v[r_a]: from v\n"
        "filled  w[r_b]: from rows of r; new: count\n"
        "moved   m_s[s_b]: from m_s\n"
        "moved   m_r[r_a, s_b]: from m_r\n"
        "load    r into w\n"
    )
    assert programs.after("DROP VIEW v") == "moved   w[r_b]: from w\n"


def test_what_is_new_is_loaded_with_all_that_it_is_maintained_from() -> None:
    """m_r is there already, but triggers over full maps would count rows twice."""
    programs = Programs()
    programs.after("CREATE VIEW pairs AS SELECT a, b, COUNT(*) AS n FROM r GROUP BY a, b")
    assert programs.after(f"CREATE VIEW v AS {JOIN}") == (
        "filled  pairs[r_a, r_b]: from rows of r; what is new is maintained from it\n"
        "filled  v[r_a]: from rows of r, s; new: count, sum\n"
        "filled  m_s[s_b]: from rows of s; new: count, sum_s_c\n"
        "load    r, s into m_s, pairs, v\n"
    )
    assert programs.after("DROP VIEW pairs") == (
        "moved   v[r_a]: from v\nmoved   m_s[s_b]: from m_s\nmoved   m_r[r_a, s_b]: from pairs\n"
    )


def test_streams_are_seen_from_now_on() -> None:
    programs = Programs()
    assert "empty   early[r_a]: no row of e has come" in programs.after(
        f"CREATE VIEW early AS {MET}"
    )
    programs.db.insert("e", [(1,)])
    assert programs.after(f"CREATE VIEW late AS {MET}") == (
        "moved   early[r_a]: from early\n"
        "empty   late[r_a]: no row of e@1 has come\n"
        "moved   m_r[r_a, e_b]: from m_r\n"
        "moved   m_e[e_b]: from m_e\n"
        "empty   m_e@1[e_b]: no row of e@1 has come\n"
    )
    outer = "SELECT r.a, e.b FROM r LEFT JOIN e ON r.b = e.b"
    assert "filled  o[r_a, e_b]: from rows of r; new: count\n" in programs.after(
        f"CREATE VIEW o AS {outer}"
    )
    assert programs.after("DROP VIEW early").startswith("moved   late[r_a]: from late\n")


def test_static_tables_say_what_was_before_the_first_row() -> None:
    programs = Programs()
    named = "SELECT name, COUNT(*) AS n FROM r JOIN kind ON r.b = kind.b GROUP BY name"
    assert programs.after(f"CREATE VIEW named AS {named}") == (
        "filled  named[kind_name]: from rows of kind, r; new: count\n"
        "filled  m_kind[kind_b, kind_name]: from rows of kind; new: count\n"
        "load    r into m_kind, named\n"
    )


SUMS = """
relation e(a: BIGINT not null, b: BIGINT not null, x: BIGINT not null) stream
relation r(b: BIGINT not null, c: BIGINT not null)

map {name}[{keys}](x: int)
  x := {definition}

on e:
  {name}[{names}] += Δe(a, b, x) | x: x
"""


def program(name: str, keys: tuple[str, ...], definition: str) -> Program:
    typed = ", ".join(f"{key}: int" for key in keys)
    return parse_program(
        SUMS.format(name=name, keys=typed, definition=definition, names=", ".join(keys))
    )


def plan(old: Program, new: Program) -> FillPlan:
    return fill_plan(old, new, ["r"], {"e": "e"})


def test_of_passed_rows_what_old_maps_say_is_derived() -> None:
    both = program("both", ("a", "b"), "Sum[a, b](e(a, b, x) * x)")
    turned = program("turned", ("b", "a"), "Sum[a, b](e(a, b, x) * x)")
    assert fill_text(plan(both, turned)) == "moved   turned[b, a]: from both\n"
    joined = program("joined", ("a", "c"), "Sum[a, c](Sum[a, b](e(a, b, x) * x) * r(b, c))")
    (fill,) = plan(both, joined).maps
    assert (fill.how, fill.reason) == (How.DERIVED, "x from both.x and r")
    with pytest.raises(StateError, match="rows of stream e have passed"):
        plan(joined, both)
    with pytest.raises(StateError, match="only they have what came of the streams e"):
        check_rebuildable(both, {"e": "e"}, "somewhere")


def test_a_table_that_lost_its_rows_takes_its_maps_along() -> None:
    counted = parse_program(
        "relation r(b: BIGINT not null)\n\nmap m[b: int](n: int)\n  n := r(b)\n\n"
        "on r:\n  m[b] += Δr(b) | n: 1\n"
    )
    assert fill_text(fill_plan(counted, counted, ["r"], {})) == "moved   m[b]: from m\n"
    assert fill_text(fill_plan(counted, counted, [], {})) == "empty   m[b]: r had no rows\n"
