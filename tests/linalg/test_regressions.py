"""Regressions in the conventions of NumPy and scikit-learn, against numpy.linalg.lstsq.

scikit-learn is not installed: its definitions are written out (an intercept without penalty,
alpha |beta|^2, R^2 about the mean); standard errors are those of the textbook.
"""

from __future__ import annotations

import numpy as np
import pytest

import viewlet.linalg as la
from viewlet.errors import DataError, TypingError


def observations(responses: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(5)
    x = g.standard_normal((40, 3)) + 5.0
    shape = 40 if responses is None else (40, responses)
    truth = g.standard_normal(3 if responses is None else (3, responses))
    return x, x @ truth + 2.0 + 0.3 * g.standard_normal(shape)


def with_ones(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, np.ones(len(x))])


@pytest.mark.parametrize("responses", [None, 1, 2])
@pytest.mark.parametrize("strategy", ["incremental", "reevaluation", "hybrid"])
def test_an_intercept_and_errors_follow(responses: int | None, strategy: str) -> None:
    x, y = observations(responses)
    fit = la.LeastSquares(x[:30], y[:30], fit_intercept=True, strategy=strategy)
    fit.add(x[30:], y[30:])
    fit.remove([3, 7])
    a, b = with_ones(np.delete(x, [3, 7], axis=0)), np.delete(y, [3, 7], axis=0)
    beta = np.linalg.lstsq(a, b, rcond=None)[0]
    sums = np.sum((b - a @ beta) ** 2, axis=0)
    errors = np.sqrt(np.multiply.outer(np.diag(np.linalg.inv(a.T @ a)), sums / (38 - 4)))
    assert fit.coefficients.shape == (3,) if responses is None else (3, responses)
    np.testing.assert_allclose(fit.coefficients, beta[:3], rtol=1e-8)
    np.testing.assert_allclose(fit.intercept, beta[3], rtol=1e-8)
    np.testing.assert_allclose(fit.standard_errors, errors[:3], rtol=1e-7)
    np.testing.assert_allclose(fit.intercept_error, errors[3], rtol=1e-7)
    np.testing.assert_allclose(
        fit.r2, 1 - sums / np.sum((b - b.mean(axis=0)) ** 2, axis=0), rtol=1e-9
    )
    np.testing.assert_allclose(fit.predict(x[:5]), with_ones(x[:5]) @ beta, rtol=1e-8)
    if responses is None:
        assert isinstance(fit.intercept, float)
        assert isinstance(fit.r2, float)
        assert fit.predict(x[0]).shape == (1,)


def test_the_intercept_of_ridge_has_no_penalty() -> None:
    """scikit-learn: the penalized fit of centred data, and the intercept through the means."""
    x, y = observations()
    fit = la.Ridge(x[:20], y[:20], alpha=3.0, fit_intercept=True)
    fit.add(x[20:], y[20:])
    centred = x - x.mean(axis=0)
    beta = np.linalg.solve(centred.T @ centred + 3.0 * np.eye(3), centred.T @ (y - y.mean()))
    intercept = y.mean() - x.mean(axis=0) @ beta
    np.testing.assert_allclose(fit.coefficients, beta, rtol=1e-9)
    assert fit.intercept == pytest.approx(intercept)
    assert fit.residual_sums[0] == pytest.approx(np.sum((y - x @ beta - intercept) ** 2))
    assert la.Ridge(x, y).intercept == 0.0


def test_a_model_starts_empty() -> None:
    x, y = observations()
    fit = la.LeastSquares(features=3, fit_intercept=True, strategy="incremental")
    assert repr(fit) == "<LeastSquares: 0 observations of 3 features, fit_intercept=True>"
    with pytest.raises(la.SingularMatrixError, match=r"0 observations cannot determine 4"):
        fit.coefficients  # noqa: B018
    (first,) = fit.add(x[0] + 1, y[0])
    fit.correct(predictors={first: x[0]})
    with pytest.raises(la.SingularMatrixError, match=r"1 observation cannot determine 4"):
        fit.predict(x)
    with pytest.raises(DataError, match="NaN"):
        fit.add(x[0] * np.nan, y[0])
    (wrong,) = fit.add(x[1], 1e9)
    fit.remove([wrong])
    assert len(fit) == 1
    for row, answer in zip(x[1:30], y[1:30], strict=True):  # more than there is room for at first
        fit.add(row, answer)
    np.testing.assert_allclose(
        np.append(fit.coefficients, fit.intercept),
        np.linalg.lstsq(with_ones(x[:30]), y[:30], rcond=None)[0],
        rtol=1e-8,
    )
    fit.add(x[30:], y[30:])
    np.testing.assert_allclose(
        np.append(fit.coefficients, fit.intercept),
        np.linalg.lstsq(with_ones(x), y, rcond=None)[0],
        rtol=1e-8,
    )


