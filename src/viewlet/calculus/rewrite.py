"""Renaming, substitution, polynomial expansion and the canonical form.

Names are lexical only by convention: no variable that a Sum hides is ever bound outside of it.
`expand`, which takes Sums apart, renames hidden variables where it would break this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

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
    assign,
    cond,
    constant,
    exists_of,
    extreme,
    factors_of,
    is_constant,
    lift,
    product_of,
    sum_of,
    sum_over,
    terms_of,
    value_of,
)
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import all_names, inputs, outputs
from viewlet.calculus.text import to_text
from viewlet.functions import Const, Ref, ScalarExpr, apply
from viewlet.functions import substitute as substitute_scalar


def rename(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Other names for variables, hidden ones included."""
    if not names:
        return expr

    def new(name: str) -> str:
        return names.get(name, name)

    def go(e: Expr) -> Expr:
        if isinstance(e, Rel):
            return Rel(e.name, tuple(map(new, e.variables)))
        if isinstance(e, Delta):
            return Delta(e.name, tuple(map(new, e.variables)))
        if isinstance(e, MapRef):
            return MapRef(e.name, e.column, tuple(map(new, e.keys)))
        if isinstance(e, Value):
            return value_of(substitute_scalar(e.scalar, scalars))
        if isinstance(e, Cond):
            return cond(substitute_scalar(e.scalar, scalars))
        if isinstance(e, Assign):
            return assign(new(e.variable), substitute_scalar(e.scalar, scalars))
        if isinstance(e, Lift):
            return lift(new(e.variable), go(e.body))
        if isinstance(e, Extreme):
            return extreme(new(e.variable), e.kind, new(e.target), go(e.body))
        if isinstance(e, Exists):
            return exists_of(go(e.body))
        if isinstance(e, Sum):
            return sum_over(map(new, e.keys), go(e.body))
        if isinstance(e, Add):
            return sum_of(*map(go, e.terms))
        return product_of(*map(go, e.factors))

    scalars: dict[str, ScalarExpr] = {old: Ref(name) for old, name in names.items()}
    return go(expr)


def substitute(expr: Expr, values: Mapping[str, ScalarExpr]) -> Expr:
    """Scalars for variables in values, conditions and assignments; atoms keep their variables.

    (x := 3) with 1 for x is the comparison {1 == 3}.
    """
    if isinstance(expr, Value):
        return value_of(substitute_scalar(expr.scalar, values))
    if isinstance(expr, Cond):
        return cond(substitute_scalar(expr.scalar, values))
    if isinstance(expr, Assign):
        scalar = substitute_scalar(expr.scalar, values)
        if expr.variable in values:
            return cond(apply("==", values[expr.variable], scalar))
        return Assign(expr.variable, scalar)
    if isinstance(expr, Lift):
        return lift(expr.variable, substitute(expr.body, values))
    if isinstance(expr, Extreme):
        return extreme(expr.variable, expr.kind, expr.target, substitute(expr.body, values))
    if isinstance(expr, Exists):
        return exists_of(substitute(expr.body, values))
    if isinstance(expr, Sum):
        return sum_over(expr.keys, substitute(expr.body, values))
    if isinstance(expr, Add):
        return sum_of(*(substitute(term, values) for term in expr.terms))
    if isinstance(expr, Mul):
        return product_of(*(substitute(factor, values) for factor in expr.factors))
    return expr


