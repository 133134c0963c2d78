"""What the builder of loops recognizes: lookups that go first, and changes of nested values."""

from __future__ import annotations

from typing import Any, cast

from tests.kernels.programs import CHANGES, TURNS

from viewlet.calculus.expr import PRESENCE, Expr, MapRef, Value, factors_of, product_of, sum_over
from viewlet.kernels.jit import source
from viewlet.kernels.recognize import as_change, with_lookups_first
from viewlet.program.keys import Keys
from viewlet.program.text import parse_program


class _NothingKnown:
    def filters(self, factor: Expr) -> int:
        return 0

    def is_single(self, factor: Expr, bound: Any) -> bool:
        return False


KEYS = cast(Keys, _NothingKnown())
BATCH = MapRef("d", PRESENCE, ("k",))
NESTED = sum_over(("k",), MapRef("m", "count", ("k", "q")))
PART = MapRef("p", PRESENCE, ("k",))


def ordered(*factors: Expr, update: Expr = Value(1)) -> list[Expr]:  # noqa: B008
    return list(factors_of(with_lookups_first(product_of(*factors), [update], KEYS)))


def test_a_lookup_behind_a_nested_sum_comes_before_it() -> None:
    assert ordered(BATCH, NESTED, PART) == [BATCH, PART, NESTED]


def test_a_lookup_of_the_update_comes_before_nested_sums() -> None:
    assert ordered(BATCH, NESTED, update=MapRef("p", "count", ("k",))) == [BATCH, PART, NESTED]


def test_a_loop_over_keys_that_are_not_known_stays_where_it_is() -> None:
    other = MapRef("p", PRESENCE, ("k", "x"))
    assert ordered(BATCH, NESTED, other) == [BATCH, NESTED, other]


def test_new_and_old_values_share_a_loop() -> None:
    program = parse_program(CHANGES)
    (trigger,) = program.triggers
    pairs = zip(trigger.statements, trigger.statements[1:], strict=False)
    joined = [both for both in (as_change(new, old) for new, old in pairs) if both is not None]
    assert [statement.target for statement in joined] == ["low", "same", "by", "heavy"]
    assert source(program).count(" in range(2):") == 2 * len(joined)


def test_what_begins_and_ceases_to_exist_shares_a_loop() -> None:
    program = parse_program(TURNS)
    trigger = program.triggers[0]
    pairs = zip(trigger.statements, trigger.statements[1:], strict=False)
    joined = [both for both in (as_change(new, old) for new, old in pairs) if both is not None]
    assert [statement.target for statement in joined] == ["q", "f", "g", "h"]
    assert source(program).count(" else 0) - (1 if ") == 2 * len(joined)


def test_an_exists_that_binds_something_stays_two_statements() -> None:
    text = TURNS.replace("d[a].* * Exists(m[a].weight", "Exists(m[a].weight")
    trigger = parse_program(text).triggers[0]
    pairs = zip(trigger.statements, trigger.statements[1:], strict=False)
    joined = [both for both in (as_change(new, old) for new, old in pairs) if both is not None]
    assert [statement.target for statement in joined] == ["q", "g", "h"]


def test_statements_that_differ_in_more_than_a_value_stay_apart() -> None:
    (trigger,) = parse_program(NESTED_VALUES).triggers
    new, old = trigger.statements[:2]
    assert as_change(new, old) is None


NESTED_VALUES = """
relation r(a: INTEGER not null, b: INTEGER not null)
map q[](value: int)
map m[a: int](count: int, total: int)
on r:
  q[] += Δr(a, b) * (n := m[a].total) * {n > 2} | value: n
  q[] += Δr(a, b) * (n := m[a].count) * {n > 3} | value: -1 * n
"""
