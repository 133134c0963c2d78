"""The running program: reading, updates of every kind, batches, errors that change nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import viewlet.linalg as la
from viewlet.errors import DataError, RangeError, ResolutionError, TypingError, ViewletError
from viewlet.linalg import arrays
from viewlet.linalg.live import Live

N = 12


def start(strategy: str = "incremental", **options: object) -> Live:
    rng = np.random.default_rng(7)
    a = la.matrix("A", N, N)
    program = la.program(C=la.power(a, 4), W=la.inv(a))
    value = rng.standard_normal((N, N)) + 6 * np.eye(N)
    return program.start({"A": value}, strategy=strategy, **options)  # type: ignore[arg-type]


def assert_current(live: Live, tolerance: float = 1e-9) -> None:
    a = live["A"]
    np.testing.assert_allclose(live["C"], np.linalg.matrix_power(a, 4), rtol=tolerance)
    w = np.linalg.inv(a)
    np.testing.assert_allclose(live["W"], w, rtol=0, atol=tolerance * np.abs(w).max())


@pytest.mark.parametrize("strategy", ["reevaluation", "incremental", "hybrid", "auto"])
def test_every_kind_of_update(strategy: str) -> None:
    live = start(strategy)
    rng = np.random.default_rng(1)
    live.update("A", rng.standard_normal(N), rng.standard_normal(N))
    live.update("A", rng.standard_normal((N, 3)), rng.standard_normal((N, 3)))
    live.set_rows("A", {0: rng.standard_normal(N) + 3, -1: rng.standard_normal(N)})
    live.set_columns("A", {2: rng.standard_normal(N) + 2})
    live.set_entries("A", [(1, 1, 9.0), (1, 1, 8.0), (4, 1, -2.0)])
    assert live["A"][1, 1] == pytest.approx(8.0)
    assert_current(live)
    live.replace("A", np.diag(np.arange(1.0, N + 1)))
    assert_current(live)


def test_results_are_read_only_and_follow_updates() -> None:
    live = start()
    c = live["C"]
    with pytest.raises(ValueError, match="read-only"):
        c[0, 0] = 1.0
    before = c.copy()
    live.set_entries("A", [(0, 0, 10.0)])
    assert not np.array_equal(c, before)
    live.replace("A", np.eye(N))
    np.testing.assert_array_equal(c, live["C"])


def test_the_users_arrays_are_copied() -> None:
    value = np.eye(N)
    live = la.program(C=la.matrix("A", N, N) @ la.matrix("A", N, N)).start({"A": value})
    live.update("A", np.ones(N), np.ones(N))
    np.testing.assert_array_equal(value, np.eye(N))


def test_a_batch_is_merged_into_one_update_of_the_distinct_rows() -> None:
    live = start()
    rng = np.random.default_rng(3)
    with live.batch():
        for i in (3, 3, 5, 3):
            live.set_rows("A", {i: rng.standard_normal(N) + 2})
        live.set_entries("A", [(5, 0, 1.5)])
    assert live.stats.updates == 1
    assert live["A"][5, 0] == pytest.approx(1.5)
    assert_current(live)


def test_a_batch_of_general_updates_is_recompressed() -> None:
    live = start()
    rng = np.random.default_rng(4)
    u, v = rng.standard_normal(N), rng.standard_normal(N)
    seen = []
    apply = live.engine.apply
    live.engine.apply = lambda changes: (seen.append(changes), apply(changes))[1]  # type: ignore
    with live.batch():
        for factor in (0.1, 0.2, -0.05):
            live.update("A", factor * u, v)
    (change,) = seen[0].values()
    assert change[0].shape == (N, 1), "three multiples of one outer product have rank one"
    assert_current(live)


def test_a_failed_batch_applies_nothing() -> None:
    live = start()
    before = live["A"].copy()
    with pytest.raises(DataError), live.batch():
        live.set_rows("A", {0: np.ones(N)})
        live.set_rows("A", {99: np.ones(N)})
    np.testing.assert_array_equal(live["A"], before)


def test_updates_of_zero_do_nothing() -> None:
    live = start()
    live.update("A", np.zeros(N), np.ones(N))
    live.set_rows("A", {0: live["A"][0]})
    assert live.stats.updates == 0


BAD: list[tuple[Callable[[Live], object], type[ViewletError], str]] = [
    (lambda s: s.update("A", np.ones(5), np.ones(N)), DataError, "u has shape"),
    (lambda s: s.update("A", np.ones(N), np.ones((N, 2))), DataError, "columns in u"),
    (lambda s: s.update("A", np.full(N, np.nan), np.ones(N)), DataError, "NaN or infinite"),
    (lambda s: s.update("A", np.full(N, np.inf), np.ones(N)), DataError, "NaN or infinite"),
    (lambda s: s.update("A", ["x"] * N, np.ones(N)), DataError, "not an array of real"),
    (lambda s: s.update("A", np.ones(N) * 1j, np.ones(N)), DataError, "not an array of real"),
    (lambda s: s.update("A", np.ones(N)), DataError, "both u and v"),
    (lambda s: s.update("Q", np.ones(N), np.ones(N)), ResolutionError, "no matrix 'Q'"),
    (lambda s: s.update("C", np.ones(N), np.ones(N)), ResolutionError, "is a result"),
    (lambda s: s.set_rows("A", {N: np.ones(N)}), DataError, "has no row"),
    (lambda s: s.set_rows("A", {0: np.ones(3)}), DataError, "has 3 values"),
    (lambda s: s.set_rows("A", {0: np.ones(N), -N: np.ones(N)}), DataError, "given twice"),
    (lambda s: s.set_columns("A", {0: np.full(N, np.inf)}), DataError, "NaN or infinite"),
    (lambda s: s.set_entries("A", [(0, N, 1.0)]), DataError, "has no column"),
    (lambda s: s.set_entries("A", [(0, 0, np.nan)]), DataError, "NaN or infinite"),
    (lambda s: s.replace("A", np.ones((3, 3))), DataError, "declares"),
    (lambda s: s.replace("A", np.ones((N, N))), la.SingularMatrixError, "singular"),
    (lambda s: s["nothing"], ResolutionError, "known: A, C, W"),
    (lambda s: s.update("A", np.full(N, 1e200), np.full(N, 1e200)), RangeError, "range"),
]


@pytest.mark.parametrize("strategy", ["reevaluation", "incremental"])
@pytest.mark.parametrize(("act", "error", "message"), BAD)
def test_bad_input_is_one_clear_error_and_changes_nothing(
    act: Callable[[Live], object], error: type[ViewletError], message: str, strategy: str
) -> None:
    live = start(strategy)
    before = {name: live[name].copy() for name in ("A", "C", "W")}
    with pytest.raises(error, match=message):
        act(live)
    for name, value in before.items():
        np.testing.assert_array_equal(live[name], value)
    live.update("A", np.ones(N) * 0.1, np.ones(N) * 0.1)
    assert_current(live)


@pytest.mark.parametrize("strategy", ["reevaluation", "incremental"])
def test_an_update_that_makes_a_matrix_singular_is_refused(strategy: str) -> None:
    live = start(strategy)
    before = {name: live[name].copy() for name in ("A", "C", "W")}
    with pytest.raises(la.SingularMatrixError, match="singular"):
        live.set_rows("A", {0: live["A"][1]})
    for name, value in before.items():
        np.testing.assert_array_equal(live[name], value)


def test_an_ill_conditioned_woodbury_step_is_re_evaluated() -> None:
    live = start()
    a = live["A"].copy()
    row = a[1] * (1.0 + 1e-10)
    row[0] += 1e-10
    live.set_rows("A", {0: row})
    assert live.stats.repairs == 1
    live.set_rows("A", {0: a[0]})
    assert_current(live, 1e-7)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({}, DataError),
        ({"A": np.eye(3)}, DataError),
        ({"A": np.full((N, N), np.nan)}, DataError),
        ({"A": np.zeros((N, N))}, la.SingularMatrixError),
        ({"A": np.eye(N), "B": np.eye(N)}, ResolutionError),
    ],
)
def test_bad_starts(values: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        la.program(W=la.inv(la.matrix("A", N, N))).start(values)


@pytest.mark.parametrize("options", [{"strategy": "fast"}, {"model": "skip-5"}, {"engine": "gpu"}])
def test_unknown_options_are_named(options: dict[str, str]) -> None:
    with pytest.raises(TypingError):
        la.program(P=la.power(la.matrix("A", N, N), 4)).start({"A": np.eye(N)}, **options)  # type: ignore[arg-type]


def test_ranks_beyond_the_shape_of_a_view_are_capped() -> None:
    rng = np.random.default_rng(5)
    program = la.general_form(N, 2, 16)
    values = {
        "A": rng.standard_normal((N, N)) / 4,
        "B": rng.standard_normal((N, 2)),
        "T0": rng.standard_normal((N, 2)),
    }
    live = program.start(values, strategy="incremental", model="linear")
    for _ in range(5):
        live.update("A", rng.standard_normal((N, 4)) / 9, rng.standard_normal((N, 4)) / 9)
    t = values["T0"]
    for _ in range(16):
        t = live["A"] @ t + values["B"]
    np.testing.assert_allclose(live["T"], t, rtol=1e-9)


def test_recompression_finds_the_numerical_rank() -> None:
    rng = np.random.default_rng(6)
    u, v = rng.standard_normal((40, 3)), rng.standard_normal((30, 3))
    mix = rng.standard_normal((3, 9))
    wide_u, wide_v = u @ mix, v @ np.linalg.pinv(mix).T
    left, right = arrays.recompress(wide_u, wide_v)
    assert left.shape[1] == 3
    np.testing.assert_allclose(left @ right.T, u @ v.T, atol=1e-12)


def test_a_wide_delta_is_recompressed_when_it_pays() -> None:
    n = 80
    rng = np.random.default_rng(8)
    live = la.program(P=la.power(la.matrix("A", n, n), 16)).start(
        {"A": rng.standard_normal((n, n)) / 20}, strategy="incremental", model="exponential"
    )
    # The same row four times over: the syntactic rank is four times the true one.
    u = np.zeros((n, 4))
    u[3] = 1.0
    live.update("A", u, rng.standard_normal((n, 4)) / 40)
    assert live.stats.recompressions > 0
    want = np.linalg.matrix_power(live["A"], 16)
    assert np.linalg.norm(live["P"] - want) <= 1e-10 * np.linalg.norm(want)


def test_explain_shows_trigger_ranks_and_costs() -> None:
    program = la.program(P=la.power(la.matrix("A", 500, 500), 16))
    text = program.explain()
    assert "U_P2 := [ u_A  (A u_A + u_A (v_A^T u_A)) ];" in text
    assert "ranks: A 1, P2 2, P4 4, P8 8, P 16" in text
    for line in ("reevaluation/exponential", "incremental/linear", "n^2 k", "n^g log k"):
        assert line in text
    live = start()
    live.update("A", np.ones(N), np.ones(N))
    assert "update of A: estimated" in live.explain()
    assert "measured" in live.explain()
