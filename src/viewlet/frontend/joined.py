"""The rows of joined FROM items, and how many products they may be multiplied out to.

An outer join is a sum: matched rows, and those of either side without a match. A join of such sums
has a product for every pair of their terms, so that k joins in a chain would have 2^k. Where there
would be too many, a side becomes a view of its own, of which the join reads the rows:

    (A + B + C) JOIN S ON p        J * S * {p}        J[x, y] := A + B + C
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.calculus.expr import Atom, Cond, Expr, MapRef, mapped, own_scalars, transform, walk
from viewlet.calculus.query import COUNT, InnerView
from viewlet.calculus.scope import inputs
from viewlet.errors import ResolutionError
from viewlet.frontend.context import Lowering
from viewlet.frontend.products import UNIT, Branch, keyed, summed
from viewlet.frontend.scope import Source
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import Typed
from viewlet.functions import Apply, Ref, ScalarExpr, apply, fold, free_variables
from viewlet.schema import BOOLEAN

MOST_INNER_PRODUCTS = 32

MOST_OUTER_PRODUCTS = 8
"""Two outer joins of plain tables: each product holds a nested count and has many deltas."""

MOST_PRODUCTS_IN_CHAINS = 4
"""Where more joins follow that would double them again."""

MOST_PRODUCTS = 1024
"""Of a join with sides that cannot be views, as they use columns from outside."""


@dataclass(frozen=True)
class Joined:
    """A FROM item, or items joined to one: its rows and the names it is known by.

    `columns` is what a name without a table and * mean, in PostgreSQL's order: those that USING
    merged, then the rest of the left side, then the rest of the right side.
    """

    branches: tuple[Branch, ...]
    sources: tuple[Source, ...]
    columns: tuple[tuple[str, Typed], ...]

    def named(self, name: str) -> list[Typed]:
        """The columns of this name."""
        return [typed for column, typed in self.columns if column == name]


NOTHING = Joined(UNIT, (), ())
"""No FROM: one row without columns."""


def product_count(left: Joined, right: Joined, side: str) -> int:
    """How many products a join is: all pairs, and each term of a side whose rows need no match."""
    count = len(left.branches) * len(right.branches)
    if side in ("LEFT", "FULL"):
        count += len(left.branches)
    if side in ("RIGHT", "FULL"):
        count += len(right.branches)
    return count


def most_products(sides: Iterable[str]) -> int:
    """How many products each outer join of a chain may be, from the sides of all its joins."""
    outer = [side for side in sides if side]
    return MOST_OUTER_PRODUCTS if len(outer) < 3 else MOST_PRODUCTS_IN_CHAINS


def is_crowded(left: Joined, right: Joined, side: str, most: int) -> bool:
    """Whether a join multiplies its sides' terms, and to too many products.

    An inner join with a single term multiplies nothing, and an outer join doubles the terms of the
    side that keeps its rows.
    """
    many_left, many_right = len(left.branches) > 1, len(right.branches) > 1
    multiplies = (
        (many_left and many_right)
        or (many_left and side in ("LEFT", "FULL"))
        or (many_right and side in ("RIGHT", "FULL"))
    )
    return multiplies and product_count(left, right, side) > (most if side else MOST_INNER_PRODUCTS)


@dataclass(frozen=True)
class Renaming:
    """Scalars over the insides of a side that became a view, and the view's columns for them."""

    scalars: Mapping[ScalarExpr, ScalarExpr]

    def scalar(self, scalar: ScalarExpr) -> ScalarExpr:
        """The same value over the view's columns."""
        if scalar in self.scalars:
            return self.scalars[scalar]
        return fold(
            scalar,
            lambda leaf: self.scalars.get(leaf, leaf),
            lambda call, parts: apply(call.function, *parts),
            lambda call: self.scalars.get(call),
        )

    def columns(self, columns: Iterable[tuple[str, Typed]]) -> tuple[tuple[str, Typed], ...]:
        """The same columns over the view's."""
        return tuple((name, Typed(self.scalar(t.scalar), t.type)) for name, t in columns)

    def expr(self, expr: Expr) -> Expr:
        """The same expression over the view's columns."""
        return transform(
            expr, lambda node: mapped(node, scalar=self.scalar) if own_scalars(node) else node
        )

    def joined(self, side: Joined) -> Joined:
        """The same names for the view's columns."""
        sources = tuple(replace(s, columns=self.columns(s.columns)) for s in side.sources)
        return Joined(side.branches, sources, self.columns(side.columns))


def as_inner_view(
    lowering: Lowering, side: Joined, needed: Sequence[tuple[str, Typed]], factors: Sequence[Expr]
) -> tuple[Joined, Renaming] | None:
    """A side as one branch that reads a view of its rows; None where it cannot be a view.

    Its keys are the needed columns, and what the join's factors compare by equality:
    COALESCE(a.k, b.k) = c.k can then be looked up.
    """
    columns = list(needed)
    # Of what is compared only the value counts; its type is that of no column.
    columns += [("compared", Typed(scalar, BOOLEAN)) for scalar in _compared(factors, side)]
    branches, bound, keys = keyed(lowering.variables, side.branches, columns)
    body = summed(lowering.variables, keys, branches)
    if inputs(body) or not any(isinstance(node, Atom) for node in walk(body)):
        return None
    view = InnerView(f"joined_{len(lowering.inner) + 1}", keys, body)
    lowering.inner.append(view)
    scalars = {
        before.scalar: after.scalar for (_, before), after in zip(columns, bound, strict=True)
    }
    renaming = Renaming({old: new for old, new in scalars.items() if old != new})
    rows = (Branch((MapRef(view.name, COUNT, keys),)),)
    return renaming.joined(replace(side, branches=rows)), renaming


def is_searched(side: Joined, factors: Sequence[Expr]) -> bool:
    """Whether an outer join looks rows of a side up by a value computed from several branches.

    Such rows are found by the key of a view only: else all would be looked at for every change.
    """
    columns = (*(c for s in side.sources for c in s.columns), *side.columns)
    return all(isinstance(t.scalar, Ref) for _, t in columns) and bool(_compared(factors, side))


def _compared(factors: Sequence[Expr], side: Joined) -> list[ScalarExpr]:
    """The computed sides of equalities that are over this side's variables alone."""
    own = frozenset[str]().union(*(b.own | b.bindings.keys() for b in side.branches))
    tests = [f.scalar for f in factors if isinstance(f, Cond)]
    equalities = [t for t in tests if isinstance(t, Apply) and t.function in ("=", "==")]
    return [
        scalar
        for equality in equalities
        for scalar in equality.arguments
        if isinstance(scalar, Apply) and free_variables(scalar) <= own
    ]


def side_of(join: exp.Join) -> str:
    """LEFT, RIGHT, FULL or nothing"""
    return (join.side or "").upper()


def both_sides(left: Joined, right: Joined, node: exp.Expr) -> Joined:
    """The names of both sides, and no rows yet."""
    aliases = {source.alias for source in left.sources}
    for source in right.sources:
        if source.alias in aliases:
            raise fault(
                ResolutionError,
                f"{source.alias} is in FROM more than once",
                node,
                f"give one of them another name, as in {source.alias} AS {source.alias}2",
            )
    return Joined((), (*left.sources, *right.sources), (*left.columns, *right.columns))
