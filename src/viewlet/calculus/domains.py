"""Domain extraction: which tuples of a nested query a change can touch.

Thesis 3.4.2, paper 000 section 3.2.

A lift's delta compares the new value with the old one. Without a bound on where to look, that is
two evaluations of everything; `domain` gives the bound: an expression with weights 0 and 1 over
some of the correlated variables, outside of which old and new are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from viewlet.calculus.expr import (
    PRESENCE,
    ZERO,
    Assign,
    Atom,
    Cond,
    Exists,
    Expr,
    MapRef,
    exists_of,
    product_of,
    sum_of,
)
from viewlet.calculus.rewrite import Monomial, expand, project
from viewlet.calculus.scope import Names, inputs, outputs


def domain(deltas: Iterable[Expr], targets: Names) -> Expr | None:
    """Where any of the deltas can be non-zero, over those targets that all of them bind.

    None where no target is bound: the change may touch every tuple.

        Exists(d)                    d needs nothing from outside: exactly the tuples that change
        Exists(Sum[t](Exists(d')))   otherwise; d' is d without the factors that need more
    """
    changed = [delta for delta in deltas if delta != ZERO]
    present = _presence(changed)
    if present is not None and outputs(present) <= targets:
        return present if outputs(present) else None
    parts: list[tuple[Names, Expr]] = []
    for delta in changed:
        if not inputs(delta):
            parts.append((outputs(delta) & targets, delta))
        else:
            parts += [_relaxed(monomial, targets) for monomial in expand(delta)]
    bound = frozenset.intersection(*(names for names, _ in parts)) if parts else frozenset()
    if not bound:
        return None
    if len(parts) == 1 and outputs(parts[0][1]) == bound:
        return exists_of(parts[0][1])
    return exists_of(sum_of(*(project(bound, exists_of(part)) for _, part in parts)))


def _presence(deltas: list[Expr]) -> Expr | None:
    """Deltas that are columns of one map change where that map has a record at all."""
    records = {replace(d, column=PRESENCE) for d in deltas if isinstance(d, MapRef)}
    if len(records) != 1 or not all(isinstance(d, MapRef) for d in deltas):
        return None
    return records.pop()


def _relaxed(monomial: Monomial, targets: Names) -> tuple[Names, Expr]:
    """The factors that need nothing from outside, as an upper bound of where they have weight."""
    factors: list[Expr] = []
    bound: Names = frozenset()
    waiting = list(monomial.factors)
    progress = True
    while progress:
        progress = False
        for factor in list(waiting):
            if isinstance(factor, Atom | Exists):
                ready = not inputs(factor) - bound
            else:
                ready = isinstance(factor, Cond | Assign) and inputs(factor) <= bound
            if ready:
                waiting.remove(factor)
                factors.append(exists_of(factor))
                bound |= outputs(factor)
                progress = True
    return bound & targets, product_of(*factors)
