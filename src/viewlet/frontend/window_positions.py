"""Values beside rows that are choice by positions: ROW_NUMBER, LAG, frames of ROWS and GROUPS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from viewlet.calculus.expr import Expr, assign, cond, extreme, sum_over
from viewlet.frontend.products import Branch, product
from viewlet.frontend.types import Typed, convert
from viewlet.frontend.window_calls import NEIGHBORS, NUMBERS, Call, whole_partition
from viewlet.frontend.window_frames import (
    CURRENT,
    GROUPS,
    RANGE,
    ROWS,
    UP_TO_PEERS,
    whole_number,
    whole_offset,
)
from viewlet.frontend.window_reach import NeighborStage, ahead_of
from viewlet.frontend.window_rows import (
    Narrowed,
    OrderKey,
    Rows,
    counted,
    lifted,
    made_rows,
    numbered,
)
from viewlet.functions import NULL, Const, Ref, ScalarExpr, apply


class PositionStage(NeighborStage):
    """The same with the calls that need positions."""

    def made(self, rows: Rows, calls: Sequence[Call], bindings: dict[str, ScalarExpr]) -> Rows:
        """The rows with the values of the calls, to which the calls' variables are bound."""
        self.partition = self._names(value.scalar for value in calls[0].partition)
        over_rows = [call for call in calls if not call.needs_positions]
        positional = [call for call in calls if call.needs_positions]
        if over_rows:
            rows = self.over_rows(rows, over_rows, bindings)
        for nearby in self.groups_nearby(rows, positional):
            rows = self.over_neighbors(rows, nearby, bindings)
            positional = [call for call in positional if call not in nearby]
        return self._over_positions(rows, positional, bindings) if positional else rows

    def _over_positions(
        self, rows: Rows, calls: Sequence[Call], bindings: dict[str, ScalarExpr]
    ) -> Rows:
        positions: dict[tuple[OrderKey, ...], str] = {}
        most: dict[str, int] = {}
        factors: list[Expr] = []
        for call in calls:
            order = tuple(self._order(call))
            position = positions.setdefault(order, self.variables.fresh("position"))
            if isinstance(call.function, exp.RowNumber):
                bindings[call.variable] = Ref(position)
                if call.variable in self.most and len(calls) == 1:
                    most[position] = self.most[call.variable]
            elif isinstance(call.function, exp.Ntile):
                bindings[call.variable] = self._ntile(rows, call, position, factors)
        later = [call for call in calls if not isinstance(call.function, NUMBERS)]
        dense: dict[tuple[OrderKey, ...], str] = {}
        for call in later:
            order = tuple(self._order(call))
            if (call.frame.unit == GROUPS or call.frame.exclude) and order not in dense:
                scalar = self._dense(rows, order, factors)
                dense[order] = scalar.name if isinstance(scalar, Ref) else ""
            if (
                call.frame.unit == RANGE
                and not call.frame.is_whole
                and isinstance(call.function, exp.FirstValue | exp.LastValue | exp.NthValue)
                and not _is_first_of_all(call)
            ):
                self._range_ends(rows, call, order, factors)
        orders = list(positions)
        numbers_only = all(isinstance(call.function, exp.RowNumber) for call in calls)
        looks_back = not factors or all(_ends_with_peers(call) for call in calls)
        is_narrow = len(orders) == 1 and orders[0] and looks_back and not most
        edge = orders[0][0] if is_narrow else None
        numbers = numbered(
            self.lowering,
            rows,
            self.partition,
            [(position, order) for order, position in positions.items()],
            self.ties,
            most,
            factors,
            [*lifted(factors), *filter(None, dense.values())],
            Narrowed(edge) if edge is not None else None,
            is_unique=self.is_unique,
            recomputed="" if most or edge is not None else whole_partition(calls),
        )
        if numbers_only or not later:
            return numbers
        return self._at_positions(numbers, later, positions, dense, bindings)

    def _ntile(self, rows: Rows, call: Call, position: str, factors: list[Expr]) -> ScalarExpr:
        """The first total % n buckets have one row more than total // n."""
        buckets = Const(whole_number(call.function.this, "NTILE", 1))
        total = self._total(rows, factors)
        small, rest = apply("div", total, buckets), apply("mod", total, buckets)
        at = apply("-", Ref(position), Const(1))
        large = apply("*", rest, apply("+", small, Const(1)))
        in_large = apply("div", at, apply("+", small, Const(1)))
        in_small = apply("+", rest, apply("div", apply("-", at, large), small))
        bucket = apply("case", apply("<", at, large), in_large, in_small)
        return apply("+", bucket, Const(1))

    def _range_ends(
        self, rows: Rows, call: Call, order: Sequence[OrderKey], factors: list[Expr]
    ) -> None:
        """How many rows are before the frame and up to its end, for FIRST_VALUE and its like."""
        branches, shown = self._frame(rows, call, order)
        size = counted(self.partition, shown, branches)
        self.frame_sizes[call.variable] = self._lift("in_frame", size, factors)
        if call.frame.start == CURRENT:
            self.frame_starts[call.variable] = self._before(rows, order, factors)
        elif call.frame.start.offset is not None:
            before = self._before_start(rows, call, order)
            self.frame_starts[call.variable] = self._lift("before_frame", before, factors)

    def _at_positions(
        self,
        rows: Rows,
        calls: Sequence[Call],
        positions: Mapping[tuple[OrderKey, ...], str],
        dense: Mapping[tuple[OrderKey, ...], str],
        bindings: dict[str, ScalarExpr],
    ) -> Rows:
        factors: list[Expr] = []
        for call in calls:
            order = tuple(self._order(call))
            position = positions[order]
            if isinstance(call.function, NEIGHBORS):
                bindings[call.variable] = self._ordinal(
                    rows, call, position, dense.get(order, ""), factors
                )
            else:
                frame = self._counted_frame(rows, call, position, dense.get(order, ""))
                bindings[call.variable] = self.aggregate(call, (frame,), self.partition, factors)
        narrowed = self._narrowed(calls, positions)
        recomputed = "" if narrowed is not None else whole_partition(calls)
        return made_rows(
            self.lowering,
            rows,
            self.partition,
            factors,
            lifted(factors),
            narrowed,
            recomputed=recomputed,
        )

    def _narrowed(
        self, calls: Sequence[Call], positions: Mapping[tuple[OrderKey, ...], str]
    ) -> Narrowed | None:
        """The rows that calls may have other values at: from the first change on, or n rows before
        it, or with its peers."""
        ((order, position), *more) = positions.items()
        if more:
            return None
        if any(_ends_with_peers(call) for call in calls):
            looks_back = all(_ends_with_peers(call) or self._reach(call) == 0 for call in calls)
            return Narrowed(order[0]) if looks_back and order else None
        reaches = [self._reach(call) for call in calls]
        known = [reach for reach in reaches if reach is not None]
        if len(known) < len(reaches):
            return None
        return Narrowed(OrderKey(position), max(known))

    def _reach(self, call: Call) -> int | None:
        """How many rows a value looks ahead; None: to the end."""
        if isinstance(call.function, exp.Lag | exp.Lead):
            # A row that comes at the end gives the last n rows what they lead to.
            return max(ahead_of(call.function), 0)
        if _is_first_of_all(call):
            return 0
        if call.frame.unit != ROWS or call.frame.exclude is not None:
            return None
        ahead = whole_offset(call.frame.end, "ROWS")
        return None if ahead is None else max(ahead, 0)

    def _counted_frame(self, rows: Rows, call: Call, position: str, dense: str) -> Branch:
        """The rows of a frame that goes by positions, or by numbers of peers."""
        frame = call.frame
        branch, names = rows.branch(self.variables, self.partition)
        tests: list[Expr] = []
        if frame.unit == RANGE:
            order = self._order(call)
            tests += self._by_values(call, order, names)
        else:
            number = position if frame.unit == ROWS else dense
            for bound, operator in ((frame.start, ">="), (frame.end, "<=")):
                offset = whole_offset(bound, frame.unit)
                if offset is not None and number:
                    limit = apply("+", Ref(number), Const(offset))
                    tests.append(cond(apply(operator, Ref(names[number]), limit)))
        if frame.exclude is not None:
            same_row = apply("=", Ref(names[position]), Ref(position))
            is_peer: ScalarExpr = (
                apply("=", Ref(names[dense]), Ref(dense)) if dense else Const(True)
            )
            if frame.exclude == "CURRENT ROW":
                left_out: ScalarExpr = same_row
            elif frame.exclude == "GROUP":
                left_out = is_peer
            else:
                left_out = apply("and", is_peer, apply("not", same_row))
            tests.append(cond(apply("not", left_out)))
        return Branch((*branch.factors, *tests), branch.bindings)

    def _by_values(
        self, call: Call, order: Sequence[OrderKey], names: Mapping[str, str]
    ) -> list[Expr]:
        """A RANGE frame as one condition on another row."""
        tests: list[Expr] = []
        for bound, is_start in ((call.frame.start, True), (call.frame.end, False)):
            if bound.offset is None or not order:
                continue
            test: ScalarExpr = Const(True)
            keys = list(order)
            if bound != CURRENT:
                key = keys.pop()
                at_bound = ">=" if is_start != key.descending else "<="
                test = self._against(bound, at_bound, names, key, call)
                if keys:
                    is_absent = apply("=", Ref(keys[0].variable), Const(1))
                    test = apply("or", is_absent, test)
            for key in reversed(keys):
                operator = key.before if not is_start else {"<": ">", ">": "<"}[key.before]
                other, own = Ref(names[key.variable]), Ref(key.variable)
                nearer = apply(operator, other, own)
                test = apply("or", nearer, apply("and", apply("==", other, own), test))
            tests.append(cond(test))
        return tests

    def _ordinal(
        self, rows: Rows, call: Call, position: str, dense: str, factors: list[Expr]
    ) -> ScalarExpr:
        """The value of the row at another position."""
        function = call.function
        value = call.operands[id(function.this)]
        if isinstance(function, exp.Lag | exp.Lead):
            ahead = ahead_of(function)
            at = apply("+", Ref(position), Const(ahead))
            choice = self._value_at(rows, value, position, at, factors)
            default = function.args.get("default")
            target = self.types[call.variable]
            result = convert(Typed(choice, value.type), target, call.node).scalar
            if default is None:
                return result
            other = convert(call.operands[id(default)], target, call.node).scalar
            inside = apply("<=", Const(1), at)
            if ahead > 0:
                inside = apply("<=", at, self._total(rows, factors))
            return apply("case", inside, result, other)
        if _is_first_of_all(call):
            return self._value_at(rows, value, position, Const(1), factors)
        first, last = self._ends(rows, call, position, dense, value, factors)
        if isinstance(function, exp.NthValue):
            number = whole_number(function.args.get("offset"), "NTH_VALUE", 1)
            at = apply("+", first, Const(number - 1))
        else:
            at = first if isinstance(function, exp.FirstValue) else last
        choice = self._value_at(rows, value, position, at, factors)
        inside = apply("and", apply("<=", first, at), apply("<=", at, last))
        return apply("case", inside, choice, NULL)

    def _ends(
        self,
        rows: Rows,
        call: Call,
        position: str,
        dense: str,
        value: Typed,
        factors: list[Expr],
    ) -> tuple[ScalarExpr, ScalarExpr]:
        """The positions at which a frame begins and ends."""
        frame = call.frame
        if frame.exclude is None and not call.ignores_nulls:
            if frame.is_whole:
                return Const(1), self._total(rows, factors)
            if frame.unit == ROWS:
                before, after = whole_offset(frame.start, ROWS), whole_offset(frame.end, ROWS)
                start: ScalarExpr = Const(1)
                if before is not None:
                    shifted = apply("+", Ref(position), Const(before))
                    start = apply("case", apply("<", shifted, Const(1)), Const(1), shifted)
                total = self._total(rows, factors)
                end = total
                if after is not None:
                    shifted = apply("+", Ref(position), Const(after))
                    end = apply("case", apply("<", total, shifted), total, shifted)
                return start, end
            if call.variable in self.frame_sizes:
                skipped = self.frame_starts.get(call.variable, Const(0))
                size = self.frame_sizes[call.variable]
                return apply("+", skipped, Const(1)), apply("+", skipped, size)
        ends: list[ScalarExpr] = []
        for kind in ("min", "max"):
            branch = self._counted_frame(rows, call, position, dense)
            tests: list[Expr] = []
            if call.ignores_nulls:
                tests = [cond(apply("not", apply("is_null", branch.resolve(value.scalar))))]
            other = branch.bindings[position]
            assert isinstance(other, Ref)
            body = sum_over((*self.partition, other.name), product((*branch.factors, *tests)))
            variable = self.variables.fresh("frame_end", nullable=True)
            factors.append(extreme(variable, kind, other.name, body))
            ends.append(Ref(variable))
        return ends[0], ends[1]

    def _value_at(
        self, rows: Rows, value: Typed, position: str, at: ScalarExpr, factors: list[Expr]
    ) -> ScalarExpr:
        """The value of the row at a position, NULL if there is none."""
        ordinal = self.variables.fresh("place", nullable=self.variables.can_be_null(at))
        factors.append(assign(ordinal, at))
        branch, names = rows.branch(self.variables, self.partition)
        target = self.variables.fresh("value", nullable=True)
        same = cond(apply("==", Ref(names[position]), Ref(ordinal)))
        content = assign(target, branch.resolve(value.scalar))
        body = sum_over(
            (*self.partition, ordinal, target), product((*branch.factors, same, content))
        )
        variable = self.variables.fresh("found", nullable=True)
        factors.append(extreme(variable, "max", target, body))
        return Ref(variable)


def _is_first_of_all(call: Call) -> bool:
    """FIRST_VALUE over a frame from the partition's first row to the current one or its last."""
    frame = call.frame
    is_open = frame.start.offset is None and (frame.end.offset is None or frame.end == CURRENT)
    is_first = isinstance(call.function, exp.FirstValue) and not call.ignores_nulls
    return is_first and is_open and frame.exclude is None


def _ends_with_peers(call: Call) -> bool:
    """LAST_VALUE and NTH_VALUE over the default frame: nothing after the row's peers matters."""
    is_neighbor = isinstance(call.function, exp.LastValue | exp.NthValue)
    return is_neighbor and not call.ignores_nulls and call.frame == UP_TO_PEERS
