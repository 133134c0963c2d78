"""`viewlet bench signals`: its references compute what the queries compute, and it ends in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewlet_bench import output, signals_memory
from viewlet_bench import signals_queries as signals

ROOT = Path(__file__).parents[2]


def ordered(columns) -> pd.DataFrame:
    frame = pd.DataFrame({name: np.asarray(columns[name]) for name in ("sensor", "t", "v")})
    return frame.sort_values(["sensor", "t"], ignore_index=True)


@pytest.mark.parametrize("groups", [3, 40])
def test_references_compute_the_same(groups):
    table = signals.readings(8_000, groups)
    for query, work in (
        (signals.correlation(), signals.correlate_group),
        (signals.overlap_add(), signals.overlap_group),
    ):
        theirs = signals.pandas_one(pd.DataFrame(table), work)
        pd.testing.assert_frame_equal(ordered(query.run(table)), ordered(theirs))
    left, right = signals.two_signals(50_000, groups)
    for side in (left, right):
        side["v"] *= 1e-4  # half of the sums are below the query's limit
    theirs = signals.pandas_two(pd.DataFrame(left), pd.DataFrame(right))
    mine = signals.interpolation().run(left=left, right=right)
    assert len(theirs) > 0
    pd.testing.assert_frame_equal(ordered(mine), ordered(theirs))


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_is_that_of_the_result_and_little_more():
    """A result has 24 bytes per event; those of the extremes are few."""
    events = 1_000_000
    peaks = signals_memory.peaks([(events, 1_000), (events, 10)])
    assert len(peaks) == 2 * len(signals.QUERIES)
    for (name, _, _), used in peaks.items():
        result = 0 if name.startswith("interpolation") else 24
        assert result - 2 < used / events < result + 40, name


@pytest.mark.slow
@pytest.mark.spark
def test_quick_run_ends_within_45_seconds(tmp_path):
    """In a process of its own, for it changes how memory is kept; with the fields of all workloads.

    The limit is for a machine that does nothing else: a busy one gets as much longer as it is busy.
    """
    file = tmp_path / "rows.json"
    command = "from viewlet.cli import main; main()"
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", command, "bench", "signals", "--quick", "--json", str(file)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=600,
    )
    seconds = time.perf_counter() - begin
    rows = json.loads(file.read_text())
    assert all(set(output.FIELDS) <= set(row) for row in rows)
    references = {row["reference"].split(",")[0] for row in rows}
    assert {"pandas groupby + SciPy", "Spark applyInPandas + SciPy"} <= references
    assert all(row["ratio"] > 0 for row in rows)
    assert seconds < 45 * busy
