"""Error estimates: never far below the truth, and acted upon."""

from __future__ import annotations

import numpy as np
import pytest
from tests.linalg.reference import relative

import viewlet.linalg as la
from viewlet.linalg import accuracy, arrays


def conditioned(rng: np.random.Generator, m: int, n: int, condition: float) -> np.ndarray:
    u, _ = np.linalg.qr(rng.standard_normal((m, n)))
    v, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (u * np.geomspace(1.0, 1.0 / condition, n)) @ v.T


def exact_inverse(a: np.ndarray) -> np.ndarray:
    """The inverse in extended precision, by Newton steps from the double one."""
    wide = a.astype(np.longdouble)
    w = np.linalg.inv(a.astype(np.float64)).astype(np.longdouble)
    eye = np.eye(len(a), dtype=np.longdouble)
    for _ in range(6):
        w = w @ (2 * eye - wide @ w)
    return w


@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8, 1e10])
@pytest.mark.parametrize("seed", range(5))
def test_estimates_of_ill_conditioned_inverses_cover_the_error(condition: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 20
    a0 = conditioned(rng, n, n, condition)
    live = la.program(W=la.inv(la.matrix("A", n, n))).start(
        {"A": a0}, strategy="incremental", tolerance=np.inf
    )
    for _ in range(60):
        rank = int(rng.integers(1, 4))
        u = rng.standard_normal((n, rank)) / n
        v = rng.standard_normal((n, rank)) / n
        live.update("A", u, v)
        live.update("A", -u, v)
    true = relative(live["W"].astype(np.longdouble), exact_inverse(live["A"]))
    assert live.error("W") >= true / 10.0


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5])
def test_estimates_of_regressions_cover_the_error(condition: float) -> None:
    rng = np.random.default_rng(3)
    m, n = 60, 12
    x, y = conditioned(rng, m, n, condition), rng.standard_normal((m, 1))
    program = la.program(
        beta=la.inv(la.matrix("X", m, n).T @ la.matrix("X", m, n))
        @ la.matrix("X", m, n).T
        @ la.matrix("Y", m, 1)
    )
    live = program.start({"X": x, "Y": y}, strategy="incremental", tolerance=np.inf)
    for i in range(200):
        row = live["X"][i % m].copy()
        live.set_rows("X", {i % m: row + 0.1 * rng.standard_normal(n)})
        live.set_rows("X", {i % m: row})
    wide = live["X"].astype(np.longdouble)
    want = exact_inverse(wide.T @ wide) @ (wide.T @ live["Y"].astype(np.longdouble))
    assert live.error("beta") >= relative(live["beta"].astype(np.longdouble), want) / 10.0


def test_the_probe_sees_a_planted_error() -> None:
    rng = np.random.default_rng(4)
    n = 50
    live = la.program(P=la.power(la.matrix("A", n, n), 8)).start(
        {"A": rng.standard_normal((n, n)) / 8}, strategy="incremental"
    )
    assert live.error("P") < 1e-13
    for seed in range(50):
        planted = live["P"].copy()
        g = np.random.default_rng(seed)
        u, v = g.standard_normal(n), g.standard_normal(n)
        bump = 1e-6 * np.outer(u, v) / (np.linalg.norm(u) * np.linalg.norm(v))
        held = live.engine.read(live.plan.views.outputs["P"])
        held += bump * np.linalg.norm(planted)  # type: ignore[operator, misc]
        assert 1e-7 <= live.error("P") <= 1e-4
        held -= bump * np.linalg.norm(planted)  # type: ignore[operator, misc]


def test_passing_the_tolerance_leads_to_re_evaluation() -> None:
    rng = np.random.default_rng(5)
    n = 30
    live = la.program(P=la.power(la.matrix("A", n, n), 4)).start(
        {"A": rng.standard_normal((n, n)) / 8}, strategy="incremental"
    )
    held = live.engine.read(live.plan.views.outputs["P"])
    held += 1e-3 * np.linalg.norm(live["P"])  # type: ignore[operator, misc]
    live.check()
    assert live.stats.repairs == 1
    assert relative(live["P"], np.linalg.matrix_power(live["A"], 4)) < 1e-13


def test_errors_are_noticed_without_being_asked() -> None:
    rng = np.random.default_rng(6)
    n = 16
    live = la.program(W=la.inv(la.matrix("A", n, n))).start(
        {"A": rng.standard_normal((n, n)) + 5 * np.eye(n)}, strategy="incremental"
    )
    for _ in range(300):
        u, v = rng.standard_normal((2, n))
        live.update("A", u, v)
        live.update("A", -u, v)
        want = np.linalg.inv(live["A"])
        assert relative(live["W"], want) <= 1e-8


def test_a_lost_inverse_is_reported_as_infinite() -> None:
    n = 10
    live = la.program(W=la.inv(la.matrix("A", n, n))).start(
        {"A": np.eye(n)}, strategy="incremental", tolerance=np.inf
    )
    held = live.engine.read(live.plan.views.outputs["W"])
    held *= -3.0  # type: ignore[operator]
    assert live.error("W") == np.inf


def test_inputs_have_no_error() -> None:
    live = la.program(C=la.matrix("A", 3, 3) @ la.matrix("A", 3, 3)).start({"A": np.eye(3)})
    assert live.error("A") == 0.0


def test_running_estimates_grow_with_amplification_and_shrinking() -> None:
    running = accuracy.Running()
    m = la.matrix("A", 3, 3)
    running.reset(m, 1e-12, 1.0)
    running.advance(m, 1.0, 100.0)
    assert running.worst() >= 1e-10
    running.rescale(m, 1e-3)
    assert running.worst() >= 1e-7


def test_sparse_norms_include_the_low_rank_part() -> None:
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    value = arrays.Sparse(np.eye(6), u, v)
    assert arrays.norm(value) == pytest.approx(np.linalg.norm(value.toarray()))
