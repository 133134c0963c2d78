"""Errors of linear algebra that have no nearer name in the family."""

from __future__ import annotations

from viewlet.errors import DataError


class SingularMatrixError(DataError):
    """An update, or the data given at the start, makes a matrix that must be inverted singular."""


class IllConditioned(Exception):
    """Internal: a delta cannot be trusted; the runtime re-evaluates what it would have changed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
