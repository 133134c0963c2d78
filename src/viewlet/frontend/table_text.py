"""Values as SQL text."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any


def value_text(value: Any) -> str:
    """A value as SQL of viewlet and of DuckDB reads it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    return f"{value:f}" if not isinstance(value, int | float) else repr(value)
