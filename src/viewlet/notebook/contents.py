"""What a live widget sends to its page: the first rows of a view, or the points of a plot."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Sequence
from typing import Any, Literal, get_args

from viewlet.errors import ResolutionError, TypingError
from viewlet.interfaces.json_values import json_value
from viewlet.interfaces.render import cell_text
from viewlet.interfaces.view import View, ViewMoment
from viewlet.schema import Kind, Type

PlotKind = Literal["line", "bar"]
"""How a widget draws: lines over numbers and times, bars over names."""

_NUMBERS = {Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE}
_TIMES = {Kind.DATE, Kind.TIMESTAMP}


def table_contents(moment: ViewMoment, types: Sequence[tuple[str, Type]]) -> dict[str, Any]:
    """Names, types and rows, as values and as the texts that people read."""
    return {
        "columns": [
            {"name": name, "type": str(of), "is_number": of.kind in _NUMBERS} for name, of in types
        ],
        "key": list(moment.key),
        "rows": [[json_value(value) for value in row] for row in moment.rows],
        "texts": [[None if v is None else cell_text(v) for v in row] for row in moment.rows],
        "total": moment.total,
        "version": moment.version,
    }


def plot_contents(
    moment: ViewMoment, types: Sequence[tuple[str, Type]], kind: PlotKind, x: str, ys: Sequence[str]
) -> dict[str, Any]:
    """The points of each series, by x."""
    names = [name for name, _ in types]
    at = names.index(x)
    is_scaled = dict(types)[x].kind in _NUMBERS | _TIMES
    rows = [row for row in moment.rows if row[at] is not None]
    if is_scaled:
        rows.sort(key=lambda row: row[at])
    return {
        "kind": kind,
        "x": {"name": x, "labels": [cell_text(row[at]) for row in rows]},
        "positions": [_position(row[at]) if is_scaled else i for i, row in enumerate(rows)],
        "series": [
            {
                "name": y,
                "values": [_number(row[names.index(y)]) for row in rows],
                "texts": [cell_text(row[names.index(y)]) for row in rows],
            }
            for y in ys
        ],
        "total": moment.total,
        "version": moment.version,
    }


def check_plot(
    view: View, kind: PlotKind, x: str | None, y: str | Sequence[str] | None
) -> tuple[str, list[str]]:
    """The columns of a plot; those that are left out are the first, and all other numbers."""
    if kind not in get_args(PlotKind):
        raise ResolutionError(
            f"there is no plot {kind!r}", hint=f"plots are {', '.join(get_args(PlotKind))}"
        )
    types = dict(view.types)
    x = view.columns[0] if x is None else x
    if y is None:
        ys = [name for name, of in types.items() if of.kind in _NUMBERS and name != x]
    else:
        ys = [y] if isinstance(y, str) else list(y)
    for name in (x, *ys):
        if name not in types:
            raise ResolutionError(
                f"{view.name} has no column {name}", hint=f"its columns are {', '.join(types)}"
            )
    for name in ys:
        if types[name].kind not in _NUMBERS:
            raise TypingError(f"{name} is {types[name]}, and a plot's y is a number")
    if not ys:
        raise TypingError(
            f"{view.name} has no column of numbers beside {x}", hint="leave plot= out: a table"
        )
    return x, ys


def _position(value: Any) -> float:
    """A number, or a time as milliseconds, as the page scales them."""
    if hasattr(value, "timetuple"):
        return timegm(value.timetuple()) * 1000 + getattr(value, "microsecond", 0) / 1000
    return float(value)


def _number(value: Any) -> float | None:
    """What is drawn of a value; nothing of NULL, NaN and the infinities."""
    number = float("nan") if value is None else float(value)
    return number if abs(number) < float("inf") else None
