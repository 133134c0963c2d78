"""View trees: a join decomposed along its join graph, each part summed to what others need of it.

    Sum[a](R(a, b) * S(b, c) * T(c, d) * U(b, e))        rooted at R

    root    R(a, b) * s[b] * u[b]
    s[b]    Sum[b](S(b, c) * t[c])
    t[c]    Sum[c](T(c, d))
    u[b]    Sum[b](U(b, e))

A node joins the rows of its bag, one leaf in an acyclic join, with the messages of its children.
Two parts that share no variable beyond those of the bag are two children, so that trees are flat
where many relations share one variable. A message has the variables that others need: those that it
shares with the bag, keys of the view, arguments of what spans several parts. A change of a leaf
goes up the path to the root, and every node on it looks up its other children: the triggers of
F-IVM (Nikolic and Olteanu, SIGMOD 2018), over the maps of this planner.

Where a part is tied to the bag by variables that no leaf of it has together, the join is cyclic.
The bag then takes in a leaf of that part, one that its rows determine by a key if there is one,
until every part is tied by one leaf: pairs that never meet in a row are not kept, and a change
meets at most what it joins with in the bag (`explain` names such bags).

The root and the leaf that stands for a part are chosen by dynamic programming over the parts, which
are few: two for each edge of an acyclic join. The search takes MOST_STEPS steps, and from then on
the first leaf that will do.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.calculus.scope import Names
from viewlet.planner.join_graph import JoinGraph, Leaves
from viewlet.planner.statistics import FAN_OUT, Statistics

MOST_STEPS = 2000


@dataclass(frozen=True)
class TreeNode:
    """A bag of leaves with the parts that hang on it."""

    bag: tuple[int, ...]
    children: tuple[TreeNode, ...]
    leaves: Leaves
    """All leaves at or below."""
    shown: Names
    """The variables of the message to the node above; the keys of the view at the root."""
    cost: float
    """The records that are touched at or below, each leaf changing at its rate."""
    changes: dict[int, float]
    """The records of the message that a change of one row of a leaf touches."""

    def nodes(self) -> list[TreeNode]:
        """This node and those below, parents first."""
        return [self, *(node for child in self.children for node in child.nodes())]


class TreeSearch:
    """The best tree of a graph for given keys."""

    def __init__(self, graph: JoinGraph, keys: Names) -> None:
        self._graph = graph
        self._keys = keys
        self._statistics = Statistics(graph)
        self._best_trees: dict[Leaves, TreeNode] = {}
        self.steps = 0

    def best(self) -> TreeNode:
        """The tree of the whole join."""
        return self._part(self._graph.all, frozenset())

    def _part(self, leaves: Leaves, tie: Names) -> TreeNode:
        """The best tree of a part that is tied to its surroundings by some variables."""
        if leaves not in self._best_trees:
            roots = self._roots(leaves, tie)
            options: list[TreeNode] = []
            for root in roots:
                if options and self.steps >= MOST_STEPS:
                    break
                options.append(self._rooted(root, leaves))
            self._best_trees[leaves] = min(options, key=lambda node: node.cost)
        return self._best_trees[leaves]

    def _roots(self, leaves: Leaves, tie: Names) -> list[int]:
        """The leaves that have all variables of the tie, those first that join with most others."""

        def rank(leaf: int) -> tuple[int, int]:
            names = self._graph.leaves[leaf].names
            return -len(names & self._graph.names(leaves - {leaf})), leaf

        return sorted((i for i in leaves if tie <= self._graph.leaves[i].names), key=rank)

    def _rooted(self, root: int, leaves: Leaves) -> TreeNode:
        self.steps += 1
        bag = [root]
        while True:
            names = self._graph.names(bag)
            parts = self._graph.components(leaves - frozenset(bag), names)
            ties = [self._graph.names(part) & names for part in parts]
            untied = [
                (part, tie)
                for part, tie in zip(parts, ties, strict=True)
                if not self._roots(part, tie)
            ]
            if not untied:
                break
            bag.append(self._next_of_cycle(*untied[0], names))
        children = tuple(self._part(*pair) for pair in zip(parts, ties, strict=True))
        return self._node(tuple(bag), children, leaves)

    def _next_of_cycle(self, part: Leaves, tie: Names, names: Names) -> int:
        """The leaf of a part that a bag takes in: determined by a key, or with most of the tie."""

        def rank(leaf: int) -> tuple[bool, int, int]:
            keyed = self._graph.is_keyed_by(leaf, names)
            return not keyed, -len(self._graph.leaves[leaf].names & tie), leaf

        return min(part, key=rank)

    def _node(
        self, bag: tuple[int, ...], children: tuple[TreeNode, ...], leaves: Leaves
    ) -> TreeNode:
        """Costs: a changed row of the bag, or a changed record of a child, meets the bag's other
        rows, and each combination looks up all other children.
        """
        statistics, graph = self._statistics, self._graph
        shown = graph.shown(leaves, self._keys)
        cost = sum(child.cost for child in children)
        changes: dict[int, float] = {}
        for leaf in bag:
            matched_rows = self._matched_rows(bag, children, graph.leaves[leaf].names, leaf)
            matched_rows *= statistics.selectivity(leaf)
            changes[leaf] = matched_rows
            cost += statistics.rate(leaf) * (1 + matched_rows * (1 + len(children)))
        for child in children:
            others = tuple(c for c in children if c is not child)
            matched_rows = self._matched_rows(bag, others, child.shown, None)
            for leaf, touched in child.changes.items():
                changes[leaf] = touched * matched_rows
                cost += statistics.rate(leaf) * touched * (1 + matched_rows * (1 + len(others)))
        if any(statistics.rate(leaf) for child in children for leaf in child.changes):
            # The rows of the bag are kept to meet its children's changes.
            cost += sum(statistics.rate(leaf) * statistics.selectivity(leaf) for leaf in bag)
        return TreeNode(bag, children, leaves, shown, cost, changes)

    def _matched_rows(
        self, bag: tuple[int, ...], children: tuple[TreeNode, ...], bound: Names, start: int | None
    ) -> float:
        """How many combinations of the bag's rows and children's records given values meet."""
        matched_rows = 1.0
        waiting = [leaf for leaf in bag if leaf != start]
        while waiting:
            rows = [(self._statistics.matches(leaf, bound), leaf) for leaf in waiting]
            fewest, leaf = min(rows)
            matched_rows *= fewest
            bound |= self._graph.leaves[leaf].names
            waiting.remove(leaf)
        for child in children:
            matched_rows *= 1.0 if child.shown <= bound else FAN_OUT
        return matched_rows
