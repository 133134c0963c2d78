"""Every kind of read is measured at every size."""

from __future__ import annotations

import pytest

from viewlet.errors import ResolutionError
from viewlet_bench import outlet
from viewlet_bench.output import FIELDS


def test_all_reads_are_measured() -> None:
    reported = []
    rows = outlet.run(batches=["100", "1000"], seconds=0.001, progress=reported.append)
    assert rows == reported
    names = [row["query"] for row in rows if row["batch"] == 100]
    assert names == [row["query"] for row in rows if row["batch"] == 1000]
    assert {*outlet.TARGETS, "subscriber", "watchers", "new string"} < set(names)
    for row in rows:
        assert row.keys() >= set(FIELDS)
        assert row["lowest"] <= row["us"]
        assert row["growth"] > 0


def test_a_size_is_a_number() -> None:
    with pytest.raises(ResolutionError, match="no number of rows"):
        outlet.run(batches=["many"])
