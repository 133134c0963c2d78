"""What the planner believes about relations it has not seen: sizes and matches, from declared keys.

    a relation that refers to no other has SMALLEST rows
    one that holds another's key has GROWTH times as many rows as that other
    a key meets one row, a part of a row FAN_OUT rows
    a condition is met by a part SELECTIVITY of the rows

These are guesses, and good for nothing but to compare plans of the same view.
"""

from __future__ import annotations

from viewlet.calculus.scope import Names
from viewlet.planner.join_graph import JoinGraph

SMALLEST = 10.0
GROWTH = 10.0
LARGEST = 1e6
FAN_OUT = 8.0
SELECTIVITY = 0.5
LEAST_SELECTIVITY = 0.05


class Statistics:
    """Guesses about the leaves of one join graph."""

    def __init__(self, graph: JoinGraph) -> None:
        self._graph = graph
        self._sizes: dict[int, float] = {}

    def size(self, leaf: int) -> float:
        """How many rows a leaf's relation has."""
        if leaf not in self._sizes:
            self._sizes[leaf] = SMALLEST  # stands where relations refer to each other in a circle
            referred = [self.size(other) for other in self._graph.referred(leaf)]
            self._sizes[leaf] = min(LARGEST, max([SMALLEST, *(GROWTH * s for s in referred)]))
        return self._sizes[leaf]

    def rate(self, leaf: int) -> float:
        """How often a leaf changes: as often as it has rows, and never if it is static."""
        return 0.0 if self._graph.is_static(leaf) else self.size(leaf)

    def selectivity(self, leaf: int) -> float:
        """The part of a leaf's rows that meets its own conditions."""
        return float(max(LEAST_SELECTIVITY, SELECTIVITY ** self._graph.leaves[leaf].filters))

    def matches(self, leaf: int, bound: Names) -> float:
        """How many rows of a leaf have given values of the bound variables."""
        touched = self._graph.leaves[leaf].names & bound
        if not touched:
            return self.size(leaf) * self.selectivity(leaf)
        if self._graph.is_keyed_by(leaf, touched):
            return self.selectivity(leaf)
        return min(FAN_OUT, self.size(leaf)) * self.selectivity(leaf)
