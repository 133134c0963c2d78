"""Simplification to a fixed point (thesis 3.2).

An expression becomes a sum of Sum[keys](product), each product rewritten by PASSES in order until
nothing changes; equal products then meet and their coefficients add up, so that q - q vanishes.
Nested bodies are simplified the same way, from the inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import is_

from viewlet.calculus.expr import (
    ONE,
    Assign,
    Atom,
    Binder,
    Cond,
    Exists,
    Expr,
    Lift,
    Mul,
    Nested,
    NestedValue,
    Rel,
    Sum,
    Value,
    cond,
    exists_of,
    factors_of,
    is_zero_one,
    mapped,
    product_of,
    terms_of,
)
from viewlet.calculus.rewrite import (
    Monomial,
    canonical,
    census,
    expand,
    is_expanded,
    monomials_to_expr,
    rename,
    substitute,
    without_capture,
)
from viewlet.calculus.scope import NONE, Names, all_names, inputs, outputs, visible
from viewlet.calculus.text import to_text
from viewlet.errors import ProgramError
from viewlet.functions import Apply, Const, Ref, apply

MOST_ROUNDS = 1000
"""Every pass makes a product smaller or its names fewer; more rounds than this are a mistake."""

Factors = tuple[Expr, ...]
Pass = Callable[[Factors, Names], Factors]


def simplify(expr: Expr, keys: Iterable[str] | None = None, bound: Names = NONE) -> Expr:
    """The expression over `keys` (its outputs if not given), simplified.

    `bound` are variables that are bound from outside, besides the expression's inputs.
    """
    return _simplified(expr, outputs(expr) if keys is None else frozenset(keys), bound)


@lru_cache(maxsize=1 << 12)  # a database plans all of its views anew when one comes or goes
def _simplified(expr: Expr, keys: Names, bound: Names) -> Expr:
    grown, monomials = simplify_monomials(expr, keys)
    simple = monomials_to_expr(grown, monomials, bound | inputs(expr))
    # What is simple already stays the same node, with all that is remembered of it.
    return expr if simple == expr else simple


def simplify_monomials(expr: Expr, keys: Names) -> tuple[Names, list[Monomial]]:
    """The simplified products, and the keys: more than given where a correlation became a key.

    The keys grow when unification turns a hidden variable into one that is bound from outside:
    Sum[](S(c, d) * {c == a} * d) -> Sum[a](S(a, d) * d).
    """
    monomials: list[Monomial] = []
    work = expand(expr)
    free = inputs(expr)
    while work:
        monomial = work.pop(0)
        # What is bound outside keeps its name, as a key does: it may be bound in here by now.
        factors = simplify_product(monomial.factors, keys | free)
        if factors and is_expanded(factors):
            monomials.append(Monomial(monomial.coefficient, factors))
            continue
        again = expand(product_of(Value(monomial.coefficient), *factors))
        if len(again) == 1 and again[0].factors == factors:
            monomials.append(again[0])
        else:
            work = again + work
    grown = keys | frozenset(n for m in monomials for n in _outputs(m.factors) if n in free)
    return grown, cancel(monomials, grown)


def simplify_product(factors: Factors, keys: Names) -> Factors:
    """Apply PASSES until none changes anything."""
    for _ in range(MOST_ROUNDS):
        before = factors
        for rule in PASSES:
            changed = rule(factors, keys)
            while changed is not factors:
                factors, previous = _flat(changed), factors
                if factors == previous:
                    break
                changed = rule(factors, keys)
        if factors == before:
            return factors
    raise ProgramError(f"simplification does not come to an end: {to_text(product_of(*factors))}")


def _flat(factors: Iterable[Expr]) -> Factors:
    return factors_of(product_of(*factors))


def _outputs(factors: Iterable[Expr]) -> Names:
    return frozenset[str]().union(*(outputs(f) for f in factors))


# --- passes ---------------------------------------------------------------------------------------


def simplify_nested(factors: Factors, keys: Names) -> Factors:
    """Bodies of lifts, extremes and Exists, from the inside."""
    simple = tuple(
        without_capture(_simplify_body(f), f, (o for o in factors if o is not f), keys)
        if isinstance(f, Nested)
        else f
        for f in factors
    )
    return factors if all(map(is_, simple, factors)) else simple


def _simplify_body(factor: Nested) -> Expr:
    if isinstance(factor, Exists):
        return _exists_of_terms(_body(factor.body))
    return factor if _body(factor.body) is factor.body else mapped(factor, part=_body)


@lru_cache(maxsize=1 << 12)
def _body(body: Expr) -> Expr:
    """A nested body: what it shows is bound from outside."""
    return simplify(body, bound=visible(body))


@lru_cache(maxsize=1 << 12)
def _exists_of_terms(body: Expr) -> Expr:
    """Exists([s] * q) -> {s <> 0} * Exists(q);  Exists(q * {c}) -> Exists(q) * {c}

    Exists(Sum[a](q * (x := r) * {x > 3})) -> Sum[a](q * (x := r) * {x > 3})
        where q weighs 0 or 1 and the Sum hides computed variables only
    """
    terms = terms_of(body)
    if len(terms) != 1:
        merged = _merge_complements(body)
        return exists_of(body) if merged is None else _exists_of_terms(merged)
    if isinstance(terms[0], Sum):
        factors = factors_of(terms[0].body)
        computed = {f.variable for f in factors if isinstance(f, Binder)}
        hidden = outputs(terms[0].body) - outputs(terms[0])
        once = all(is_zero_one(f) for f in factors) and hidden <= computed
        return terms[0] if once else exists_of(body)
    outside: list[Expr] = []
    inside: list[Expr] = []
    for factor in factors_of(terms[0]):
        if isinstance(factor, Value):
            outside.append(cond(apply("<>", factor.scalar, Const(0))))
        elif is_zero_one(factor):
            outside.append(factor)
        else:
            inside.append(factor)
    presence = exists_of(product_of(*inside)) if inside else ONE
    return product_of(presence, *outside)


def _merge_complements(body: Expr) -> Expr | None:
    """p * q + p * (n := q) * {n = 0}  ->  p        as far as existence goes

    The two halves of an outer join: each row of p is in one of them.
    """
    keys, monomials = simplify_monomials(body, outputs(body))
    if any(not _is_positive(m.coefficient) for m in monomials):
        return None
    for absent in monomials:
        for factor in absent.factors:
            if not isinstance(factor, Lift):
                continue
            zero = Cond(Apply("=", (Ref(factor.variable), Const(0))))
            other_factors = tuple(f for f in absent.factors if f not in (factor, zero))
            if zero not in absent.factors or _used(other_factors, factor.variable):
                continue
            _, joined = simplify_monomials(product_of(*other_factors, factor.body), keys)
            texts = {_identity(m.factors, keys) for m in joined}
            partners = [m for m in monomials if _identity(m.factors, keys) in texts]
            if len(joined) == len(partners) > 0:
                others = [m for m in monomials if m is not absent and m not in partners]
                return monomials_to_expr(
                    keys, [*others, Monomial(Const(1), other_factors)], inputs(body)
                )
    return None


def _is_positive(coefficient: Const) -> bool:
    return isinstance(coefficient.value, int | float) and coefficient.value > 0


def unify_equalities(factors: Factors, keys: Names) -> Factors:
    """R(a, b) * S(c, d) * {b == c} -> R(a, b) * S(b, d)        (thesis 3.2.1, first stage)

    A hidden variable that this product binds takes the other's name. Where both are keys one of
    them stays as an assignment, (c := b).
    """
    bound = _outputs(factors)
    for i, factor in enumerate(factors):
        pair = _equal_variables(factor)
        if pair is None:
            continue
        others = factors[:i] + factors[i + 1 :]
        for old, new in (pair, pair[::-1]):
            if old in bound and old not in keys and not _is_lifted(others, old):
                return tuple(rename(f, {old: new}) for f in others)
        for old, new in (pair[::-1], pair):
            if old in bound and old in keys and not _is_lifted(others, old):
                renamed = tuple(rename(f, {old: new}) for f in others)
                return (*renamed, Assign(old, Ref(new)))
    return factors


def _equal_variables(factor: Expr) -> tuple[str, str] | None:
    scalar = factor.scalar if isinstance(factor, Cond) else None
    if isinstance(scalar, Apply) and scalar.function == "==":
        left, right = scalar.arguments
        if isinstance(left, Ref) and isinstance(right, Ref):
            return left.name, right.name
    return None


def _is_lifted(factors: Factors, name: str) -> bool:
    """Variables that hold a computed value cannot be bound a second time without a comparison."""
    return any(isinstance(f, Binder) and f.variable == name for f in factors)


def propagate_assignments(factors: Factors, keys: Names) -> Factors:
    """(a := x) * R(a) -> (a := x) * R(x), and the assignment goes where a is hidden.

    (a := [f(x)]) * {a < 3} -> {f(x) < 3} likewise, unless an atom needs the variable
    (limitation 1 of thesis 3.2.1).
    """
    for i, factor in enumerate(factors):
        if not isinstance(factor, Assign):
            continue
        others = factors[:i] + factors[i + 1 :]
        name = factor.variable
        if any(isinstance(f, Assign) and f.variable == name for f in others):
            return (*others, cond(apply("==", Ref(name), factor.scalar)))
        assignment = (factor,) if name in keys else ()
        if isinstance(factor.scalar, Ref):
            if _used(others, name) and not _is_lifted(others, name):
                return tuple(rename(f, {name: factor.scalar.name}) for f in others) + assignment
            if not assignment and not _used(others, name):
                return others
        elif name not in _outputs(others):
            new = tuple(substitute(f, {name: factor.scalar}) for f in others)
            # An atom of a nested body keeps the variable, and then it must stay bound.
            if new != others or not (assignment or _used(new, name)):
                return new + (assignment or ((factor,) if _used(new, name) else ()))
    return factors


def _used(factors: Factors, name: str) -> bool:
    return any(name in visible(f) for f in factors)


def drop_unused_lifts(factors: Factors, keys: Names) -> Factors:
    """(x := q) -> 1  where nothing asks for x: a lift weighs 1 whatever its value."""
    for i, factor in enumerate(factors):
        if not isinstance(factor, NestedValue) or factor.variable in keys:
            continue
        others = factors[:i] + factors[i + 1 :]
        if not _used(others, factor.variable):
            return others
    return factors


def lower_lifts(factors: Factors, keys: Names) -> Factors:
    """(x := q) * x -> q  where x is used for nothing else."""
    for i, factor in enumerate(factors):
        if not isinstance(factor, Lift) or factor.variable in keys:
            continue
        name = factor.variable
        uses = [j for j, f in enumerate(factors) if j != i and name in visible(f)]
        if len(uses) == 1 and factors[uses[0]] == Value(Ref(name)):
            j = uses[0]
            others = tuple(f for k, f in enumerate(factors) if k not in (i, j))
            return (*others, factor.body)
    return factors


def drop_repeated(factors: Factors, keys: Names) -> Factors:
    """{c} * {c} -> {c};  Exists(q) * Exists(q) -> Exists(q);  q * Exists(q) -> q"""
    indicators: set[Expr] = set()
    distinct: list[Expr] = []
    plain = {f for f in factors if isinstance(f, Atom)}
    for factor in factors:
        if factor.zero_one and factor in indicators:
            continue
        if isinstance(factor, Exists) and factor.body in plain:
            continue
        indicators.add(factor)
        distinct.append(factor)
    return tuple(distinct)


def guard_conditions(factors: Factors, keys: Names) -> Factors:
    """{not(is_null(a))} * {a < 3} -> {a < 3}: a comparison is never TRUE of NULL."""
    strict: set[str] = set()
    for factor in factors:
        scalar = factor.scalar if isinstance(factor, Cond) else None
        if isinstance(scalar, Apply) and scalar.function in _NULL_REJECTING:
            strict |= {a.name for a in scalar.arguments if isinstance(a, Ref)}
    return tuple(
        f
        for f in factors
        if not (isinstance(f, Cond) and any(f.scalar == _is_not_null(name) for name in strict))
    )


_NULL_REJECTING = frozenset(("=", "<>", "<", "<=", ">", ">=", "like", "in"))


def _is_not_null(name: str) -> Apply:
    return Apply("not", (Apply("is_null", (Ref(name),)),))


PASSES: tuple[Pass, ...] = (
    simplify_nested,
    unify_equalities,
    propagate_assignments,
    lower_lifts,
    drop_unused_lifts,
    drop_repeated,
    guard_conditions,
)


def cancel(monomials: list[Monomial], keys: Names) -> list[Monomial]:
    """2 * q + 3 * q -> 5 * q,  q - q -> 0,  up to renaming of hidden variables."""
    if len(monomials) < 2:
        return monomials
    # Few monomials have an equal: what each is made of says so for much less than its identity.
    censuses = [census(product_of(*monomial.factors)) for monomial in monomials]
    common = Counter(censuses)
    by_factors: dict[object, Monomial] = {}
    for monomial, own in zip(monomials, censuses, strict=True):
        text = _identity(monomial.factors, keys) if common[own] > 1 else own
        like_term = by_factors.get(text)
        if like_term is None:
            by_factors[text] = monomial
            continue
        total = apply("+", like_term.coefficient, monomial.coefficient)
        assert isinstance(total, Const)
        by_factors[text] = Monomial(total, like_term.factors)
    return [m for m in by_factors.values() if m.coefficient not in (Const(0), Const(0.0))]


def _identity(factors: Factors, keys: Names) -> str:
    """The product's text with its hidden variables renamed in canonical order."""
    product = product_of(*factors)
    free = keys | inputs(product)
    pins = [Rel(f"free {name}", (name,)) for name in sorted(free & all_names(product))]
    return canonical(Mul((*factors, *pins, ONE))).text if factors else ""
