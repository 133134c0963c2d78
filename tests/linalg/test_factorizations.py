"""Factorizations under rank-1 updates."""

from __future__ import annotations

import numpy as np
import pytest

import viewlet.linalg as la
from viewlet.errors import DataError


def rng() -> np.random.Generator:
    return np.random.default_rng(23)


def test_cholesky_follows_updates_and_downdates() -> None:
    g = rng()
    n = 12
    x = g.standard_normal((30, n))
    a = x.T @ x
    factor = la.Cholesky(a)
    for i in range(30):
        u = g.standard_normal(n)
        factor.update(u)
        factor.downdate(x[i] * 0.5)
        a += np.outer(u, u) - 0.25 * np.outer(x[i], x[i])
    np.testing.assert_allclose(factor.factor, np.linalg.cholesky(a), rtol=1e-9, atol=1e-10)
    b = g.standard_normal(n)
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(a, b), rtol=1e-9)


def test_cholesky_refuses_to_lose_definiteness() -> None:
    factor = la.Cholesky(np.eye(3))
    before = factor.factor
    with pytest.raises(la.SingularMatrixError):
        factor.downdate([1.0, 0.0, 0.0])
    with pytest.raises(DataError):
        factor.update([1.0, np.nan, 0.0])
    with pytest.raises(DataError):
        factor.update([1.0])
    np.testing.assert_array_equal(factor.factor, before)
    with pytest.raises(la.SingularMatrixError):
        la.Cholesky(-np.eye(2))
    with pytest.raises(DataError):
        la.Cholesky(np.ones((2, 3)))


def test_qr_follows_updates_and_rows() -> None:
    g = rng()
    a = g.standard_normal((15, 6))
    qr = la.QR(a)
    for _ in range(20):
        u, v = g.standard_normal(len(a)), g.standard_normal(6)
        qr.update(u, v)
        a = a + np.outer(u, v)
        row = g.standard_normal(6)
        qr.add_row(row)
        a = np.vstack([a, row])
        qr.remove_row(2)
        a = np.delete(a, 2, axis=0)
    np.testing.assert_allclose(qr.q @ qr.r, a, atol=1e-10)
    np.testing.assert_allclose(qr.q.T @ qr.q, np.eye(15), atol=1e-12)
    b = g.standard_normal(15)
    np.testing.assert_allclose(qr.solve(b), np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-8)
    with pytest.raises(DataError):
        qr.remove_row(99)
    with pytest.raises(DataError):
        qr.add_row(np.ones(6), at=99)
    with pytest.raises(la.SingularMatrixError):
        la.QR(np.ones((4, 2))).solve(np.ones(4))


def test_truncated_svd_is_exact_while_the_rank_suffices() -> None:
    g = rng()
    a = g.standard_normal((40, 3)) @ g.standard_normal((3, 20))
    svd = la.TruncatedSVD(a, 8)
    for _ in range(5):
        u, v = g.standard_normal(40), g.standard_normal(20)
        svd.update(u, v)
        a = a + np.outer(u, v)
    np.testing.assert_allclose(svd.matrix(), a, atol=1e-10)
    np.testing.assert_allclose(svd.s, np.linalg.svd(a, compute_uv=False)[:8], atol=1e-10)


def test_truncated_svd_bounds_what_it_discards() -> None:
    g = rng()
    a = g.standard_normal((30, 20))
    svd = la.TruncatedSVD(a, 6)
    for _ in range(200):
        u, v = 0.1 * g.standard_normal(30), 0.1 * g.standard_normal(20)
        svd.update(u, v)
        a = a + np.outer(u, v)
    assert np.linalg.norm(svd.matrix() - a) <= svd.discarded * (1 + 1e-9)
    np.testing.assert_allclose(svd.u.T @ svd.u, np.eye(6), atol=1e-12)
    with pytest.raises(DataError):
        la.TruncatedSVD(a, 21)
