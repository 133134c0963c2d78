"""View trees as maps and statements: messages become maps, changes go along them.

A node's map holds Sum[shown](rows of the bag * messages of the children). For a batch of R

    one factor changes     Δ * the others                          Δ is ΔR, or a child's buffer
    several change         Δ1 * new2 * new3 + old1 * Δ2 * new3 + old1 * old2 * Δ3

where new = old + Δ. All maps are read as they were before the batch (assemble.py), so that a new
value that is looked up is written as that sum; one that is looped over gives two terms. Rows of the
bag that do not change are in a map of their own, as they are needed here, with their conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from viewlet.calculus.expr import ZERO, Expr, MapRef, Rel, Value, product_of, sum_of
from viewlet.calculus.rewrite import Monomial, canonical, expand, project
from viewlet.calculus.scope import Names, outputs, visible
from viewlet.planner.join_graph import JoinGraph, Leaf, declared_key
from viewlet.planner.maps import Maps, PlannedMap
from viewlet.planner.view_tree import TreeNode, TreeSearch
from viewlet.schema import Catalog

LEAST_LEAVES = 3
"""A join of two relations is maintained from the two either way."""

Changed = Callable[[Rel | MapRef], Expr]
"""The change of an atom: ΔR or a buffer; ZERO if it does not change."""


@dataclass(frozen=True)
class Rooted:
    """The tree of one product of a map."""

    map: str
    keys: tuple[str, ...]
    graph: JoinGraph
    root: TreeNode


class TreeMaps:
    """Decomposes definitions into trees, and gives the statements that keep their nodes."""

    def __init__(self, catalog: Catalog, maps: Maps) -> None:
        self._catalog = catalog
        self._maps = maps
        self._graphs: dict[tuple[Expr, ...], JoinGraph] = {}
        self._shown_by_rows: dict[str, list[set[str]]] = {}
        """The columns of the maps of keyed rows, under canonical names."""
        self.rooted: list[Rooted] = []
        """The trees, in the order in which they were made."""

    def tree(self, planned: PlannedMap, column: str) -> Expr | None:
        """A column over messages, its tree made if it has none; None where no tree applies."""
        if column not in planned.trees:
            monomials = expand(planned.columns[column])
            graphs = [self._graph(monomial) for monomial in monomials]
            if not any(len(graph.leaves) >= LEAST_LEAVES for graph in graphs):
                return None
            if not all(graph.leaves and graph.has_only_scalars_between() for graph in graphs):
                return None
            planned.trees[column] = sum_of(
                *(
                    product_of(Value(monomial.coefficient), self._root(planned, graph))
                    for monomial, graph in zip(monomials, graphs, strict=True)
                )
            )
        return planned.trees[column]

    def _graph(self, monomial: Monomial) -> JoinGraph:
        """Made once: a product is looked at again for every relation that changes it."""
        if monomial.factors not in self._graphs:
            self._graphs[monomial.factors] = JoinGraph(self._catalog, monomial.factors)
        return self._graphs[monomial.factors]

    def _root(self, planned: PlannedMap, graph: JoinGraph) -> Expr:
        keys = frozenset(planned.keys)
        root = TreeSearch(graph, keys).best()
        self.rooted.append(Rooted(planned.name, planned.keys, graph, root))
        return project(keys, self._node(graph, root))

    def _node(self, graph: JoinGraph, node: TreeNode) -> Expr:
        """What a node adds up: its bag, its children's messages, and what spans them."""
        below = [span for child in node.children for span in graph.applied(child.leaves)]
        return product_of(
            *(factor for leaf in node.bag for factor in self._in_bag(graph, leaf, node)),
            *(self._message(graph, child) for child in node.children),
            *(span.scalar for span in graph.applied(node.leaves) if span not in below),
        )

    def _in_bag(self, graph: JoinGraph, leaf: int, node: TreeNode) -> tuple[Expr, ...]:
        """A leaf of a bag: its factors, or its map where nested values change it too."""
        own = graph.leaves[leaf]
        if not own.is_nested:
            return own.factors
        spanning = (visible(span.scalar) for span in graph.spanning)
        needed = graph.names(graph.all - {leaf}).union(node.shown, *spanning)
        return (self._rows(own, needed),)

    def _message(self, graph: JoinGraph, node: TreeNode) -> Expr:
        """The map of a child, read by the node above."""
        leaves = [graph.leaves[leaf] for leaf in sorted(node.leaves)]
        if len(leaves) == 1:
            return self._rows(leaves[0], node.shown)
        spanning = (span.scalar for span in graph.applied(node.leaves))
        factors = [*(factor for leaf in leaves for factor in leaf.factors), *spanning]
        return self._maps.allocate(node.shown, factors, self._node(graph, node))

    def _rows(self, leaf: Leaf, shown: Names) -> Expr:
        """The map of one leaf's rows; an inner view's own map where that is the same."""
        if isinstance(leaf.atom, MapRef) and not leaf.decided and leaf.names <= shown:
            return leaf.atom
        return self._maps.allocate(self._shown_together(leaf, leaf.names & shown), leaf.factors)

    def _shown_together(self, leaf: Leaf, shown: Names) -> Names:
        """name[id] -> name[id, n]  where another tree has that, and id is the declared key: the
        rows are the same, and one map has them."""
        key = declared_key(self._catalog, leaf.atom)
        if not key or not key <= shown:
            return shown
        form = canonical(product_of(*leaf.factors))
        own = {form.names[name] for name in shown}
        together = self._shown_by_rows.setdefault(form.text, [])
        wider = next((names for names in together if own <= names), None)
        if wider is None:
            together.append(own)
            return shown
        return frozenset(name for name in leaf.names if form.names[name] in wider)

    # Statements.

    def change(self, tree: Expr, keys: Names, changed: Changed) -> Expr:
        """The change of a tree's node, over the batch, buffers and maps."""
        return sum_of(*(self._changes(monomial, keys, changed) for monomial in expand(tree)))

    def _changes(self, monomial: Monomial, keys: Names, changed: Changed) -> Expr:
        graph = self._graph(monomial)
        spanning = [span.scalar for span in graph.spanning]
        needed = keys.union(*(visible(scalar) for scalar in spanning))
        changed_leaves = [
            i for i, leaf in enumerate(graph.leaves) if _own_change(leaf, changed) != ZERO
        ]
        terms: list[Expr] = []
        if len(changed_leaves) == 1:
            (number,) = changed_leaves
            leaf = graph.leaves[number]
            unchanged_maps = (
                self._stored_leaf(graph, i, needed).old for i in sorted(graph.all - {number})
            )
            terms = [product_of(_own_change(leaf, changed), *leaf.decided, *unchanged_maps)]
        elif changed_leaves:
            # A batch cannot be looked up, the change of a map can: rows that change are maps too.
            stored = [self._stored_leaf(graph, i, needed) for i in sorted(graph.all)]
            for number in changed_leaves:
                unchanged = [
                    part.old
                    for i, part in enumerate(stored)
                    if i < number or i not in changed_leaves
                ]
                later = [stored[i] for i in changed_leaves if i > number]
                first = product_of(stored[number].change(changed), *unchanged)
                terms += [product_of(first, *new) for new in _news(later, changed, visible(first))]
        return sum_of(
            *(
                product_of(Value(monomial.coefficient), project(keys, product_of(term, *spanning)))
                for term in terms
            )
        )

    def _stored_leaf(self, graph: JoinGraph, number: int, needed: Names) -> _StoredLeaf:
        """A leaf as a map: messages are maps already, and what they decide stays outside."""
        leaf = graph.leaves[number]
        if isinstance(leaf.atom, MapRef):
            return _StoredLeaf(leaf.atom, leaf.decided)
        map = self._rows(leaf, needed | graph.names(graph.all - {number}))
        assert isinstance(map, MapRef)
        return _StoredLeaf(map)


