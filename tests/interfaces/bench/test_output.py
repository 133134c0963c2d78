"""Tables, JSON and Markdown of figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewlet.errors import StateError
from viewlet.interfaces.bench import output

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
    found = output.read_json(file)
    assert found[0]["ratio"] == 12.346
    assert found[1] == ROWS[1]
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot write"):
        output.write_json(ROWS, tmp_path / "file" / "rows.json")


def test_nothing_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    wide = [{f"a_rather_long_name_{n}": "a rather long value" for n in range(12)}]
    output.print_table(wide)
    assert capsys.readouterr().out.count("a rather long value") == 12
