"""Views, databases, figures and programs as notebooks show them.

Colors are those of the page around: text is inherited and lines are mixed from it, so that a dark
page stays dark. What is wide scrolls; nothing is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viewlet.interfaces.stats import Stats

SHOWN_ROWS = 20

STYLE = """
.viewlet { overflow-x: auto; color: inherit; font-size: 13px; }
.viewlet table { border-collapse: collapse; margin: 2px 0 8px; color: inherit; }
.viewlet caption { text-align: left; padding: 4px 0; font-weight: 600; color: inherit; }
.viewlet th, .viewlet td { padding: 3px 10px; text-align: left; white-space: pre-wrap;
  overflow-wrap: normal; max-width: none; background: none; color: inherit;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.viewlet th { vertical-align: bottom; }
.viewlet th small { display: block; font-weight: normal; opacity: 0.65; }
.viewlet .number { text-align: right; font-variant-numeric: tabular-nums; }
.viewlet .null { opacity: 0.5; }
.viewlet pre { margin: 0; white-space: pre; color: inherit; background: none; }
.viewlet pre b { color: light-dark(#1a5fb4, #7cb7ff); font-weight: 600; }
"""
"""What all of it has in common, in every cell: a notebook shows cells one by one."""

_PROGRAM_WORDS = re.compile(
    r"\b(ON|INSERT|UPDATE|DELETE|BATCH|READ|CREATE|MATERIALIZED|VIEW|TABLE|STREAM|SELECT|FROM|WHERE|"
    r"GROUP BY|HAVING|JOIN|AS|on|map|view|buffer|Sum|Exists)\b"
)


def view_html(
    name: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Any],
    total: int,
) -> str:
    """The first rows of a view with its columns' names and types; `total` is how many it has."""
    caption = f"{name}: {total:,} row{'' if total == 1 else 's'}"
    if total > len(rows):
        caption += f", the first {len(rows)}"
    return table_html(caption, columns, rows)


def database_html(engine: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """What is in a database: kind, name and columns."""
    heads = [("kind", ""), ("name", ""), ("columns", "")]
    return table_html(f"viewlet database, engine {engine}", heads, list(rows))


def stats_html(stats: Stats) -> str:
    """The figures of a view, and its maps."""
    figures = [
        (field.name.replace("_", " "), _rounded(getattr(stats, field.name)))
        for field in fields(stats)
        if field.name not in ("view", "maps")
    ]
    maps = [(name, size.records, size.bytes) for name, size in stats.maps.items()]
    return block(
        _table(f"Figures of {stats.view}", [("figure", ""), ("", "")], figures)
        + _table("Its maps", [("map", ""), ("records", ""), ("bytes", "")], maps)
    )


def program_html(text: str) -> str:
    """A stage of `explain`: text as it is, its words set off."""
    marked = _PROGRAM_WORDS.sub(r"<b>\1</b>", escape(text, quote=False))
    return block(f"<pre>{marked}</pre>")


def table_html(
    caption: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]
) -> str:
    """Rows below the names and types of their columns."""
    return block(_table(caption, columns, rows))


def block(inside: str) -> str:
    """HTML with the style that it needs."""
    return f'<div class="viewlet"><style>{STYLE}</style>{inside}</div>'


def _table(caption: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> str:
    heads = []
    for position, (name, type_name) in enumerate(columns):
        is_number = any(_is_number(row[position]) for row in rows[:1])
        below = f"<small>{escape(type_name)}</small>" if type_name else ""
        mark = ' class="number"' if is_number else ""
        heads.append(f"<th{mark}>{escape(name)}{below}</th>")
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return '<td class="null">NULL</td>'
    mark = ' class="number"' if _is_number(value) else ""
    return f"<td{mark}>{escape(cell_text(value))}</td>"


def cell_text(value: Any) -> str:
    """A value as people read it: numbers with separators of thousands."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _rounded(value: Any) -> Any:
    """A figure without digits that nobody reads."""
    if not isinstance(value, float):
        return value
    return round(value, 3) if abs(value) < 100 else round(value)


class ExplainedText(str):
    """Text that notebooks show with its lines, and print as it is."""

    def _repr_html_(self) -> str:
        return program_html(self)
