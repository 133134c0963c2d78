"""Scalars as text, in the infix form that `calculus.text` parses back."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.functions.record import COMPARISON_STRENGTH, FUNCTIONS
from viewlet.functions.scalars import Apply, Const, Ref, ScalarExpr, fold
from viewlet.schema import Scalar

_TIGHTEST = 7


def format_constant(value: Scalar) -> str:
    """As `calculus.text` reads it back; a float always shows that it is one."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def format_scalar(scalar: ScalarExpr) -> str:
    """Infix where a record has a strength, f(a, b) otherwise; parentheses only where needed."""
    return fold(scalar, _leaf, _joined)[0]


def _leaf(scalar: Const | Ref) -> tuple[str, int]:
    return str(scalar), _TIGHTEST


def _joined(scalar: Apply, parts: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The text of a function and how tightly it binds."""
    name, own = scalar.function, FUNCTIONS[scalar.function].infix
    if own is None or len(parts) < 2:
        return f"{name}({', '.join(text for text, _ in parts)})", _TIGHTEST
    # Comparisons do not chain, so both sides bind tighter; the others lean left.
    first = _enclosed(parts[0], own + (own == COMPARISON_STRENGTH))
    return f" {name} ".join((first, *(_enclosed(part, own + 1) for part in parts[1:]))), own


def _enclosed(part: tuple[str, int], needed: int) -> str:
    text, own = part
    return f"({text})" if own < needed else text
