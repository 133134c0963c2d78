"""Delta derivation: the golden triggers of thesis 6.3 and the rules one by one."""

from __future__ import annotations

import numpy as np
import pytest

import viewlet.linalg as la
from viewlet.linalg.delta import derive, factored_delta, symmetric_views
from viewlet.linalg.expr import Matrix
from viewlet.linalg.models import EXPONENTIAL


def test_fourth_power_is_listing_6_4() -> None:
    program = la.program("B := A * A; C := B * B;", inputs={"A": (100, 100)})
    assert str(program.trigger("A")) == "\n".join(
        [
            "ON UPDATE A BY (u_A, v_A):",
            "  U_B := [ u_A  (A u_A + u_A (v_A^T u_A)) ];",
            "  V_B := [ (A^T v_A)  v_A ];",
            "  U_C := [ U_B  (B U_B + U_B (V_B^T U_B)) ];",
            "  V_C := [ (B^T V_B)  V_B ];",
            "  A += u_A v_A^T;",
            "  B += U_B V_B^T;",
            "  C += U_C V_C^T;",
        ]
    )


@pytest.mark.parametrize(("k", "rank"), [(2, 2), (4, 4), (8, 8), (16, 16)])
def test_ranks_of_powers_double_with_each_squaring(k: int, rank: int) -> None:
    trigger = la.program(P=la.power(la.matrix("A", 100, 100), k)).trigger("A")
    assert trigger.rank("P") == rank


def test_ranks_scale_with_the_rank_of_the_update() -> None:
    trigger = la.program(P=la.power(la.matrix("A", 100, 100), 4)).trigger("A", rank=3)
    assert trigger.rank("P") == 12


def test_linear_and_skip_models_have_the_ranks_of_their_iterations() -> None:
    program = la.program(P=la.power(la.matrix("A", 100, 100), 16))
    assert program.trigger("A", model="linear").rank("P") == 16
    skip = program.trigger("A", model="skip-4")
    assert [skip.rank(name) for name in ("P4", "P8", "P12", "P")] == [4, 8, 12, 16]


OLS = "Z := X' X; W := inv(Z); beta := W X' Y;"


def test_least_squares_is_example_6_3_3() -> None:
    program = la.program(OLS, inputs={"X": (200, 50), "Y": (200, 1)}, outputs=["W", "beta"])
    text = str(program.trigger("X")).splitlines()
    # dZ = v (u^T X) + (X^T u + v u^T u) v^T, two outer products
    assert "  U_Z := [ v_X  (X^T u_X + v_X (u_X^T u_X)) ];" in text
    assert "  V_Z := [ (X^T u_X)  v_X ];" in text
    # dW by Woodbury over both, which is Sherman-Morrison for each in turn
    assert "  G_W := W U_Z;" in text
    assert "  U_W := -G_W (I + V_Z^T G_W)^-1;" in text
    assert "  V_W := W V_Z;" in text, "W is symmetric, so one pass over it serves both"
    assert program.trigger("X").rank("Z") == 2
    assert program.trigger("X").rank("W") == 2
    assert not any("Z +=" in line for line in text), "no trigger reads Z, so it is not kept"


def test_woodbury_equals_sherman_morrison_in_turn() -> None:
    rng = np.random.default_rng(0)
    m, n = 30, 8
    x, y = rng.standard_normal((m, n)), rng.standard_normal((m, 1))
    u, v = rng.standard_normal(m), rng.standard_normal(n)
    w = np.linalg.inv(x.T @ x)
    p = [v, x.T @ u + v * (u @ u)]
    q = [x.T @ u, v]
    for a, b in zip(p, q, strict=True):
        w = w - np.outer(w @ a, b @ w) / (1.0 + b @ w @ a)
    program = la.program(OLS, inputs={"X": (m, n), "Y": (m, 1)})
    live = program.start({"X": x, "Y": y}, strategy="incremental")
    live.update("X", u, v)
    np.testing.assert_allclose(live["W"], w, rtol=1e-9)
    assert live.stats.incremental == 1


def test_several_changed_inputs_are_example_6_3_5() -> None:
    a, b = la.matrix("A", 20, 20), la.matrix("B", 20, 20)
    trigger = la.program(E=a @ b).trigger("A", "B")
    assert "U_E := [ u_A  (A u_B + u_A (v_A^T u_B)) ];" in str(trigger)
    assert "V_E := [ (B^T v_A)  v_B ];" in str(trigger)


def test_common_factors_are_extracted_from_sums() -> None:
    a = la.matrix("A", 50, 50)
    trigger = la.program(S=la.power_sum(a, 4)).trigger("A")
    assert trigger.rank("S") == 3  # rank(P2) + rank(S2), not one more for the + S2


def test_an_unchanged_expression_has_no_delta() -> None:
    a, b = la.matrix("A", 5, 5), la.matrix("B", 5, 5)
    program = la.program(C=a @ a, D=b @ b)
    trigger = program.trigger("A")
    assert trigger.rank("D") == 0
    assert "D +=" not in str(trigger)


def test_hybrid_keeps_iterates_dense_and_powers_factored() -> None:
    program = la.general_form(60, 2, 8)
    plan = program.plans("hybrid", "exponential")[0].plan
    trigger = plan.trigger({program.inputs[0]: 1}).trigger
    assert trigger.rank("T") is None
    assert trigger.rank("P4") == 4


def test_block_deltas_are_placed() -> None:
    a, b = la.matrix("A", 2, 3), la.matrix("B", 2, 1)
    views = la.program(M=la.block([[a, b]])).plans("incremental")[0].plan.views
    assert views.model == EXPONENTIAL
    trigger = derive(views, {b: 1})
    assert str(trigger.assignments[0]) == "V_M := [ zeros(3, 1); v_B ];"
    assert factored_delta(a, trigger.deltas) == []


def test_products_with_one_matrix_share_a_pass() -> None:
    program = la.program(OLS, inputs={"X": (200, 50), "Y": (200, 1)}, outputs=["beta"])
    plan = program.plans("incremental")[0].plan
    compiled = plan.trigger({program.inputs[0]: 1})
    matrices = [op.leaf.name for op in compiled.fused.ops if isinstance(op.leaf, Matrix)]
    whole = [op for op in compiled.fused.ops if op.kind == "fused"]
    assert len(whole) == 1
    assert len(whole[0].args) == 4, "W times U_Z, V_Z and v_X"
    reads = [op for op in compiled.fused.ops if op.kind == "mul" and op.args[0] == whole[0].args[0]]
    assert not reads
    assert "W" in matrices


def test_products_that_wait_for_each_other_are_not_fused() -> None:
    program = la.general_form(40, 4, 6)
    plan = program.plans("incremental", "linear")[0].plan
    compiled = plan.trigger({program.inputs[0]: 1})
    made: set[int] = set()
    for op in compiled.fused.ops:
        assert all(slot in made for slot, _ in op.args)
        made.add(op.out)


def test_symmetry_is_inferred_through_inverses() -> None:
    x = la.matrix("X", 30, 5)
    program = la.program(W=la.inv(x.T @ x + 2 * la.eye(5)), Q=x @ x.T, N=x.T @ x @ x.T @ x)
    views = program.plans("incremental")[0].plan.views
    assert {m.name for m in symmetric_views(views) if isinstance(m, Matrix)} >= {"W", "Q", "N"}
    a = la.matrix("A", 5, 5)
    other = la.program(W=la.inv(a), B=a @ a).plans("incremental")[0].plan.views
    assert not symmetric_views(other)
