"""How a programme reaches into each map: what indexes it needs, and nothing else decides them.

get     every key is bound                        unique index
slice   some keys are bound, at these positions   index over those positions
scan    no key is bound                           the records themselves
range   a comparison bounds one unbound key       ordered index with subtree sums
extreme the least or greatest value of one key    ordered index
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.calculus.expr import (
    Add,
    Cond,
    Delta,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Sum,
    children,
    factors_of,
)
from viewlet.calculus.scope import NONE, Names, inputs, outputs
from viewlet.functions import Apply, Ref
from viewlet.program.ir import Program

_COMPARISONS = frozenset(("<", "<=", ">", ">="))


@dataclass(frozen=True, order=True)
class Pattern:
    """One way of access: the bound positions, and the position that is searched in order."""

    kind: str
    bound: tuple[int, ...]
    ordered: int | None = None

    def __str__(self) -> str:
        place = ", ".join(map(str, self.bound))
        order = "" if self.ordered is None else f" by {self.ordered}"
        return f"{self.kind}[{place}]{order}"


def access_patterns(program: Program) -> dict[str, frozenset[Pattern]]:
    """The patterns of every map, over all statements of all triggers and the views' lets."""
    found: dict[str, set[Pattern]] = {map.name: set() for map in program.maps}
    for trigger in program.triggers:
        for statement in trigger.statements:
            found[statement.target].add(Pattern("get", tuple(range(len(statement.keys)))))
            for _, expr in statement.expressions():
                _visit(expr, NONE, found)
    for view in program.views:
        for let in view.query.lets:
            _visit(let, frozenset(view.query.keys), found)
    return {name: frozenset(patterns) for name, patterns in found.items()}


def _visit(expr: Expr, bound: Names, found: dict[str, set[Pattern]]) -> Names:
    """Record the accesses of an expression; gives what is bound after it."""
    if isinstance(expr, MapRef):
        found[expr.name].add(_pattern(expr, bound))
    elif isinstance(expr, Mul):
        before = bound
        for factor in expr.factors:
            if isinstance(factor, MapRef):
                found[factor.name].add(_ranged(factor, before, expr) or _pattern(factor, before))
                before |= outputs(factor)
            else:
                before = _visit(factor, before, found)
        return before
    elif isinstance(expr, Extreme):
        for atom in _atoms(expr.body):
            found[atom.name].add(_extreme(atom, expr.target, bound))
    elif isinstance(expr, Add | Sum | Lift) or children(expr):
        for part in children(expr):
            _visit(part, bound, found)
    return bound | outputs(expr)


def _pattern(atom: MapRef, bound: Names) -> Pattern:
    places = tuple(i for i, key in enumerate(atom.keys) if key in bound)
    kind = "get" if len(places) == len(atom.keys) else "slice" if places else "scan"
    return Pattern(kind, places)


def _ranged(atom: MapRef, bound: Names, product: Mul) -> Pattern | None:
    """A slice whose one unbound key is compared with something bound."""
    places = tuple(i for i, key in enumerate(atom.keys) if key in bound)
    free = [key for key in atom.keys if key not in bound]
    if len(free) != 1:
        return None
    for factor in factors_of(product):
        scalar = factor.scalar if isinstance(factor, Cond) else None
        if isinstance(scalar, Apply) and scalar.function in _COMPARISONS:
            others = inputs(factor) - {free[0]}
            if Ref(free[0]) in scalar.arguments and others <= bound:
                return Pattern("range", places, atom.keys.index(free[0]))
    return None


def _extreme(atom: MapRef, target: str, bound: Names) -> Pattern:
    places = tuple(i for i, key in enumerate(atom.keys) if key in bound)
    position = atom.keys.index(target) if target in atom.keys else None
    return Pattern("extreme", places, position)


def _atoms(expr: Expr) -> list[MapRef]:
    if isinstance(expr, MapRef):
        return [expr]
    if isinstance(expr, Delta):
        return []
    return [atom for part in children(expr) for atom in _atoms(part)]
