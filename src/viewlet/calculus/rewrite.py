"""Renaming, substitution, polynomial expansion and the canonical form.

Names are lexical only by convention: no variable that a Sum hides is ever bound outside of it.
`expand`, which takes Sums apart, renames hidden variables where it would break this.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

from viewlet.calculus.expr import (
    Add,
    Assign,
    Atom,
    Binder,
    Cond,
    Expr,
    Mul,
    NestedValue,
    Sum,
    Value,
    children,
    cond,
    constant,
    is_constant,
    mapped,
    own_scalars,
    own_variables,
    product_of,
    sum_of,
    sum_over,
    walk,
    with_fields,
)
from viewlet.calculus.fields import Role, remembered
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import all_names, inputs, outputs
from viewlet.calculus.text import TEXTS, to_text
from viewlet.functions import Const, Ref, ScalarExpr, apply, fold, free_variables
from viewlet.functions import substitute as substitute_scalar


def rename(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Other names for variables, hidden ones included."""
    changing = {old for old in names.keys() & all_names(expr) if names[old] != old}
    if not changing:
        return expr
    scalars: dict[str, ScalarExpr] = {old: Ref(names[old]) for old in changing}

    def new(name: str) -> str:
        return names.get(name, name)

    def substituted(scalar: ScalarExpr) -> ScalarExpr:
        return substitute_scalar(scalar, scalars)

    def renamed(part: Expr) -> Expr:
        if changing.isdisjoint(all_names(part)):
            return part
        return mapped(part, variable=new, scalar=substituted, part=renamed)

    return renamed(expr)


def substitute(expr: Expr, values: Mapping[str, ScalarExpr]) -> Expr:
    """Scalars for variables in values, conditions and assignments; atoms keep their variables.

    (x := 3) with 1 for x is the comparison {1 == 3}.
    """

    def substituted(scalar: ScalarExpr) -> ScalarExpr:
        return substitute_scalar(scalar, values)

    def go(part: Expr) -> Expr:
        if values.keys().isdisjoint(all_names(part)):
            return part
        if isinstance(part, Assign):
            scalar = substituted(part.scalar)
            if part.variable in values:
                return cond(apply("==", values[part.variable], scalar))
            return Assign(part.variable, scalar)
        return part if isinstance(part, Atom) else mapped(part, scalar=substituted, part=go)

    return go(expr)


