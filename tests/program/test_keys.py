"""What declared keys say about maps."""

from __future__ import annotations

from viewlet.calculus.text import parse
from viewlet.program.keys import Keys
from viewlet.program.text import parse_program

PROGRAM = """
relation l(o: INTEGER not null, s: INTEGER not null)
relation o(o: INTEGER not null, c: INTEGER not null, d: INTEGER not null) key (o)
relation c(c: INTEGER not null, n: INTEGER not null) key (c)
map ml[o: int, s: int](count: int)
  count := Sum[o, s](l(o, s))
map moc[n: int, o: int, y: int](count: int)
  count := Sum[n, o, y](o(o, c, d) * {d < 4} * c(c, n) * (y := [d + 1]))
map mo[o: int, c: int](count: int)
  count := Sum[o, c](o(o, c, d))
on l:
  ml[o, s] += Δl(o, s) | count: 1
"""

KEYS = Keys(parse_program(PROGRAM))


def test_a_key_determines_what_follows_from_it() -> None:
    assert KEYS.determinant("moc") == {"o"}
    assert KEYS.determine("moc", frozenset("o"))
    assert not KEYS.determine("moc", frozenset("n"))
    assert KEYS.determinant("ml") == {"o", "s"}


def test_single_goes_by_the_names_of_the_reference() -> None:
    assert KEYS.is_single(parse("moc[x, k, z].count"), frozenset("k"))
    assert not KEYS.is_single(parse("moc[x, k, z].count"), frozenset("x"))


def test_conditions_are_counted() -> None:
    assert KEYS.filters(parse("moc[n, o, y].count")) == 1
    assert KEYS.filters(parse("ml[o, s].count")) == 0


def test_distance_prefers_own_keys_to_references_to_other_columns() -> None:
    """By part of its own key, by the key of what the loop has met, by anything else."""
    met = [parse("Δc(c, n)")]
    assert KEYS.distance(parse("mo[o, c].count"), frozenset("o"), met) == 0
    assert KEYS.distance(parse("mo[o, c].count"), frozenset("cn"), met) == 1
    assert KEYS.distance(parse("ml[o, n].count"), frozenset("n"), met) == 2
