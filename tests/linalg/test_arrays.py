"""Kernels: every representation multiplies and updates like the dense matrix it stands for."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy
from scipy import sparse

from viewlet.linalg import arrays
from viewlet.linalg.arrays import OneHot, Sparse, Value
from viewlet.linalg.errors import IllConditioned, SingularMatrixError
from viewlet.linalg.threads import limit_threads
from viewlet.linalg.updates import merge, without_zeros

LIBRARIES = Path(scipy.__file__).parent.parent / "scipy.libs"
N, R = 9, 3
rng = np.random.default_rng(0)
UNIT = OneHot(np.array([4, 0, 7]), N)
OTHER = OneHot(np.array([7, 1, 4]), N)
SQUARE: dict[str, Value] = {
    "c order": rng.standard_normal((N, N)),
    "f order": np.asfortranarray(rng.standard_normal((N, N))),
    "strided": rng.standard_normal((2 * N, 2 * N))[::2, ::2],
    "sparse": Sparse(sparse.random_array((N, N), density=0.3, rng=rng)),
    "sparse and low rank": Sparse(
        sparse.random_array((N, N), density=0.3, rng=rng),
        rng.standard_normal((N, 2)),
        rng.standard_normal((N, 2)),
    ),
}
THIN: dict[str, Value] = {
    "c order": rng.standard_normal((N, R)),
    "f order": np.asfortranarray(rng.standard_normal((N, R))),
    "units": UNIT,
    "no columns": np.zeros((N, 0)),
}


def op(value: Value, transposed: bool) -> np.ndarray:
    dense = arrays.dense_of(value)
    return dense.T if transposed else dense


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("square", "thin"), list(itertools.product(SQUARE, THIN)))
def test_products_of_all_representations(square: str, thin: str, transposed: bool) -> None:
    a, y = SQUARE[square], THIN[thin]
    np.testing.assert_allclose(
        arrays.multiply(a, transposed, y, False, 2.0), 2.0 * op(a, transposed) @ op(y, False)
    )
    np.testing.assert_allclose(
        arrays.multiply(y, True, a, transposed), op(y, True) @ op(a, transposed)
    )


@pytest.mark.parametrize(("left", "right"), list(itertools.product(THIN, THIN)))
def test_products_of_thin_matrices(left: str, right: str) -> None:
    x, y = THIN[left], THIN[right]
    np.testing.assert_allclose(arrays.multiply(x, True, y, False), op(x, True) @ op(y, False))
    if x.shape[1] == y.shape[1]:
        np.testing.assert_allclose(arrays.multiply(x, False, y, True), op(x, False) @ op(y, True))


@pytest.mark.parametrize("target", ["c order", "f order", "strided", "sparse"])
@pytest.mark.parametrize("u", ["c order", "f order", "units"])
@pytest.mark.parametrize("v", ["c order", "units"])
def test_rank_updates_in_place(target: str, u: str, v: str) -> None:
    held = SQUARE[target]
    value = held.copy() if isinstance(held, Sparse | np.ndarray) else held
    assert not isinstance(value, OneHot | arrays.Operator) or isinstance(value, Sparse)
    right = OTHER if v == "units" else THIN[v]
    want = arrays.dense_of(value) + op(THIN[u], False) @ op(right, True)
    arrays.rank_update(value, THIN[u], right)  # type: ignore[arg-type]
    np.testing.assert_allclose(arrays.dense_of(value), want, atol=1e-14)


def test_dense_updates_of_a_sparse_matrix_stay_low_rank() -> None:
    n = 400
    graph = Sparse(sparse.random_array((n, n), density=0.005, rng=rng))
    want = graph.toarray()
    for _ in range(80):
        u, v = rng.standard_normal((n, 1)), rng.standard_normal((n, 1))
        graph.update(u, v)
        want += u @ v.T
    assert graph.nnz < 2000
    assert graph.left.shape[1] <= 81
    np.testing.assert_allclose(graph.toarray(), want, atol=1e-9)


def test_norms() -> None:
    u, v = rng.standard_normal((N, R)), rng.standard_normal((N, R))
    assert arrays.product_norm(u, v) == pytest.approx(np.linalg.norm(u @ v.T))
    assert arrays.product_norm(UNIT, v) == pytest.approx(np.linalg.norm(UNIT.toarray() @ v.T))
    assert arrays.norm(UNIT) == pytest.approx(np.sqrt(3.0))


def test_inverse_and_woodbury_report_what_they_cannot_do() -> None:
    with pytest.raises(SingularMatrixError, match="A is singular"):
        arrays.inverse(np.ones((3, 3)), False, "A")
    seen: list[float] = []
    with pytest.raises(IllConditioned):
        arrays.woodbury(np.array([[1.0], [0.0]]), np.array([[-1.0], [0.0]]), seen)
    made = arrays.woodbury(np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]), seen)
    np.testing.assert_allclose(made, [[-0.5], [0.0]])
    assert seen == [1.0]


def test_batches_merge_by_row_or_by_column() -> None:
    row = [(OneHot(np.array([i]), N), np.full((N, 1), float(i + 1))) for i in (2, 5, 2)]
    u, v = merge(row)
    assert isinstance(u, OneHot)
    assert u.indices.tolist() == [2, 5]
    np.testing.assert_allclose(arrays.dense_of(v)[0], [6.0, 6.0])
    flipped = merge([(b, a) for a, b in row])
    assert isinstance(flipped[1], OneHot)
    kept = without_zeros((UNIT, np.array([[1.0, 0.0, 2.0]] * N)))
    assert kept is not None
    assert isinstance(kept[0], OneHot)
    assert kept[0].indices.tolist() == [4, 7]
    assert without_zeros((UNIT, np.zeros((N, 3)))) is None


@pytest.mark.skipif(not any(LIBRARIES.glob("*openblas*")), reason="SciPy has another BLAS")
def test_the_blas_of_scipy_is_found_and_limited() -> None:
    assert limit_threads(1)
    product = arrays.multiply(np.eye(300), False, np.eye(300), False)
    np.testing.assert_array_equal(product, np.eye(300))
