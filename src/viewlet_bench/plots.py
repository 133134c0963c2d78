"""Kept figures -> the pictures of docs/benchmarks.md, as SVG; needs matplotlib.

`pictures` says which of them the figures of a part allow, so that the page names exactly those that
`draw` makes. The same figures give the same files, byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewlet_bench import scaling_plots
from viewlet_bench.canvas import pyplot_for
from viewlet_bench.output import Row, cell
from viewlet_bench.targets import BATCH_TARGETS, DBTOASTER_BATCH, SINGLE_TARGETS

FOLDER = "images/bench"
"""Of the pictures, beside the page."""

BLUE, GREEN, RED, VIOLET, GRAY = "#2f6f9f", "#5f8f3e", "#b5483a", "#8a6fb0", "#9a9a9a"

Rows = Sequence[Row]


@dataclass(frozen=True)
class Picture:
    """What is drawn of a part: the rows that it needs, and how they become a figure."""

    name: str
    title: str
    belongs: Callable[[Row], bool]
    paint: Callable[[Any, str, Rows], None]

    @property
    def link(self) -> str:
        """The picture as Markdown."""
        return f"![{self.title}]({FOLDER}/{self.name}.svg)"

    def of(self, rows: Rows) -> list[Row]:
        """The rows of a run that the picture shows."""
        return [row for row in rows if self.belongs(row)]


def pictures(part: str, rows: Rows) -> list[Picture]:
    """Those that the figures of a part allow."""
    return [picture for picture in PICTURES.get(part, ()) if picture.of(rows)]


def draw(parts: Mapping[str, Rows], folder: Path) -> list[Path]:
    """All pictures that the figures allow, written to the folder."""
    pyplot = pyplot_for(folder)
    paths = []
    with pyplot.rc_context({"font.size": 9}):
        for part, rows in parts.items():
            for picture in pictures(part, rows):
                canvas = pyplot.figure(layout="constrained")
                picture.paint(canvas, picture.title, picture.of(rows))
                path = folder / f"{picture.name}.svg"
                canvas.savefig(path, metadata={"Date": None})
                pyplot.close(canvas)
                paths.append(path)
    return paths + (scaling_plots.draw(parts["spark"], folder) if "spark" in parts else [])


# --- kinds of figures -----------------------------------------------------------------------------


def _throughput(canvas: Any, title: str, rows: Rows) -> None:
    """Tuples per second: one panel for single tuples and one for the best batch size."""
    single = {row["query"]: row["tuples_per_s"] for row in rows if row["batch"] == "single"}
    best: dict[str, float] = {}
    for row in rows:
        if row["batch"] != "single":
            best[row["query"]] = max(best.get(row["query"], 0.0), row["tuples_per_s"])
    panels = [
        (single, "single tuples", [("target", SINGLE_TARGETS, RED)]),
        (
            best,
            "batches, the best size",
            [("target", BATCH_TARGETS, RED), ("DBToaster", DBTOASTER_BATCH, GRAY)],
        ),
    ]
    shown = [panel for panel in panels if panel[0]]
    canvas.set_size_inches(max(5.0, 0.45 * len({*single, *best}) + 1.5), 2.9 * len(shown))
    canvas.suptitle(title)
    for axis, (mine, name, others) in zip(
        canvas.subplots(len(shown), squeeze=False)[:, 0], shown, strict=True
    ):
        positions = range(len(mine))
        axis.plot(positions, list(mine.values()), "o", color=BLUE, label="viewlet", zorder=4)
        lowest = min(mine.values())
        for label, figures, color in others:
            heights = [(at, figures[q]) for at, q in enumerate(mine) if q in figures]
            if heights:
                lowest = min(lowest, *(height for _, height in heights))
                axis.hlines(
                    [height for _, height in heights],
                    [at - 0.45 for at, _ in heights],
                    [at + 0.45 for at, _ in heights],
                    colors=color,
                    linewidth=2,
                    label=label,
                    zorder=3,
                )
        axis.set_xticks(positions, list(mine))
        _logarithmic(axis.yaxis, axis.set_yscale)
        axis.set_ylabel("tuples/s")
        axis.set_title(name, loc="left", fontsize=9)
        axis.set_ylim(bottom=0.5 * lowest)
    named: dict[str, Any] = {}
    for axis in canvas.axes:
        handles, labels = axis.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    canvas.legend(named.values(), named, ncols=3, loc="outside lower center", fontsize=8)


def _faster(label: Callable[[Row], str], unit: str = "times as fast") -> Any:
    """A point for each row at its `ratio`, in the color of what it is compared with.

    A line leads there from 1: on a logarithmic axis a bar's area would say nothing.
    """

    def paint(canvas: Any, title: str, rows: Rows) -> None:
        canvas.set_size_inches(7.2, 0.24 * len(rows) + 1.5)
        axis = canvas.subplots()
        colors = dict(
            zip(
                dict.fromkeys(row["reference"] for row in rows),
                (BLUE, GREEN, VIOLET, RED, GRAY, "#b58a2f"),
                strict=False,
            )
        )
        for reference, color in colors.items():
            mine = [
                (at, row["ratio"]) for at, row in enumerate(rows) if row["reference"] == reference
            ]
            rows_at, ratios = [at for at, _ in mine], [ratio for _, ratio in mine]
            axis.hlines(rows_at, 1, ratios, color=color, linewidth=1.2, zorder=2)
            axis.plot(ratios, rows_at, "o", color=color, label=f"against {reference}", zorder=3)
            for at, ratio in mine:
                axis.annotate(
                    cell(float(ratio)),
                    (ratio, at),
                    xytext=(7 if ratio >= 1 else -7, 0),
                    textcoords="offset points",
                    va="center",
                    ha="left" if ratio >= 1 else "right",
                    fontsize=7,
                )
        axis.set_yticks(range(len(rows)), [label(row) for row in rows], fontsize=7)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        _logarithmic(axis.xaxis, axis.set_xscale)
        axis.margins(x=0.12)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_xlabel(unit)
        axis.set_title(title)
        longest = max(map(len, map(str, colors)), default=0)
        canvas.legend(ncols=3 if longest < 24 else 1, loc="outside lower center", fontsize=8)

    return paint


def _growth(canvas: Any, title: str, rows: Rows) -> None:
    """How much longer the same batch takes over ten times the state."""
    canvas.set_size_inches(max(5.0, 0.4 * len(rows) + 1.5), 3.0)
    axis = canvas.subplots()
    positions = range(len(rows))
    axis.bar(positions, [row["growth"] for row in rows], 0.7, color=BLUE, zorder=2)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xticks(positions, [row["query"] for row in rows])
    axis.set_ylabel("time over ten times the state")
    axis.grid(True, axis="y", alpha=0.3)
    axis.set_title(title)


def _logarithmic(axis: Any, scale: Callable[[str], None]) -> None:
    scale("log")
    axis.set_major_formatter(lambda value, _: cell(float(value)))
    axis.set_minor_formatter(lambda *_: "")
    axis.grid(True, which="major", alpha=0.3)


# --- which there are ------------------------------------------------------------------------------


def _measured(row: Row) -> bool:
    return bool(row.get("tuples_per_s"))


def compared(row: Row) -> bool:
    """Whether a row has something to be compared with."""
    return bool(row.get("ratio")) and bool(row.get("reference"))


def _refreshed(row: Row) -> bool:
    return row.get("part") == "refresh" and compared(row)


def _grown(row: Row) -> bool:
    return bool(row.get("growth"))


def automatic(row: Row) -> bool:
    """viewlet's own choice of strategy, where it is compared with something else."""
    return compared(row) and str(row["engine"]).startswith("auto")


