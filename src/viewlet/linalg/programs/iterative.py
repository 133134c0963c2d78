"""Matrix powers and T <- A T + B, with solvers and eigenvectors (thesis 6.4, 6.4.2, 6.4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from viewlet.errors import DataError
from viewlet.linalg import expr as ex
from viewlet.linalg.arrays import Array
from viewlet.linalg.live import Live
from viewlet.linalg.program import Program, program
from viewlet.linalg.real_numbers import real_array, real_table, whole_number


def matrix_power(n: int, k: int) -> Program:
    """P = A^k over the input A.

    >>> live = la.matrix_power(2, 3).start({"A": 2 * np.eye(2)})
    >>> np.array(live["P"])
    array([[8., 0.],
           [0., 8.]])
    """
    return program(P=ex.power(ex.matrix("A", n, n), k))


def sum_of_powers(n: int, k: int) -> Program:
    """S = I + A + ... + A^(k-1) over the input A.

    >>> live = la.sum_of_powers(1, 4).start({"A": np.array([[2.0]])})
    >>> np.array(live["S"])
    array([[15.]])
    """
    return program(S=ex.power_sum(ex.matrix("A", n, n), k))


def general_form(n: int, p: int, k: int, *, constant: bool = True) -> Program:
    """T = T_k of T <- A T + B from T0, over the inputs A, B and T0; without B if not constant.

    >>> prog = la.general_form(2, 1, 3)
    >>> sorted(matrix.name for matrix in prog.inputs)
    ['A', 'B', 'T0']
    """
    a, start = ex.matrix("A", n, n), ex.matrix("T0", n, p)
    b = ex.matrix("B", n, p) if constant else None
    return program(T=ex.iterate(a, start, k, b))


class Jacobi:
    """k steps of x <- D^-1 (b - R x) towards A x = b, with D the diagonal of A and R the rest.

    In the general form the iteration matrix is J = I - D^-1 A; row i of A changes row i of J only,
    so a row update stays of rank 1.

    >>> solver = la.Jacobi(np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([5.0, 4.0]), steps=30)
    >>> np.round(solver.x.ravel(), 3)
    array([1., 1.])
    """

    def __init__(
        self, a: Any, b: Any, *, steps: int = 16, start: Any = None, **options: Any
    ) -> None:
        a = real_array(a.toarray() if sparse.issparse(a) else a, "A")
        b = real_array(b, "b")
        self._flat = b.ndim == 1
        b = b[:, None] if self._flat else b
        n = len(a) if a.ndim else 0
        if a.shape != (n, n) or b.ndim != 2 or b.shape[0] != n:
            raise DataError(f"A x = b does not fit: A is {a.shape}, b is {b.shape}")
        first = _started(start, np.zeros_like(b))
        j, c = _jacobi_rows(a, b, np.arange(n))
        self._a, self._b, self.steps = a, b, steps
        options = {"changing": ["A"], **options}
        form = general_form(n, b.shape[1], steps)
        self.live: Live = form.start({"A": j, "B": c, "T0": first}, **options)

    def __repr__(self) -> str:
        return f"<Jacobi: {len(self._a):,} equations, steps={self.steps}>"

    def set_rows(self, rows: Mapping[int, Any], b: Mapping[int, Any] | None = None) -> None:
        """Give equations new coefficients and, if given, new right sides."""
        b = b or {}
        touched = sorted({*rows, *b})
        if not touched:
            return
        n = len(self._a)
        if not all(isinstance(i, int | np.integer) and 0 <= i < n for i in touched):
            raise DataError(f"there are {n} equations, numbered from 0")
        a, right = self._a[touched], self._b[touched]
        for at, i in enumerate(touched):
            if i in rows:
                a[at] = _values(rows[i], n, f"row {i} of A")
            if i in b:
                right[at] = _values(b[i], right.shape[1], f"row {i} of b")
        j, c = _jacobi_rows(a, right, np.array(touched))
        with self.live.batch():
            self.live.set_rows("A", dict(zip(touched, j, strict=True)))
            self.live.set_rows("B", dict(zip(touched, c, strict=True)))
        self._a[touched], self._b[touched] = a, right

    @property
    def x(self) -> Array:
        """The present approximation of the solution."""
        x: Array = self.live["T"]
        return x[:, 0] if self._flat else x

    def residual(self) -> float:
        """|A x - b| / |b|."""
        gap = self._a @ self.live["T"] - self._b
        return float(np.linalg.norm(gap) / max(float(np.linalg.norm(self._b)), 1e-300))


def _started(start: Any, otherwise: Array) -> Array:
    """The values to begin with, in the shape of those that are taken where there are none."""
    if start is None:
        return otherwise
    return _values(start, otherwise.size, "start").reshape(otherwise.shape)


def _values(value: Any, count: int, name: str) -> Array:
    values = real_array(value, name).reshape(-1)
    if values.size != count:
        raise DataError(f"{name} has {values.size} values, {count} are needed")
    return values


def _jacobi_rows(a: Array, b: Array, rows: Any) -> tuple[Array, Array]:
    """The given rows of I - D^-1 A and of D^-1 b."""
    positions = np.arange(len(rows))
    diagonal = a[positions, rows]
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        raise DataError("the equations hold NaN or infinite values", hint="nothing was changed")
    if (diagonal == 0.0).any():
        raise DataError(
            f"the diagonal of A is 0 in row {int(rows[np.argmin(np.abs(diagonal))])}",
            hint="Jacobi divides by the diagonal; reorder the equations",
        )
    j = -a / diagonal[:, None]
    j[positions, rows] = 0.0
    return j, b / diagonal[:, None]


class PowerIteration:
    """The dominant eigenvector of A after k steps of T <- A T, kept under updates of A.

    A is scaled by a bound of its spectral radius at the start, so that T neither grows nor
    vanishes over the iterations; scaling does not turn the vector.

    >>> found = la.PowerIteration(np.diag([3.0, 1.0]), steps=20)
    >>> np.round(np.abs(found.eigenvector.ravel()), 3)
    array([1., 0.])
    """

    def __init__(self, a: Any, *, steps: int = 16, start: Any = None, **options: Any) -> None:
        a = real_table(a, "A")
        n = a.shape[0]
        if a.shape != (n, n):
            raise DataError(f"eigenvectors are those of a square matrix, got {a.shape}")
        self.n, self.steps = n, whole_number(steps, "steps")
        matrix = ex.matrix("A", n, n)
        first = _started(start, np.ones((n, 1)))
        first = first / np.linalg.norm(first)
        turned = first
        for _ in range(steps):
            turned = np.asarray(a @ turned)
            size = float(np.linalg.norm(turned))
            if not np.isfinite(size) or size == 0.0:
                raise DataError("power iteration needs a finite A and a start that A does not kill")
            turned = turned / size
        form = program(T=ex.iterate((1.0 / size) * matrix, ex.matrix("T0", n, 1), steps))
        options = {"changing": ["A"], **options}
        self.live: Live = form.start({"A": a, "T0": first}, **options)

    def __repr__(self) -> str:
        return f"<PowerIteration: {self.n:,} x {self.n:,}, steps={self.steps}>"

    @property
    def eigenvector(self) -> Array:
        """The dominant eigenvector, of length 1."""
        vector: Array = self.live["T"][:, 0]
        return vector / np.linalg.norm(vector)

    @property
    def eigenvalue(self) -> float:
        """The Rayleigh quotient of the eigenvector."""
        vector = self.eigenvector
        return float(vector @ (self.live["A"] @ vector))
