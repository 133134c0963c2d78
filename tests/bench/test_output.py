"""Tables, JSON and Markdown of figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewlet.errors import StateError
from viewlet_bench import output
from viewlet_bench.compare import compared, slower

ROWS: list[output.Row] = [
    {"query": "q1", "tuples_per_s": 61_234_567.0, "ratio": 12.3456789, "note": None},
    {"query": "q2", "tuples_per_s": 12_345.0, "ratio": None, "note": None},
]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (True, "yes"),
        ("x", "x"),
        (0.012345, "0.0123"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (9999, "9,999"),
        (12_345, "12.3k"),
        (999_999, "1M"),
        (61_234_567.0, "61.2M"),
        (2.5e9, "2.5G"),
        (7, "7"),
    ],
)
def test_cells(value: object, shown: str) -> None:
    assert output.cell(value) == shown


def test_empty_columns_are_left_out() -> None:
    assert output.columns_of(ROWS) == ["query", "tuples_per_s", "ratio"]
    assert output.columns_of(ROWS, ["ratio", "note", "query"]) == ["ratio", "query"]


def test_markdown() -> None:
    assert output.markdown(ROWS, ["query", "ratio"], ["query", "times"]).splitlines() == [
        "| query | times |",
        "|---|---|",
        "| q1 | 12.3 |",
        "| q2 |  |",
    ]


def test_json_comes_back_rounded(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "rows.json"
    output.write_json(ROWS, file)
    rows = output.read_json(file)
    assert rows[0]["ratio"] == 12.346
    assert rows[1] == ROWS[1]
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot write"):
        output.write_json(ROWS, tmp_path / "file" / "rows.json")


def test_nothing_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    wide = [{f"a_rather_long_name_{n}": "a rather long value" for n in range(12)}]
    output.print_table(wide)
    assert capsys.readouterr().out.count("a rather long value") == 12


def figure(query: str, batch: int | str, value: float) -> output.Row:
    measurement = {"workload": "tpch", "query": query, "batch": batch, "sf": 1.0}
    return {**measurement, "ratio_to_calibration": value}


def test_regressions_are_found_by_the_calibrated_figure() -> None:
    earlier = [figure("q1", 1000, 1.0), figure("q1", "single", 2.0), figure("q2", 1000, 1.0)]
    now = [figure("q1", 1000, 0.9), figure("q1", "single", 1.0), figure("q9", 1000, 1.0)]
    changes = compared(now, earlier)
    assert [(row["query"], row["batch"]) for row in changes] == [("q1", 1000), ("q1", "single")]
    assert [row["change"] for row in changes] == pytest.approx([0.9, 0.5])
    assert slower(changes) == ["q1 single (0.50x)"]
    assert compared([{**now[0], "sf": 0.1}], earlier) == []


def test_figures_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot read figures"):
        output.read_json(tmp_path / "none.json")
