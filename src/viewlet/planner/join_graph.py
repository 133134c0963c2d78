"""A product as a join graph: which relations it joins, through which variables.

    R(a, b) * S(b, c) * {a > 3} * [b * c] * (n := m[c]) * {n = 0} * {a < c}

    leaves    R(a, b) with {a > 3}, S(b, c) with the rest but the last: an atom and what it decides
    spanning  {a < c}, which needs variables of several leaves

Leaves are numbered, and sets of them are frozensets of numbers. Their order is that of the
product's canonical form: equal products have equal graphs, whatever their variables are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from viewlet.calculus.expr import (
    PRESENCE,
    Cond,
    Exists,
    Expr,
    MapRef,
    Nested,
    Rel,
    product_of,
)
from viewlet.calculus.rewrite import canonical, rename
from viewlet.calculus.scope import NONE, Names, inputs, outputs, visible
from viewlet.calculus.text import to_text
from viewlet.planner.maps import is_value
from viewlet.schema import Catalog

Leaves = frozenset[int]


@dataclass(frozen=True)
class Leaf:
    """One occurrence of a relation, or of an inner view's map, with what its rows decide alone.

    Nested values that one row determines belong to its leaf. The atom may be an Exists as well: the
    rows of a DISTINCT subquery.
    """

    atom: Rel | MapRef | Exists
    decided: tuple[Expr, ...]

    @cached_property
    def names(self) -> Names:
        """The variables that a row binds, computed ones included."""
        return outputs(self.atom).union(*(outputs(factor) for factor in self.decided))

    @property
    def factors(self) -> tuple[Expr, ...]:
        """The atom, and what is decided with it."""
        return (self.atom, *self.decided)

    @property
    def filters(self) -> int:
        """How many conditions a row has to pass."""
        return sum(isinstance(factor, Cond) for factor in self.decided)

    @property
    def is_nested(self) -> bool:
        """Whether other relations than the atom's change it."""
        return any(isinstance(factor, Nested) for factor in self.factors)

    @property
    def atom_name(self) -> str:
        """What the leaf is called in a text."""
        return self.atom.name if isinstance(self.atom, Rel | MapRef) else "distinct rows"


@dataclass(frozen=True)
class Spanning:
    """A scalar over variables of several leaves, and the variables that must be there for it."""

    scalar: Expr
    needs: Names


class JoinGraph:
    """The leaves of a pure product and what spans them."""

    def __init__(self, catalog: Catalog, factors: Sequence[Expr]) -> None:
        self._catalog = catalog
        self.leaves, self.spanning = _split(_in_canonical_order(factors))

    @cached_property
    def all(self) -> Leaves:
        """Every leaf."""
        return frozenset(range(len(self.leaves)))

    def names(self, leaves: Iterable[int]) -> Names:
        """The variables that some of the leaves bind."""
        return NONE.union(*(self.leaves[i].names for i in leaves))

    def applied(self, leaves: Leaves) -> list[Spanning]:
        """What spans these leaves and no others, each after what binds a variable for it.

        What needs no variable is applied once, to all leaves.
        """
        names = self.names(leaves)
        applied: list[Spanning] = []
        waiting = list(self.spanning)
        progress = True
        while progress:
            progress = False
            for span in list(waiting):
                if span.needs <= names and (span.needs or leaves == self.all):
                    waiting.remove(span)
                    applied.append(span)
                    names |= outputs(span.scalar)
                    progress = True
        return applied

    def shown(self, leaves: Leaves, keys: Names) -> Names:
        """The variables of some leaves that others need: to join, to compute, or as keys."""
        applied = self.applied(leaves)
        names = self.names(leaves).union(*(outputs(span.scalar) for span in applied))
        needed = keys | self.names(self.all - leaves)
        return names & needed.union(*(s.needs for s in self.spanning if s not in applied))

    def components(self, leaves: Leaves, bound: Names) -> list[Leaves]:
        """The leaves in groups that share no variable beyond the bound ones, in order."""
        groups: list[tuple[Names, Leaves]] = []
        for i in sorted(leaves):
            names = self.leaves[i].names - bound
            joined = [group for group in groups if group[0] & names]
            groups = [group for group in groups if not group[0] & names]
            members = frozenset((i,)).union(*(group[1] for group in joined))
            groups.append((names.union(*(group[0] for group in joined)), members))
        return sorted((members for _, members in groups), key=min)

    def key(self, leaf: int) -> Names | None:
        """The variables that stand for a relation's declared key."""
        return declared_key(self._catalog, self.leaves[leaf].atom)

    def is_keyed_by(self, leaf: int, names: Names) -> bool:
        """Whether values for the names determine at most one row of a leaf."""
        key = self.key(leaf)
        return key is not None and key <= names

    def referred(self, leaf: int) -> list[int]:
        """The leaves whose keys a leaf's rows hold, beside a key of their own."""
        names = self.leaves[leaf].names
        own = self.key(leaf)
        return [
            i
            for i in sorted(self.all - {leaf})
            if self.is_keyed_by(i, names) and self.key(i) != own
        ]

    def is_static(self, leaf: int) -> bool:
        """Whether the leaf's rows never change."""
        atom = self.leaves[leaf].atom
        return isinstance(atom, Rel) and self._catalog[atom.name].static

    def has_only_scalars_between(self) -> bool:
        """Whether leaves are tied by variables and scalars alone, not by nested values."""
        return not any(isinstance(span.scalar, Nested) for span in self.spanning)


def declared_key(catalog: Catalog, atom: Expr) -> Names | None:
    """The variables of a relation that stand for its declared key; None if it has none."""
    if not isinstance(atom, Rel) or not catalog[atom.name].key:
        return None
    relation = catalog[atom.name]
    variables = dict(zip(relation.names, atom.arguments, strict=True))
    return frozenset(variables[column] for column in relation.key)


def _in_canonical_order(factors: Sequence[Expr]) -> list[Expr]:
    """The factors by their texts under canonical names: those of the rows, which all sums over the
    same rows have in common."""
    rows = (
        replace(factor, column=PRESENCE) if isinstance(factor, MapRef) else factor
        for factor in factors
        if not is_value(factor)
    )
    names = canonical(product_of(*rows)).names
    return sorted(factors, key=lambda factor: to_text(rename(factor, names)))


def _split(factors: list[Expr]) -> tuple[list[Leaf], list[Spanning]]:
    atoms: list[Any] = [f for f in factors if isinstance(f, Rel | MapRef)]
    names = [outputs(atom) for atom in atoms]
    waiting = [f for f in factors if not isinstance(f, Rel | MapRef)]
    for factor in list(waiting):
        own_rows = isinstance(factor, Exists) and not inputs(factor)
        if own_rows and not any(outputs(factor) <= leaf_names for leaf_names in names):
            waiting.remove(factor)
            atoms.append(factor)
            names.append(outputs(factor))
    decided: list[list[Expr]] = [[] for _ in atoms]
    progress = True
    while progress:
        progress = False
        for factor in list(waiting):
            needs = visible(factor) if isinstance(factor, Exists) else inputs(factor)
            home = next((i for i, own in enumerate(names) if needs and needs <= own), None)
            if home is not None:
                waiting.remove(factor)
                decided[home].append(factor)
                names[home] |= outputs(factor)
                progress = True
    bound = NONE.union(*names)
    leaves = [Leaf(atom, tuple(own)) for atom, own in zip(atoms, decided, strict=True)]
    # A variable that a leaf binds as well is compared with what is assigned to it.
    return leaves, [Spanning(f, inputs(f) | (outputs(f) & bound)) for f in waiting]
