"""How far a maintained result is from the truth.

Two estimates work together. A running one is updated with every refresh from norms that are at
hand; it is crude and errs upwards. A probe measures: for Gaussian G with s columns
  E || (V - V*) G ||_F^2  =  s || V - V* ||_F^2,
and V* G is computed from the inputs alone, by applying the definitions to G from the right, in a
few passes over the inputs and without any product of large matrices. With s = 8 the chance that
the probe sees less than a tenth of the error is below 1e-6 even for an error of rank one. An
inverse is applied by iterative refinement with the maintained inverse as preconditioner; what
refinement cannot resolve, eps times the condition of the matrix, is added to the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from viewlet.errors import ProgramError
from viewlet.linalg import arrays
from viewlet.linalg import expr as ex
from viewlet.linalg.arrays import EPS, Array, Value
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.lower import Views
from viewlet.linalg.traverse import leaves

PROBES = 8
REFINEMENTS = 3
SAFETY = 2.0
DEEP = 64


class Probe:
    """Applies the definitions of views to vectors, reading inputs and maintained inverses only."""

    def __init__(self, views: Views, read: Callable[[Matrix], Value]) -> None:
        self.views = views
        self.read = read
        self.definitions: dict[Matrix, Expr] = {v.matrix: v.definition for v in views.views}
        self.memo: dict[tuple[Expr, int], Array] = {}
        self.conditions: dict[Matrix, float] = {}
        self.failed = False
        self.rng = np.random.default_rng(20160601)

    def relative_error(self, matrix: Matrix) -> float:
        """The estimated relative Frobenius error of a maintained view; inf if it is junk."""
        measured, floor = self.measure(matrix)
        return measured + floor

    def measure(self, matrix: Matrix) -> tuple[float, float]:
        """What the probe sees, and the rounding of the probe itself."""
        if matrix not in self.definitions:
            return 0.0, 0.0
        target: Expr = matrix if matrix.shape[0] >= matrix.shape[1] else ex.transpose(matrix)
        columns = target.shape[1]
        exact = columns <= PROBES
        g = np.eye(columns) if exact else self.rng.standard_normal((columns, PROBES))
        current = self.read(matrix)
        with np.errstate(all="ignore"):
            size = arrays.norm(current)
            self._warm(target, g)
            truth = self.apply(target, g)
            product = arrays.multiply(current, target is not matrix, g, False)
            gap = float(np.linalg.norm(product - truth))
        if not exact:
            gap *= SAFETY / np.sqrt(PROBES)
        floor = EPS * (4.0 + sum(self.conditions.values()))
        if self.failed or not np.isfinite(gap) or not np.isfinite(size):
            return float("inf"), floor
        if size == 0.0:
            return (0.0, 0.0) if gap == 0.0 else (float("inf"), floor)
        return gap / size, floor

    def _warm(self, target: Expr, g: Array) -> None:
        """For long chains sketch the views that lead to the target in order: T_1 G, T_2 G, ...

        Each is then one application away from the one before, and the depth of the recursion
        does not grow with the number of iterations.
        """
        if len(self.views.views) <= DEEP:
            return
        transposed = isinstance(target, ex.Transpose)
        width = target.shape[1]
        below = self._ancestors(target.operand if isinstance(target, ex.Transpose) else target)
        for view in self.views.views:
            sketched: Expr = ex.transpose(view.matrix) if transposed else view.matrix
            if view.matrix in below and sketched.shape[1] == width:
                self.apply(sketched, g)

    def _ancestors(self, e: Expr) -> set[Expr]:
        ancestors: set[Expr] = {e}
        for view in reversed(self.views.views):
            if view.matrix in ancestors:
                ancestors |= leaves(view.definition)
        return ancestors

    def apply(self, e: Expr, y: Array) -> Array:
        """E y, from the inputs."""
        key = (e, id(y))
        if key not in self.memo:
            self.memo[key] = self._apply(e, y)
            self.memo[ex.eye(1), id(y)] = y  # keeps y, and with it its id, alive
        return self.memo[key]

    def _apply(self, e: Expr, y: Array) -> Array:
        match e:
            case Matrix():
                return self._leaf(e, y, transposed=False)
            case ex.Transpose():
                assert isinstance(e.operand, Matrix)
                return self._leaf(e.operand, y, transposed=True)
            case ex.Sum():
                total = self.apply(e.terms[0], y).copy()
                for term in e.terms[1:]:
                    total += self.apply(term, y)
                return total
            case ex.Scale():
                return e.coefficient * self.apply(e.operand, y)
            case ex.Product():
                for part in reversed(e.factors):
                    y = self.apply(part, y)
                return y
            case ex.Identity():
                return y
            case ex.Zero():
                return np.zeros((e.shape[0], y.shape[1]))
            case ex.Block():
                edges = np.cumsum([0, *(cell.shape[1] for cell in e.rows[0])])
                pieces = [y[a:b] for a, b in pairwise(edges)]
                return np.vstack(
                    [
                        sum(
                            (self.apply(c, p) for c, p in zip(row, pieces, strict=True)),
                            np.zeros((row[0].shape[0], y.shape[1])),
                        )
                        for row in e.rows
                    ]
                )
        raise ProgramError(f"cannot apply {type(e).__name__}")

    def _leaf(self, matrix: Matrix, y: Array, *, transposed: bool) -> Array:
        definition = self.definitions.get(matrix)
        if definition is None:
            return arrays.multiply(self.read(matrix), transposed, y, False)
        if isinstance(definition, ex.Inverse):
            return self._solve(matrix, definition.operand, y, transposed)
        return self.apply(ex.transpose(definition) if transposed else definition, y)

    def _solve(self, matrix: Matrix, operand: Expr, y: Array, transposed: bool) -> Array:
        """E^-1 y by refinement: x <- x + W (y - E x)."""
        current = self.read(matrix)
        e = ex.transpose(operand) if transposed else operand
        x = arrays.multiply(current, transposed, y, False)
        size = float(np.linalg.norm(y))
        for _ in range(REFINEMENTS):
            image = self.apply(e, x)
            residual = y - image
            x = x + arrays.multiply(current, transposed, residual, False)
        if float(np.linalg.norm(residual)) > 0.5 * size:
            self.failed = True
        if matrix not in self.conditions:
            g = self.rng.standard_normal((e.shape[1], PROBES))
            spread = float(np.linalg.norm(self.apply(e, g))) / np.sqrt(PROBES)
            self.conditions[matrix] = spread * arrays.norm(current)
        return x


class Running:
    """The running estimate of each view's relative error between probes."""

    def __init__(self) -> None:
        self.errors: dict[Matrix, float] = {}
        self.norms: dict[Matrix, float] = {}

    def reset(self, matrix: Matrix, error: float, size: float) -> None:
        """A matrix was computed anew: its error is that of the computation."""
        self.errors[matrix] = max(error, EPS)
        self.norms[matrix] = size

    def advance(self, matrix: Matrix, change: float, amplification: float) -> None:
        """After V += U V^T with ||U V^T|| = change: rounding, and what the factors inherit.

        The new error is at most old (1 + amplification * share) + eps, with share the size of
        the change relative to the view and amplification the condition of a Woodbury step.
        """
        size = self.norms.get(matrix, 0.0)
        share = min(change / size, 1e6) if size > 0.0 else 1.0
        old = self.errors.get(matrix, EPS)
        grown = old * (1.0 + (amplification - 1.0) * share) + EPS * (1.0 + share)
        self.errors[matrix] = min(grown, 1e100)  # far beyond any tolerance; it must not overflow

    def rescale(self, matrix: Matrix, size: float) -> None:
        """The view shrank or grew: an absolute error weighs more against a smaller view."""
        old = self.norms.get(matrix, size)
        self.errors[matrix] *= max(1.0, old / size) if size > 0.0 else 1.0
        self.norms[matrix] = size

    def worst(self) -> float:
        """The largest relative error of any matrix."""
        return max(self.errors.values(), default=0.0)