class Names:
    """Fresh variable names: b -> b_1, b_2, ..."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._used_names = set(reserved)
        self._last_numbers: dict[str, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """These names are given to nobody from now on."""
        self._used_names.update(names)

    def fresh(self, name: str) -> str:
        """A name that was neither reserved nor given before: b_1, b_2, ..."""
        stem = name.rstrip("0123456789").rstrip("_") or name
        for number in count(self._last_numbers.get(stem, 0) + 1):
            candidate = f"{stem}_{number}"
            if candidate not in self._used_names:
                self._used_names.add(candidate)
                self._last_numbers[stem] = number
                return candidate
        raise AssertionError


def without_capture(part: Expr, origin: Expr, around: Iterable[Expr], keys: frozenset[str]) -> Expr:
    """A part of a product, made from `origin`, whose new variables have no name from around it.

    (n_1 := ...) * (x := Sum[](q(n) * Sum[](r(n) * n)))
        -> the inner n may not become n_1 when the Sum is taken apart: it would be the outer one
    """
    introduced = all_names(part) - all_names(origin)
    if not introduced:
        return part
    outside = keys.union(*(all_names(other) for other in around))
    names = Names(all_names(part) | all_names(origin) | outside)
    return rename(part, {name: names.fresh(name) for name in sorted(introduced & outside)})


# --- polynomial expansion -------------------------------------------------------------------------


@dataclass(frozen=True)
class Monomial:
    """coefficient * product of factors, none of them a sum over atoms, a Sum or a constant."""

    coefficient: Const
    factors: tuple[Expr, ...]

    def expr(self) -> Expr:
        """The product that the monomial stands for."""
        return product_of(Value(self.coefficient), *self.factors)


def is_scalar_sum(expr: Expr) -> bool:
    """A sum of products of values and conditions, such as (100 + -1 * discount)."""
    if isinstance(expr, Add | Mul):
        return all(is_scalar_sum(part) for part in children(expr))
    return isinstance(expr, Value | Cond)


def expand(expr: Expr, scalars_too: bool = False) -> list[Monomial]:
    """Rule 2 of Figure 3.1, left to right: a sum of products, Sums taken apart.

    a * (b + c)      -> a * b + a * c
    a * Sum[k](b)    -> a * b        (hidden variables of b renamed where a has them)

    Sums of plain values stay whole unless `scalars_too`: distributing (100 - discount) over a
    relation would keep two maps where one does.
    """
    return list(_monomials(expr, scalars_too))


@lru_cache(maxsize=1 << 12)  # a definition is looked at for every relation that changes it
def _monomials(expr: Expr, scalars_too: bool) -> tuple[Monomial, ...]:
    return tuple(
        Monomial(_coefficient(p.factors), tuple(f for f in p.factors if not is_constant(f)))
        for p in _expand(expr, Names(all_names(expr)), scalars_too)
    )


def is_expanded(factors: Iterable[Expr]) -> bool:
    """Whether the factors of a product are those of a monomial."""
    return not any(
        isinstance(f, Sum | Mul) or is_constant(f) or (isinstance(f, Add) and not is_scalar_sum(f))
        for f in factors
    )


def _coefficient(factors: Iterable[Expr]) -> Const:
    product = product_of(*(f for f in factors if is_constant(f)))
    assert isinstance(product, Value) and isinstance(product.scalar, Const)
    return product.scalar


@dataclass(frozen=True)
class _OpenProduct:
    """A product under construction, with the variables that Sums around its parts hid."""

    factors: tuple[Expr, ...]
    hidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(all_names(f) for f in self.factors))

    def without(self, names: frozenset[str], fresh: Names) -> _OpenProduct:
        """The same product where no hidden variable has one of these names."""
        clash = {name: fresh.fresh(name) for name in sorted(self.hidden & names)}
        if not clash:
            return self
        hidden = frozenset(clash.get(name, name) for name in self.hidden)
        return _OpenProduct(tuple(rename(f, clash) for f in self.factors), hidden)


def _expand(expr: Expr, fresh: Names, scalars_too: bool) -> list[_OpenProduct]:
    if is_constant(expr):
        return [] if expr == constant(0) else [_OpenProduct((expr,))]
    if isinstance(expr, Add) and (scalars_too or not is_scalar_sum(expr)):
        return [p for term in expr.terms for p in _expand(term, fresh, scalars_too)]
    if isinstance(expr, Sum):
        shown = frozenset(expr.keys) | inputs(expr)
        return [
            _OpenProduct(p.factors, p.hidden | (_outputs(p.factors) - shown))
            for p in _expand(expr.body, fresh, scalars_too)
        ]
    if isinstance(expr, Mul):
        products = [_OpenProduct(())]
        for factor in expr.factors:
            parts = _expand(factor, fresh, scalars_too)
            products = [_join(left, right, fresh) for left in products for right in parts]
        return products
    return [_OpenProduct((expr,))]


def _join(left: _OpenProduct, right: _OpenProduct, fresh: Names) -> _OpenProduct:
    if left.hidden or right.hidden:
        right = right.without(left.names, fresh)
        left = left.without(right.names - right.hidden, fresh)
    return _OpenProduct(left.factors + right.factors, left.hidden | right.hidden)


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


@remembered
def census(expr: Expr) -> frozenset[tuple[str, int]]:
    """How many leaves and lifts of each kind and name: the same for all renamings and orders.

    Most expressions that differ differ in this, and it costs much less than their canonical forms.
    """
    kinds: Counter[str] = Counter()
    for part in walk(expr):
        if not isinstance(part, Add | Mul | Sum):
            kinds[f"{type(part).__name__} {part.name if isinstance(part, Atom) else ''}"] += 1
    return frozenset(kinds.items())


# --- canonical form -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Canonical:
    """A text that is the same for all renamings and orders of one expression.

    `names` maps the expression's variables to those of the text.
    """

    text: str
    names: Mapping[str, str]


def canonical(expr: Expr, keys: Iterable[str] = ()) -> Canonical:
    """Colors variables by where they occur, orders commuting parts by color, then numbers them.

    Two expressions with equal texts are equal up to renaming; the reverse may fail for very
    symmetric expressions, which costs a duplicate map and nothing else.
    """
    return _canonical(expr, frozenset(keys) & all_names(expr))


_MOST_REFINEMENTS = 3


@lru_cache(maxsize=1 << 12)
def _canonical(expr: Expr, keys: frozenset[str]) -> Canonical:
    """First under names that are numbered as they come: a table expression that is named twice, and
    a loop for two columns, are often the same but for their names."""
    numbers = {name: f"v{i}" for i, name in enumerate(_first_occurrences(expr))}
    if not all_names(expr) <= numbers.keys():
        return _colored(expr, keys)
    form = _colored(rename(expr, numbers), frozenset(numbers[key] for key in keys))
    return Canonical(form.text, {name: form.names[number] for name, number in numbers.items()})


@lru_cache(maxsize=1 << 12)
def _colored(expr: Expr, keys: frozenset[str]) -> Canonical:
    colors = {name: "k" if name in keys else "v" for name in all_names(expr)}
    for _ in range(_MOST_REFINEMENTS):
        colors = _refine(expr, colors)
        if len(set(colors.values())) == len(colors):
            break  # all variables are told apart
    ordered, _ = _ordered(expr, colors)
    numbering = {name: f"v{i}" for i, name in enumerate(_first_occurrences(ordered))}
    return Canonical(to_text(_ordered(rename(ordered, numbering), {})[0]), numbering)


@dataclass(frozen=True)
class _Template:
    """A text with names left open: pieces[0], names[0], pieces[1], names[1], ..., pieces[-1]."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]


