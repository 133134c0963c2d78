"""Rows of figures -> a table on the terminal, a JSON file, a Markdown table.

Every workload gives rows (dictionaries). FIELDS are in all of them; others belong to a workload.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewlet.errors import StateError

Row = dict[str, Any]

FIELDS = (
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
)

HEADINGS = {
    "tuples_per_s": "tuples/s",
    "user_per_s": "user's/s",
    "user_ratio": "user's ratio",
    "reference_per_s": "reference/s",
    "tuples_per_cpu_s": "per CPU s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "ratio_end": "at end",
    "memory_mb": "MB",
    "bytes_per_row": "B/row",
    "ratio_to_calibration": "/probe",
    "plan_s": "plan s",
    "jit_s": "JIT s",
    "cold_s": "cold s",
    "cached_s": "cached s",
    "complete": "all",
    "overhead_ms": "overhead ms",
}
"""What a terminal calls a field, where that is shorter."""

_WIDEST = 400


def columns_of(rows: Sequence[Row], columns: Sequence[str] | None = None) -> list[str]:
    """Those of `columns` that some row has; without them, all in the order in which they appear."""
    present = dict.fromkeys(
        name for row in rows for name, value in row.items() if value is not None
    )
    return [name for name in columns if name in present] if columns is not None else list(present)


def print_table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
    """A table without cut cells: a terminal that is too narrow wraps its lines."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    names = columns_of(rows, columns)
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in names:
        numbers = all(isinstance(row.get(name), int | float | None) for row in rows)
        table.add_column(HEADINGS.get(name, name), justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in names))
    console = Console()
    needed = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
    console.width = max(console.width, needed)
    console.print(table)


_PROGRESS = (
    *("tuples_per_s", "p50_ms", "ratio", "growth", "overhead_ms", "jobs", "stages", "equal"),
    *("value", "target", "met"),
)


def progress_line(row: Row) -> str:
    """One finished row, while others are still being measured."""
    figures = (f"{HEADINGS.get(n, n)} {cell(row[n])}" for n in _PROGRESS if row.get(n) is not None)
    names = (row.get("part"), row["query"], row.get("engine") if "part" in row else None)
    return f"{' '.join(str(n) for n in (*names, row.get('batch')) if n)}: {', '.join(figures)}"


def write_json(rows: Sequence[Row], file: Path) -> None:
    """The rows, rounded to what was measured."""
    write_text(json.dumps([_rounded(row) for row in rows], indent=1), file)


def write_markdown(rows: Sequence[Row], file: Path, columns: Sequence[str] | None = None) -> None:
    """The rows as a Markdown table."""
    write_text(markdown(rows, columns), file)


def check_writable(file: Path | None) -> None:
    """Find out before an hour of measuring that its figures could not be written."""
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise StateError(
            f"cannot write {file}: {error.strerror}", hint="name a file in a folder of your own"
        ) from None


def write_text(text: str, file: Path) -> None:
    """Write a file; StateError where that cannot be."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise StateError(f"cannot write {file}: {error.strerror}") from None


def read_json(file: Path) -> list[Row]:
    """The rows that `write_json` wrote."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read figures from {file}: {error}") from None
    return [dict(row) for row in rows]


def markdown(
    rows: Sequence[Row], columns: Sequence[str] | None = None, headings: Sequence[str] | None = None
) -> str:
    """Rows as a Markdown table."""
    names = columns_of(rows, columns)
    shown = dict(zip(columns or (), headings or columns or (), strict=True))
    lines = [
        "| " + " | ".join(shown.get(name, name) for name in names) + " |",
        "|" + "---|" * len(names),
    ]
    lines += ["| " + " | ".join(cell(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Three or four digits, and M or k where a number is large."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    for size, unit, letter in _LARGE:
        if abs(value) >= size:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1e3 else f"{value:,.0f}"


_LARGE = ((0.9995e9, 1e9, "G"), (0.9995e6, 1e6, "M"), (1e4, 1e3, "k"))


def _rounded(row: Row) -> Row:
    """Five digits are more than a measurement has."""
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()}
