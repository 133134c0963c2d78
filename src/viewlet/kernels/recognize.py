"""What the builder of loops recognizes in expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from viewlet.calculus.expr import (
    PRESENCE,
    Add,
    Assign,
    Binder,
    Cond,
    Delta,
    Exists,
    Expr,
    Lift,
    MapRef,
    Nested,
    NestedValue,
    Sum,
    Value,
    factors_of,
    negate,
    own_scalars,
    own_variables,
    product_of,
    sum_of,
    terms_of,
    walk,
)
from viewlet.calculus.rewrite import project
from viewlet.calculus.scope import all_names, outputs, visible
from viewlet.calculus.typing import Slot
from viewlet.functions import Apply, Ref, ScalarExpr, demands_one_row, free_variables
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.program.ir import Map, Statement
from viewlet.program.keys import Keys

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def next_factor(members: tuple[Expr, ...], scope: Scope) -> tuple[Expr, tuple[Expr, ...]]:
    """The factor to do next: before a loop, what does not depend on it.

    A * (x := q) -> (x := q) * A  where A iterates and q needs nothing that A binds
    """
    first = members[0]
    if isinstance(first, Delta | MapRef) and outputs(first) - scope.keys():
        for i, member in enumerate(members[1:], 1):
            bound = {member.variable} if isinstance(member, Binder) else set()
            ready = isinstance(member, Cond | Binder | Exists) and not _is_of_rows(member)
            if ready and bound.isdisjoint(outputs(first)) and visible(member) - bound <= set(scope):
                return member, (*members[:i], *members[i + 1 :])
    return first, members[1:]


def _is_of_rows(factor: Expr) -> bool:
    """Whether it may be an error where a loop meets no row (calculus.schedule)."""
    return isinstance(factor, Cond | Assign) and demands_one_row(factor.scalar)


def as_change(new: Statement, old: Statement) -> Statement | None:
    """M[k] += L * (x := q) * L' | c: u
    M[k] += L * (x := p) * L' | c: -1 * u
    ->
    M[k] += L * ((x := q) + -1 * (x := p)) * L' | c: u

    The change of a nested value is two statements that differ in it alone (calculus.delta). As one,
    its loops are compiled once, and not run where the value has stayed the same.

    M[k] += L * Exists(q) * (x := r) * {x > 1} * L' | c: u
    M[k] += L * Exists(p) * (x := s) * {x > 1} * L' | c: -1 * u
    ->
    M[k] += L * (Exists(q) * (x := r) * {x > 1} + -1 * Exists(p) * (x := s) * {x > 1}) * L' | c: u

    The same for tests, and then nothing is done where both sides pass, either.
    """
    if (new.target, new.keys, new.op, old.op) != (old.target, old.keys, "+=", "+="):
        return None
    if dict(old.updates) != {column: negate(update) for column, update in new.updates}:
        return None
    mine, others = factors_of(new.loop), factors_of(old.loop)
    if len(mine) != len(others):
        return None
    different = [i for i, (a, b) in enumerate(zip(mine, others, strict=True)) if a != b]
    values = {f.variable for i in different if isinstance(f := mine[i], NestedValue)}
    tests = [i for i, f in enumerate(mine) if isinstance(f, Cond) and values & visible(f)]
    span = sorted({*different, *tests})
    if not span:
        return None
    first, last = span[0], span[-1] + 1
    bound = outputs(product_of(*mine[:first]))
    sides = [project(bound, product_of(*side[first:last])) for side in (mine, others)]
    both = sum_of(sides[0], negate(sides[1]))
    used = {*new.keys}.union(*(all_names(f) for f in (*mine[last:], *dict(new.updates).values())))
    if test_change_of(both) is None or outputs(both) - bound or values & used:
        if len(different) != 1:
            return None
        first, last = different[0], different[0] + 1
        both = sum_of(mine[first], negate(others[first]))
        if value_change_of(both) is None:
            return None
    return replace(new, loop=product_of(*mine[:first], both, *mine[last:]))


def value_change_of(expr: Expr) -> tuple[NestedValue, NestedValue] | None:
    """(x := q) + -1 * (x := p)  ->  the two of them"""
    terms = terms_of(expr)
    values = [f for term in terms for f in factors_of(term) if isinstance(f, NestedValue)]
    if len(terms) != 2 or len(values) != 2:
        return None
    new, old = values
    alike = type(new) is type(old) and new.variable == old.variable
    return (new, old) if alike and terms == (new, negate(old)) else None


def test_change_of(expr: Expr) -> tuple[Expr, Expr] | None:
    """q + -1 * p  ->  the two of them, where each is a test: a product of Exists, of conditions,
    and of nested values that only those look at"""
    terms = terms_of(expr)
    if len(terms) != 2:
        return None
    new, old = terms[0], negate(terms[1])
    return (new, old) if _is_test(new) and _is_test(old) else None


def _is_test(expr: Expr) -> bool:
    keys, body = (frozenset(expr.keys), expr.body) if isinstance(expr, Sum) else (None, expr)
    factors = factors_of(body)
    values = {f.variable for f in factors if isinstance(f, NestedValue)}
    hidden = outputs(body) - keys if keys is not None else values
    return (
        any(isinstance(f, Nested) for f in factors)
        and all(isinstance(f, Nested | Cond) for f in factors)
        and hidden == values
        and not (keys is None and values)
    )


def meets_once(expr: Expr, scope: Scope) -> bool:
    """M[k].a * N[k].b * {p}: no two rows have the same variables, as M alone binds them all

    Of whole numbers that are not zero the product is not zero either, so that Exists of it need not
    bring rows together: each of them is one.
    """
    first, *others = factors_of(expr)
    bound = outputs(first) | scope.keys()
    return (
        isinstance(first, MapRef)
        and all(isinstance(other, MapRef | Cond) for other in others)
        and all(visible(other) <= bound for other in others)
    )


def narrowed(variable: Variable, slot: Slot) -> Variable:
    """What is the same as a key that cannot be NULL is not NULL."""
    if variable.slot.nullable and not slot.nullable:
        return Variable(variable.name, Slot(variable.slot.physical))
    return variable


def column_position(map: Map, column: str) -> int:
    """The number of a value column among those of its map."""
    return [c.name for c in map.columns].index(column)


def only_atom(term: Expr) -> MapRef | None:
    """The map of a term that is one, up to a constant coefficient."""
    atoms = [f for f in factors_of(term) if not isinstance(f, Value)]
    constants = all(not free_variables(f.scalar) for f in factors_of(term) if isinstance(f, Value))
    if len(atoms) == 1 and constants and isinstance(atoms[0], MapRef):
        return atoms[0]
    return None


def ranges_over(atom: MapRef | None, target: str, scope: Scope) -> bool:
    """Whether all keys but the target are bound."""
    return (
        atom is not None
        and atom.keys.count(target) == 1
        and all(name in scope or name == target for name in atom.keys)
    )


def bound_of(expr: Expr, free: set[str]) -> tuple[str, str, ScalarExpr] | None:
    """{p < x} or {x > p} -> (p, <, x)  where x has no free variable"""
    if not isinstance(expr, Cond) or not isinstance(expr.scalar, Apply):
        return None
    function, arguments = expr.scalar.function, expr.scalar.arguments
    if function not in MIRRORED:
        return None
    left, right = arguments
    if isinstance(left, Ref) and left.name in free and not free_variables(right) & free:
        return left.name, function, right
    if isinstance(right, Ref) and right.name in free and not free_variables(left) & free:
        return right.name, MIRRORED[function], left
    return None


def mentions(statement: Statement) -> list[str]:
    """The variables of a statement, each as often as it is used."""
    names = list(statement.keys)
    for part in (statement.loop, *(update for _, update in statement.updates)):
        for node in walk(part):
            names += own_variables(node)
            for scalar in own_scalars(node):
                names += free_variables(scalar)
    return names


def with_lookups_first(term: Expr, updates: list[Expr], keys: Keys) -> Expr:
    """L * L' | M[k].c * q -> L * M[k].* * L' | M[k].c * q  where L binds k

    What every update multiplies with must be there: it is looked up as soon as its key is known,
    before nested sums are computed for rows that then weigh nothing, and the map whose rows have
    passed most conditions first. The same for a lookup that stands behind a nested sum already:

    L * Sum[..](..) * M[k].* -> L * M[k].* * Sum[..](..)
    """
    shared: set[MapRef] | None = None
    for part in (part for update in updates for part in terms_of(update)):
        records = {replace(f, column=PRESENCE) for f in _multiplied(part)}
        shared = records if shared is None else shared & records
    factors = list(factors_of(term))
    late = _behind_sums(factors)
    factors = [factor for factor in factors if factor not in late]
    present = {replace(f, column=PRESENCE) for f in factors if isinstance(f, MapRef)}
    missing = sorted(
        ((shared or set()) | late) - present, key=lambda f: (keys.filters(f), f.name, f.keys)
    )
    for atom in missing:
        bound: frozenset[str] = frozenset()
        for i, factor in enumerate(factors):
            bound |= outputs(factor)
            if bound >= set(atom.keys):
                while _precedes(factors[i + 1 : i + 2], atom, bound, keys):
                    i += 1
                    bound |= outputs(factors[i])
                factors.insert(i + 1, atom)
                break
    return product_of(*factors)


def _behind_sums(factors: list[Expr]) -> set[MapRef]:
    """Lookups of records whose keys are bound before a nested sum that precedes them."""
    lookups: set[MapRef] = set()
    bound: frozenset[str] = frozenset()
    bound_outside: frozenset[str] | None = None  # what the factors before the first nested sum bind
    for factor in factors:
        if bound_outside is None and isinstance(factor, Sum | Lift | Exists):
            bound_outside = bound
        record = isinstance(factor, MapRef) and factor.column == PRESENCE
        if record and bound_outside is not None and outputs(factor) <= bound_outside:
            lookups.add(cast(MapRef, factor))
        bound |= outputs(factor)
    return lookups


def _multiplied(update: Expr) -> Iterator[MapRef]:
    """The maps without which an update is zero."""
    for factor in factors_of(update):
        if isinstance(factor, MapRef):
            yield factor
        elif isinstance(factor, Add):
            terms = [_multiplied(part) for part in factor.terms]
            records = [{replace(f, column=PRESENCE) for f in term} for term in terms]
            yield from set.intersection(*records)


def _precedes(following: list[Expr], atom: MapRef, bound: frozenset[str], keys: Keys) -> bool:
    """The next factor meets one record at most and is a stricter filter."""
    return any(
        isinstance(factor, Cond | Assign)
        or (keys.is_single(factor, bound) and keys.filters(factor) > keys.filters(atom))
        for factor in following
    )
