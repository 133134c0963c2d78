"""OVER (...) as it is written: named windows, partitions, orders and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewlet.errors import ParseError, ResolutionError, TypingError, UnsupportedError
from viewlet.frontend.syntax import did_you_mean, fault

ROWS, RANGE, GROUPS = "ROWS", "RANGE", "GROUPS"


@dataclass(frozen=True)
class FrameBound:
    """One end of a frame: so far before or after the current row; None is as far as there are rows.

    `offset` 0 is CURRENT ROW. `sign` is -1 for PRECEDING, 1 for FOLLOWING.
    """

    sign: int
    offset: exp.Expr | None


CURRENT = FrameBound(-1, exp.Literal.number(0))
FIRST = FrameBound(-1, None)
LAST = FrameBound(1, None)


@dataclass(frozen=True)
class WindowFrame:
    """Which rows around the current one count."""

    unit: str
    start: FrameBound
    end: FrameBound
    exclude: str | None = None

    @property
    def bounds(self) -> tuple[FrameBound, FrameBound]:
        """Both ends."""
        return self.start, self.end

    @property
    def is_whole(self) -> bool:
        """Whether it is the partition."""
        return self.start.offset is None and self.end.offset is None and self.exclude is None


UP_TO_PEERS = WindowFrame(RANGE, FIRST, CURRENT)
"""The frame of a window that has an order and says nothing else."""

WHOLE = WindowFrame(RANGE, FIRST, LAST)


@dataclass(frozen=True)
class WindowText:
    """A window with its names resolved, not lowered yet."""

    partition: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    frame: WindowFrame


def window_text(node: exp.Window, named: Mapping[str, exp.Window]) -> WindowText:
    """OVER w, OVER (w ORDER BY ...) and OVER (PARTITION BY ... ORDER BY ... ROWS ...)"""
    partition = tuple(node.args.get("partition_by") or ())
    order = node.args.get("order")
    ordered = tuple(order.expressions) if order is not None else ()
    spec = node.args.get("spec")
    base = node.args.get("alias")
    if base is not None:
        name = base.name
        if name not in named:
            raise fault(ResolutionError, f"no window {name}", base, did_you_mean(name, named))
        below = {known: window for known, window in named.items() if known != name}
        inner = window_text(named[name], below)
        if partition:
            raise fault(ParseError, f"window {name} has its PARTITION BY already", node)
        if ordered and inner.order:
            raise fault(ParseError, f"window {name} has its ORDER BY already", node)
        partition, ordered = inner.partition, ordered or inner.order
        if spec is None and named[name].args.get("spec") is not None:
            return WindowText(partition, ordered, inner.frame)
    return WindowText(partition, ordered, _frame(spec, ordered, node))


def _frame(
    spec: exp.WindowSpec | None, order: tuple[exp.Ordered, ...], node: exp.Window
) -> WindowFrame:
    if spec is None:
        return UP_TO_PEERS if order else WHOLE
    unit = str(spec.args.get("kind") or RANGE).upper()
    start = _bound(spec.args.get("start"), spec.args.get("start_side"), spec)
    end = (
        _bound(spec.args.get("end"), spec.args.get("end_side"), spec)
        if spec.args.get("end")
        else CURRENT
    )
    if start == LAST or end == FIRST or _ordinal(start) > _ordinal(end):
        raise fault(ParseError, "the frame ends before it starts", node)
    exclude = spec.args.get("exclude")
    word = exclude.name.upper() if exclude is not None else None
    if word == "NO OTHERS":
        word = None
    if not order and unit != ROWS:
        is_plain = all(b.offset is None or b == CURRENT for b in (start, end))
        if unit == GROUPS or not is_plain:
            raise fault(TypingError, f"a frame of {unit} needs ORDER BY", node)
        if word is None:
            # All rows are peers.
            return WHOLE
    is_shifted = any(b.offset is not None and b != CURRENT for b in (start, end))
    if unit == RANGE and len(order) != 1 and is_shifted:
        raise fault(TypingError, "RANGE with an offset needs one ORDER BY expression", node)
    return WindowFrame(unit, start, end, word)


def _ordinal(bound: FrameBound) -> int:
    """Where a bound lies, roughly: PRECEDING, the current row, FOLLOWING."""
    return 0 if bound == CURRENT else bound.sign


def _bound(value: object, side: object, spec: exp.WindowSpec) -> FrameBound:
    sign = 1 if str(side or "").upper() == "FOLLOWING" else -1
    if isinstance(value, exp.Expr):
        return FrameBound(sign, value)
    if str(value).upper() == "UNBOUNDED":
        return LAST if sign > 0 else FIRST
    if str(value).upper() == "CURRENT ROW":
        return CURRENT
    raise fault(UnsupportedError, f"a frame that starts or ends at {value} is not supported", spec)


def whole_offset(bound: FrameBound, what: str) -> int | None:
    """The offset of ROWS and GROUPS: a whole number, counted from the current row on."""
    if bound.offset is None:
        return None
    return bound.sign * whole_number(bound.offset, what)


def whole_number(node: exp.Expr | None, what: str, least: int = 0) -> int:
    """A constant that counts rows."""
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    if isinstance(node, exp.Literal) and is_number and int(node.name) >= least:
        return int(node.name)
    text = "a whole number" if least == 0 else f"a whole number from {least} on"
    raise fault(TypingError, f"{what} needs {text}", node, "write it as a constant")
