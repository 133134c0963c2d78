"""The page is written from kept figures, and says what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from viewlet_bench import report
from viewlet_bench.output import read_json
from viewlet_bench.page import SECTIONS


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["report", *arguments])
    report.main()


def test_every_part_has_a_section() -> None:
    assert list(report.PARTS) == list(SECTIONS)


def test_a_part_and_its_page(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ["--figures", str(tmp_path / "figures"), "--output", str(tmp_path / "page.md")]
    scale = ["--sf", "0.001", "--queries", "q6", "--seconds", "1"]
    monkeypatch.setitem(report.PARTS, "tpch", report.Part("tpch", {"against": "duckdb"}))
    run(monkeypatch, "--only", "tpch", *scale, *paths)
    rows = read_json(tmp_path / "figures" / "tpch.json")
    assert {row["batch"] for row in rows} == {"single", 1000, 10000, 100000}
    written = (tmp_path / "page.md").read_text()
    assert "## TPC-H" in written
    assert "## Order book" not in written
    (line,) = (x for x in written.splitlines() if x.startswith("| q6 | ") and "100M" in x)
    single = next(row for row in rows if row["batch"] == "single")
    assert f"{single['tuples_per_s'] / 78e6:.2f}x" in line
    run(monkeypatch, "--page", *paths)
    assert (tmp_path / "page.md").read_text() == written


def test_unknown_parts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="no part chess"):
        run(monkeypatch, "--only", "chess")
