"""New figures against earlier ones, by their ratio to the calibration loop.

Tuples per second of two days or two machines cannot be compared; how many of them pass per probe of
the calibration loop, which ran beside each, can.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet_bench.output import Row

TOLERANCE = 0.7
"""What is left of an earlier figure that still counts as noise."""

_FIGURE = "ratio_to_calibration"


def compared(rows: Sequence[Row], earlier: Sequence[Row]) -> list[Row]:
    """Every measurement that both have: the earlier figure, the new one, and new / earlier."""
    earlier_figures = {_measurement(row): row[_FIGURE] for row in earlier if row.get(_FIGURE)}
    return [
        {
            "query": row["query"],
            "batch": row["batch"],
            "sf": row.get("sf"),
            "before": earlier_figures[_measurement(row)],
            "now": row[_FIGURE],
            "change": row[_FIGURE] / earlier_figures[_measurement(row)],
        }
        for row in rows
        if row.get(_FIGURE) and _measurement(row) in earlier_figures
    ]


def slower(comparisons: Sequence[Row], tolerance: float = TOLERANCE) -> list[str]:
    """The measurements that fell below the tolerance, as a message names them."""
    return [
        f"{row['query']} {row['batch']} ({row['change']:.2f}x)"
        for row in comparisons
        if row["change"] < tolerance
    ]


def _measurement(row: Row) -> tuple[object, ...]:
    return (row.get("workload"), row["query"], row["batch"], row.get("sf"))
