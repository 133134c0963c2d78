"""Views and databases as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from html import escape
from typing import Any

SHOWN_ROWS = 20


def view_html(name: str, columns: Sequence[str], rows: Sequence[Any], total: int) -> str:
    """The first rows of a view; `total` says how many it has."""
    caption = f"{name}: {total:,} row{'' if total == 1 else 's'}"
    if total > len(rows):
        caption += f", the first {len(rows)}"
    return table_html(caption, columns, rows)


def database_html(engine: str, rows: Iterable[tuple[str, str, str]]) -> str:
    """What is in a database: kind, name and columns."""
    return table_html(f"viewlet database, engine {engine}", ("kind", "name", "columns"), list(rows))


def table_html(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows as an HTML table, for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<table><caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return '<td style="color: gray">NULL</td>'
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    style = ' style="text-align: right"' if number else ""
    return f"<td{style}>{escape(str(value))}</td>"
