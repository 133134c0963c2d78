"""Figures of `viewlet bench signals --json rows.json` -> the tables of docs/signals.md.

    python -m viewlet_bench.signals_page rows.json docs/signals.md

Replaces what stands between the two marks of the page; nothing is measured here and no figure is
written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from viewlet.errors import ResolutionError
from viewlet_bench.output import Row, cell, read_json, write_text

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
_TITLES = {
    "pure": "Against the direct SciPy call on the shaped array (target: ratio at least 0.77)",
    "grouped": "Against pandas groupby + SciPy (target: ratio at least 10 from 1,000 groups on)",
    "growth": "As events and groups grow (ratio: processor time per event, first row / this row)",
    "hopping": "Hopping windows, updated against recomputed (target: ratio above 1)",
    "spark": "Against Spark applyInPandas + SciPy on the same cores (target: ratio at least 10)",
}


def part_of(row: Row) -> str:
    """Which table a row belongs to."""
    query, reference = str(row["query"]), str(row.get("reference") or "")
    if query.startswith("growth"):
        return "growth"
    if query.startswith(("fft of tumbling", "fir filter")):
        return "pure"
    if reference.startswith("pandas"):
        return "grouped"
    return "spark" if reference.startswith("Spark") else "hopping"


def tables(rows: Sequence[Row]) -> str:
    """All parts that were measured, as Markdown."""
    loads = [row["load"] for row in rows if row.get("load") is not None]
    texts = [f"Load of the machine while measuring: {min(loads)} to {max(loads)}."] if loads else []
    for name, title in _TITLES.items():
        mine = [row for row in rows if part_of(row) == name]
        if mine:
            texts.append(f"{title}:\n\n{_growth(mine) if name == 'growth' else _compared(mine)}")
    return "\n\n".join(texts)


def _compared(rows: Sequence[Row]) -> str:
    def both(row: Row) -> str:
        return f"{cell(row.get('cpu_ns_per_event'))} / {cell(row.get('reference_cpu_ns'))}"

    return _table(
        rows,
        {
            "query": lambda row: str(row["query"]),
            "events": lambda row: cell(row["batch"]),
            "viewlet ms": lambda row: cell(row["p50_ms"]),
            "reference ms": lambda row: cell(row["reference_ms"]),
            "ratio": lambda row: cell(row["ratio"]),
            "processor ns per event, viewlet / reference": both,
        },
    )


def _growth(rows: Sequence[Row]) -> str:
    return _table(
        rows,
        {
            "": lambda row: str(row["query"]).removeprefix("growth, "),
            "ms": lambda row: cell(row["p50_ms"]),
            "processor ns per event": lambda row: cell(row["cpu_ns_per_event"]),
            "ratio": lambda row: cell(row["ratio"]),
            "memory, bytes per event beyond the input": lambda row: cell(row["bytes_per_event"]),
        },
    )


def _table(rows: Sequence[Row], columns: dict[str, Callable[[Row], str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(show(row) for show in columns.values()) + " |" for row in rows]
    return "\n".join(lines)


def replaced(page: str, text: str) -> str:
    """The page with `text` between its marks."""
    head, mark, behind_mark = page.partition(BEGIN)
    _, end, tail = behind_mark.partition(END)
    if not mark or not end:
        raise ResolutionError(
            "the page has no place for figures", hint=f"write {BEGIN} and {END} where they belong"
        )
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"


def main(arguments: Sequence[str]) -> None:
    """Put the figures of a file into a page."""
    rows, page = (Path(argument) for argument in arguments)
    text = replaced(page.read_text(encoding="utf-8"), tables(read_json(rows)))
    write_text(text.rstrip("\n"), page)


if __name__ == "__main__":
    main(sys.argv[1:])
