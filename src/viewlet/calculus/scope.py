"""Which variables an expression needs and gives, and whether it is well formed (thesis 2.2.4).

Output variables are the columns of the result; input variables must be bound from outside before
the expression can be evaluated. In a product, a factor's outputs are bound for those to its right.
A lift binds its own variable only: whatever its body shows is the correlation, and an input.
"""

from __future__ import annotations

from functools import lru_cache

from viewlet.calculus.expr import (
    Add,
    Assign,
    Cond,
    Delta,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    walk,
)
from viewlet.errors import ProgramError
from viewlet.functions import free_variables

Names = frozenset[str]
NONE: Names = frozenset()


@lru_cache(maxsize=1 << 16)
def outputs(expr: Expr) -> Names:
    """The variables that the expression binds."""
    if isinstance(expr, Rel | Delta):
        return frozenset(expr.variables)
    if isinstance(expr, MapRef):
        return frozenset(expr.keys)
    if isinstance(expr, Assign | Lift | Extreme):
        return frozenset((expr.variable,))
    if isinstance(expr, Exists):
        return outputs(expr.body)
    if isinstance(expr, Sum):
        return frozenset(expr.keys)
    if isinstance(expr, Add):
        return NONE.union(*(outputs(term) for term in expr.terms))
    if isinstance(expr, Mul):
        return NONE.union(*(outputs(factor) for factor in expr.factors))
    return NONE


@lru_cache(maxsize=1 << 16)
def inputs(expr: Expr) -> Names:
    """The variables that must be bound from outside."""
    if isinstance(expr, Value | Cond | Assign):
        return free_variables(expr.scalar)
    if isinstance(expr, Lift):
        return visible(expr.body)
    if isinstance(expr, Extreme):
        return visible(expr.body) - {expr.target}
    if isinstance(expr, Exists):
        return inputs(expr.body)
    if isinstance(expr, Sum):
        # A key that the body does not bind itself is handed in.
        return inputs(expr.body) | (frozenset(expr.keys) - outputs(expr.body))
    if isinstance(expr, Add):
        return NONE.union(*(inputs(term) for term in expr.terms))
    if isinstance(expr, Mul):
        # Whatever the order of the factors: schedule.py finds one that works, check() judges it.
        needed = NONE.union(*(inputs(factor) for factor in expr.factors))
        return needed - outputs(expr)
    return NONE


def visible(expr: Expr) -> Names:
    """All variables through which the expression is tied to its surroundings."""
    return inputs(expr) | outputs(expr)


@lru_cache(maxsize=1 << 16)
def all_names(expr: Expr) -> Names:
    """Every variable that occurs anywhere, summed-out ones included."""
    names: set[str] = set()
    for node in walk(expr):
        if isinstance(node, Rel | Delta):
            names.update(node.variables)
        elif isinstance(node, MapRef | Sum):
            names.update(node.keys)
        elif isinstance(node, Value | Cond):
            names |= free_variables(node.scalar)
        elif isinstance(node, Assign):
            names |= free_variables(node.scalar) | {node.variable}
        elif isinstance(node, Lift):
            names.add(node.variable)
        elif isinstance(node, Extreme):
            names |= {node.variable, node.target}
    return frozenset(names)


@lru_cache(maxsize=1 << 16)
def check(expr: Expr, bound: Names = NONE) -> None:
    """Raise ProgramError unless every variable is bound where it is used.

    The terms of a sum must bind the same unbound variables.
    """
    from viewlet.calculus.text import to_text

    missing = inputs(expr) - bound
    if missing:
        raise ProgramError(f"unbound {', '.join(sorted(missing))} in {to_text(expr)}")
    if isinstance(expr, Mul):
        for factor in expr.factors:
            check(factor, bound)
            bound |= outputs(factor)
    elif isinstance(expr, Add):
        schemas = {outputs(term) - bound for term in expr.terms}
        if len(schemas) > 1:
            raise ProgramError(f"terms bind different variables in {to_text(expr)}")
        for term in expr.terms:
            check(term, bound)
    elif isinstance(expr, Lift | Extreme | Exists | Sum):
        check(expr.body, bound)
