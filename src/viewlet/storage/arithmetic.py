"""Integers that never wrap: OverflowError where int64 ends, and the engine undoes the batch.

Sums of DOUBLE are in storage.doubles.
"""

from __future__ import annotations

from viewlet.native.intrinsics import intrinsic
from viewlet.native.lowerings import checked, symmetric_product

_LIMIT = 2**63
OVERFLOW = "a number left the range of 64-bit integers"


@intrinsic(checked("sadd"))
def plus(a: int, b: int) -> int:
    """a + b; beyond 64 bits it raises, instead of wrapping around."""
    total = int(a) + int(b)
    if not -_LIMIT <= total < _LIMIT:
        raise OverflowError(OVERFLOW)
    return total


@intrinsic(checked("ssub"))
def minus(a: int, b: int) -> int:
    """a - b; beyond 64 bits it raises, instead of wrapping around."""
    total = int(a) - int(b)
    if not -_LIMIT <= total < _LIMIT:
        raise OverflowError(OVERFLOW)
    return total


@intrinsic(checked("smul"))
def times(a: int, b: int) -> int:
    """a * b; beyond 64 bits it raises, instead of wrapping around."""
    product = int(a) * int(b)
    if not -_LIMIT <= product < _LIMIT:
        raise OverflowError(OVERFLOW)
    return product


@intrinsic(symmetric_product)
def weighed(weight: int, value: int) -> int:
    """weight * value, where its negative is in range as well: what can be added can be removed."""
    product = int(weight) * int(value)
    if not -_LIMIT < product < _LIMIT:
        raise OverflowError(OVERFLOW)
    return product