class Names:
    """Fresh variable names: `b` -> `b_1`, `b_2`, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def reserve(self, names: Iterable[str]) -> None:
        self._taken.update(names)

    def fresh(self, name: str) -> str:
        stem = name.rstrip("0123456789").rstrip("_") or name
        for number in count(1):
            candidate = f"{stem}_{number}"
            if candidate not in self._taken:
                self._taken.add(candidate)
                return candidate
        raise AssertionError


# --- polynomial expansion -------------------------------------------------------------------------


@dataclass(frozen=True)
class Monomial:
    """coefficient * product of factors, none of them a sum over atoms, a Sum or a constant."""

    coefficient: Const
    factors: tuple[Expr, ...]

    def expr(self) -> Expr:
        return product_of(Value(self.coefficient), *self.factors)


def is_scalar_sum(expr: Expr) -> bool:
    """A sum of products of values and conditions, such as (100 + -1 * discount)."""
    if isinstance(expr, Add | Mul):
        parts = expr.terms if isinstance(expr, Add) else expr.factors
        return all(is_scalar_sum(part) for part in parts)
    return isinstance(expr, Value | Cond)


def expand(expr: Expr, scalars_too: bool = False) -> list[Monomial]:
    """Rule 2 of Figure 3.1, left to right: a sum of products, Sums taken apart.

    a * (b + c)      -> a * b + a * c
    a * Sum[k](b)    -> a * b        (hidden variables of b renamed where a has them)

    Sums of plain values stay whole unless `scalars_too`: distributing (100 - discount) over a
    relation would keep two maps where one does.
    """
    names = Names(all_names(expr))
    return [
        Monomial(_coefficient(p.factors), tuple(f for f in p.factors if not is_constant(f)))
        for p in _expand(expr, names, scalars_too)
    ]


def _coefficient(factors: Iterable[Expr]) -> Const:
    product = product_of(*(f for f in factors if is_constant(f)))
    assert isinstance(product, Value) and isinstance(product.scalar, Const)
    return product.scalar


@dataclass(frozen=True)
class _Product:
    """A product under construction, with the variables that Sums around its parts hid."""

    factors: tuple[Expr, ...]
    hidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(all_names(f) for f in self.factors))

    def without(self, taken: frozenset[str], fresh: Names) -> _Product:
        """The same product where no hidden variable has a taken name."""
        clash = {name: fresh.fresh(name) for name in sorted(self.hidden & taken)}
        if not clash:
            return self
        hidden = frozenset(clash.get(name, name) for name in self.hidden)
        return _Product(tuple(rename(f, clash) for f in self.factors), hidden)


def _expand(expr: Expr, fresh: Names, scalars_too: bool) -> list[_Product]:
    if is_constant(expr):
        return [] if expr == constant(0) else [_Product((expr,))]
    if isinstance(expr, Add) and (scalars_too or not is_scalar_sum(expr)):
        return [p for term in expr.terms for p in _expand(term, fresh, scalars_too)]
    if isinstance(expr, Sum):
        shown = frozenset(expr.keys) | inputs(expr)
        return [
            _Product(p.factors, p.hidden | (_outputs(p.factors) - shown))
            for p in _expand(expr.body, fresh, scalars_too)
        ]
    if isinstance(expr, Mul):
        products = [_Product(())]
        for factor in expr.factors:
            parts = _expand(factor, fresh, scalars_too)
            products = [_join(left, right, fresh) for left in products for right in parts]
        return products
    return [_Product((expr,))]


def _join(left: _Product, right: _Product, fresh: Names) -> _Product:
    if left.hidden or right.hidden:
        right = right.without(left.names, fresh)
        left = left.without(right.names - right.hidden, fresh)
    return _Product(left.factors + right.factors, left.hidden | right.hidden)


def _outputs(factors: Iterable[Expr]) -> frozenset[str]:
    return frozenset[str]().union(*(outputs(f) for f in factors))


def monomials_to_expr(
    keys: Iterable[str], monomials: Iterable[Monomial], free: frozenset[str] = frozenset()
) -> Expr:
    """The sum of Sum[keys](monomial), scheduled; a Sum that hides nothing is left out.

    `free` are the variables that are bound from outside.
    """
    keys = frozenset(keys)
    return sum_of(
        *(
            product_of(Value(m.coefficient), project(keys, schedule(product_of(*m.factors), free)))
            for m in monomials
        )
    )


def project(keys: Iterable[str], expr: Expr) -> Expr:
    """Sum[keys](q) -> q  where q binds nothing else."""
    keys = frozenset(keys)
    bound = outputs(expr)
    return expr if bound <= keys else sum_over(keys & (bound | inputs(expr)), expr)


# --- canonical form -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Canonical:
    """A text that is the same for all renamings and orders of one expression.

    `names` maps the expression's variables to those of the text.
    """

    text: str
    names: Mapping[str, str]


def canonical(expr: Expr, keys: Iterable[str] = ()) -> Canonical:
    """Colours variables by where they occur, orders commuting parts by colour, then numbers them.

    Two expressions with equal texts are equal up to renaming; the reverse may fail for very
    symmetric expressions, which costs a duplicate map and nothing else.
    """
    return _canonical(expr, frozenset(keys))


@lru_cache(maxsize=1 << 12)
def _canonical(expr: Expr, keys: frozenset[str]) -> Canonical:
    colours = {name: "k" if name in keys else "v" for name in all_names(expr)}
    for _ in range(3):
        colours = _refine(expr, colours)
    ordered, _ = _ordered(expr, colours)
    numbering = {name: f"v{i}" for i, name in enumerate(_first_occurrences(ordered))}
    return Canonical(to_text(_ordered(rename(ordered, numbering), {})[0]), numbering)


def _refine(expr: Expr, colours: Mapping[str, str]) -> dict[str, str]:
    """A variable's new colour is its old one with the coloured shapes of all its uses."""
    uses: dict[str, list[str]] = {name: [] for name in colours}
    bodies: dict[int, str] = {}
    _ordered(expr, colours, bodies)

    def visit(e: Expr, path: str) -> None:
        here = f"{path}/{type(e).__name__}"
        if isinstance(e, Rel | Delta | MapRef):
            variables = e.keys if isinstance(e, MapRef) else e.variables
            shape = f"{here}:{e.name}({','.join(colours[v] for v in variables)})"
            for position, name in enumerate(variables):
                uses[name].append(f"{shape}@{position}")
        elif isinstance(e, Value | Cond | Assign):
            blank = {n: Ref(colours[n]) for n in all_names(e)}
            shape = f"{here}:{substitute_scalar(e.scalar, blank)}"
            for name in sorted(all_names(e)):
                marked = {**blank, name: Ref("@")}
                uses[name].append(f"{shape}:{substitute_scalar(e.scalar, marked)}")
            if isinstance(e, Assign):
                uses[e.variable].append(f"{shape}:=")
        else:
            if isinstance(e, Lift | Extreme):
                uses[e.variable].append(f"{here}:={bodies[id(e)]}")
            if isinstance(e, Extreme):
                uses[e.target].append(f"{here}:{e.kind}")
            if isinstance(e, Sum):
                for name in e.keys:
                    uses[name].append(f"{here}:key")
            parts = (
                e.terms if isinstance(e, Add) else e.factors if isinstance(e, Mul) else (e.body,)
            )
            for part in parts:
                visit(part, here)

    visit(expr, "")
    return {
        name: hashlib.md5((colours[name] + "|".join(sorted(found))).encode()).hexdigest()[:12]
        for name, found in uses.items()
    }


