"""The materialization decision: which parts of a product to keep as maps (thesis 3.1, Figure 3.1).

A product is split into what is bound by the batch, what must be computed when the statement runs,
and the rest, whose connected components become maps:

    Rule 1, decomposition     components that share only variables of the batch are kept apart
    Rule 2, expansion         products come from `expand`; a sum of values that spans components is
                              distributed over them here
    Rule 3, input variables   conditions over variables of two components or of the batch stay out
    Rule 4, nested aggregates a lift stays out, over maps of its body, when its body changes with
                              the batch, is not correlated, or has all its variables bound

Joins along declared keys are kept in parts (`_cut_at_root`), which the thesis does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewlet.calculus.delta import correlation
from viewlet.calculus.expr import (
    Add,
    Assign,
    Binder,
    Cond,
    Delta,
    Each,
    Exists,
    Expr,
    MapRef,
    Nested,
    NestedValue,
    Rel,
    Value,
    factors_of,
    is_batch,
    is_buffer,
    mapped,
    product_of,
    starts_from_batch,
    sum_of,
    terms_of,
    walk,
)
from viewlet.calculus.rewrite import is_scalar_sum, project, without_capture
from viewlet.calculus.scope import NONE, Names, inputs, outputs, visible
from viewlet.calculus.simplify import simplify, simplify_monomials
from viewlet.planner.maps import Maps
from viewlet.schema import Catalog

Apart = Callable[[list[Expr]], Names]
"""Factors of a product -> variables through which they are not joined in maps."""


@dataclass
class Component:
    """Factors that hang together through variables which the batch does not bind."""

    factors: list[Expr]
    names: Names


class Materializer:
    """Replaces relations by maps, allocating those that are missing."""

    def __init__(self, catalog: Catalog, maps: Maps, keyed: bool) -> None:
        self._catalog = catalog
        self._maps = maps
        self._keyed = keyed

    # Nested bodies.

    def decorrelate(self, expr: Expr) -> Expr:
        """Rule 4 throughout: bodies of lifts, extremes and Exists over maps, innermost first."""
        return self._decorrelate(simplify(expr))

    def _decorrelate(self, expr: Expr) -> Expr:
        keys, monomials = simplify_monomials(expr, outputs(expr))
        terms = []
        for monomial in monomials:
            factors = [
                without_capture(
                    self._nested(f), f, (o for o in monomial.factors if o is not f), keys
                )
                for f in monomial.factors
            ]
            product = product_of(Value(monomial.coefficient), *factors)
            terms.append(project(keys, product))
        return sum_of(*terms)

    def _nested(self, factor: Expr) -> Expr:
        if not isinstance(factor, Nested):
            return factor
        bound = correlation(factor) if isinstance(factor, NestedValue) else NONE
        return mapped(factor, part=lambda body: self.body(body, bound))

    def body(self, body: Expr, bound: Names) -> Expr:
        """A nested body over maps. `bound` are the correlated variables, which do not connect."""
        if not any(isinstance(node, Rel) or self._maps.is_inner(node) for node in walk(body)):
            return body
        return self.expression(self._decorrelate(body), changing=frozenset(), bound=bound)

    # Expressions and products.

    def expression(self, expr: Expr, changing: frozenset[str], bound: Names) -> Expr:
        """The expression over maps. `changing` are the relations that change in this trigger."""
        keys, monomials = simplify_monomials(expr, outputs(expr))
        terms = []
        for monomial in monomials:
            product = self._product(list(monomial.factors), keys, changing, bound)
            terms.append(product_of(Value(monomial.coefficient), product))
        return sum_of(*terms)

    def recomputed(
        self, expr: Expr, changing: frozenset[str], apart: Apart = lambda factors: NONE
    ) -> Expr:
        """The expression over maps, for a statement that computes a map anew.

        Inner views that change in this trigger are read as they are, and no map is made from them:
        it might be the one that is computed here. Variables kept `apart` join nothing in maps.
        """
        keys, monomials = simplify_monomials(expr, outputs(expr))
        terms = []
        for monomial in monomials:
            read = [f for f in monomial.factors if self._is_changing_inner(f, changing)]
            other_factors = [f for f in monomial.factors if f not in read]
            bound = _bound_by(read) | apart(other_factors)
            product = product_of(*read, self._product(other_factors, keys | bound, changing, bound))
            terms.append(product_of(Value(monomial.coefficient), project(keys, product)))
        return sum_of(*terms)

    def _is_changing_inner(self, factor: Expr, changing: frozenset[str]) -> bool:
        return self._maps.is_inner(factor) and bool(self._maps.depends(factor) & changing)

    def _product(
        self, factors: list[Expr], keys: Names, changing: frozenset[str], bound: Names
    ) -> Expr:
        forced: list[Expr] = []
        while True:
            outside, inside, reach = self._split(factors, changing, bound, forced)
            components = _components([f for f in inside if not _is_scalar(f)], reach)
            unattached = _attach([f for f in inside if _is_scalar(f)], components, reach)
            parts: list[Component] = []
            for component in components:
                pieces, across, bound_here = self._cut_at_root(component, outside, reach)
                unattached += across
                parts += [p for piece in pieces for p in self._cut_cycles(piece, bound_here)]
            loose = [f for part in parts for f in _with_inputs(part)]
            if not loose:
                break
            forced += loose
        spanning = next((f for f in unattached if self._spans(f, parts)), None)
        if spanning is not None:
            # Term by term, not expanded in full: x * (1 - y) stays one value of its component.
            other_factors = [f for f in factors if f is not spanning]
            return sum_of(
                *(
                    self._product([*factors_of(term), *other_factors], keys, changing, bound)
                    for term in terms_of(spanning)
                )
            )
        return project(
            keys, product_of(*self._references(parts, outside + unattached, keys | reach))
        )

    def _references(self, parts: list[Component], outside: list[Expr], needed: Names) -> list[Expr]:
        """What is computed in the statement, and the maps for the rest."""
        needed = needed.union(*(visible(f) for f in outside))
        references = list(outside)
        for i, part in enumerate(parts):
            others = frozenset[str]().union(*(p.names for j, p in enumerate(parts) if j != i))
            visible_names = part.names & (needed | others)
            pulled = self._pull_out(part, visible_names)
            visible_names = part.names & (
                visible_names | frozenset[str]().union(*(visible(f) for f in pulled))
            )
            references += [self._reference(part, visible_names), *pulled]
        return references

    def _reference(self, part: Component, visible_names: Names) -> Expr:
        """The map that holds a component; a lone map or Exists of one needs no other."""
        if len(part.factors) == 1 and outputs(part.factors[0]) <= visible_names:
            (factor,) = part.factors
            if isinstance(factor, MapRef):
                return factor
            if isinstance(factor, Exists) and isinstance(factor.body, MapRef):
                return factor
        return self._maps.allocate(visible_names & _bound_by(part.factors), part.factors)

    def _pull_out(self, part: Component, visible_names: Names) -> list[Expr]:
        """Take nested factors out of a component whose keys determine all their variables.

        Sum[a](R(a, b) * (x := m[a]) * {x > b})  ->  R(a, b) * (x := m[a]) * {x > b}
                                                          where a is R's key

        The map is as large without them, need not be maintained when the nested query changes, and
        is more likely to be shared.
        """
        atoms: list[Expr] = [
            f for f in part.factors if not isinstance(f, NestedValue) and outputs(f)
        ]
        reach = visible_names.union(*(visible(f) for f in self._determined(visible_names, atoms)))
        pulled = [f for f in part.factors if isinstance(f, NestedValue) and inputs(f) <= reach]
        while True:
            names_in_scope = reach | {f.variable for f in pulled}
            users = [
                f
                for f in part.factors
                if not any(f is p for p in pulled) and any(p.variable in visible(f) for p in pulled)
            ]
            stuck = [f for f in users if outputs(f) or not inputs(f) <= names_in_scope]
            if not stuck:
                break
            names = frozenset[str]().union(*(visible(f) for f in stuck))
            pulled = [p for p in pulled if p.variable not in names]
        moved: list[Expr] = [*pulled, *users]
        for factor in part.factors:
            others = (f for f in part.factors if f is not factor and f not in moved)
            if isinstance(factor, Exists) and visible(factor) <= reach & _bound_in_order(others):
                moved.append(factor)
        part.factors = [f for f in part.factors if not any(f is m for m in moved)]
        part.names = frozenset[str]().union(*(visible(f) for f in part.factors))
        return moved

    def _split(
        self, factors: list[Expr], changing: frozenset[str], bound: Names, forced: list[Expr]
    ) -> tuple[list[Expr], list[Expr], Names]:
        """(factors to compute in the statement, factors to keep as maps, variables bound)."""
        outside = [f for f in factors if is_batch(f)]
        waiting = [f for f in factors if not is_batch(f)]
        for factor in outside:
            bound |= outputs(factor)
        for factor in list(waiting):
            stays = isinstance(factor, Nested) and self._must_stay_out(factor, changing)
            if stays or factor in forced:
                waiting.remove(factor)
                outside.append(factor)
                if starts_from_batch(factor) and inputs(factor) <= bound:
                    bound |= outputs(factor)
        progress = True
        while progress:
            progress = False
            for factor in list(waiting):
                if self._is_bound(factor, bound):
                    waiting.remove(factor)
                    outside.append(factor)
                    progress = True
            for factor in outside:
                computed = isinstance(factor, Binder)
                if computed and inputs(factor) <= bound and not outputs(factor) <= bound:
                    bound |= outputs(factor)
                    progress = True
        return outside, waiting, bound

    def _must_stay_out(self, factor: Nested, changing: frozenset[str]) -> bool:
        if any(isinstance(n, Delta) or is_buffer(n) for n in walk(factor.body)):
            return True
        if self._maps.depends(factor.body) & changing:
            return True
        return not correlation(factor)

    def _is_bound(self, factor: Expr, bound: Names) -> bool:
        """Nothing is left to find out: a filter, a value or a lookup."""
        if isinstance(factor, Rel):
            return False
        if isinstance(factor, Binder):
            return inputs(factor) <= bound
        return visible(factor) <= bound

    def _spans(self, factor: Expr, components: list[Component]) -> bool:
        """A sum of values over variables of a component and of something else."""
        if not isinstance(factor, Add) or not is_scalar_sum(factor):
            return False
        return any(inputs(factor) & c.names for c in components)

    # Joins along keys.

    def _cut_at_root(
        self, component: Component, outside: list[Expr], bound: Names
    ) -> tuple[list[Component], list[Expr], Names]:
        """Keep a join along keys as the rows that refer and the maps that they refer to.

        Δsupplier(s, n) * {lineitem(o, s) * orders(o, c) * customer(c, n)}
        ->
        Δsupplier(s, n) * {lineitem(o, s)} * {orders(o, c) * customer(c, n)}

        A row of one atom, the root, determines those of all others and that of the batch, each
        through its declared key. A map of the whole join would cost every change of the root
        another probe and another record. Without it a change of the batch's relation visits the
        root's rows that refer to it, so every row of the root is visited once for each row that it
        refers to: over a stream of inserts that is never more work than to maintain the map. Where
        the batch itself determines the component, its map is one probe and stays whole, unless a
        nested value decides before which rows get there at all:

        Δlineitem(o, q) * (x := sum of o) * {x > 300} * {orders(o, c) * customer(c, n)}
        ->
        Δlineitem(o, q) * (x := sum of o) * {x > 300} * {orders(o, c)} * {customer(c, n)}

        Nested values of the component itself are computed from the pieces, too. But a component
        with filters of its own may be far smaller than its root: there nothing of this is done.

        The same where the batch is the domain of a nested query's change:

        dom(p) * (x := min c in ..) * {partsupp(p, s, x) * supplier(s, n)}
        ->
        dom(p) * (x := min c in ..) * {partsupp(p, s, x)} * {supplier(s, n)}

        The root's rows under the domain are met either way, and each follows one key more. Both
        pieces are there already, since the map of the whole would be maintained from them; but not
        where one of them never changes, and there it stays whole.

        Gives the pieces, the conditions between them, and what is bound when pieces are joined.
        """
        uncut: tuple[list[Component], list[Expr], Names] = ([component], [], bound)
        batches = [f for f in outside if is_batch(f)]
        nested = [f for f in component.factors if isinstance(f, Nested)]
        scalars = [f for f in component.factors if _is_scalar(f)]
        atoms = [f for f in component.factors if not _is_scalar(f) and f not in nested]
        if not self._keyed or len(batches) != 1 or len(atoms) < 2:
            return uncut
        (batch,) = batches
        if not all(isinstance(atom, Rel) for atom in atoms):
            return uncut
        plain = not _filters(scalars, _bound_by(atoms))
        if nested and not (plain and visible(product_of(*nested)) <= component.names):
            return uncut
        near = self._determined(visible(batch), atoms)
        rare = plain and _decides(outside)
        for root in atoms:
            if any(root is atom for atom in near):
                if not rare or len(self._followers(root, atoms)) < len(atoms):
                    continue
            elif not self._leads(root, atoms, batch):
                continue
            reach = bound | visible(root)
            pieces = _components(atoms, reach)
            if not isinstance(batch, Delta) and not all(map(self._changes, pieces)):
                continue
            unattached = _attach(scalars, pieces, NONE)
            if all(isinstance(f, Cond) or self._spans(f, pieces) for f in unattached):
                return pieces, [*nested, *unattached], reach
        return uncut

    def _leads(self, root: Expr, atoms: list[Expr], batch: Expr) -> bool:
        """A row of the root determines one of every other atom at most, and that of the batch."""
        if isinstance(batch, Delta):
            atoms = [*atoms, batch]
        elif not outputs(batch) <= visible(root):
            return False
        return len(self._followers(root, atoms)) == len(atoms)

    def _changes(self, component: Component) -> bool:
        return bool(self._maps.depends(product_of(*component.factors)))

    # Cyclic joins.

    def _cut_cycles(self, component: Component, bound: Names) -> list[Component]:
        """Keep a cyclic join from becoming one map over pairs that never meet in a row.

        The batch binds variables of several atoms. Where no single atom has them all, the join with
        the batch is a cycle, and keeping it joined would pair everything that shares, say, a
        nation. It is then cut at the variable whose binding leaves pieces that are no larger than
        one of their relations; the statement joins the pieces.
        """
        if self._is_bounded(component, bound):
            return [component]
        for name in sorted(_cut_candidates(component, bound)):
            pieces = self._cut_at(component, bound | {name})
            if all(self._is_bounded(piece, bound | {name}) for piece in pieces):
                return pieces
        return self._cut_at(component, component.names)

    def _cut_at(self, component: Component, bound: Names) -> list[Component]:
        atoms = [f for f in component.factors if not _is_scalar(f)]
        pieces = _components(atoms, bound)
        unattached = _attach([f for f in component.factors if _is_scalar(f)], pieces, NONE)
        return pieces if not unattached else [component]

    def _is_bounded(self, component: Component, bound: Names) -> bool:
        """The bound variables are those of one atom, or all atoms follow from one by keys."""
        atoms = [f for f in component.factors if not _is_scalar(f)]
        ends = component.names & bound
        if len(atoms) < 2 or any(ends <= visible(atom) for atom in atoms):
            return True
        return any(len(self._followers(atom, atoms)) == len(atoms) for atom in atoms)

    def _followers(self, root: Expr, atoms: list[Expr]) -> list[Expr]:
        """The atoms of which a row of the root determines at most one row, through their keys."""
        others = [atom for atom in atoms if atom is not root]
        return [root, *self._determined(visible(root), others)]

    def _determined(self, names: Names, atoms: list[Expr]) -> list[Expr]:
        """The atoms of which values for the names determine at most one row."""
        determined: list[Expr] = []
        progress = True
        while progress:
            progress = False
            for atom in atoms:
                if not any(atom is f for f in determined) and self._is_keyed_by(atom, names):
                    determined.append(atom)
                    names |= visible(atom)
                    progress = True
        return determined

    def _is_keyed_by(self, atom: Expr, names: Names) -> bool:
        if not isinstance(atom, Rel | Delta):
            # A nested factor has one value for each binding of its variables.
            return inputs(atom) <= names if isinstance(atom, NestedValue) else False
        relation = self._catalog[atom.name]
        variables = dict(zip(relation.names, atom.variables, strict=True))
        return bool(relation.key) and {variables[column] for column in relation.key} <= names


def _cut_candidates(component: Component, bound: Names) -> Names:
    """Variables that at least two atoms share."""
    candidates: set[str] = set()
    shared: set[str] = set()
    for factor in component.factors:
        if not _is_scalar(factor):
            shared |= visible(factor) & candidates
            candidates |= visible(factor)
    return frozenset(shared) - bound


def _filters(factors: list[Expr], names: Names) -> list[Expr]:
    """The conditions that these variables alone decide."""
    return [f for f in factors if isinstance(f, Cond) and inputs(f) <= names]


def _decides(outside: list[Expr]) -> bool:
    """Whether a nested value is tested in the statement."""
    values = _bound_by(f for f in outside if isinstance(f, NestedValue))
    return any(isinstance(f, Cond) and inputs(f) & values for f in outside)


def _is_scalar(factor: Expr) -> bool:
    return is_scalar_sum(factor) or isinstance(factor, Assign)


def _with_inputs(part: Component) -> list[Expr]:
    """Nested and counted factors that need a variable from outside: no map can hold them."""
    missing = inputs(product_of(*part.factors))
    return [f for f in part.factors if isinstance(f, Nested | Each) and inputs(f) & missing]


def _bound_by(factors: Iterable[Expr]) -> Names:
    return frozenset[str]().union(*(outputs(f) for f in factors))


def _bound_in_order(factors: Iterable[Expr]) -> Names:
    """The variables that the factors bind by themselves, each from what others have bound.

    (x := m[x]) compares a value with its own key: it outputs x and does not bind it.
    """
    bound: Names = NONE
    waiting = list(factors)
    while True:
        ready = [f for f in waiting if inputs(f) <= bound]
        if not ready:
            return bound
        bound |= _bound_by(ready)
        waiting = [f for f in waiting if not inputs(f) <= bound]


def _components(factors: list[Expr], bound: Names) -> list[Component]:
    """Connected components of the join graph; variables of the batch do not connect."""
    components: list[Component] = []
    for factor in factors:
        names = visible(factor)
        joined = [c for c in components if c.names & names - bound]
        for component in joined:
            components.remove(component)
        components.append(
            Component(
                [f for c in joined for f in c.factors] + [factor],
                names.union(*(c.names for c in joined)),
            )
        )
    return components


def _attach(scalars: list[Expr], components: list[Component], bound: Names) -> list[Expr]:
    """Rule 3: put each scalar into the component that has all its variables; return the others.

    An assignment is taken for a component only where its value is then a column of the map.
    """
    unattached = list(scalars)
    progress = True
    while progress:
        progress = False
        for factor in list(unattached):
            needs = inputs(factor)
            home = next((c for c in components if needs and needs <= c.names - bound), None)
            if home is not None:
                unattached.remove(factor)
                home.factors.append(factor)
                home.names |= outputs(factor)
                progress = True
    return unattached
