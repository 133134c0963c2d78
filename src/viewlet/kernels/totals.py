"""Weights of expressions as loops: factors computed at once, and totals that rows add to."""

from __future__ import annotations

from viewlet.calculus.expr import ONE, Add, Expr, Mul, Sum, Value, product_of, terms_of, walk
from viewlet.calculus.scope import NONE, all_names, outputs
from viewlet.kernels.builder import Builder, Cursor, build_rows
from viewlet.kernels.loop_nodes import AddTo, Block, Factors, Named, Pure, Total
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.schema import Physical


def weight_factors(builder: Builder, expr: Expr, scope: Scope) -> tuple[Block, Factors]:
    """The weight of an expression whose variables are bound, summed out ones aside."""
    if all(isinstance(node, Value | Add | Mul) for node in walk(expr)):
        if expr == ONE:
            return [], ()
        return [], (Pure(expr, dict(scope), builder.weight_type(expr, scope)),)
    if isinstance(expr, Mul):
        pure = [f for f in expr.factors if isinstance(f, Value)]
        others = [f for f in expr.factors if not isinstance(f, Value)]
        free = outputs(product_of(*others)) - scope.keys()
        if pure and not any(free & all_names(f) for f in pure):
            block, factors = weight_factors(builder, product_of(*others), scope)
            return block, (*weight_factors(builder, product_of(*pure), scope)[1], *factors)
    total = build_total(builder, expr, scope)
    return [total], (Named(total.name, total.physical),)


def build_total(builder: Builder, expr: Expr, scope: Scope) -> Total:
    """The weight of an expression in a local of its own."""
    physical = builder.weight_type(expr, scope)
    name = builder.name("total")
    return Total(name, physical, _accumulate(builder, expr, scope, name, physical))


def _accumulate(builder: Builder, expr: Expr, scope: Scope, name: str, physical: Physical) -> Block:
    """Add the weight of an expression to a total."""

    def add(inner: dict[str, Variable], factors: Factors) -> Block:
        return [AddTo(name, physical, factors)]

    block: Block = []
    for term in terms_of(expr):
        # Where all keys are bound a projection is just the sum that is being made.
        while isinstance(term, Sum) and frozenset(term.keys) <= scope.keys():
            term = term.body
        if isinstance(term, Add):
            block += _accumulate(builder, term, scope, name, physical)
        else:
            block += build_rows(builder, term, Cursor(dict(scope), NONE, (), add))
    return block
