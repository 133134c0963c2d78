"""LATERAL: a query in FROM over the rows of the items before it.

    R, LATERAL q                    R * q, where q has R's variables free
    R LEFT JOIN LATERAL q ON p      that with {p}, and  R * (n := Sum[](q' * {p'})) * {n = 0}

What ties q to R by = comes after q's windows and limits, which are by partition (blocks.py): the
first rows are kept for every partition at once, and R's rows look them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from viewlet.calculus.expr import Expr
from viewlet.errors import ParseError, UnsupportedError
from viewlet.frontend.context import Lowering
from viewlet.frontend.joined import Joined, both_sides, side_of
from viewlet.frontend.products import Branch, Table, Variables, extended
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import Typed
from viewlet.functions import ScalarExpr


class Items(Protocol):
    """What a FROM does with its items."""

    lowering: Lowering
    variables: Variables

    def scope_of(self, joined: Joined) -> Scope: ...

    def named_item(self, node: exp.Expr, table: Table) -> Joined: ...

    def with_variables(self, joined: Joined) -> Joined: ...

    def condition(
        self, node: exp.Join, left: Joined, right: Joined, names: Joined, side: str
    ) -> tuple[list[Expr], tuple[tuple[str, Typed], ...]]: ...

    def unmatched(
        self, present: Joined, missing: Joined, factors: Sequence[Expr]
    ) -> tuple[Branch, ...]: ...


def lateral(items: Items, left: Joined, node: exp.Join, *, is_comma: bool = False) -> Joined:
    """The rows of the items so far, each with its rows of the query."""
    side = side_of(node)
    if side not in ("", "LEFT"):
        raise fault(
            ParseError,
            f"{side} JOIN LATERAL is not a join",
            node,
            "write JOIN LATERAL or LEFT JOIN LATERAL",
        )
    query = node.this.this
    if not isinstance(query, exp.Subquery):
        raise fault(UnsupportedError, "LATERAL takes a query in parentheses", node.this)
    table = items.lowering.query(items.lowering, query, items.scope_of(left), None)
    right = items.named_item(node.this, table)
    if side:
        right = items.with_variables(right)
    names = both_sides(left, right, node.this)
    factors, columns = (
        ([], names.columns) if is_comma else items.condition(node, left, right, names, side)
    )
    pairs = tuple(
        Branch(pair.factors, {**pair.bindings, **_resolved(one, other)})
        for one in left.branches
        for other in right.branches
        for pair in extended(items.variables, (one,), other.factors)
    )
    matched = extended(items.variables, pairs, factors)
    alone = items.unmatched(left, right, factors) if side else ()
    return Joined((*matched, *alone), names.sources, columns)


def _resolved(left: Branch, right: Branch) -> dict[str, ScalarExpr]:
    """What the query's branch binds, with what the rows before it bind put in."""
    return {name: left.resolve(scalar) for name, scalar in right.bindings.items()}