def _own_change(leaf: Leaf, changed: Changed) -> Expr:
    """The change of a leaf's atom; in a node nested leaves are maps."""
    assert isinstance(leaf.atom, Rel | MapRef)
    return changed(leaf.atom)


@dataclass(frozen=True)
class _StoredLeaf:
    """A map with the scalars that its records decide."""

    map: MapRef
    scalars: tuple[Expr, ...] = ()

    @property
    def old(self) -> Expr:
        return product_of(self.map, *self.scalars)

    def change(self, changed: Changed) -> Expr:
        return product_of(changed(self.map), *self.scalars)

    def new(self, changed: Changed) -> Expr:
        return product_of(sum_of(self.map, changed(self.map)), *self.scalars)


def _news(later: list[_StoredLeaf], changed: Changed, bound: Names) -> Iterator[list[Expr]]:
    """The new values of maps, in products: m[b] + d_m[b] where it is looked up, else either.

    A sum that is looped over would have all that follows twice in the trigger's code.
    """
    lookups = [part for part in later if outputs(part.map) <= bound]
    loops = [part for part in later if part not in lookups]
    if not loops:
        yield [part.new(changed) for part in lookups]
        return
    first = loops[0]
    remaining = [part for part in later if part is not first]
    for option in (first.old, first.change(changed)):
        for others in _news(remaining, changed, bound | visible(option)):
            yield [option, *others]
