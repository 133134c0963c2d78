"""Plots of `viewlet bench linalg`, one PNG per figure; needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from viewlet_bench.canvas import pyplot_for

Row = dict[str, Any]
COLORS = {
    "reevaluation": "#b5483a",
    "incremental": "#2f6f9f",
    "hybrid": "#5f8f3e",
    "auto": "#222222",
    "numpy": "#8a8a8a",
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """The figures that the rows allow, written to the folder."""
    pyplot = pyplot_for(folder)
    paths = []
    for figure, (name, plot) in FIGURES.items():
        chosen = [row for row in rows if row.get("figure") == figure]
        if not chosen:
            continue
        canvas, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        plot(axes, chosen)
        axes.set_ylabel("time per refresh, ms")
        axes.set_yscale("log")
        axes.grid(True, which="major", alpha=0.3)
        path = folder / f"{name}.png"
        canvas.savefig(path, dpi=120)
        pyplot.close(canvas)
        paths.append(path)
    return paths


def _color(engine: str) -> str:
    return next((c for word, c in COLORS.items() if engine.startswith(word)), "#8a8a8a")


def _bars(axes: Any, rows: Sequence[Row]) -> None:
    names = [row["engine"] for row in rows]
    axes.bar(names, [row["p50_ms"] for row in rows], color=[_color(name) for name in names])
    axes.tick_params(axis="x", labelrotation=35)
    axes.set_title(rows[0]["query"])


def _lines(key: str, label: str) -> Callable[[Any, Sequence[Row]], None]:
    def plot(axes: Any, rows: Sequence[Row]) -> None:
        styles = {"linear": "-", "exponential": "--", "skip-2": ":", "skip-4": "-."}
        for engine in dict.fromkeys(row["engine"] for row in rows):
            mine = sorted((row for row in rows if row["engine"] == engine), key=lambda r: r[key])
            style = styles.get(engine.partition("/")[2], "-")
            axes.plot(
                [row[key] for row in mine],
                [row["p50_ms"] for row in mine],
                style,
                marker="o",
                markersize=4,
                label=engine,
                color=_color(engine),
            )
        values = sorted({row[key] for row in rows})
        if len(values) > 1 and values[0] > 0:
            axes.set_xscale("log", base=2)
        axes.set_xticks(values, [f"{v:g}" for v in values])
        axes.set_xlabel(label)
        axes.set_title(rows[0]["query"].split(", n=")[0])
        axes.legend(fontsize=7)

    return plot


FIGURES: dict[str, tuple[str, Callable[[Any, Sequence[Row]], None]]] = {
    "6.3": ("least_squares", _lines("n", "n")),
    "6.5a": ("strategies", _bars),
    "6.5c": ("powers", _lines("n", "n")),
    "6.5d": ("spark", _bars),
    "6.5e": ("iterations", _lines("k", "k")),
    "6.6": ("sums_of_powers", _lines("n", "n")),
    "6.7": ("general_homogeneous", _lines("p", "p")),
    "6.8": ("general", _lines("p", "p")),
    "table 6.4": ("batches", _lines("zipf", "Zipf factor of the rows")),
}
