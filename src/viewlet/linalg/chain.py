"""Matrix-chain ordering: in which order the factors of a product meet.

(n x 1)(1 x n)(n x 1) -> u (v^T u): the order is what keeps a factored delta from ever becoming a
full matrix (thesis 6.3.2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

Shape = tuple[int, int]
Tree: TypeAlias = "int | tuple[Tree, Tree]"


@lru_cache(maxsize=4096)
def associate(shapes: tuple[Shape, ...]) -> Tree:
    """The cheapest association of a chain, as nested pairs of factor positions.

    Ties go to the split that lies furthest right, which is the order of Listing 6.4.
    """
    n = len(shapes)
    dims = [shapes[0][0]] + [shape[1] for shape in shapes]
    cost = [[0.0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            cost[i][j] = float("inf")
            for k in range(i, j):
                total = cost[i][k] + cost[k + 1][j] + float(dims[i]) * dims[k + 1] * dims[j + 1]
                if total <= cost[i][j]:
                    cost[i][j], split[i][j] = total, k

    def tree(i: int, j: int) -> Tree:
        if i == j:
            return i
        k = split[i][j]
        return tree(i, k), tree(k + 1, j)

    return tree(0, n - 1)
