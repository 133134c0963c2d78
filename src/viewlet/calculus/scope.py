"""Which variables an expression needs and gives, and whether it is well formed (thesis 2.2.4).

Output variables are the columns of the result; input variables must be bound from outside before
the expression can be evaluated. In a product, a factor's outputs are bound for those to its right.
A lift binds its own variable only: whatever its body shows is the correlation, and an input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from viewlet.calculus.expr import (
    Add,
    Assign,
    Atom,
    Binder,
    Cond,
    Each,
    Exists,
    Expr,
    Mul,
    NestedValue,
    Sum,
    Value,
    children,
    own_scalars,
    own_variables,
)
from viewlet.calculus.fields import Rules, remembered
from viewlet.errors import ProgramError
from viewlet.functions import free_variables

Names = frozenset[str]
NONE: Names = frozenset()

OUTPUTS: Rules[Callable[[Any], Names]] = Rules("rule for its output variables")
INPUTS: Rules[Callable[[Any], Names]] = Rules("rule for its input variables")


@remembered
def outputs(expr: Expr) -> Names:
    """The variables that the expression binds."""
    return OUTPUTS[type(expr)](expr)


@remembered
def inputs(expr: Expr) -> Names:
    """The variables that must be bound from outside."""
    return INPUTS[type(expr)](expr)


def visible(expr: Expr) -> Names:
    """All variables through which the expression is tied to its surroundings."""
    return inputs(expr) | outputs(expr)


def nothing(expr: Expr) -> Names:
    """No variables."""
    return NONE


# --- outputs --------------------------------------------------------------------------------------


def atom_outputs(expr: Atom) -> Names:
    """R(x, y) binds x and y."""
    return frozenset(expr.arguments)


def binder_outputs(expr: Binder) -> Names:
    """(x := ...) binds x alone."""
    return frozenset((expr.variable,))


def each_outputs(expr: Each) -> Names:
    """(x := up to [f(y)]) binds x."""
    return frozenset((expr.variable,))


def exists_outputs(expr: Exists) -> Names:
    """Exists(q) binds what q binds."""
    return outputs(expr.body)


def sum_outputs(expr: Sum) -> Names:
    """Sum[x](q) binds x."""
    return frozenset(expr.keys)


def combined_outputs(expr: Add | Mul) -> Names:
    """a + b and a * b bind what a and b bind."""
    return NONE.union(*(outputs(part) for part in children(expr)))


# --- inputs ---------------------------------------------------------------------------------------


def scalar_inputs(expr: Value | Cond | Assign | Each) -> Names:
    """[f(x)], {f(x)} and (y := [f(x)]) need x."""
    return free_variables(expr.scalar)


def nested_value_inputs(expr: NestedValue) -> Names:
    """(x := q) needs all that ties q to its surroundings: the correlation."""
    return visible(expr.body) - expr.local


def exists_inputs(expr: Exists) -> Names:
    """Exists(q) needs what q needs."""
    return inputs(expr.body)


def sum_inputs(expr: Sum) -> Names:
    """Sum[x](q) needs what q needs; a key that q does not bind itself is handed in."""
    return inputs(expr.body) | (frozenset(expr.keys) - outputs(expr.body))


def add_inputs(expr: Add) -> Names:
    """a + b needs what a and b need."""
    return NONE.union(*(inputs(term) for term in expr.terms))


def mul_inputs(expr: Mul) -> Names:
    """a * b needs what one of them needs and the other does not bind, whatever their order.

    schedule.py finds an order that works, check() judges it. A factor that is handed a variable
    which it shows, as in Sum[a](R(b) * {b < a}), binds nothing for the others.
    """
    needed = NONE.union(*(inputs(factor) for factor in expr.factors))
    return needed.difference(*(outputs(factor) - inputs(factor) for factor in expr.factors))


# --- everything -----------------------------------------------------------------------------------


@remembered
def all_names(expr: Expr) -> Names:
    """Every variable that occurs anywhere, summed-out ones included."""
    own = frozenset(own_variables(expr))
    return own.union(
        *(free_variables(scalar) for scalar in own_scalars(expr)),
        *(all_names(part) for part in children(expr)),
    )


@lru_cache(maxsize=1 << 16)
def check(expr: Expr, bound: Names = NONE) -> None:
    """Raise ProgramError unless every variable is bound where it is used.

    The terms of a sum must bind the same unbound variables.
    """
    from viewlet.calculus.text import to_text

    missing = inputs(expr) - bound
    if missing:
        raise ProgramError(f"unbound {', '.join(sorted(missing))} in {to_text(expr)}")
    if isinstance(expr, Add) and len({outputs(term) - bound for term in expr.terms}) > 1:
        raise ProgramError(f"terms bind different variables in {to_text(expr)}")
    for part in children(expr):
        check(part, bound)
        if isinstance(expr, Mul):
            bound |= outputs(part)
