"""Array kernels: products, rank updates and inverses over every representation of a matrix.

A matrix at run time is one of
  ndarray   float64; state in C order, tall factors in Fortran order
  OneHot    the columns e_i of an identity: the left factor of a row update
  Sparse    a CSR matrix plus a low-rank part that would have filled it

All dense products go through one BLAS, SciPy's. NumPy bundles another with its own threads, and the
two pools fight for the cores when calls alternate: a rank-8 update was seen to take ten times
as long. The layouts are chosen so that the large matrix is always the first operand of gemm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm

from viewlet.linalg.errors import IllConditioned, SingularMatrixError

Array: TypeAlias = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)
CAPACITANCE_LIMIT = 1e-9  # smallest trusted reciprocal condition of I + V^T W U


@dataclass(frozen=True)
class OneHot:
    """The n x r matrix whose column j is the unit vector e_(indices[j]); indices are distinct."""

    indices: npt.NDArray[np.intp]
    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, number of columns): each column has a single 1."""
        return self.n, len(self.indices)

    def toarray(self) -> Array:
        """The same matrix, dense."""
        dense = np.zeros(self.shape, order="F")
        dense[self.indices, np.arange(len(self.indices))] = 1.0
        return dense


class Operator(ABC):
    """A matrix that is applied rather than held as one array: sparse here, or far away."""

    shape: tuple[int, int]

    @abstractmethod
    def apply(self, y: Array, transposed: bool) -> Array:
        """op(self) y."""

    @abstractmethod
    def take_rows(self, indices: npt.NDArray[np.intp]) -> Array:
        """These rows, dense."""

    @abstractmethod
    def take_columns(self, indices: npt.NDArray[np.intp]) -> Array:
        """These columns, dense."""

    @abstractmethod
    def toarray(self) -> Array:
        """The matrix, dense: only where it is known to fit."""

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """(first row, rows), piece by piece."""
        yield 0, self.toarray()

    @abstractmethod
    def frobenius(self) -> float:
        """The square root of the sum of its squared entries."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Whether no entry is infinite or NaN."""