def test_observations_that_are_alike_wait_for_others() -> None:
    fit = la.LeastSquares(features=2)
    fit.add([[1.0, 1.0], [2.0, 2.0]], [1.0, 2.0])
    with pytest.raises(la.SingularMatrixError):
        fit.coefficients  # noqa: B018
    fit.add([1.0, 0.0], 3.0)
    np.testing.assert_allclose(
        fit.coefficients,
        np.linalg.lstsq(np.array([[1, 1], [2, 2], [1, 0.0]]), np.array([1, 2, 3.0]), rcond=None)[0],
    )


def test_ridge_and_descent_start_empty() -> None:
    x, y = observations()
    ridge = la.Ridge(features=3, responses=2, alpha=2.0)
    np.testing.assert_array_equal(ridge.coefficients, np.zeros((3, 2)))
    ridge.add(x[0], [1.0, 2.0])
    np.testing.assert_allclose(
        ridge.coefficients,
        np.linalg.solve(np.outer(x[0], x[0]) + 2 * np.eye(3), np.outer(x[0], [1.0, 2.0])),
    )
    descent = la.GradientDescent(features=3, steps=2, rate=0.001, fit_intercept=True)
    descent.add(x, y)
    beta = np.zeros(4)
    for _ in range(2):
        beta -= 0.001 * with_ones(x).T @ (with_ones(x) @ beta - y)
    np.testing.assert_allclose(descent.coefficients, beta[:3])
    assert descent.intercept == pytest.approx(beta[3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, y: la.LeastSquares(), "neither observations nor a number of features"),
        (lambda x, y: la.LeastSquares(x), "y is missing"),
        (lambda x, y: la.LeastSquares(x, y, alpha=1.0), "no penalty"),
        (lambda x, y: la.Ridge(x, y, penalty=1.0), r"no option penalty(.|\n)*alpha"),
        (lambda x, y: la.Ridge(x, y, alpha="much"), "alpha, the penalty, is a number"),
        (lambda x, y: la.Ridge(x, y, fit_intercept=3), "True or False"),
        (lambda x, y: la.LeastSquares(features=0), "at least 1"),
        (lambda x, y: la.LeastSquares(features="x"), "at least 1"),
        (lambda x, y: la.GradientDescent(features=2), "choose the rate by"),
        (lambda x, y: la.LeastSquares(x, y).intercept_error, "no intercept"),
        (lambda x, y: la.LeastSquares(x, y).correct({}, [1.0]), "mapping from numbers"),
    ],
)
def test_wrong_calls_say_what_to_call(make: object, message: str) -> None:
    x, y = observations()
    with pytest.raises(TypingError, match=message):
        make(x, y)  # type: ignore[operator]


def test_errors_need_spare_observations() -> None:
    x, y = observations()
    fit = la.LeastSquares(x[:3], y[:3])
    with pytest.raises(DataError, match="standard errors need more observations than the 3"):
        fit.standard_errors  # noqa: B018
    with pytest.raises(DataError, match="features=4, and the observations have 3"):
        la.LeastSquares(x, y, features=4)


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (
            lambda: la.Ridge(np.eye(2), np.eye(2)),
            "<Ridge: 2 observations of 2 features, 2 responses, alpha=1.0, fit_intercept=False>",
        ),
        (lambda: la.PageRank(np.eye(3)), "<PageRank: 3 pages, damping=0.85, steps=90>"),
        (
            lambda: la.Jacobi(np.eye(2), np.ones(2)),
            "<Jacobi: 2 equations, steps=16>",
        ),
        (lambda: la.PowerIteration(np.eye(2)), "<PowerIteration: 2 x 2, steps=16>"),
        (lambda: la.Reachability(3, [(0, 1)], steps=2), "<Reachability: 3 nodes, steps=2>"),
        (lambda: la.Cholesky(np.eye(2)), "<Cholesky: 2 x 2>"),
        (lambda: la.QR(np.ones((3, 2))), "<QR: 3 x 2>"),
        (lambda: la.TruncatedSVD(np.eye(3), 2), "<TruncatedSVD: 3 x 3, rank=2>"),
    ],
)
def test_models_say_what_they_are(model: object, shown: str) -> None:
    assert repr(model()) == shown  # type: ignore[operator]
