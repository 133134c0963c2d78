"""Expressions whose hidden variables have names of their own."""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.calculus.expr import Expr, children, mapped, own_variables
from viewlet.calculus.rewrite import Names, rename
from viewlet.calculus.scope import all_names, visible


def apart(expr: Expr, keys: Iterable[str] = ()) -> Expr:
    """Each variable that an expression hides has a name of its own, whoever else has the same.

    Sum[a](r(a, b)) * Sum[a](s(a, b))  ->  Sum[a](r(a, b_1)) * Sum[a](s(a, b_2))
    """
    names = Names(all_names(expr).union(keys))

    def go(part: Expr) -> Expr:
        if not children(part):
            return part
        part = mapped(part, part=go)
        tied = frozenset(own_variables(part)).union(*(visible(p) for p in children(part)))
        return rename(part, {name: names.fresh(name) for name in sorted(tied - visible(part))})

    return go(expr)
