"""The named tuples that a view's rows are."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any

from viewlet.calculus.query import Query
from viewlet.engine.contract import Row


def row_class(query: Query) -> Any:
    """The named tuple of a view's rows."""
    return _row_class(query.name, tuple(column.name for column in query.columns))


@lru_cache(1024)
def _row_class(view: str, names: tuple[str, ...]) -> Any:
    """Making a class costs more than a small batch."""
    title = view.capitalize() if view.isidentifier() else "Row"
    base: Any = namedtuple(title, names, rename=True)  # type: ignore[misc]

    def reduced(row: Row) -> tuple[Any, ...]:
        return _row_again, (view, names, tuple(row))

    return type(title, (base,), {"__slots__": (), "__reduce__": reduced})


def _row_again(view: str, names: tuple[str, ...], values: Row) -> Any:
    """A row from a pickle: its class is found by what it was made from, in any process."""
    return _row_class(view, names)(*values)
