"""Ready-made programs in the words of their users, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

import viewlet.linalg as la
from viewlet.errors import DataError, RangeError, TypingError


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize("strategy", ["auto", "incremental", "hybrid"])
def test_least_squares_follows_its_observations(strategy: str) -> None:
    g = rng()
    x, y = g.standard_normal((30, 5)), g.standard_normal((30, 2))
    fit = la.LeastSquares(x, y, strategy=strategy)
    rows, targets = dict(enumerate(x)), dict(enumerate(y))

    def assert_current() -> None:
        a, b = np.array(list(rows.values())), np.array(list(targets.values()))
        beta, sums, *_ = np.linalg.lstsq(a, b, rcond=None)
        np.testing.assert_allclose(fit.coefficients, beta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(fit.residual_sums, sums, rtol=1e-7)
        assert len(fit) == len(rows)

    for _ in range(8):
        more, answers = g.standard_normal((9, 5)), g.standard_normal((9, 2))
        for i, a, b in zip(fit.add(more, answers), more, answers, strict=True):
            rows[i], targets[i] = a, b
        assert_current()
        gone = list(rows)[::7]
        fit.remove(gone)
        for i in gone:
            del rows[i], targets[i]
        assert_current()
    first = next(iter(rows))
    rows[first], targets[first] = np.ones(5), np.array([1.0, 2.0])
    fit.correct({first: rows[first]}, {first: targets[first]})
    assert_current()
    np.testing.assert_allclose(fit.predict(np.ones(5)), np.ones((1, 5)) @ fit.coefficients)
    assert fit.error() < 1e-9


def test_ridge_follows_its_observations() -> None:
    g = rng()
    x, y = g.standard_normal((20, 4)), g.standard_normal(20)
    fit = la.Ridge(x, y, alpha=0.7)
    new = g.standard_normal((2, 4))
    fit.add(new, [1.0, 2.0])
    fit.add(new[0], 3.0)
    a, b = np.vstack([x, new, new[:1]]), np.append(y, [1.0, 2.0, 3.0])
    beta = np.linalg.solve(a.T @ a + 0.7 * np.eye(4), a.T @ b)
    np.testing.assert_allclose(fit.coefficients, beta, rtol=1e-10)
    assert fit.residual_sums[0] == pytest.approx(np.sum((b - a @ beta) ** 2))


def test_regressions_refuse_what_they_cannot_take() -> None:
    g = rng()
    x, y = g.standard_normal((6, 3)), g.standard_normal(6)
    with pytest.raises(DataError, match="6 observations and Y has 5"):
        la.LeastSquares(x, y[:5])
    with pytest.raises(la.SingularMatrixError):
        la.LeastSquares(x[:2], y[:2])
    with pytest.raises(TypingError, match="alpha"):
        la.Ridge(x, y, alpha=-1.0)
    fit = la.LeastSquares(x[:3], y[:3], strategy="incremental")
    before = fit.coefficients.copy()
    with pytest.raises(la.SingularMatrixError):
        fit.remove([0])
    with pytest.raises(DataError, match="no observation 17"):
        fit.remove([17])
    with pytest.raises(DataError, match="shape"):
        fit.add(np.ones(4), 1.0)
    with pytest.raises(DataError, match="NaN"):
        fit.add(np.array([1.0, np.nan, 2.0]), 1.0)
    np.testing.assert_array_equal(fit.coefficients, before)
    assert len(fit) == 3


def test_gradient_descent_follows_its_observations() -> None:
    g = rng()
    x, y = g.standard_normal((25, 4)), g.standard_normal((25, 1))
    fit = la.GradientDescent(x, y, steps=12, rate=0.01)
    more, answers = g.standard_normal((3, 4)), g.standard_normal((3, 1))
    fit.add(more, answers)
    fit.remove([0, 5])
    a = np.delete(np.vstack([x, more]), [0, 5], axis=0)
    b = np.delete(np.vstack([y, answers]), [0, 5], axis=0)
    beta = np.zeros((4, 1))
    for _ in range(12):
        beta = beta - 0.01 * a.T @ (a @ beta - b)
    np.testing.assert_allclose(fit.coefficients, beta, rtol=1e-10)


def reference_pagerank(graph: np.ndarray, damping: float, steps: int) -> np.ndarray:
    n = len(graph)
    totals = graph.sum(axis=1)
    shares = np.divide(graph, totals[:, None], out=np.zeros_like(graph), where=totals[:, None] > 0)
    shares[totals == 0] = 1.0 / n
    r = np.full(n, 1.0 / n)
    for _ in range(steps):
        r = damping * shares.T @ r + (1 - damping) / n
    return r


@pytest.mark.parametrize("strategy", ["auto", "incremental", "hybrid", "reevaluation"])
def test_pagerank_follows_its_links(strategy: str) -> None:
    g = rng()
    n = 60
    graph = (g.random((n, n)) < 0.05).astype(float)
    graph[7] = 0.0
    ranks = la.PageRank(sparse.csr_array(graph), steps=20, strategy=strategy)
    np.testing.assert_allclose(ranks.ranks, reference_pagerank(graph, 0.85, 20), rtol=1e-10)
    for _ in range(15):
        i, j, k = (int(a) for a in g.integers(0, n, 3))
        ranks.add_links([(i, j), (7, k, 2.0)])
        graph[i, j], graph[7, k] = 1.0, 2.0
        there = np.flatnonzero(graph[j])
        if len(there):
            ranks.remove_links([(j, int(there[0]))])
            graph[j, there[0]] = 0.0
    ranks.remove_links([(7, int(k)) for k in np.flatnonzero(graph[7])])
    graph[7] = 0.0
    np.testing.assert_allclose(ranks.ranks, reference_pagerank(graph, 0.85, 20), rtol=1e-9)
    assert ranks.ranks.sum() == pytest.approx(1.0)
    with pytest.raises(DataError, match="no link"):
        ranks.remove_links([(7, 7)])
    with pytest.raises(DataError, match="no page"):
        ranks.add_links([(0, n)])


def cycle_with_chord(n: int = 60) -> np.ndarray:
    """A graph on which power iteration is slow: 16 steps leave 3 % of error."""
    graph = np.roll(np.eye(n), 1, axis=1)
    graph[0, n // 2] = 1.0
    return graph


def test_pagerank_keeps_its_tolerance_on_every_graph() -> None:
    graph = cycle_with_chord()
    ranks = la.PageRank(sparse.csr_array(graph))
    truth = reference_pagerank(graph, 0.85, 400)
    assert np.abs(ranks.ranks - truth).sum() <= 1e-6
    assert np.abs(ranks.ranks - truth).sum() <= ranks.error_bound <= 1e-6 / 0.15
    ranks.add_links([(10, 40)])
    graph[10, 40] = 1.0
    assert np.abs(ranks.ranks - reference_pagerank(graph, 0.85, 400)).sum() <= 1e-6


def test_pagerank_says_how_far_given_steps_are_off(caplog: pytest.LogCaptureFixture) -> None:
    graph = cycle_with_chord()
    ranks = la.PageRank(sparse.csr_array(graph), steps=16)
    off = np.abs(ranks.ranks - reference_pagerank(graph, 0.85, 400)).sum()
    assert 1e-6 < off <= ranks.error_bound
    assert "after 16 steps the errors of all ranks may add up to" in caplog.text
    caplog.clear()
    la.PageRank(sparse.csr_array(graph), steps=16, tol=0.5)
    assert caplog.text == ""


@pytest.mark.parametrize("wrong", [{"tol": 0.0}, {"tol": float("nan")}, {"damping": 1.0}])
def test_pagerank_refuses_what_has_no_fixed_point(wrong: dict[str, float]) -> None:
    with pytest.raises(RangeError):
        la.PageRank(sparse.csr_array(cycle_with_chord()), **wrong)


def test_pagerank_of_a_large_sparse_graph_stays_sparse() -> None:
    g = rng()
    n, links = 20_000, 100_000
    graph = sparse.coo_array(
        (np.ones(links), (g.integers(0, n, links), g.integers(0, n, links))), shape=(n, n)
    )
    ranks = la.PageRank(graph.tocsr(), steps=10)
    ranks.add_links([(0, 1), (5, 6)])
    held = ranks.live.engine.read(ranks.live.plan.views.inputs[0])
    total = sum(
        ranks.live.engine.read(m).nbytes  # type: ignore[union-attr]
        for m in (*ranks.live.plan.views.inputs, *ranks.live.plan.stored)
    )
    assert total < 20 * 2**20, "a dense n x n matrix would take 3.2 GB"
    assert held.shape == (n, n)
    assert ranks.live.error("r") < 1e-12


def test_jacobi_follows_its_equations() -> None:
    g = rng()
    n = 20
    a = g.standard_normal((n, n)) + 20 * np.eye(n)
    b = g.standard_normal(n)
    solver = la.Jacobi(a, b, steps=60)
    for i in range(5):
        a[i] = g.standard_normal(n)
        a[i, i] = 25.0
        b[i] = float(i)
        solver.set_rows({i: a[i]}, {i: b[i]})
    np.testing.assert_allclose(solver.x, np.linalg.solve(a, b), rtol=1e-10)
    assert solver.residual() < 1e-12
    with pytest.raises(DataError, match="diagonal"):
        solver.set_rows({3: np.zeros(n)})
    with pytest.raises(DataError, match="equations"):
        solver.set_rows({n: np.ones(n)})


def test_power_iteration_follows_its_matrix() -> None:
    g = rng()
    n = 30
    a = g.random((n, n))
    live = la.PowerIteration(a, steps=40)
    for i in range(4):
        row = g.random(n) * 2
        live.live.set_rows("A", {i: row})
        a[i] = row
    values, vectors = np.linalg.eig(a)
    top = int(np.argmax(np.abs(values)))
    assert live.eigenvalue == pytest.approx(float(values[top].real), rel=1e-10)
    want = np.abs(vectors[:, top].real)
    np.testing.assert_allclose(np.abs(live.eigenvector), want, rtol=1e-8)


def test_reachability_follows_its_links() -> None:
    g = rng()
    n = 25
    graph = g.random((n, n)) < 0.05
    np.fill_diagonal(graph, False)
    live = la.Reachability(n, zip(*np.nonzero(graph), strict=True), steps=4)
    for _ in range(30):
        i, j = (int(k) for k in g.integers(0, n, 2))
        if graph[i, j]:
            live.remove_links([(i, j)])
        else:
            live.add_links([(i, j)])
        graph[i, j] = not graph[i, j]
        walks = sum(np.linalg.matrix_power(graph.astype(int), k) for k in range(5))
        np.testing.assert_array_equal(live.matrix(), walks > 0)
    assert live.walks(0, 0) == walks[0, 0]
    assert live.reaches(0, 0)


def test_reachability_refuses_counts_that_are_not_exact() -> None:
    n = 40
    links = [(i, j) for i in range(n) for j in range(n)][:-1]
    with pytest.raises(RangeError, match="more walks"):
        la.Reachability(n, links, steps=12)
    live = la.Reachability(n, links[: 20 * n], steps=11)
    before = live.live["S"].copy()
    with pytest.raises(RangeError):
        live.add_links(links)
    np.testing.assert_array_equal(live.live["S"], before)


WRONG_CALLS: dict[str, Callable[[], object]] = {
    "the graph is not made of real numbers": lambda: la.PageRank([["a"]]),
    "the graph must be a matrix": lambda: la.PageRank(3.0),
    "tol is a number, got 'x'": lambda: la.PageRank(np.eye(2), tol="x"),  # type: ignore[arg-type]
    "damping is a number": lambda: la.PageRank(np.eye(2), damping=None),  # type: ignore[arg-type]
    "a link is": lambda: la.PageRank(np.eye(2)).add_links([(1,)]),  # type: ignore[list-item]
    "a page is a whole number, got 'a'": lambda: la.PageRank(np.eye(2)).remove_links([("a", 1)]),  # type: ignore[list-item]
    "a node is a whole number": lambda: la.Reachability(2, [("a", 1)], steps=2),  # type: ignore[list-item]
    "A is not made of real numbers": lambda: la.Jacobi("x", [1.0]),
    "start has 1 values, 3 are needed": lambda: la.Jacobi(np.eye(3), np.ones(3), start=[1]),
    "row 0 of A has 1 values": lambda: la.Jacobi(np.eye(3), np.ones(3)).set_rows({0: [1.0]}),
    "square matrix": lambda: la.PowerIteration(np.ones((2, 3))),
    "x is not made of real numbers": lambda: la.Cholesky(np.eye(2)).update("x"),
    "b has shape": lambda: la.Cholesky(np.eye(2)).solve(np.ones(3)),
    "2 rows are needed": lambda: la.QR(np.eye(2)).solve(np.ones(3)),
    "the rank is a whole number": lambda: la.TruncatedSVD(np.eye(2), 1.5),  # type: ignore[arg-type]
    "rate is a number": lambda: la.GradientDescent(np.eye(2), np.ones(2), rate="x"),  # type: ignore[arg-type]
    "rows must be a positive integer": lambda: la.matrix_power(np.eye(3), 2),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("message", WRONG_CALLS)
def test_a_wrong_call_is_one_clear_error(message: str) -> None:
    with pytest.raises((DataError, TypingError), match=message):
        WRONG_CALLS[message]()
