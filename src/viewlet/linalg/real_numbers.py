"""Arguments of calls as arrays and numbers; what is none of them is one clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from viewlet.errors import DataError, TypingError
from viewlet.linalg.arrays import Array


def real_array(value: Any, name: str) -> Array:
    """Lists, arrays and frames -> an array of doubles of its own."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} is not made of real numbers") from None


def real_table(value: Any, name: str) -> Array | Any:
    """The same with two dimensions; what is sparse stays so."""
    if sparse.issparse(value):
        try:
            return sparse.csr_array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{name} is not made of real numbers") from None
    table = real_array(value, name)
    if table.ndim != 2:
        raise DataError(f"{name} must be a matrix, got an array of shape {table.shape}")
    return table


def real_number(value: Any, name: str) -> float:
    """A number of Python or NumPy."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypingError(f"{name} is a number, got {value!r}")
    return float(value)


def whole_number(value: Any, name: str) -> int:
    """A whole number of Python or NumPy."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypingError(f"{name} is a whole number, got {value!r}")
    return int(value)
