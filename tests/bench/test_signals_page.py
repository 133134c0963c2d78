"""Rows of `viewlet bench signals` as the tables of docs/signals.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewlet.errors import ResolutionError
from viewlet_bench import signals, signals_page
from viewlet_bench.output import write_json

DOCS = Path(__file__).parents[2] / "docs" / "signals.md"


def test_every_row_is_in_its_table(tmp_path):
    parts = ["pure", "grouped", "growth", "hopping"]
    rows = signals.run(quick=True, events=60_000, parts=parts, repeats=1)
    assert {signals_page.part_of(row) for row in rows} == {"pure", "grouped", "growth", "hopping"}
    page = tmp_path / "signals.md"
    page.write_text(DOCS.read_text())
    write_json(rows, tmp_path / "rows.json")
    signals_page.main([str(tmp_path / "rows.json"), str(page)])
    text = page.read_text()
    assert all(f"| {row['query'].removeprefix('growth, ')} |" in text for row in rows)
    signals_page.main([str(tmp_path / "rows.json"), str(page)])
    assert page.read_text() == text  # what is there already is replaced


def test_a_page_without_marks_is_refused():
    with pytest.raises(ResolutionError, match="no place for figures"):
        signals_page.replaced("# Signals", "tables")


def test_a_part_that_fails_is_said_and_others_go_on(monkeypatch):
    monkeypatch.setattr(signals, "pure", lambda *arguments: iter([1 / 0]))
    reported = []
    rows = signals.run(
        events=20_000, parts=["pure", "hopping"], repeats=1, progress=reported.append
    )
    assert rows[0]["query"] == "pure failed: division by zero"
    assert len(rows) == 4
    assert reported == rows


def test_a_part_that_does_not_exist():
    with pytest.raises(ResolutionError, match="there is no part fourier"):
        signals.run(parts=["fourier"])
