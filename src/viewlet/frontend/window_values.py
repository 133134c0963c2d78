"""Values beside rows that are choice by the order of keys: ranks, and sums over RANGE frames."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from viewlet.calculus.expr import Cond, Expr, cond, exists_of, lift, sum_of, sum_over
from viewlet.errors import UnsupportedError
from viewlet.frontend.context import Lowering
from viewlet.frontend.intervals import interval_literal
from viewlet.frontend.products import Branch, Variables, product
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import fault
from viewlet.frontend.types import (
    Typed,
    arithmetic,
    as_number,
    comparison,
    number_literal,
    shift,
)
from viewlet.frontend.window_calls import RANKS, Call, FrameAggregates, whole_partition
from viewlet.frontend.window_frames import CURRENT, RANGE, UP_TO_PEERS, FrameBound, WindowFrame
from viewlet.frontend.window_rows import (
    Narrowed,
    OrderKey,
    Rows,
    at_most_before,
    counted,
    lifted,
    made_rows,
    others,
    peers,
)
from viewlet.functions import DAY, Apply, Const, Ref, ScalarExpr, apply, free_variables
from viewlet.schema import Kind, Type

LONGEST_MONTH = 31


def _leaves_out_current(frame: WindowFrame) -> bool:
    """Whether a frame begins behind the current row or ends before it."""
    is_beyond = frame.start.sign > 0 and not _is_zero(frame.start.offset)
    return is_beyond or (frame.end.sign < 0 and not _is_zero(frame.end.offset))


def _is_zero(offset: exp.Expr | None) -> bool:
    """Whether an offset is CURRENT ROW's."""
    return isinstance(offset, exp.Literal) and not decimal.Decimal(offset.name)


def _widest(edges: Iterable[Narrowed | None]) -> Narrowed | None:
    """What all of them replace, where each goes by the same key."""
    known = [edge for edge in edges if edge is not None]
    keys = {edge.key if edge is not None else None for edge in edges}
    return max(known, key=lambda edge: edge.reach) if len(keys) == 1 and known else None


