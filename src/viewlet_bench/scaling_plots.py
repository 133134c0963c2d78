"""The scaling model drawn beside the paper's Figures 9 and 10, as SVG; needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from viewlet_bench.canvas import pyplot_for
from viewlet_bench.output import Row

_COLORS = ("#2f6f9f", "#5f8f3e", "#b5483a", "#8a6fb0", "#222222")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """weak.svg and strong.svg: a panel for each query."""
    pyplot = pyplot_for(folder)
    paths = []
    for name, panel in PANELS.items():
        mine = [row for row in rows if row.get("part") == name]
        queries = list(dict.fromkeys(row["query"] for row in mine))
        if not queries:
            continue
        size = (3.6 * len(queries), 3.4)
        canvas, axes = pyplot.subplots(1, len(queries), figsize=size, layout="constrained")
        for axis, query in zip(axes if len(queries) > 1 else [axes], queries, strict=True):
            panel(axis, [row for row in mine if row["query"] == query], rows)
            axis.set_title(query.upper())
            axis.set_xlabel("workers")
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.grid(True, alpha=0.3)
            axis.legend(fontsize=7)
        path = folder / f"{name}.svg"
        canvas.savefig(path, metadata={"Date": None})
        pyplot.close(canvas)
        paths.append(path)
    return paths


def _weak(axis: Any, mine: Sequence[Row], rows: Sequence[Row]) -> None:
    """Seconds of a batch of 100,000 rows for each worker."""
    _line(axis, mine, "model", _COLORS[0])
    _points(axis, mine, "paper, Figure 9", "o", _COLORS[2])
    real = [r for r in rows if r.get("part") == "check" and r["query"] == mine[0]["query"]]
    if real:
        times = [row["p50_ms"] / 1e3 for row in real]
        axis.plot([r["workers"] for r in real], times, "s", color=_COLORS[1], label="measured")
    axis.set_ylabel("s per batch")


def _strong(axis: Any, mine: Sequence[Row], rows: Sequence[Row]) -> None:
    """Seconds of batches of some sizes."""
    for color, size in zip(_COLORS, dict.fromkeys(row["batch"] for row in mine), strict=False):
        same = [row for row in mine if row["batch"] == size]
        _line(axis, same, f"model, {size // 1_000_000} M rows", color)
    _points(axis, mine, "paper, Figure 10, 400 M", "o", _COLORS[2])
    axis.set_ylabel("s per batch")


def _line(axis: Any, rows: Sequence[Row], label: str, color: str) -> None:
    times = [row["p50_ms"] / 1e3 for row in rows]
    axis.plot([row["workers"] for row in rows], times, color=color, label=label)


def _points(axis: Any, rows: Sequence[Row], label: str, mark: str, color: str) -> None:
    referenced = [row for row in rows if row["reference_ms"] is not None]
    if referenced:
        times = [row["reference_ms"] / 1e3 for row in referenced]
        axis.plot([row["workers"] for row in referenced], times, mark, color=color, label=label)


PANELS: dict[str, Callable[[Any, Sequence[Row], Sequence[Row]], None]] = {
    "weak": _weak,
    "strong": _strong,
}
