"""The sums that formulas of aggregates ask for, in the block of the group that they are of.

moments.py and pair_aggregates.py say what the formulas are, aggregates.py what a sum is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.frontend.moments import times
from viewlet.frontend.products import Branch, summed
from viewlet.frontend.types import Typed
from viewlet.functions import ScalarExpr, apply
from viewlet.schema import DOUBLE

if TYPE_CHECKING:
    from viewlet.frontend.aggregates import Grouped


class GroupMoments:
    """Sums of powers of one value, as sums that its block keeps."""

    def __init__(self, grouped: Grouped, branches: tuple[Branch, ...], value: Typed) -> None:
        self._grouped, self._branches, self._value = grouped, branches, value

    def count(self) -> ScalarExpr:
        """How many."""
        return self._grouped.not_null_count(self._branches, self._value)

    def power_sum(self, exponent: int) -> ScalarExpr:
        """The sum of x ** exponent."""
        power = Typed(times(*(self._value.scalar for _ in range(exponent))), DOUBLE)
        hint = "sum" if exponent == 1 else f"power_{exponent}"
        return self._grouped.sink.add(hint, self._grouped.total_of(self._branches, power))


class GroupPairs:
    """Sums over pairs of values, as sums that their block keeps."""

    def __init__(
        self, grouped: Grouped, branches: tuple[Branch, ...], y: ScalarExpr, x: ScalarExpr
    ) -> None:
        self._grouped, self._branches = grouped, branches
        self._values = {"x": x, "y": y}

    def count(self) -> ScalarExpr:
        """How many."""
        body = summed(self._grouped.variables, self._grouped.keys, self._branches)
        return self._grouped.sink.add("number", body)

    def mean(self, which: str) -> ScalarExpr:
        """Of "x" or "y"."""
        value = Typed(self._values[which], DOUBLE)
        total = self._grouped.sink.add("sum", self._grouped.total_of(self._branches, value))
        return apply("/", total, self.count())

    def spread(self, which: str) -> ScalarExpr:
        """The sum of squares around the mean."""
        return self._grouped.spread(self._branches, self._values[which], self.count())

    def products(self) -> ScalarExpr:
        """The sum of products of what x and y differ from their means."""
        x, y = self._values["x"], self._values["y"]
        parts = [apply(f, v) for v in (x, y) for f in ("x_high", "x_low")]
        parts += [apply(f"product_{part}", x, y) for part in ("high", "middle", "low")]
        total = self._grouped.total_of
        sums = [
            self._grouped.sink.add("products", total(self._branches, Typed(p, DOUBLE)))
            for p in parts
        ]
        return apply("/", apply("co_deviations", self.count(), *sums), self.count())
