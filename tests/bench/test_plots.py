"""The page's pictures: which there are, and that they are drawn from the figures given."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from viewlet_bench import plots, report
from viewlet_bench.output import Row, write_json
from viewlet_bench.page import SECTIONS, page

ABOUT: Row = dict.fromkeys(
    ("date", "cores", "processor", "python", "llvmlite", "numba", "duckdb", "pyspark")
)


def measured(query: str, batch: int | str, rate: float, ratio: float | None = None) -> Row:
    return {
        **dict.fromkeys(("p50_ms", "p99_ms", "maps", "memory_mb", "bytes_per_row", "read_ms")),
        **dict.fromkeys(("plan_s", "ratio_to_calibration")),
        "query": query,
        "engine": "viewlet",
        "batch": batch,
        "tuples_per_s": rate,
        "complete": True,
        "sf": 1.0,
        "reference": None if ratio is None else "duckdb",
        "ratio": ratio,
    }


def compared(query: str, engine: str, reference: str, ratio: float) -> Row:
    row = {"query": query, "engine": engine, "reference": reference, "ratio": ratio}
    return {**row, "p50_ms": 1.0, "batch": 10}


FIGURES: dict[str, list[Row]] = {
    "tpch": [measured("q1", "single", 5e7), measured("q1", 1000, 6e7, 40.0)],
    "finance": [measured("vwap", "single", 1e6)],
    "finance_growth": [
        {
            "query": "vwap",
            "growth": 1.1,
            "growth_cpu": 1.0,
            "p50_ms": 2.0,
            "reference_ms": 1.8,
            "sf": 1.0,
            "reference": "viewlet at 0.1",
        }
    ],
    "linalg": [
        compared("A^16", "auto", "reevaluation", 9.0),
        compared("A^16", "hybrid", "reevaluation", 5.0),
    ],
    "signals": [
        compared("FFT of 64", "viewlet", "scipy.fft.fft", 0.9),
        compared("growth, 10 groups", "viewlet", "", 0.0),
    ],
}


def test_what_the_page_shows_is_drawn(tmp_path: Path) -> None:
    """Every link of the page is a file, and every file is linked."""
    drawn = plots.draw(FIGURES, tmp_path / plots.FOLDER)
    links = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page(FIGURES, ABOUT))
    assert [tmp_path / link for link in links] == drawn
    assert [Path(link).stem for link in links] == [
        "tpch",
        "tpch_duckdb",
        "finance",
        "finance_growth",
        "linalg",
        "signals",
    ]
    assert all(path.read_text().startswith("<?xml") for path in drawn)


def test_points_are_the_figures() -> None:
    """The point of q1 is where its rate is, and the target stands where the target is."""
    from matplotlib import pyplot

    canvas = pyplot.figure()
    (throughput, against) = plots.pictures("tpch", FIGURES["tpch"])
    throughput.paint(canvas, "t", throughput.of(FIGURES["tpch"]))
    single, batch = canvas.axes
    assert list(single.lines[0].get_ydata()) == [5e7]
    assert list(batch.lines[0].get_ydata()) == [6e7]
    target = single.collections[0].get_segments()[0]
    assert target[0][1] == 7e6
    assert single.get_yscale() == "log"
    other = pyplot.figure()
    against.paint(other, "t", against.of(FIGURES["tpch"]))
    assert list(other.axes[0].lines[0].get_xdata()) == [40.0]
    assert [text.get_text() for text in other.axes[0].get_yticklabels()] == ["q1, 1,000"]
    pyplot.close("all")


def test_only_the_chosen_strategy_is_shown() -> None:
    (picture,) = plots.pictures("linalg", FIGURES["linalg"])
    assert [row["engine"] for row in picture.of(FIGURES["linalg"])] == ["auto"]
    assert "hybrid" not in page({"linalg": FIGURES["linalg"]}, ABOUT)


def test_no_figures_no_pictures(tmp_path: Path) -> None:
    assert plots.draw({"tpch": []}, tmp_path) == []
    assert "](images" not in page({"tpch": []}, ABOUT)


def test_the_command_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--page: kept figures in, page and pictures out, the same each time."""
    figures, out = tmp_path / "figures", tmp_path / "docs" / "page.md"
    for part, rows in FIGURES.items():
        write_json(rows, figures / f"{part}.json")
    paths = ["--figures", str(figures), "--output", str(out)]
    monkeypatch.setattr(sys, "argv", ["report", "--page", *paths])
    monkeypatch.setattr(report, "run_part", None)
    report.main()
    files = [out, *sorted((out.parent / plots.FOLDER).iterdir())]
    before = [file.read_bytes() for file in files]
    report.main()
    assert [file.read_bytes() for file in files] == before
    assert len(files) == 7


def test_kept_figures_have_their_pictures() -> None:
    """docs/benchmarks.md is of the figures in benchmarks/."""
    root = report.ROOT
    text = (root / "docs" / "benchmarks.md").read_text()
    for link in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text):
        assert (root / "docs" / link).exists()
    assert (root / "benchmarks" / "machine.json").exists()
    assert "images/bench/tpch.svg" in text
    assert set(plots.PICTURES) == set(SECTIONS)
