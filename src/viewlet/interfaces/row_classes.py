"""The named tuples that a view's rows are."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any

from viewlet.calculus.query import Query


def row_class(query: Query) -> Any:
    """The named tuple of a view's rows."""
    return _row_class(query.name, tuple(column.name for column in query.columns))


@lru_cache(1024)
def _row_class(view: str, names: tuple[str, ...]) -> Any:
    """Making a class costs more than a small batch."""
    return namedtuple(view.capitalize() if view.isidentifier() else "Row", names, rename=True)
