"""What relations are expected to bring: complete, told, learned."""

from __future__ import annotations

from viewlet.planner.prediction import Arrivals, Predictions


def predicted(arrivals: Arrivals) -> float:
    known = arrivals.prediction()
    assert known is not None
    return known.rows


def test_even_arrivals_are_expected_to_go_on() -> None:
    arrivals = Arrivals()
    assert arrivals.prediction() is None
    for rows in (90, 110, 95, 105, 100):
        arrivals.add(rows)
    assert 90 < predicted(arrivals) < 110


def test_late_data_that_goes_down_by_a_ratio_goes_on_to_do_so() -> None:
    arrivals = Arrivals()
    for rows in (90_000, 9_000, 900, 90):
        arrivals.add(rows)
    assert 5 < predicted(arrivals) < 15


def test_told_comes_before_learned_until_it_has_come_or_its_time_is_over() -> None:
    clock = [0.0]
    predictions = Predictions(lambda: clock[0])
    predictions.saw("v", "r", 10)
    predictions.expect("r", 500, within=60.0)
    assert predictions.of("v", "r") is not None
    assert predictions.changing("v", ["r", "s"]) == {"r": 500.0, "s": 1.0}
    predictions.saw("v", "r", 200)
    told = predictions.of("v", "r")
    assert told is not None and (told.rows, told.reason) == (300.0, "told")
    clock[0] = 61.0
    learned = predictions.of("v", "r")
    assert learned is not None and "of 2 refreshes" in learned.reason


def test_complete_relations_bring_nothing() -> None:
    predictions = Predictions(lambda: 0.0)
    predictions.expect("r", 500, within=None)
    predictions.complete = frozenset("r")
    assert predictions.changing("v", ["r", "s"]) == {"s": 1.0}
    assert predictions.changing("v", ["r"]) == {}


def test_where_nothing_is_expected_anything_may_come() -> None:
    predictions = Predictions(lambda: 0.0)
    for name in ("r", "s"):
        predictions.saw("v", name, 0)
    assert predictions.changing("v", ["r", "s"]) == {"r": 1.0, "s": 1.0}
