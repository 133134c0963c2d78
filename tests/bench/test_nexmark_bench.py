"""The workload of Nexmark: its events, and what a run reports."""

from __future__ import annotations

import pytest

from viewlet.errors import ResolutionError
from viewlet_bench import nexmark
from viewlet_bench.nexmark_events import Generator


def test_events_are_in_proportion_and_the_same_for_a_seed() -> None:
    (batch,) = Generator(7).batches(5000, 5000)
    assert {name: table.num_rows for name, table in batch.items()} == {
        "person": 100,
        "auction": 300,
        "bid": 4600,
    }
    (again,) = Generator(7).batches(5000, 5000)
    assert batch["bid"].equals(again["bid"])
    bids = batch["bid"].to_pydict()
    assert set(bids["auction"]) <= set(batch["auction"].to_pydict()["id"])
    assert min(bids["price"]) >= 100


def test_a_run_has_a_row_for_each_query_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nexmark, "EVENTS", 2000)
    rows = nexmark.run(queries=["q2", "q3"], batches=["500", "1000"])
    assert [(row["query"], row["batch"]) for row in rows] == [
        ("q2", 500),
        ("q2", 1000),
        ("q3", 500),
        ("q3", 1000),
    ]
    assert all(row["tuples_per_s"] > 0 and row["state_mb"] > 0 for row in rows)
    with pytest.raises(ResolutionError, match="there is no query q99"):
        nexmark.run(queries=["q99"])
