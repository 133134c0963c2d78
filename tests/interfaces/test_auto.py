"""`maintenance = 'auto'` with costs and a clock of its own: what it tries, keeps and leaves."""

from __future__ import annotations

from typing import Any

import pytest

import viewlet
from viewlet.errors import ViewletError
from viewlet.interfaces.auto_choice import AutoChoice
from viewlet.interfaces.mode_choice import Measurement, ModeChoice, Strategy, StrategyCost
from viewlet.planner.mode_cost import ModeWork

BEST = """
CREATE TABLE supplier (s INT PRIMARY KEY, name VARCHAR);
CREATE TABLE lineitem (s INT, price BIGINT);
CREATE VIEW revenue AS SELECT s, SUM(price) AS total FROM lineitem GROUP BY s;
CREATE MATERIALIZED VIEW best AS
SELECT supplier.s, name, total FROM supplier JOIN revenue ON supplier.s = revenue.s
WHERE total = (SELECT MAX(total) FROM revenue);
"""

Costs = dict[Strategy, tuple[float, float]]
ANEW: Costs = {
    Strategy.EAGER: (2e-4, 0.0),
    Strategy.SPLIT: (2e-6, 2e-4),
    Strategy.LEAVES: (4e-6, 1e-3),
    Strategy.DEFERRED: (4e-6, 2e-4),
}


