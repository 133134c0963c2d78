"""Calls on text that are written with others."""

from __future__ import annotations

from sqlglot import exp

from viewlet.errors import TypingError
from viewlet.frontend.syntax import fault
from viewlet.frontend.time_calls import Lower
from viewlet.frontend.types import Typed


def split_index(lower: Lower, node: exp.Anonymous) -> Typed:
    """SPLIT_INDEX(s, d, n) -> SPLIT_PART(s, d, n + 1), which counts from 0; NULL where no part is

    There are n separators in s if it loses n times their length without them. The empty separator
    parts nothing.
    """
    if len(node.expressions) != 3:
        message = f"SPLIT_INDEX takes 3 arguments, not {len(node.expressions)}"
        raise fault(TypingError, message, node)
    text, separator, number = (operand.copy() for operand in node.expressions)
    zero, one = exp.Literal.number(0), exp.Literal.number(1)
    without = exp.Anonymous(
        this="REPLACE", expressions=[text, separator.copy(), exp.Literal.string("")]
    )
    lost = exp.Sub(this=exp.Length(this=text.copy()), expression=exp.Length(this=without))
    needed = exp.Mul(this=exp.Paren(this=number), expression=exp.Length(this=separator))
    has_part = exp.And(
        this=exp.GTE(this=number.copy(), expression=zero),
        expression=exp.GTE(this=lost, expression=needed),
    )
    parts_text = exp.NEQ(this=separator.copy(), expression=exp.Literal.string(""))
    is_first = exp.EQ(this=number.copy(), expression=zero.copy())
    has_part = exp.And(
        this=has_part, expression=exp.Paren(this=exp.Or(this=parts_text, expression=is_first))
    )
    position = exp.Add(this=exp.Paren(this=number.copy()), expression=one)
    part = exp.Anonymous(this="SPLIT_PART", expressions=[text.copy(), separator.copy(), position])
    return lower(exp.Case(ifs=[exp.If(this=has_part, true=part)]))
