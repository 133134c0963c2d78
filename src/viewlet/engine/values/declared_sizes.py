"""Columns of a batch as their declarations hold them: schema.sized_value for whole arrays.

VARCHAR(n) and TIMESTAMP(n) say more than the type that they are kept as. (SMALLINT does too: its
bounds are those that arrow_columns reads whole numbers within.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.engine.values.string_codes import (
    addresses_of,
    form_of,
    row_of_entry,
    text_addresses,
)
from viewlet.storage.columns import Array
from viewlet.storage.memory import address_of
from viewlet.storage.string_store import first_longer


def first_longer_text(values: Any, nulls: int, limit: int) -> int:
    """The row of an Arrow array's first string with more characters than `limit`, or -1.

    `nulls` is the address of null bytes, 0 without NULLs. Of an array with a dictionary the strings
    of that are looked at: where a longer one is in no row, the answer is row 0, which may fit.
    """
    import pyarrow as pa

    if isinstance(values, pa.DictionaryArray):
        entry = first_longer_text(values.dictionary, 0, limit)
        return -1 if entry < 0 else row_of_entry(values, entry)
    if len(values) == 0:
        return -1
    form = form_of(values)
    addresses = addresses_of(values.buffers())
    first, data = text_addresses(addresses, values.offset, form)
    return first_longer(form, first, data, address_of(addresses), nulls, len(values), limit)


_YEAR_2000 = 946_684_800_000_000


def rounded_moments(values: Array, digits: int) -> Array:
    """schema.rounded_moment of microseconds, to so many digits of a second."""
    unit = 10 ** (6 - digits)
    count = values // unit
    twice_remainder = 2 * (values - count * unit)
    up = (twice_remainder > unit) | ((twice_remainder == unit) & (values >= _YEAR_2000))
    return np.asarray((count + up) * unit, np.int64)