class Simulation:
    """A database whose batches and refreshes cost what a table says."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.database = viewlet.connect()
        self.database.execute(BEST)
        self.database.insert("supplier", [(s, "name") for s in range(2000)])
        self.database.insert("lineitem", [(s, 7 if s == 2 else 5) for s in range(2000)])
        self.state = self.database._state
        self.time = 0.0
        self.auto = AutoChoice(self.state, self.database._maintenance, clock=lambda: self.time)
        self.history: list[Strategy] = []

    @property
    def strategy(self) -> Strategy:
        mode = self.state.modes["best"]
        return next(
            s
            for s in Strategy
            if s.view_mode("").frontier is mode.frontier and s.view_mode("").mode is mode.mode
        )

    def run(self, looks: int, reads: float, rows: int = 1) -> int:
        """So many looks, 1,000 batches apart; how often the view was moved."""
        changes = 0
        for _ in range(looks):
            before = self.strategy
            batch, refresh = self.costs[before]
            self._count(1000, rows, reads, batch, refresh)
            self.auto.look()
            changes += self.strategy is not before
            self.history.append(self.strategy)
        return changes

    def _count(self, batches: int, rows: int, reads: float, batch: float, refresh: float) -> None:
        timings = self.state.timings["best"]
        refreshes = int(batches * min(reads, 1.0))
        timings.refreshes += batches
        timings.changed_rows += batches * rows
        timings.seconds += batches * batch
        self.state.meters["best"].reads += int(batches * reads)
        upkeep = self.state.upkeeps.get("best")
        if upkeep is not None:
            upkeep.timings.refreshes += refreshes
            upkeep.timings.seconds += refreshes * refresh
        self.time += batches * batch + refreshes * refresh + 0.3


def test_three_phases_with_one_change_each_at_most() -> None:
    """Written often, read often, mixed: what is tried is what costs least."""
    run = Simulation(ANEW)
    assert run.run(10, reads=0.001) == 1
    assert run.strategy is Strategy.SPLIT
    assert run.run(10, reads=3.0) <= 1
    assert run.run(10, reads=0.1) <= 1
    assert run.strategy is Strategy.SPLIT
    text = run.database.explain("best", stage="maintenance")
    assert "eager: 0.2 ms a batch" in text and "measured" in text
    assert "reads for each batch" in text


def test_what_did_not_pay_is_left_and_not_tried_again() -> None:
    run = Simulation(ANEW | {Strategy.SPLIT: (4e-4, 1e-4), Strategy.LEAVES: (4e-4, 1e-4)})
    run.run(30, reads=0.001)
    assert run.strategy in (Strategy.EAGER, Strategy.DEFERRED)
    assert run.history.count(Strategy.SPLIT) <= 2
    tried = [a for a, b in zip(run.history, run.history[1:], strict=False) if a is not b]
    assert len(tried) == len(set(tried))
    assert run.run(30, reads=0.001) == 0


def test_a_view_that_is_read_after_every_batch_stays_eager() -> None:
    run = Simulation(ANEW)
    assert run.run(20, reads=1.0) == 0 and run.strategy is Strategy.EAGER


def test_answers_stay_while_it_moves() -> None:
    run = Simulation(ANEW)
    for reads in (0.001, 1.0, 0.001):
        run.run(4, reads)
        run.database.insert("lineitem", (1, 1))
        rows = run.database.view("best").rows()
        total = run.database.query("SELECT SUM(price) AS t FROM lineitem WHERE s = 1")
        expected = max(7, total.to_pylist()[0]["t"])
        assert {row.total for row in rows} == {expected}


def test_a_refused_way_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Simulation(ANEW)
    choose, asked = run.database._maintenance.choose, []

    def refuse(view: str, mode: Any) -> None:
        asked.append(mode)
        if mode.frontier.value == "values":
            raise ViewletError("not this one")
        choose(view, mode)

    monkeypatch.setattr(run.database._maintenance, "choose", refuse)
    run.run(10, reads=0.001)
    assert run.strategy is not Strategy.SPLIT
    assert sum(mode.frontier.value == "values" for mode in asked) == 1
    assert "refused: not this one" in run.database.explain("best", stage="maintenance")


def test_looks_are_rare_and_views_without_a_choice_are_not_looked_at() -> None:
    db = viewlet.connect("interpreter")
    db.execute(
        "CREATE TABLE r (a INT); CREATE MATERIALIZED VIEW v WITH (maintenance = 'eager') AS "
        "SELECT COUNT(*) AS n FROM r"
    )
    auto = AutoChoice(db._state, db._maintenance)
    for _ in range(3):
        auto.look()
    assert db._maintenance.choices == {}


# --- the rule alone -------------------------------------------------------------------------------


def test_another_way_has_to_cost_a_fifth_less() -> None:
    choice = ModeChoice(
        {Strategy.EAGER: StrategyCost(1.0, 0.0), Strategy.SPLIT: StrategyCost(0.81, 0.0)}
    )
    assert choice.better(Strategy.EAGER) is None and choice.better(Strategy.SPLIT) is None
    choice.costs[Strategy.SPLIT] = StrategyCost(0.79, 0.0)
    assert choice.better(Strategy.EAGER) is Strategy.SPLIT
    choice.reads = 0.1
    choice.costs[Strategy.SPLIT] = StrategyCost(0.79, 1.0)
    assert choice.better(Strategy.EAGER) is None


def test_what_would_make_it_change() -> None:
    choice = ModeChoice(
        {Strategy.EAGER: StrategyCost(1.0, 0.0), Strategy.SPLIT: StrategyCost(0.1, 7.0)}
    )
    assert "split: 100 ms a batch, 7e+03 ms a refresh" in choice.lines(Strategy.EAGER)[1]
    assert "would be chosen below 0.1 reads for each batch" in choice.lines(Strategy.EAGER)[1]
    back = choice.lines(Strategy.SPLIT)[0]
    assert "would be chosen above" in back
    choice.costs[Strategy.SPLIT] = StrategyCost(2.0, 1.0)
    assert "costs more however often" in choice.lines(Strategy.EAGER)[1]


def test_estimates_follow_from_what_eager_batches_cost() -> None:
    choice = ModeChoice()
    choice.measure(Strategy.EAGER, Measurement(1000, 1000, 1, 1.0))
    works = {
        Strategy.EAGER: ModeWork(3.0, 100_000.0, 0.0),
        Strategy.SPLIT: ModeWork(3.0, 0.0, 100_000.0),
        Strategy.LEAVES: ModeWork(2.0, 0.0, 500_000.0),
    }
    choice.estimate(works, 1.0)
    assert choice.costs[Strategy.SPLIT].batch < 1e-4
    assert choice.costs[Strategy.SPLIT].refresh == pytest.approx(1e-3, rel=0.1)
    assert choice.best() in (Strategy.SPLIT, Strategy.LEAVES)
    choice.reads = 1.0
    assert choice.better(Strategy.EAGER) is None


def test_a_deferred_refresh_belongs_to_the_batches_that_waited() -> None:
    choice = ModeChoice({Strategy.DEFERRED: StrategyCost(1.0, 0.5)})
    choice.measure(Strategy.DEFERRED, Measurement(100, 100, 1, 10.0, 1, 50.5))
    assert choice.costs[Strategy.DEFERRED] == StrategyCost(0.6, 0.5, is_measured=True)
