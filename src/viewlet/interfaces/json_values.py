"""Values as JSON can have them, and back by the types of columns.

BOOLEAN, INTEGER, BIGINT, VARCHAR, NULL    as they are
DECIMAL                                    a string, since a JSON number is read as a double
DATE, TIMESTAMP                            a string as in ISO 8601
DOUBLE                                     a number; "NaN", "Infinity" and "-Infinity"
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any


def json_value(value: Any) -> Any:
    """A value of a row -> what json.dumps takes."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.date):  # and every datetime
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def json_row(names: Iterable[str], row: Iterable[Any]) -> dict[str, Any]:
    """A row by the names of its columns."""
    return {name: json_value(value) for name, value in zip(names, row, strict=True)}


def json_text(value: Any) -> str:
    """Compact JSON text, with characters as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
