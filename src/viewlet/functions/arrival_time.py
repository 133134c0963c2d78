"""DEFAULT NOW(): the time at which a row arrives that leaves the column out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


class ArrivalTime:
    """A default that is read for every batch, from the clock of the column's database."""

    def __init__(self) -> None:
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC).replace(tzinfo=None)

    def __str__(self) -> str:
        return "NOW()"


def current_default(default: Any) -> Any:
    """What a row has now that leaves a column with this default out."""
    return default.now() if isinstance(default, ArrivalTime) else default
