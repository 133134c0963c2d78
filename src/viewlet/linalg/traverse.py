"""Walks over matrix expressions: operands, the same node over others, the named leaves."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.linalg.expr import (
    Block,
    Expr,
    Factor,
    Inverse,
    Matrix,
    Power,
    PowerSum,
    Product,
    Recurrence,
    Scale,
    Sum,
    Transpose,
    Woodbury,
    block,
    inv,
    iterate,
    power,
    power_sum,
    product_of,
    scale,
    sum_of,
    transpose,
    woodbury,
)


def children(e: Expr) -> tuple[Expr, ...]:
    """The operands of a node, in order."""
    match e:
        case Sum():
            return e.terms
        case Product():
            return e.factors
        case Scale() | Transpose() | Inverse():
            return (e.operand,)
        case Block():
            return tuple(cell for row in e.rows for cell in row)
        case Woodbury():
            return (e.g, e.q)
        case Power() | PowerSum():
            return (e.base,)
        case Recurrence():
            return (e.a, e.b, e.start)
        case _:
            return ()


def rebuild(e: Expr, parts: Sequence[Expr]) -> Expr:
    """The same node over other children, through the normalizing constructors."""
    match e:
        case Sum():
            return sum_of(parts)
        case Product():
            return product_of(parts)
        case Scale():
            return scale(e.coefficient, parts[0])
        case Transpose():
            return transpose(parts[0])
        case Inverse():
            return inv(parts[0])
        case Block():
            width = len(e.rows[0])
            return block([parts[i : i + width] for i in range(0, len(parts), width)])
        case Woodbury():
            return woodbury(parts[0], parts[1])
        case Power():
            return power(parts[0], e.k)
        case PowerSum():
            return power_sum(parts[0], e.k)
        case Recurrence():
            return iterate(parts[0], parts[2], e.k, parts[1])
        case _:
            return e


def leaves(e: Expr) -> set[Expr]:
    """The named matrices and factors below e; shared subtrees are visited once."""
    named: set[Expr] = set()
    visited: set[Expr] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if node in visited:
            continue
        visited.add(node)
        if isinstance(node, Matrix | Factor):
            named.add(node)
        stack.extend(children(node))
    return named
