"""The bench runs, reports what the contract asks for, and draws its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewlet_bench import linalg as bench
from viewlet_bench.linalg_plots import FEWEST, FIGURES, draw

TINY = bench.Sizes(48, (24, 48), (4, 8), (1, 4), 2, 20, (3.0, 1.0), 48)
LOCAL = [name for name in bench.WORKLOADS if name != "spark"]
FIELDS = {
    "query",
    "engine",
    "batch",
    "tuples_per_s",
    "p50_ms",
    "p99_ms",
    "reference",
    "ratio",
    "maps",
    "memory_mb",
}


@pytest.mark.parametrize("name", LOCAL)
def test_workloads_report_every_field(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "PAUSE", 0.0)
    rows = bench.WORKLOADS[name](TINY)
    assert rows
    for row in rows:
        assert row.keys() >= FIELDS
        assert row["p50_ms"] > 0.0
        assert row["reference"] in {other["engine"] for other in rows}
        if row["engine"] == row["reference"]:
            assert row["ratio"] == pytest.approx(1.0)
    drawn = draw(rows, tmp_path)
    places = {
        figure: {row[FIGURES[figure][1]] for row in rows if row["figure"] == figure}
        for figure in {row["figure"] for row in rows}
    }
    worth = {FIGURES[figure][0] for figure, keys in places.items() if len(keys) >= FEWEST}
    assert {path.stem for path in drawn} == worth
    assert all(path.stat().st_size > 1000 for path in drawn)
    assert rows[0]["query"] in bench.table(rows)


def test_auto_says_what_it_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PAUSE", 0.0)
    chosen = [row for row in bench.general(TINY) if row["engine"] == "auto"]
    assert chosen
    assert all("/" in row["plan"] for row in chosen)
