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
    made = _NAMED_TUPLE(view.capitalize() if view.isidentifier() else "Row", names, rename=True)

    def reduced(row: Row) -> tuple[Any, ...]:
        return _row_again, (view, names, tuple(row))

    made.__reduce__ = reduced
    return made


_NAMED_TUPLE: Any = namedtuple  # of names that are known when the program runs


def _row_again(view: str, names: tuple[str, ...], values: Row) -> Any:
    """A row from a pickle: its class is found by what it was made from, in any process."""
    return _row_class(view, names)(*values)
