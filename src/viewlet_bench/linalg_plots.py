"""Plots of `viewlet bench linalg`, one PNG per figure; needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from viewlet_bench.canvas import pyplot_for

Row = dict[str, Any]
FEWEST = 3
"""Places on the first axis that are worth a picture."""
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
    for figure, (name, key, plot) in FIGURES.items():
        chosen = [row for row in rows if row.get("figure") == figure]
        if len({row[key] for row in chosen}) < FEWEST:  # a table says as much
            continue
        canvas, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
        plot(axes, chosen)
        axes.grid(True, which="major", alpha=0.3)
        path = folder / f"{name}.png"
        canvas.savefig(path, dpi=120)
        pyplot.close(canvas)
        paths.append(path)
    return paths


def _color(engine: str) -> str:
    return next((c for word, c in COLORS.items() if engine.startswith(word)), "#8a8a8a")


def _points(axes: Any, rows: Sequence[Row]) -> None:
    """One for each engine, the quickest on top: bars would have no beginning on such an axis."""
    ordered = sorted(rows, key=lambda row: -row["p50_ms"])
    for at, row in enumerate(ordered):
        axes.plot(row["p50_ms"], at, "o", color=_color(row["engine"]))
        text = f"{row['p50_ms']:.3g}"
        axes.annotate(text, (row["p50_ms"], at), xytext=(7, -3), textcoords="offset points")
    axes.set_yticks(range(len(ordered)), [row["engine"] for row in ordered])
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("time per refresh, ms")
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
        axes.set_ylabel("time per refresh, ms")
        axes.set_yscale("log")
        axes.figure.legend(fontsize=7, loc="outside right upper")

    return plot


FIGURES: dict[str, tuple[str, str, Callable[[Any, Sequence[Row]], None]]] = {
    "6.3": ("least_squares", "n", _lines("n", "n")),
    "6.5a": ("strategies", "engine", _points),
    "6.5c": ("powers", "n", _lines("n", "n")),
    "6.5d": ("spark", "engine", _points),
    "6.5e": ("iterations", "k", _lines("k", "k")),
    "6.6": ("sums_of_powers", "n", _lines("n", "n")),
    "6.7": ("general_homogeneous", "p", _lines("p", "p")),
    "6.8": ("general", "p", _lines("p", "p")),
    "table 6.4": ("batches", "zipf", _lines("zipf", "Zipf factor of the rows")),
}
"""Figure -> its file, what is on its first axis, and how it is drawn."""
