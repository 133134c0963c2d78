"""Calls that look at a few rows around each row: LAG, LEAD and short frames of ROWS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet.calculus.expr import Expr, assign, cond, extreme, sum_over
from viewlet.frontend.products import product
from viewlet.frontend.types import Typed, convert
from viewlet.frontend.window_calls import NEIGHBORS, Call
from viewlet.frontend.window_frames import ROWS, whole_number, whole_offset
from viewlet.frontend.window_neighbors import Neighbors
from viewlet.frontend.window_rows import OrderKey, Rows, made_rows
from viewlet.frontend.window_values import ValueStage
from viewlet.functions import NULL, Const, Ref, ScalarExpr, apply, free_variables
from viewlet.schema import DOUBLE

MOST_AROUND = 32
"""Rows around a row up to which each is looked up; beyond, positions are kept."""


@dataclass(frozen=True)
class Reach:
    """From which row to which a value looks, the row itself being 0."""

    first: int
    last: int


class NeighborStage(ValueStage):
    """The same with the calls that look at rows nearby."""

    def groups_nearby(self, rows: Rows, calls: Sequence[Call]) -> list[list[Call]]:
        """The calls for which no positions have to be kept, by their orders."""
        if not self.is_unique or rows.name is None:
            return []
        groups: dict[tuple[OrderKey, ...], list[Call]] = {}
        for call in calls:
            if reach_of(call) is not None and call.variable not in self.most:
                groups.setdefault(tuple(self._order(call)), []).append(call)
        return [group for order, group in groups.items() if self._total_order(order)]

    def _total_order(self, order: Sequence[OrderKey]) -> tuple[OrderKey, ...]:
        """The order with the key of the rows behind it; none where that may be NULL."""
        ordered = {*self.partition, *(key.variable for key in order)}
        ties = [name for name in self.ties if name not in ordered]
        if any(self.variables.nullable.get(name, True) for name in ties):
            return ()
        return (*order, *map(OrderKey, ties))

    def over_neighbors(
        self, rows: Rows, calls: Sequence[Call], bindings: dict[str, ScalarExpr]
    ) -> Rows:
        """The rows with the values of calls over one order."""
        order = self._order(calls[0])
        reaches = [reach for call in calls if (reach := reach_of(call)) is not None]
        total_order = self._total_order(order)
        around = Neighbors(self.variables, rows, self.partition, total_order)
        before, counting = around.before(around.own)
        factors: list[Expr] = [counting]
        for call, reach in zip(calls, reaches, strict=True):
            if isinstance(call.function, exp.Lag | exp.Lead):
                bindings[call.variable] = self._shifted(around, call, reach, before, factors)
            elif isinstance(call.function, NEIGHBORS):
                bindings[call.variable] = self._chosen(around, call, reach, before, order, factors)
            else:
                frame, sizes = around.frame(before, reach.first, reach.last)
                factors += sizes
                rows_in_frame, _ = around.around(frame, call.frame.exclude, order)
                keys = (*self.partition, *around.own, frame.start, frame.size)
                bindings[call.variable] = self.aggregate(call, (rows_in_frame,), keys, factors)
        back = max(0, *(reach.last for reach in reaches))
        ahead = max(0, *(-reach.first for reach in reaches))
        touched = around.touched(f"change_of_{rows.name}", back, ahead)
        values = [
            name for call in calls for name in sorted(free_variables(bindings[call.variable]))
        ]
        return made_rows(
            self.lowering, rows, self.partition, factors, values, None, touched=touched
        )

    def _shifted(
        self, around: Neighbors, call: Call, reach: Reach, before: str, factors: list[Expr]
    ) -> ScalarExpr:
        """LAG and LEAD: the value of the row so far away, or the default if there is none."""
        shift = reach.first if reach.first else reach.last
        ordinal = self.variables.fresh("place")
        row, finding = around.at(ordinal)
        value = call.operands[id(call.function.this)]
        variable, taking = around.value(row, value.scalar)
        ahead = apply("+", Ref(before), Const(1 + shift))
        factors += [assign(ordinal, ahead), *finding, taking]
        target = self.types[call.variable]
        result = convert(Typed(Ref(variable), value.type), target, call.node).scalar
        default = call.function.args.get("default")
        other: ScalarExpr = NULL
        if default is not None:
            other = convert(call.operands[id(default)], target, call.node).scalar
        is_inside = apply(">=", ahead, Const(1))
        if shift > 0 or default is not None:
            is_inside = apply("and", is_inside, around.is_there(row))
        scalar = apply("case", is_inside, result, other)
        bound = self.variables.fresh("shifted", nullable=True, double=target == DOUBLE)
        factors.append(assign(bound, scalar))
        return Ref(bound)

    def _chosen(
        self,
        around: Neighbors,
        call: Call,
        reach: Reach,
        before: str,
        peers: Sequence[OrderKey],
        factors: list[Expr],
    ) -> ScalarExpr:
        """FIRST_VALUE, LAST_VALUE and NTH_VALUE of a frame of a few rows."""
        frame, sizes = around.frame(before, reach.first, reach.last)
        rows, ordinal = around.around(frame, call.frame.exclude, peers)
        value = call.operands[id(call.function.this)]
        tests = []
        if call.ignores_nulls:
            tests = [cond(apply("not", apply("is_null", rows.resolve(value.scalar))))]
        kind = "max" if isinstance(call.function, exp.LastValue) else "min"
        keys = (*self.partition, *around.own, frame.start, frame.size)
        choice = self.variables.fresh("place", nullable=True)
        body = sum_over((*keys, ordinal), product((*rows.factors, *tests)))
        number = 1
        if isinstance(call.function, exp.NthValue):
            number = whole_number(call.function.args.get("offset"), "NTH_VALUE", 1)
        at = self.variables.fresh("place", nullable=True)
        row, finding = around.at(at)
        variable, taking = around.value(row, value.scalar)
        factors += [
            *sizes,
            extreme(choice, kind, ordinal, body),
            assign(at, apply("+", Ref(choice), Const(number - 1))),
            *finding,
            taking,
        ]
        known = apply("<=", Ref(at), frame.end)
        bound = self.variables.fresh("chosen", nullable=True, double=value.type == DOUBLE)
        factors.append(assign(bound, apply("case", known, Ref(variable), NULL)))
        return Ref(bound)


def reach_of(call: Call) -> Reach | None:
    """How far a call looks, if that is not far."""
    function = call.function
    if isinstance(function, exp.Lag | exp.Lead):
        if call.ignores_nulls:
            return None
        ahead = ahead_of(function)
        return _short(min(ahead, 0), max(ahead, 0))
    frame = call.frame
    if frame.unit != ROWS or not isinstance(function, exp.AggFunc):
        return None
    is_nth = isinstance(function, exp.NthValue)
    if is_nth and (call.ignores_nulls or frame.exclude is not None):
        return None
    first, last = whole_offset(frame.start, ROWS), whole_offset(frame.end, ROWS)
    if first is None or last is None or first > last:
        return None
    return _short(first, last)


def _short(first: int, last: int) -> Reach | None:
    return Reach(first, last) if max(last, 0) - min(first, 0) <= MOST_AROUND else None


def ahead_of(function: exp.Lag | exp.Lead) -> int:
    """How many rows after the current one the row is that is meant."""
    offset = function.args.get("offset")
    by = _signed_number(offset) if offset is not None else 1
    return by if isinstance(function, exp.Lead) else -by


def _signed_number(node: exp.Expr) -> int:
    if isinstance(node, exp.Neg):
        return -whole_number(node.this, "LAG and LEAD")
    return whole_number(node, "LAG and LEAD")