def _filled(template: _Template, names: Mapping[str, str], marked: str | None = None) -> str:
    """The text under other names, one variable marked."""
    text = template.pieces[0]
    for name, piece in zip(template.names, template.pieces[1:], strict=True):
        text += ("@" if name == marked else names[name]) + piece
    return text


def _template(names: Iterable[str], text: Callable[[Mapping[str, str]], str]) -> _Template:
    """What `text` prints under other names, whatever these are."""
    plain = text({})
    mark = next(m for m in map(chr, count(1)) if m not in plain)
    pieces = text({name: f"{mark}{name}{mark}" for name in names}).split(mark)
    return _Template(tuple(pieces[::2]), tuple(pieces[1::2]))


@lru_cache(maxsize=1 << 12)
def _scalar_template(scalar: ScalarExpr) -> _Template:
    return _template(free_variables(scalar), lambda names: str(_named(scalar, names)))


@remembered
def _leaf_template(leaf: Expr) -> _Template:
    if isinstance(leaf, Atom):
        data = (getattr(leaf, f.name) for f in leaf.FIELDS if f.role is Role.DATA)
        kind: Any = type(leaf)  # a class is hashable, whatever mypy makes of its instances' hash
        return _Template(_atom_pieces(kind, len(leaf.arguments), *data), leaf.arguments)

    def text(names: Mapping[str, str]) -> str:
        def renamed(scalar: ScalarExpr) -> ScalarExpr:
            return _named(scalar, names)

        return to_text(with_fields(leaf, variable=lambda n: names.get(n, n), scalar=renamed))

    return _template(all_names(leaf), text)


@lru_cache(maxsize=1 << 12)
def _atom_pieces(kind: Any, arity: int, *data: object) -> tuple[str, ...]:
    """What stands around the arguments of an atom, which its text has in their order."""
    variables = tuple(f"{i}" for i in range(arity))
    others = iter(data)
    atom = kind(*(variables if f.role is Role.VARIABLE else next(others) for f in kind.FIELDS))
    template = _template(variables, lambda names: to_text(rename(atom, names)))
    assert template.names == variables
    return template.pieces


