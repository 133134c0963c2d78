"""Lookups go before nested sums: they decide whether a row weighs anything at all."""

from __future__ import annotations

from typing import Any, cast

from viewlet.calculus.expr import PRESENCE, Expr, MapRef, Value, factors_of, product_of, sum_over
from viewlet.kernels.patterns import with_lookups_first
from viewlet.program.keys import Keys


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
