"""Functions of strings that kernels ask Python for while they run."""

from __future__ import annotations

from tests.kernels.harness import Pair


def test_a_string_of_two_maps_is_made_in_the_middle_of_a_row() -> None:
    """Updates of a row that are done when a kernel asks for a string are not done again."""
    text = """
relation r(a: INTEGER not null, s: VARCHAR)
relation q(a: INTEGER not null, t: VARCHAR)
map mr[a: int, s: str?](n: int)
map mq[a: int, t: str?](n: int)
map both[x: str?](n: int)
map longest[x: int?](n: int)
on r:
  both[x] += Δr(a, s) * mq[a, t].n * (x := [concat(s, '/', t)]) | n: 1
  longest[x] := mq[a, t].n * mr[a, s].n * (x := [length(concat(s, t))]) *
    {concat(t, s) > 'b'}
    | n: 1
  mr[a, s] += Δr(a, s) | n: 1
on q:
  both[x] += Δq(a, t) * mr[a, s].n * (x := [concat(s, '/', t)]) | n: 1
  mq[a, t] += Δq(a, t) | n: 1
"""
    for single in (False, True):
        Pair(text, single=single).run(seed=3, batches=8, size=20)
