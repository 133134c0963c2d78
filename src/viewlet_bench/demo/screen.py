"""What the demo shows: four tables with their figures, live on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from viewlet.interfaces.stats import Timings
from viewlet_bench.demo.shown_views import VIEWS, Shown

WIDE = 100
"""Columns of a terminal from which on tables stand side by side."""


@dataclass
class Recomputation:
    """What the engine that starts from scratch took for one view, and whether it agreed."""

    seconds: list[float] = field(default_factory=list)
    equal: int = 0

    @property
    def last_ms(self) -> float | None:
        """How long the last recomputation took; None before the first."""
        return self.seconds[-1] * 1000 if self.seconds else None


@dataclass
class Figures:
    """Everything that the screen shows and the loop counts."""

    engine: str
    rival: str
    seconds: float = 0.0
    loaded: int = 0
    rows: int = 0
    batches: int = 0
    refreshing: float = 0.0
    refreshes: Timings = field(default_factory=Timings)
    state_rows: int = 0
    state_bytes: int = 0
    tables: dict[str, tuple[Sequence[str], Sequence[Any]]] = field(default_factory=dict)
    recomputed: dict[str, Recomputation] = field(
        default_factory=lambda: {view.name: Recomputation() for view in VIEWS}
    )

    def applied(self, rows: int, seconds: float) -> None:
        """Count a batch that was applied."""
        self.batches += 1
        self.rows += rows
        self.refreshing += seconds
        self.refreshes.add(seconds, rows)

    @property
    def rate(self) -> float:
        """Rows for each second that refreshing took."""
        return self.rows / self.refreshing if self.refreshing else 0.0


def screen(figures: Figures, width: int) -> RenderableType:
    """All that the demo shows, in one or two columns."""
    tables = [view_table(view, figures) for view in VIEWS if view.name in figures.tables]
    if width >= WIDE:
        grid = Table.grid(expand=True, padding=(0, 1))
        for _ in range(2):
            grid.add_column(ratio=1)
        for at in range(0, len(tables), 2):
            grid.add_row(*tables[at : at + 2])
        return Group(header(figures), grid)
    return Group(header(figures), *tables)


def header(figures: Figures) -> Text:
    """Rows, batches and times up to now."""
    times = figures.refreshes
    per_batch = figures.rows / figures.batches if figures.batches else 0
    return Text.assemble(
        ("viewlet ", "bold"),
        f"on {figures.engine}, {figures.seconds:.0f} s: {figures.rows:,} rows in "
        f"{figures.batches:,} batches of about {per_batch:,.0f} after {figures.loaded:,} to begin "
        "with\n",
        ("all four views refreshed in ", "dim"),
        (f"{times.percentile_ms(0.5):.1f} ms", "bold green"),
        f" a batch (p50; p99 {times.percentile_ms(0.99):.1f} ms), {figures.rate:,.0f} rows/s; "
        f"state {figures.state_rows:,} rows, {figures.state_bytes / 1e6:,.1f} MB",
    )


def view_table(view: Shown, figures: Figures) -> Table:
    """One view's rows, and how the rival compares."""
    columns, rows = figures.tables[view.name]
    table = Table(
        title=f"{view.title} ({view.kind})",
        title_justify="left",
        caption=caption(view, figures),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        expand=True,
    )
    for at, name in enumerate(columns):
        number = bool(rows) and isinstance(rows[0][at], int | float | Decimal)
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def caption(view: Shown, figures: Figures) -> str:
    """How long the rival took for this view."""
    recomputed = figures.recomputed[view.name]
    if recomputed.last_ms is None:
        return f"{figures.rival} has not recomputed it yet"
    return f"{figures.rival} recomputes it in {recomputed.last_ms:,.1f} ms; same rows ✓"


def cell(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{value:,.2f}" if isinstance(value, float | Decimal) else f"{value:,}"
    return "NULL" if value is None else str(value)


def summary(figures: Figures) -> RenderableType:
    """Refresh beside recomputation, over the whole demo."""
    table = Table(title="Summary", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("view")
    table.add_column("kind")
    table.add_column(f"{figures.rival} recomputes (median)", justify="right")
    table.add_column("compared", justify="right")
    total = 0.0
    for view in VIEWS:
        recomputed = figures.recomputed[view.name]
        times = sorted(recomputed.seconds)
        middle = times[len(times) // 2] * 1000 if times else 0.0
        total += middle
        shown = f"{middle:,.1f} ms" if times else "not measured"
        table.add_row(view.name, view.kind, shown, _times(recomputed.equal))
    refresh = figures.refreshes.percentile_ms(0.5)
    lines = [
        f"{figures.rows:,} rows in {figures.batches:,} batches, {figures.rate:,.0f} rows/s.",
        f"viewlet refreshed all four views in {refresh:,.1f} ms a batch (median).",
    ]
    if all(each.seconds for each in figures.recomputed.values()) and refresh:
        lines.append(
            f"{figures.rival} needs {total:,.1f} ms to recompute them over the same rows: "
            f"{total / refresh:,.1f} times as long."
        )
    lines.append("Your own pipeline: viewlet run --help. How it works: docs/how-it-works.md.")
    return Group(table, *map(Text, lines))


def _times(equal: int) -> str:
    return "equal once" if equal == 1 else f"{equal} times equal"


def console() -> Console:
    """Standard output, without colors of its own."""
    return Console(highlight=False)
