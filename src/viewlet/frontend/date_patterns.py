"""DATE_FORMAT, TO_CHAR and STRFTIME: one function of a moment, with three ways to write a pattern.

    DATE_FORMAT(ts, 'yyyy-MM-dd')  ->  strftime(start of ts's day, '%Y-%m-%d')

The moment is cut to what the pattern shows, because Python makes each text once and remembers it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.syntax import fault, sql_of
from viewlet.frontend.time_calls import Lower
from viewlet.frontend.types import Typed, as_moment, convert
from viewlet.functions import Const, apply
from viewlet.functions.date_text import JAVA, PARTS, POSTGRES
from viewlet.functions.dates import DAY
from viewlet.schema import TIMESTAMP, VARCHAR

_WIDTHS = {
    **dict.fromkeys("gf", 1),
    "S": 1_000_000,
    "M": 60_000_000,
    **dict.fromkeys("HIp", 3_600_000_000),
}
"""The microseconds that a part tells apart; all others tell days."""


def formatted(lower: Lower, node: exp.Anonymous) -> Typed:
    """A moment as text, by a constant pattern"""
    name, operands = node.name.upper(), node.expressions
    if len(operands) != 2:
        raise fault(TypingError, f"{name} takes 2 arguments, not {len(operands)}", node)
    moment = convert(as_moment(lower(operands[0]), operands[0], name), TIMESTAMP, node)
    pattern = lower(operands[1]).scalar
    if not isinstance(pattern, Const) or not isinstance(pattern.value, str):
        raise fault(
            UnsupportedError, f"{name} needs a constant pattern, not {sql_of(operands[1])}", node
        )
    text = pattern.value
    if name == "DATE_FORMAT":
        text = _translated(text, JAVA, name, node)
    elif name == "TO_CHAR":
        text = _translated(text, POSTGRES, name, node)
    parts = re.findall("%(.?)", text)
    for part in parts:
        if part not in PARTS:
            hint = f"known are {', '.join('%' + known for known in PARTS)}"
            raise fault(UnsupportedError, f"%{part} in {name} is not supported", node, hint)
    width = min((_WIDTHS.get(part, DAY) for part in parts), default=DAY)
    start = moment.scalar
    if width > 1:
        start = apply("timestamp_bin", start, Const(width), Const(0))
    return Typed(apply("strftime", start, Const(text)), VARCHAR)


def _translated(pattern: str, words: Sequence[tuple[str, str]], name: str, node: exp.Expr) -> str:
    """yyyy-MM -> %Y-%m; a letter that is part of no word is an error, but in quotes"""
    text, at = "", 0
    quote = "'" if name == "DATE_FORMAT" else '"'
    while at < len(pattern):
        word = next((word for word in words if pattern.startswith(word[0], at)), None)
        if word is not None:
            text += word[1]
            at += len(word[0])
            continue
        character = pattern[at]
        end = pattern.find(quote, at + 1) if character == quote else -1
        if end > 0:
            text += pattern[at + 1 : end].replace("%", "%%")
            at = end + 1
            continue
        if character.isalpha() or character == quote:
            hint = f"known are {', '.join(word for word, _ in words)}"
            raise fault(
                UnsupportedError, f"{character} in {pattern!r} is no part of a moment", node, hint
            )
        text += "%%" if character == "%" else character
        at += 1
    return text