def _sized(row: Row) -> str:
    return f"{row['query']}, {row['batch']}" if row["batch"] == "single" else _query(row)


def _query(row: Row) -> str:
    return f"{row['query']}, {row['batch']:,}"


def _refresh(row: Row) -> str:
    """With what the rows came as: Python's own or a DataFrame."""
    return f"{_query(row)} {row['engine'].partition('/')[2] or 'rows'}"


def _against_others(row: Row) -> bool:
    """Not those that are compared with themselves at another size."""
    return compared(row) and not str(row["query"]).startswith("growth")


PICTURES: dict[str, tuple[Picture, ...]] = {
    "tpch": (
        Picture("tpch", "TPC-H: tuples per second", _measured, _throughput),
        Picture(
            "tpch_duckdb",
            "TPC-H: maintained, against evaluated again by DuckDB",
            compared,
            _faster(_sized),
        ),
    ),
    "tpch_growth": (Picture("tpch_growth", "TPC-H: growth of the state", _grown, _growth),),
    "tpcds": (
        Picture(
            "tpcds_duckdb",
            "TPC-DS: maintained, against evaluated again by DuckDB",
            compared,
            _faster(_sized),
        ),
    ),
    "finance": (
        Picture("finance", "Order book: tuples per second", _measured, _throughput),
        Picture(
            "finance_duckdb",
            "Order book: maintained, against evaluated again by DuckDB",
            compared,
            _faster(_sized),
        ),
    ),
    "finance_growth": (
        Picture("finance_growth", "Order book: growth of the state", _grown, _growth),
    ),
    "spark": (
        Picture(
            "spark",
            "On Spark: refreshed, against recomputed by Spark SQL",
            _refreshed,
            _faster(_refresh),
        ),
    ),
    "linalg": (
        Picture(
            "linalg",
            "Linear algebra: the chosen strategy",
            automatic,
            _faster(lambda row: str(row["query"])),
        ),
    ),
    "signals": (
        Picture(
            "signals",
            "Signals: viewlet against what people call today",
            _against_others,
            _faster(lambda row: str(row["query"])),
        ),
    ),
}
"""Part -> its pictures, in the order of the page."""