def _named(scalar: ScalarExpr, names: Mapping[str, str]) -> ScalarExpr:
    return (
        substitute_scalar(scalar, {name: Ref(names[name]) for name in names}) if names else scalar
    )


def _refine(expr: Expr, colors: Mapping[str, str]) -> dict[str, str]:
    """A variable's new color is its old one with the colored shapes of all its uses."""
    uses: dict[str, list[str]] = {name: [] for name in colors}
    bodies: dict[int, str] = {}
    if any(isinstance(node, NestedValue) for node in walk(expr)):
        _ordered(expr, colors, bodies)

    def visit(e: Expr, path: str) -> None:
        here = f"{path}/{type(e).__name__}"
        if isinstance(e, Atom):
            shape = f"{here}:{e.name}({','.join(colors[v] for v in e.arguments)})"
            for position, name in enumerate(e.arguments):
                uses[name].append(f"{shape}@{position}")
            return
        shape = here
        for scalar in own_scalars(e):
            template = _scalar_template(scalar)
            shape = f"{here}:{_filled(template, colors)}"
            for name in sorted(all_names(e)):
                uses[name].append(f"{shape}:{_filled(template, colors, name)}")
        bound = e.variable if isinstance(e, Binder) else None
        if bound is not None:
            uses[bound].append(f"{shape}:={bodies.get(id(e), '')}")
        data = ",".join(str(getattr(e, f.name)) for f in e.FIELDS if f.role is Role.DATA)
        for name in own_variables(e):
            if name != bound:
                uses[name].append(f"{here}:{data or 'key'}")
        for part in children(e):
            visit(part, here)

    visit(expr, "")
    return {
        name: hashlib.md5((colors[name] + "|".join(sorted(marks))).encode()).hexdigest()[:12]
        for name, marks in uses.items()
    }


def _ordered(
    expr: Expr, colors: Mapping[str, str], bodies: dict[int, str] | None = None
) -> tuple[Expr, str]:
    """The expression with the members of sums and products sorted by their colored text, and its.

    A text is made from those of the parts, never from the expression again: nested aggregates are
    deep, and printing each part at every level above it took most of a compilation. `bodies` gets
    the texts of what computed values are made from, by the node's identity.
    """

    colored_names = {
        name: f"c{colors[name]}" if name in colors else name for name in all_names(expr)
    }

    def color(name: str) -> str:
        return colored_names[name]

    def members(parts: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], list[str]]:
        sorted_parts = sorted((go(part) for part in parts), key=lambda pair: pair[1])
        return tuple(part for part, _ in sorted_parts), [text for _, text in sorted_parts]

    def go(e: Expr) -> tuple[Expr, str]:
        if isinstance(e, Add):
            parts, texts = members(e.terms)
            return Add(parts), f"({' + '.join(texts)})"
        if isinstance(e, Mul):
            parts, texts = members(e.factors)
            return Mul(parts), " * ".join(texts)
        if not children(e):
            return e, _filled(_leaf_template(e), colored_names)
        ordered = [go(part) for part in children(e)]
        if bodies is not None and isinstance(e, NestedValue):
            bodies[id(e)] = ordered[0][1]
        texts_of = iter(text for _, text in ordered)
        colored = with_fields(e, variable=color)
        shown = TEXTS[type(e)](colored, lambda _: next(texts_of))
        parts_of = iter(part for part, _ in ordered)
        return with_fields(e, part=lambda _: next(parts_of)), shown

    return go(expr)


def _first_occurrences(expr: Expr) -> list[str]:
    """The variables in the order in which the expression's text has them."""
    order: dict[str, None] = {}

    def visit_scalar(scalar: ScalarExpr) -> None:
        def leaf(scalar: Const | Ref) -> None:
            if isinstance(scalar, Ref):
                order.setdefault(scalar.name)

        fold(scalar, leaf, lambda call, parts: None)

    def visit(e: Expr) -> None:
        for scalar in own_scalars(e):
            visit_scalar(scalar)
        if not isinstance(e, Sum):
            for name in own_variables(e):
                order.setdefault(name)
        for part in children(e):
            visit(part)

    visit(expr)
    return list(order)
