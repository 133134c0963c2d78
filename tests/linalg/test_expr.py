"""Expressions and the text language: normal forms, shapes, errors with their place."""

from __future__ import annotations

import numpy as np
import pytest

import viewlet.linalg as la
from viewlet.errors import ParseError, ResolutionError, TypingError
from viewlet.linalg.chain import associate
from viewlet.linalg.lower import lower
from viewlet.linalg.models import EXPONENTIAL, parse_model

A = la.matrix("A", 4, 4)
B = la.matrix("B", 4, 4)
X = la.matrix("X", 6, 4)


def test_equal_expressions_are_one_object() -> None:
    assert A @ B + A is A @ B + A
    assert (A @ B).T is B.T @ A.T
    assert A.T.T is A


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (A + B + A, "2 * A + B"),
        (A - A + B, "B"),
        ((2 * A) @ (3 * B), "6 * (A B)"),
        (A @ la.eye(4), "A"),
        (-(A - B), "-A + B"),
        (la.inv(la.inv(A)), "A"),
        (A**3, "A^3"),
        (la.power(A, 0), "eye(4)"),
        (A / 2, "0.5 * A"),
        (X.T @ X, "X^T X"),
        (la.block([[A, B]]).T, "[ A^T; B^T ]"),
    ],
)
def test_constructors_normalize(e: la.Expr, text: str) -> None:
    assert str(e) == text


@pytest.mark.parametrize(
    "source",
    [
        "C := A * B; D := C C' - 2 * A;",
        "W := inv(A' * A + 0.5 * eye(4));",
        "C := A^16; S := powersum(A, 5);",
        "M := [ A, B; B A ]; N := M';",
        "T := iterate(A, B, A, 7);",
    ],
)
def test_programs_print_and_parse_back(source: str) -> None:
    inputs = {"A": (4, 4), "B": (4, 4)}
    program = la.program(source, inputs=inputs)
    assert str(la.program(str(program), inputs=inputs)) == str(program)


@pytest.mark.parametrize(
    ("source", "error", "message", "line", "column"),
    [
        ("C := A *", ParseError, "expected a matrix", 1, 9),
        ("C := A;\nD := Q A;", ResolutionError, "unknown matrix Q", 2, 6),
        ("C := A;\nC := B;", ResolutionError, "C is already defined", 2, 1),
        ("C := X X;", TypingError, "cannot multiply 6 x 4 by 6 x 4", 1, 8),
        ("C := A + X;", TypingError, "cannot add", 1, 8),
        ("C := inv(X);", TypingError, "needs a square matrix", 1, 6),
        ("C := 3;", TypingError, "a number stands", 1, 1),
        ("C := A $ B;", ParseError, "unexpected character", 1, 8),
        ("C := A / B;", TypingError, "divides by a number", 1, 8),
        ("C := A^-2;", TypingError, "is not in the language", 1, 7),
        ("C := [ A X ];", TypingError, "does not fit", 1, 6),
        ("", ParseError, "no statement", None, None),
    ],
)
def test_errors_name_their_place(
    source: str, error: type[Exception], message: str, line: int | None, column: int | None
) -> None:
    with pytest.raises(error, match=message) as caught:
        la.program(source, inputs={"A": (4, 4), "B": (4, 4), "X": (6, 4)})
    position = caught.value.position  # type: ignore[attr-defined]
    assert (position and (position.line, position.column)) == (line and (line, column))


@pytest.mark.parametrize(
    "build",
    [
        lambda: A @ X,
        lambda: A + X,
        lambda: A @ np.eye(4),
        lambda: np.eye(4) @ A,
        lambda: A * B,
        lambda: A * float("nan"),
        lambda: la.inv(X),
        lambda: la.power(X, 2),
        lambda: la.power(A, -3),
        lambda: la.power_sum(A, 0),
        lambda: la.iterate(A, X.T, 0),
        lambda: la.iterate(A, X, 4),
        lambda: la.matrix("1st", 3, 3),
        lambda: la.matrix("A", 0, 3),
        lambda: la.block([[A, X]]),
        lambda: la.program(),
        lambda: la.program(C=A @ la.matrix("A", 4, 2)),
    ],
)
def test_wrong_shapes_and_values_are_typing_errors(build: object) -> None:
    with pytest.raises(TypingError):
        build()  # type: ignore[operator]


def test_chains_avoid_large_products() -> None:
    n = 1000
    assert associate(((n, 1), (1, n), (n, 1))) == (0, (1, 2))
    assert associate(((n, n), (n, n), (n, 1))) == (0, (1, 2))


def test_shared_subexpressions_become_one_view_and_copies_none() -> None:
    statements = [("C", (A @ B) @ (A @ B)), ("D", A @ B), ("E", A)]
    views = lower(statements, [A, B], EXPONENTIAL)
    assert [str(v) for v in views.views] == ["M := A B;", "C := M M;"]
    assert views.outputs["D"].name == "M"
    assert views.outputs["E"] is A


def test_narrow_products_stay_factored() -> None:
    n = 100
    m, e, w, t = (
        la.matrix("M", n, n),
        la.matrix("e", n),
        la.matrix("w", 1, n),
        la.matrix("T0", n),
    )
    views = lower([("T", la.iterate(0.85 * (m + e @ w), t, 3))], [m, e, w, t], parse_model("lin"))
    assert all(max(v.matrix.shape) * min(v.matrix.shape) == n for v in views.views)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 12, 16, 19])
@pytest.mark.parametrize("model", ["linear", "exponential", "skip-2", "skip-4"])
def test_models_agree_for_any_number_of_iterations(k: int, model: str) -> None:
    rng = np.random.default_rng(k)
    a = rng.standard_normal((4, 4)) / 3
    t0, b = rng.standard_normal((4, 2)), rng.standard_normal((4, 2))
    program = la.program(
        P=la.power(A, k),
        S=la.power_sum(A, k),
        T=la.iterate(A, la.matrix("T0", 4, 2), k, la.matrix("b", 4, 2)),
    )
    live = program.start({"A": a, "T0": t0, "b": b}, model=model, strategy="incremental")
    expected = t0
    for _ in range(k):
        expected = a @ expected + b
    np.testing.assert_allclose(live["T"], expected, rtol=1e-12)
    np.testing.assert_allclose(live["P"], np.linalg.matrix_power(a, k), rtol=1e-10, atol=1e-14)
    powers = sum(np.linalg.matrix_power(a, i) for i in range(k))
    np.testing.assert_allclose(live["S"], powers, rtol=1e-10, atol=1e-14)


def test_long_linear_programs_do_not_recurse() -> None:
    live = la.program(P=la.power(A, 1500)).start(
        {"A": 0.9 * np.eye(4)}, model="linear", strategy="incremental"
    )
    np.testing.assert_allclose(live["P"], 0.9**1500 * np.eye(4), rtol=1e-9)
    assert live.error("P") < 1e-9


@pytest.mark.parametrize("name", ["skip-3", "cubic", "skip-0", "skip-"])
def test_unknown_models_are_named(name: str) -> None:
    with pytest.raises(TypingError, match="unknown iterative model"):
        parse_model(name)