def _ordered(
    expr: Expr, colours: Mapping[str, str], bodies: dict[int, str] | None = None
) -> tuple[Expr, str]:
    """The expression with the members of sums and products sorted by their coloured text, and its.

    A text is made from those of the parts, never from the expression again: nested aggregates are
    deep, and printing each part at every level above it took most of a compilation. `bodies` gets
    the texts of what lifts and extremes hold, by the node's identity.
    """

    def colour(name: str) -> str:
        return "c" + colours[name] if name in colours else name

    def members(parts: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], list[str]]:
        found = sorted((go(part) for part in parts), key=lambda pair: pair[1])
        return tuple(part for part, _ in found), [text for _, text in found]

    def go(e: Expr) -> tuple[Expr, str]:
        if isinstance(e, Add):
            parts, texts = members(e.terms)
            return Add(parts), f"({' + '.join(texts)})"
        if isinstance(e, Mul):
            parts, texts = members(e.factors)
            return Mul(parts), " * ".join(texts)
        if not isinstance(e, Sum | Exists | Lift | Extreme):
            return e, to_text(rename(e, {name: colour(name) for name in all_names(e)}))
        body, text = go(e.body)
        if isinstance(e, Sum):
            keys = ", ".join(sorted(map(colour, e.keys)))
            return Sum(e.keys, body), f"Sum[{keys}]({text})"
        if isinstance(e, Exists):
            return Exists(body), f"Exists({text})"
        if bodies is not None:
            bodies[id(e)] = text
        if isinstance(e, Lift):
            return Lift(e.variable, body), f"({colour(e.variable)} := {text})"
        ends = f"{colour(e.variable)} := {e.kind} {colour(e.target)}"
        return Extreme(e.variable, e.kind, e.target, body), f"({ends} in {text})"

    return go(expr)


def _first_occurrences(expr: Expr) -> list[str]:
    seen: dict[str, None] = {}

    def visit_scalar(scalar: ScalarExpr) -> None:
        if isinstance(scalar, Ref):
            seen.setdefault(scalar.name)
        elif not isinstance(scalar, Const):
            for argument in scalar.arguments:
                visit_scalar(argument)

    def visit(e: Expr) -> None:
        if isinstance(e, Rel | Delta):
            seen.update(dict.fromkeys(n for n in e.variables if n not in seen))
        elif isinstance(e, MapRef):
            seen.update(dict.fromkeys(n for n in e.keys if n not in seen))
        elif isinstance(e, Value | Cond | Assign):
            visit_scalar(e.scalar)
        if isinstance(e, Assign | Lift | Extreme):
            seen.setdefault(e.variable)
        if isinstance(e, Extreme):
            seen.setdefault(e.target)
        for part in terms_of(e) if isinstance(e, Add) else factors_of(e):
            if part is not e:
                visit(part)
        if isinstance(e, Lift | Extreme | Exists | Sum):
            visit(e.body)

    visit(expr)
    return list(seen)