@dataclass
class ValueStage:
    """The calls over one partition of rows, which are known by their variables.

    `final` has the variable of each scalar that the calls take from a row, `most` the greatest
    value of a call that is wanted.
    """

    lowering: Lowering
    scope: Scope
    types: Mapping[str, Type]
    final: Mapping[ScalarExpr, ScalarExpr]
    ties: tuple[str, ...]
    is_unique: bool
    most: Mapping[str, int]
    partition: tuple[str, ...] = ()
    frame_sizes: dict[str, ScalarExpr] = field(default_factory=dict)
    frame_starts: dict[str, ScalarExpr] = field(default_factory=dict)

    @property
    def variables(self) -> Variables:
        """The names of the view."""
        return self.lowering.variables

    def _names(self, scalars: Iterable[ScalarExpr]) -> tuple[str, ...]:
        """The variables of partition keys; constants make no partitions."""
        choice = (self.final[scalar] for scalar in scalars)
        return tuple(dict.fromkeys(s.name for s in choice if isinstance(s, Ref)))

    def _order(self, call: Call) -> list[OrderKey]:
        """The keys of an order, each once: what follows an equal one orders nothing."""
        keys: dict[str, OrderKey] = {}
        for _, value, descending in call.order_columns(self.variables):
            scalar = self.final[value.scalar]
            if isinstance(scalar, Ref) and scalar.name not in self.partition:
                keys.setdefault(scalar.name, OrderKey(scalar.name, descending))
        return list(keys.values())

    def over_rows(self, rows: Rows, calls: Sequence[Call], bindings: dict[str, ScalarExpr]) -> Rows:
        """The rows with the values of calls that need no positions."""
        factors: list[Expr] = []
        edges: list[Narrowed | None] = []
        for call in calls:
            order = self._order(call)
            if isinstance(call.function, RANKS):
                scalar = self._rank(rows, call, order, factors)
            else:
                branches, shown = self._frame(rows, call, order)
                scalar = self.aggregate(call, branches, (*self.partition, *shown), factors)
            bindings[call.variable] = scalar
            limit = self.most.get(call.variable)
            if limit is not None and isinstance(call.function, exp.Rank | exp.DenseRank):
                factors.append(cond(apply("<=", scalar, Const(limit))))
                if order and isinstance(call.function, exp.Rank):
                    factors[:0] = at_most_before(
                        self.variables, rows, self.partition, order[0], limit
                    )
            looks_back = isinstance(call.function, exp.Rank | exp.DenseRank) or (
                call.frame == UP_TO_PEERS and not isinstance(call.function, RANKS)
            )
            edges.append(
                Narrowed(order[0]) if order and looks_back else self._range_reach(call, order)
            )
        used = frozenset[str]().union(*(free_variables(bindings[c.variable]) for c in calls))
        values = [name for name in lifted(factors) if name in used]
        edge = _widest(edges)
        recomputed = "" if edge is not None else whole_partition(calls)
        if any(call.variable in self.most for call in calls):
            # The first rows are few: they are replaced as a whole, and choice from the first on.
            edge, recomputed = None, ""
        return made_rows(
            self.lowering,
            rows,
            self.partition,
            factors,
            values,
            edge,
            recomputed=recomputed,
        )

    def _range_reach(self, call: Call, order: Sequence[OrderKey]) -> Narrowed | None:
        """A frame of RANGE that ends so far ahead, over one key that is never NULL: rows that are
        further before the first change have it not in their frames."""
        end = call.frame.end.offset
        if isinstance(call.function, RANKS) or len(order) != 1 or end is None:
            return None
        type_ = call.order[0].value.type
        if isinstance(end, exp.Interval):
            interval = interval_literal(end)
            days = abs(interval.months) * LONGEST_MONTH + abs(interval.days)
            reach = days * DAY + abs(interval.microseconds)
            if type_.kind is Kind.DATE:
                reach = -(-reach // DAY)
        else:
            if type_.kind is Kind.DOUBLE or not isinstance(end, exp.Literal):
                return None
            reach = math.ceil(decimal.Decimal(end.name) * 10**type_.scale)
        return Narrowed(order[0], reach if call.frame.end.sign > 0 else 0)

    def aggregate(
        self, call: Call, branches: tuple[Branch, ...], keys: tuple[str, ...], factors: list[Expr]
    ) -> ScalarExpr:
        """An aggregate over the rows of a frame; its sums go to the factors."""
        assert isinstance(call.function, exp.AggFunc)
        frames = FrameAggregates(self.lowering, self.scope, call.operands, branches, keys, factors)
        return frames.aggregate(call.function, call.filter).scalar

    def _lift(self, hint: str, body: Expr, factors: list[Expr]) -> ScalarExpr:
        variable = self.variables.fresh(hint)
        factors.append(lift(variable, body))
        return Ref(variable)

    def _before(self, rows: Rows, order: Sequence[OrderKey], factors: list[Expr]) -> ScalarExpr:
        if not order:
            return Const(0)
        branches = others(self.variables, rows, self.partition, order)
        shown = [key.variable for key in order]
        return self._lift("before", counted(self.partition, shown, branches), factors)

    def _total(self, rows: Rows, factors: list[Expr]) -> ScalarExpr:
        branch, _ = rows.branch(self.variables, self.partition)
        return self._lift("total", counted(self.partition, (), [branch]), factors)

    def _peers(self, rows: Rows, order: Sequence[OrderKey], factors: list[Expr]) -> ScalarExpr:
        branch = peers(self.variables, rows, self.partition, order)
        shown = [key.variable for key in order]
        return self._lift("peers", counted(self.partition, shown, [branch]), factors)

    def _dense(self, rows: Rows, order: Sequence[OrderKey], factors: list[Expr]) -> ScalarExpr:
        """Different order keys before."""
        if not order:
            return Const(0)
        terms = []
        for at, key in enumerate(order):
            same = (*self.partition, *(k.variable for k in order[:at]))
            expr, names = rows.copy(self.variables, same)
            shown = [names.get(k.variable, k.variable) for k in order]
            once = exists_of(sum_over((*self.partition, *shown), expr))
            test = Cond(Apply(key.before, (Ref(names[key.variable]), Ref(key.variable))))
            keys = (*self.partition, *(k.variable for k in order))
            terms.append(sum_over(keys, product((once, test))))
        return self._lift("keys_before", sum_of(*terms), factors)

    def _rank(
        self, rows: Rows, call: Call, order: Sequence[OrderKey], factors: list[Expr]
    ) -> ScalarExpr:
        if isinstance(call.function, exp.DenseRank):
            return apply("+", self._dense(rows, order, factors), Const(1))
        before = self._before(rows, order, factors)
        if isinstance(call.function, exp.Rank):
            return apply("+", before, Const(1))
        total = self._total(rows, factors)
        if isinstance(call.function, exp.PercentRank):
            share = apply("/", before, apply("-", total, Const(1)))
            return apply("case", apply("<=", total, Const(1)), Const(0.0), share)
        return apply("/", apply("+", before, self._peers(rows, order, factors)), total)

    def _frame(
        self, rows: Rows, call: Call, order: Sequence[OrderKey]
    ) -> tuple[tuple[Branch, ...], tuple[str, ...]]:
        """The rows of a frame that goes by the order's values."""
        frame, variables = call.frame, self.variables
        shown = tuple(key.variable for key in order)
        if frame.is_whole or not order:
            branch, _ = rows.branch(variables, self.partition)
            return (Branch((*branch.factors, *self._of_equal_keys(call)), branch.bindings),), ()
        if all(b.offset is None or b == CURRENT for b in (frame.start, frame.end)):
            branches = [peers(variables, rows, self.partition, order)]
            if frame.start.offset is None:
                branches += others(variables, rows, self.partition, order)
            if frame.end.offset is None:
                turned = [OrderKey(k.variable, not k.descending) for k in order]
                branches += others(variables, rows, self.partition, turned)
            return tuple(branches), shown
        # An offset: of the only order key, beside the key that says whether it is NULL.
        *absent, key = order
        same = (*self.partition, *(k.variable for k in absent))
        branch, names = rows.branch(variables, same)
        tests: list[Expr] = []
        outside: list[Branch] = []
        for bound, is_start in ((frame.start, True), (frame.end, False)):
            if bound.offset is None:
                if absent:
                    flag = absent[0]
                    outside += others(
                        variables,
                        rows,
                        self.partition,
                        [flag if is_start else OrderKey(flag.variable, not flag.descending)],
                    )
                continue
            operator = ">=" if is_start != key.descending else "<="
            test = self._against(bound, operator, names, key, call)
            if absent and _leaves_out_current(frame):
                # NULL plus an offset is NULL, and beside NULL there is NULL.
                is_absent = apply("=", Ref(absent[0].variable), Const(1))
                test = apply("or", is_absent, test)
            tests.append(cond(test))
        inside = Branch((*branch.factors, *tests), branch.bindings)
        return (inside, *outside), shown

    def _of_equal_keys(self, call: Call) -> list[Expr]:
        """What a frame has where all rows of a partition are equal in the order: all of them, or
        none where it begins behind or ends before the current row. Beside NULL there is NULL."""
        if call.frame.unit != RANGE or not call.order or not _leaves_out_current(call.frame):
            return []
        return [cond(apply("is_null", self.final[call.order[0].value.scalar]))]

    def _before_start(self, rows: Rows, call: Call, order: Sequence[OrderKey]) -> Expr:
        """How many rows are before a frame that starts at an offset of the order's value."""
        *absent, key = order
        same = (*self.partition, *(k.variable for k in absent))
        branch, names = rows.branch(self.variables, same)
        test = self._against(call.frame.start, key.before, names, key, call)
        if absent:
            test = apply("and", apply("=", Ref(absent[0].variable), Const(0)), test)
        branches = [Branch((*branch.factors, cond(test)), branch.bindings)]
        if absent:
            branches += others(self.variables, rows, self.partition, absent)
        return counted(self.partition, [k.variable for k in order], branches)

    def _against(
        self,
        bound: FrameBound,
        operator: str,
        names: Mapping[str, str],
        key: OrderKey,
        call: Call,
    ) -> ScalarExpr:
        """another row's order key OPERATOR the row's own, plus or minus an offset"""
        type_ = call.order[0].value.type
        limit = self._limit(Typed(Ref(key.variable), type_), bound, key.descending, call)
        other = Typed(Ref(names[key.variable]), type_)
        return comparison(operator, other, limit, call.node).scalar

    def _limit(self, value: Typed, bound: FrameBound, descending: bool, call: Call) -> Typed:
        """The current row's order key plus or minus an offset."""
        if bound == CURRENT:
            return value
        offset = bound.offset
        assert offset is not None
        is_plus = (bound.sign > 0) != descending
        if isinstance(offset, exp.Interval):
            interval = interval_literal(offset)
            return shift(value, interval if is_plus else interval.negated(), call.node)
        if not isinstance(offset, exp.Literal):
            raise fault(UnsupportedError, "an offset of a frame must be a constant", offset)
        by = number_literal(offset.name)
        if value.type.kind is Kind.DATE and by.type.kind is not Kind.DECIMAL:
            return Typed(apply("+" if is_plus else "-", value.scalar, by.scalar), value.type)
        number = as_number(value, call.node, "RANGE with an offset")
        return arithmetic("+" if is_plus else "-", number, by, call.node)

    # Over positions.
