"""The cost model grows as Table 6.2 says, and plans follow it."""

from __future__ import annotations

import pytest

import viewlet.linalg as la
from viewlet.linalg import cost
from viewlet.linalg.cost import CostConstants
from viewlet.linalg.models import parse_model
from viewlet.linalg.plan import MaintenancePlan

MEASURE = cost.machine_constants

# A machine on which every multiply-add takes one unit and nothing else costs: pure counts.
WORK = CostConstants(
    apply=tuple(float(w) for w in cost.WIDTHS),
    update=tuple(float(w) for w in cost.WIDTHS),
    gemm=1.0,
    inverse=1.0,
    stream=0.0,
    sparse=1.0,
    overhead=0.0,
)


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "machine_constants", lambda: WORK)


def work(program: la.Program, strategy: str, model: str) -> float:
    return program.plans(strategy, model, changing=["A"])[0].seconds


@pytest.mark.parametrize(
    ("strategy", "model", "growth"),
    [
        ("reevaluation", "linear", 2.0),  # n^g k
        ("incremental", "linear", 4.0),  # n^2 k^2
        ("incremental", "exponential", 2.0),  # n^2 k
        ("incremental", "skip-4", 4.0),  # n^2 k^2 / s
    ],
)
def test_powers_grow_with_k_as_table_6_2(strategy: str, model: str, growth: float) -> None:
    n = 4096
    ratio = work(la.matrix_power(n, 64), strategy, model) / work(
        la.matrix_power(n, 32), strategy, model
    )
    assert ratio == pytest.approx(growth, rel=0.2)


def test_squaring_grows_with_the_logarithm_of_k() -> None:
    n = 1024
    steps = [work(la.matrix_power(n, k), "reevaluation", "exponential") for k in (4, 16, 64)]
    assert steps == [pytest.approx(steps[0] * factor) for factor in (1, 2, 3)]


@pytest.mark.parametrize(("strategy", "growth"), [("reevaluation", 8.0), ("incremental", 4.0)])
def test_powers_grow_with_n_as_table_6_2(strategy: str, growth: float) -> None:
    ratio = work(la.matrix_power(2048, 16), strategy, "exponential") / work(
        la.matrix_power(1024, 16), strategy, "exponential"
    )
    assert ratio == pytest.approx(growth, rel=0.1)


@pytest.mark.parametrize(
    ("strategy", "model", "p", "growth"),
    [
        ("reevaluation", "linear", 1, 2.0),  # p n^2 k in p
        ("hybrid", "linear", 1, 2.0),
        ("incremental", "linear", 8, 1.0),  # (n^2 + p n) k^2: p hardly matters
    ],
)
def test_general_form_grows_with_p_as_table_6_2(
    strategy: str, model: str, p: int, growth: float
) -> None:
    n, k = 2048, 8
    ratio = work(la.general_form(n, 2 * p, k), strategy, model) / work(
        la.general_form(n, p, k), strategy, model
    )
    assert ratio == pytest.approx(growth, rel=0.15)


def test_auto_prefers_what_section_6_4_finds_best() -> None:
    powers = la.matrix_power(2048, 16).plans(changing=["A"])[0].plan
    assert str(powers) == "incremental/exponential"
    wide = la.general_form(2048, 1024, 16).plans(changing=["A"])[0].plan
    assert wide.strategy == "incremental"
    thin = la.general_form(2048, 1, 16).plans(changing=["A"])[0].plan
    assert thin.strategy in ("hybrid", "reevaluation")


def test_table_6_2_is_quoted() -> None:
    assert cost.table_6_2("powers", "incremental", parse_model("exponential")) == "n^2 k"
    assert cost.table_6_2("general", "hybrid", parse_model("skip-4")).endswith("n^2 s")
    assert cost.table_6_2("", "hybrid", parse_model("linear")) == ""


def test_memory_counts_what_is_kept() -> None:
    program = la.matrix_power(100, 16)
    by_plan = {str(e.plan): e.memory for e in program.plans()}
    matrix = 8 * 100 * 100
    assert by_plan["reevaluation/exponential"] == 2 * matrix
    assert by_plan["incremental/exponential"] == 5 * matrix
    assert by_plan["incremental/linear"] == 16 * matrix


def test_high_ranks_are_re_evaluated_under_auto() -> None:
    program = la.matrix_power(256, 16)
    plan = MaintenancePlan("incremental", program.plans("incremental", "exponential")[0].plan.views)
    matrix = program.inputs[0]
    few, many = plan.trigger_seconds({matrix: 1}), plan.trigger_seconds({matrix: 256})
    again = plan.reevaluation_seconds(frozenset({matrix}))
    assert few < again < many


def test_measured_constants_are_positive_and_ordered() -> None:
    measured = MEASURE()
    for table in (measured.apply, measured.update):
        assert len(table) == len(cost.WIDTHS) and table[0] > 0.0
        assert list(table) == sorted(table)


def test_a_time_that_other_work_has_disturbed_does_not_count() -> None:
    assert cost._by_width([5.0, 2.0, 9.0, 3.0, 4.0]) == (2.0, 2.0, 3.0, 3.0, 4.0)
