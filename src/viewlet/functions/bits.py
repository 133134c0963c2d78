"""Bits of whole numbers, in two's complement as SQL has them."""

from __future__ import annotations

from viewlet.functions.kernel_forms import expression
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.sql_forms import Internal
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import Physical


def bit_weight(number: int, bit: int) -> int:
    """2 ** bit where the number has that bit, else 0: bit_weight(5, 2) = 4"""
    return number & (1 << bit)


define(
    ScalarFunction(
        name="bit_weight",
        meaning=bit_weight,
        result=Physical.INT,
        nulls=STRICT,
        sql=Internal("what BIT_AND, BIT_OR and BIT_XOR are made of"),
        kernel=expression("bit_weight({0}, {1})", natives=(bit_weight,)),
        vector=by_row,
        monotone=NOT_MONOTONE,
        hint="",
    )
)