class Sparse(Operator):
    """base + left right^T: a sparse matrix that low-rank changes never make dense."""

    def __init__(self, base: Any, left: Array | None = None, right: Array | None = None) -> None:
        self.base = sparse.csr_array(base, dtype=np.float64)
        self.base.sum_duplicates()
        n, m = self.base.shape
        self.shape = (int(n), int(m))
        self.left = np.zeros((n, 0)) if left is None else left
        self.right = np.zeros((m, 0)) if right is None else right

    @property
    def nnz(self) -> int:
        """Entries that the sparse part stores."""
        return int(self.base.nnz)

    @property
    def nbytes(self) -> int:
        """Bytes of the sparse part and of the factors beside it."""
        parts = (self.base.data, self.base.indices, self.base.indptr, self.left, self.right)
        return sum(part.nbytes for part in parts)

    def copy(self) -> Sparse:
        """The same matrix, to be changed on its own."""
        return Sparse(self.base.copy(), self.left.copy(), self.right.copy())

    def toarray(self) -> Array:
        dense: Array = self.base.toarray()
        return dense + self.left @ self.right.T if self.left.shape[1] else dense

    def apply(self, y: Array, transposed: bool) -> Array:
        base = self.base.T if transposed else self.base
        out: Array = np.asarray(base @ y)
        if self.left.shape[1]:
            outer, inner = (self.right, self.left) if transposed else (self.left, self.right)
            out = out + outer @ (inner.T @ y)
        return out

    def take_rows(self, indices: npt.NDArray[np.intp]) -> Array:
        rows: Array = self.base[indices].toarray()
        return rows + self.left[indices] @ self.right.T

    def take_columns(self, indices: npt.NDArray[np.intp]) -> Array:
        columns: Array = self.base[:, indices].toarray()
        return columns + self.left @ self.right[indices].T

    def frobenius(self) -> float:
        """|B + L R^T|^2 = |B|^2 + 2 <B R, L> + <L^T L, R^T R>."""
        size = float(sparse.linalg.norm(self.base))
        if not self.left.shape[1]:
            return size
        cross = float(np.sum((self.base @ self.right) * self.left))
        low = float(np.sum((self.left.T @ self.left) * (self.right.T @ self.right)))
        return float(np.sqrt(max(size**2 + 2 * cross + low, 0.0)))

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.base.data).all())

    def update(self, u: Value, v: Value) -> None:
        """base += u v^T where that stays sparse, else remember the factors."""
        left, right = sparse.csr_array(dense_of(u)), sparse.csr_array(dense_of(v))
        fill = int(np.dot(np.diff(left.tocsc().indptr), np.diff(right.tocsc().indptr)))
        if fill <= max(self.nnz // 2, 4 * max(self.shape)):
            self.base = (self.base + left @ right.T).tocsr()
            return
        self.left = np.hstack([self.left, left.toarray()])
        self.right = np.hstack([self.right, right.toarray()])
        if self.left.shape[1] > 64:
            self.left, self.right = recompress(self.left, self.right)


Value: TypeAlias = "Array | OneHot | Operator"


def dense_of(x: Value) -> Array:
    """A value as a plain array."""
    return x if isinstance(x, np.ndarray) else x.toarray()


def norm(x: Value) -> float:
    """The Frobenius norm."""
    if isinstance(x, OneHot):
        return float(np.sqrt(len(x.indices)))
    if isinstance(x, Operator):
        return x.frobenius()
    return float(np.linalg.norm(x))


def product_norm(u: Value, v: Value) -> float:
    """|U V^T|_F without forming it: the root of <U^T U, V^T V>."""
    gram = multiply(u, True, u, False) * multiply(v, True, v, False)
    return float(np.sqrt(max(float(gram.sum()), 0.0)))


def is_finite(x: Value) -> bool:
    """Whether no entry is infinite or NaN."""
    if isinstance(x, OneHot):
        return True
    if isinstance(x, Operator):
        return x.is_finite()
    with np.errstate(all="ignore"):
        # One pass without a temporary; a finite sum proves every term finite.
        return bool(np.isfinite(np.sum(x))) or bool(np.isfinite(x).all())


def all_finite(values: Iterable[Value]) -> bool:
    """The same for many small arrays, with one entry into NumPy's error state."""
    with np.errstate(all="ignore"):
        return all(
            np.isfinite(x.sum()) or np.isfinite(x).all()
            for x in values
            if isinstance(x, np.ndarray)
        )


def multiply(x: Value, tx: bool, y: Value, ty: bool, alpha: float = 1.0) -> Array:
    """alpha op(x) op(y), op being transposition where asked."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return _gemm(alpha, x.T if tx else x, y.T if ty else y)
    out = _structured(x, tx, y, ty)
    return out if alpha == 1.0 else alpha * out


def _gemm(alpha: float, a: Array, b: Array) -> Array:
    m, k = a.shape
    n = b.shape[1]
    if min(m, n, k) == 0:
        return np.zeros((m, n))
    if m > n:
        return _gemm_columns(alpha, a, b)
    return _gemm_columns(alpha, b.T, a.T).T


def _gemm_columns(alpha: float, a: Array, b: Array) -> Array:
    """alpha a b in Fortran order, without copying a or b."""
    ta, tb = not a.flags.f_contiguous, not b.flags.f_contiguous
    out: Array = dgemm(alpha, a.T if ta else a, b.T if tb else b, trans_a=ta, trans_b=tb)
    return out


def _structured(x: Value, tx: bool, y: Value, ty: bool) -> Array:
    if isinstance(x, OneHot):
        if isinstance(y, OneHot):
            if tx and not ty:
                same: Array = (x.indices[:, None] == y.indices[None, :]).astype(np.float64)
                return same
            return multiply(x.toarray(), tx, y.toarray(), ty)
        return _gather(y, not ty, x).T if tx else _scatter(x, dense_of(y), ty)
    if isinstance(y, OneHot):
        return _gather(x, tx, y) if not ty else _scatter(y, dense_of(x), not tx).T
    if isinstance(x, Operator):
        right = dense_of(y)
        return x.apply(right.T if ty else right, tx)
    assert isinstance(y, Operator)
    return y.apply(x if tx else x.T, not ty).T


def _gather(x: Array | Operator, tx: bool, y: OneHot) -> Array:
    """op(x) [e_i e_j ...]: columns of op(x)."""
    if isinstance(x, Operator):
        return x.take_rows(y.indices).T if tx else x.take_columns(y.indices)
    return x[y.indices].T if tx else np.asfortranarray(x[:, y.indices])


def _scatter(x: OneHot, y: Array, ty: bool) -> Array:
    """[e_i e_j ...] op(y): the rows of op(y) put in their places."""
    rows = y.T if ty else y
    out = np.zeros((x.n, rows.shape[1]), order="F")
    out[x.indices] = rows
    return out


def rank_update(target: Array | Sparse, u: Value, v: Value) -> None:
    """target += u v^T in place."""
    if isinstance(target, Sparse):
        target.update(u, v)
    elif isinstance(u, OneHot) and isinstance(v, OneHot):
        target[u.indices, v.indices] += 1.0
    elif isinstance(u, OneHot):
        target[u.indices] += dense_of(v).T
    elif isinstance(v, OneHot):
        target[:, v.indices] += dense_of(u)
    else:
        left, right = np.asfortranarray(dense_of(u)), np.asfortranarray(dense_of(v))
        if left.shape[1] == 0:
            return
        if target.flags.c_contiguous and not target.flags.f_contiguous:
            dgemm(1.0, right, left, 1.0, target.T, trans_b=True, overwrite_c=True)
        elif target.flags.f_contiguous:
            dgemm(1.0, left, right, 1.0, target, trans_b=True, overwrite_c=True)
        else:
            target += left @ right.T


def add(terms: list[tuple[float, Value, bool]]) -> Array:
    """The sum of c op(x) over the terms, as a new array."""
    coefficient, first, transposed = terms[0]
    dense = dense_of(first)
    out = np.multiply(dense.T if transposed else dense, coefficient)
    for coefficient, value, transposed in terms[1:]:
        dense = dense_of(value)
        part = dense.T if transposed else dense
        if coefficient == 1.0:
            out += part
        elif coefficient == -1.0:
            out -= part
        else:
            out += coefficient * part
    return out


def inverse(x: Value, tx: bool, what: str) -> Array:
    """The inverse by LU; a matrix that is singular to working precision is an error."""
    dense = dense_of(x)
    a = np.array(dense.T if tx else dense, order="F")
    one_norm = float(np.abs(a).sum(axis=0).max())
    lu, pivots, info = lapack.dgetrf(a, overwrite_a=True)
    rcond = 0.0
    if info == 0 and np.isfinite(one_norm):
        rcond = float(lapack.dgecon(lu, one_norm)[0])
    if not rcond > EPS:
        raise SingularMatrixError(
            f"{what} is singular to working precision (reciprocal condition {rcond:.1e})",
            hint="nothing was changed; remove the dependence, or add a ridge term such as "
            "0.001 * eye(n)",
        )
    room = int(lapack.dgetri_lwork(len(a))[0])  # without it LAPACK works column by column
    result, info = lapack.dgetri(lu, pivots, lwork=room, overwrite_lu=True)
    return np.ascontiguousarray(result)


def woodbury(g: Value, q: Value, amplifications: list[float]) -> Array:
    """-G (I + Q^T G)^-1; Sherman-Morrison for one column (thesis 6.3.1).

    Appends the condition of I + Q^T G, by which errors of G grow, to `amplifications`.
    """
    left = dense_of(g)
    capacitance = multiply(q, True, left, False)
    capacitance = np.asfortranarray(capacitance + np.eye(len(capacitance)))
    one_norm = float(np.abs(capacitance).sum(axis=0).max(initial=0.0))
    if not np.isfinite(one_norm):
        raise IllConditioned("the update is too large for double precision")
    lu, pivots, info = lapack.dgetrf(capacitance)
    rcond = float(lapack.dgecon(lu, one_norm)[0]) if info == 0 else 0.0
    # The smallest pivot scale also matters: 1 + v^T W u near 0 is a nearly singular result.
    if rcond < CAPACITANCE_LIMIT or rcond * one_norm < CAPACITANCE_LIMIT:
        raise IllConditioned(f"I + V^T W U has reciprocal condition {rcond:.1e}")
    amplifications.append(1.0 / rcond)
    # -G K^-1 = -(K^-T G^T)^T
    solved: Array = lapack.dgetrs(lu, pivots, left.T, trans=1)[0]
    return -solved.T


def recompress(u: Array, v: Array) -> tuple[Array, Array]:
    """The numerical rank of u v^T by QR of both factors and SVD of the small core.

    Singular values below eps * max(shape) of the largest are rounding, not information.
    """
    if u.shape[1] == 0:
        return u, v
    qu, ru = np.linalg.qr(u)
    qv, rv = np.linalg.qr(v)
    left, values, right = np.linalg.svd(ru @ rv.T)
    limit = EPS * max(u.shape[0], v.shape[0]) * values[0]
    keep = int(np.count_nonzero(values > limit))
    root = np.sqrt(values[:keep])
    return np.asfortranarray(qu @ (left[:, :keep] * root)), np.asfortranarray(
        qv @ (right[:keep].T * root)
    )
