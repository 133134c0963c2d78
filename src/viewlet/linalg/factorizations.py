"""Factorizations that follow rank-1 changes of their matrix (thesis 6.3.2).

Each costs O(n^2) per update, where a new factorization costs O(n^3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from viewlet.errors import DataError
from viewlet.linalg.arrays import EPS, Array
from viewlet.linalg.errors import SingularMatrixError
from viewlet.linalg.real_numbers import real_array, whole_number


def _vector(value: Any, n: int, name: str) -> Array:
    vector = real_array(value, name).reshape(-1)
    if vector.shape != (n,):
        raise DataError(f"{name} has {vector.size} values, {n} are needed")
    if not np.isfinite(vector).all():
        raise DataError(f"{name} holds NaN or infinite values", hint="nothing was changed")
    return vector


def _matrix(value: Any, name: str) -> Array:
    matrix = real_array(value, name)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise DataError(f"{name} must be a finite matrix")
    return matrix


def _right_side(value: Any, n: int) -> Array:
    b = real_array(value, "b")
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise DataError(f"b has shape {b.shape}, {n} rows are needed")
    return b


class Cholesky:
    """L with A = L L^T, kept under A +- x x^T by rotations.

    >>> kept = la.Cholesky(np.eye(2))
    >>> kept.update(np.array([1.0, 1.0]))
    >>> np.allclose(kept.factor @ kept.factor.T, np.eye(2) + 1)
    True
    """

    def __init__(self, a: Any) -> None:
        a = _matrix(a, "A")
        if a.shape[0] != a.shape[1]:
            raise DataError(f"a Cholesky factor needs a square matrix, got {a.shape}")
        try:
            factor = linalg.cholesky(a, lower=True)
        except linalg.LinAlgError:
            raise SingularMatrixError("A is not positive definite") from None
        self._columns = np.ascontiguousarray(factor.T)  # row k holds column k of L

    def __repr__(self) -> str:
        return f"<Cholesky: {len(self._columns):,} x {len(self._columns):,}>"

    @property
    def factor(self) -> Array:
        """The lower factor L."""
        return self._columns.T.copy()

    def update(self, x: Any) -> None:
        """A += x x^T."""
        self._columns = self._rotated(_vector(x, len(self._columns), "x"), 1.0)

    def downdate(self, x: Any) -> None:
        """A -= x x^T; an A that would lose definiteness is an error and changes nothing."""
        self._columns = self._rotated(_vector(x, len(self._columns), "x"), -1.0)

    def _rotated(self, x: Array, sign: float) -> Array:
        """One (hyperbolic) rotation per column takes x into L."""
        columns = self._columns.copy()
        for k in range(len(x)):
            old = columns[k, k]
            squared = old * old + sign * x[k] * x[k]
            if squared <= EPS * old * old:
                raise SingularMatrixError(
                    "A - x x^T is not positive definite", hint="nothing was changed"
                )
            new = np.sqrt(squared)
            c, s = new / old, x[k] / old
            columns[k, k] = new
            columns[k, k + 1 :] += sign * s * x[k + 1 :]
            columns[k, k + 1 :] /= c
            x[k + 1 :] = c * x[k + 1 :] - s * columns[k, k + 1 :]
        return columns

    def solve(self, b: Any) -> Array:
        """x with A x = b."""
        solution: Array = linalg.cho_solve(
            (self._columns, False), _right_side(b, len(self._columns))
        )
        return solution


class QR:
    """Q and R with A = Q R, kept under A += u v^T and under rows added and removed.

    >>> qr = la.QR(np.eye(3))
    >>> qr.update(np.array([1.0, 0.0, 0.0]), np.array([0.0, 2.0, 0.0]))
    >>> np.allclose(qr.q @ qr.r, np.eye(3) + np.outer([1, 0, 0], [0, 2, 0]))
    True
    """

    def __init__(self, a: Any) -> None:
        self.q, self.r = linalg.qr(_matrix(a, "A"))

    def __repr__(self) -> str:
        return f"<QR: {self.q.shape[0]:,} x {self.r.shape[1]:,}>"

    def update(self, u: Any, v: Any) -> None:
        """A += u v^T."""
        left = _vector(u, self.q.shape[0], "u")
        right = _vector(v, self.r.shape[1], "v")
        self.q, self.r = linalg.qr_update(self.q, self.r, left, right)

    def add_row(self, row: Any, at: int | None = None) -> None:
        """Insert a row; at the end unless told where."""
        values = _vector(row, self.r.shape[1], "row")
        at = self.q.shape[0] if at is None else at
        if not 0 <= at <= self.q.shape[0]:
            raise DataError(f"a row cannot be inserted at {at}; A has {self.q.shape[0]} rows")
        self.q, self.r = linalg.qr_insert(self.q, self.r, values, at)

    def remove_row(self, at: int) -> None:
        """A without row `at`: Q and R are updated, not computed anew."""
        if not 0 <= at < self.q.shape[0]:
            raise DataError(f"A has no row {at}; it has {self.q.shape[0]} rows")
        if self.q.shape[0] <= self.r.shape[1]:
            raise DataError("A must keep at least as many rows as columns")
        self.q, self.r = linalg.qr_delete(self.q, self.r, at)

    def solve(self, b: Any) -> Array:
        """The least-squares solution of A x = b."""
        n = self.r.shape[1]
        right = self.q.T @ _right_side(b, self.q.shape[0])
        diagonal = np.abs(np.diag(self.r[:n]))
        if diagonal.min(initial=np.inf) <= EPS * max(self.q.shape) * diagonal.max(initial=0.0):
            raise SingularMatrixError("the columns of A are linearly dependent")
        solution: Array = linalg.solve_triangular(self.r[:n], right[:n])
        return solution


class TruncatedSVD:
    """The leading singular triplets of A under A += u v^T (Brand's rank-1 modification).

    The space grows by the parts of u and v outside it, and the smallest triplet is dropped.
    `discarded` bounds the Frobenius norm of everything dropped so far.

    >>> svd = la.TruncatedSVD(np.diag([3.0, 2.0, 1.0]), rank=2)
    >>> np.round(svd.s, 3)
    array([3., 2.])
    """

    def __init__(self, a: Any, rank: int) -> None:
        a = _matrix(a, "A")
        rank = whole_number(rank, "the rank")
        if not 1 <= rank <= min(a.shape):
            raise DataError(f"the rank must lie between 1 and {min(a.shape)}, got {rank}")
        u, s, vt = linalg.svd(a, full_matrices=False)
        self.rank = rank
        self.u, self.s, self.v = u[:, :rank].copy(), s[:rank].copy(), vt[:rank].T.copy()
        self.discarded = float(np.linalg.norm(s[rank:]))
        self._updates = 0

    def __repr__(self) -> str:
        return f"<TruncatedSVD: {len(self.u):,} x {len(self.v):,}, rank={self.rank}>"

    def update(self, u: Any, v: Any) -> None:
        """A += u v^T."""
        left, right = _vector(u, len(self.u), "u"), _vector(v, len(self.v), "v")
        along_u, off_u, size_u = _split(self.u, left)
        along_v, off_v, size_v = _split(self.v, right)
        core = np.zeros((self.rank + 1, self.rank + 1))
        core[: self.rank, : self.rank] = np.diag(self.s)
        core += np.outer(np.append(along_u, size_u), np.append(along_v, size_v))
        inner_u, s, inner_vt = linalg.svd(core)
        self.u = np.column_stack([self.u, off_u]) @ inner_u[:, : self.rank]
        self.v = np.column_stack([self.v, off_v]) @ inner_vt[: self.rank].T
        self.s = s[: self.rank]
        self.discarded += float(s[self.rank])
        self._updates += 1
        if self._updates % 64 == 0:
            self._orthogonalise()

    def _orthogonalise(self) -> None:
        """Rounding makes the bases drift from orthogonality; QR brings them back."""
        qu, ru = linalg.qr(self.u, mode="economic")
        qv, rv = linalg.qr(self.v, mode="economic")
        left, self.s, right = linalg.svd((ru * self.s) @ rv.T)
        self.u, self.v = qu @ left, qv @ right.T

    def matrix(self) -> Array:
        """The best approximation that is kept."""
        product: Array = (self.u * self.s) @ self.v.T
        return product


def _split(basis: Array, x: Array) -> tuple[Array, Array, float]:
    """x as basis @ along + size * off with off a unit vector; projected twice for accuracy."""
    along = basis.T @ x
    residual = x - basis @ along
    again = basis.T @ residual
    along, residual = along + again, residual - basis @ again
    size = float(np.linalg.norm(residual))
    if size <= EPS * len(x) * float(np.linalg.norm(x)):
        return along, np.zeros(len(x)), 0.0
    return along, residual / size, size
