"""Conditions of AND and OR, arranged so that each part is tested as early as it can be.

A condition holds where it is TRUE, which a disjunction is where one arm is and a conjunction where
all parts are: so the rules here hold with NULLs too.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.calculus.expr import Cond, Expr, Rel, cond
from viewlet.calculus.scope import Names, outputs
from viewlet.functions import Apply, Const, ScalarExpr, apply, conjuncts, free_variables


def with_common_conjuncts_outside(scalar: ScalarExpr) -> ScalarExpr:
    """(a and b) or (a and c) -> a and (b or c)"""
    if not (isinstance(scalar, Apply) and scalar.function in ("or", "and")):
        return scalar
    parts = [with_common_conjuncts_outside(a) for a in scalar.arguments]
    if scalar.function == "and":
        return apply("and", *parts)
    arms = [conjuncts(arm) for part in parts for arm in _disjuncts(part)]
    shared = [c for c in dict.fromkeys(arms[0]) if all(c in arm for arm in arms[1:])]
    if not shared:
        return apply("or", *parts)
    rests = [_joined("and", [c for c in arm if c not in shared]) for arm in arms]
    return _joined("and", [*shared, _joined("or", rests)])


def with_implied(factors: Sequence[Expr]) -> list[Expr]:
    """What a condition over several relations says about each of them alone, as its own condition.

        R(x) * S(y) * {x = 1 and y > 2 or x = 3 and y > 4}
        -> R(x) * {x = 1 or x = 3} * S(y) * {y > 2 or y > 4} * {x = 1 and y > 2 or ...}

    The whole can be tested where R and S are joined, its consequences before: maps and batches
    keep only the rows of R and S that can ever count.
    """
    atoms = [outputs(factor) for factor in factors if isinstance(factor, Rel)]
    conditions = {factor.scalar for factor in factors if isinstance(factor, Cond)}
    result = []
    for factor in factors:
        if isinstance(factor, Cond):
            implied = [_implied(factor.scalar, names) for names in atoms]
            result += [cond(s) for s in implied if s is not None and s not in conditions]
        result.append(factor)
    return result


def _implied(scalar: ScalarExpr, names: Names) -> ScalarExpr | None:
    """The strongest condition over `names` that the scalar implies, None where there is none.

    a and b -> a        b is not over the names
    a or b  -> a or b   each what it implies; nothing where one arm says nothing
    """
    used = free_variables(scalar)
    if used and used <= names:
        return scalar
    if not (isinstance(scalar, Apply) and scalar.function in ("and", "or")):
        return None
    parts = [_implied(a, names) for a in scalar.arguments]
    implied_parts = [part for part in parts if part is not None]
    if scalar.function == "and":
        return _joined("and", implied_parts) if implied_parts else None
    if len(implied_parts) < len(parts):
        return None
    # In one order, so that two uses of a relation under mirrored conditions share their map.
    arms = {arm for part in implied_parts for arm in _disjuncts(part)}
    return _joined("or", sorted(arms, key=repr))


def _disjuncts(scalar: ScalarExpr) -> list[ScalarExpr]:
    if isinstance(scalar, Apply) and scalar.function == "or":
        return [part for a in scalar.arguments for part in _disjuncts(a)]
    return [scalar]


def _joined(function: str, parts: Sequence[ScalarExpr]) -> ScalarExpr:
    """a op b op c; no parts are TRUE."""
    if len(parts) < 2:
        return parts[0] if parts else Const(True)
    return apply(function, *parts)
