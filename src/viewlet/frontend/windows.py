"""Window functions: what stands before OVER becomes values beside the rows (window_rows.py).

RANK()             1 + rows of the partition before           a range count
DENSE_RANK()       1 + different order keys before
ROW_NUMBER()       the position; ties by the other columns that the query uses
SUM(x) OVER (...)  the sum over the frame's rows              a range sum
LAG(x), NTH_VALUE  the value at another position              a lookup
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from viewlet.calculus.expr import (
    Cond,
    Expr,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
    sum_of,
    sum_over,
)
from viewlet.calculus.scope import inputs
from viewlet.errors import UnsupportedError
from viewlet.frontend.aggregates import Grouped, Lifts
from viewlet.frontend.context import Lowering
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.products import Branch, extended, keyed, product, summed
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import fault, sql_of
from viewlet.frontend.types import (
    Typed,
    arithmetic,
    as_number,
    comparison,
    convert,
    interval_literal,
    meeting_type,
    shift,
)
from viewlet.frontend.window_frames import (
    CURRENT,
    GROUPS,
    RANGE,
    ROWS,
    UP_TO_PEERS,
    Frame,
    FrameBound,
    whole_number,
    whole_offset,
    window_text,
)
from viewlet.frontend.window_rows import (
    Narrowed,
    OrderKey,
    Rows,
    as_columns,
    at_most_before,
    counted,
    inner_rows,
    lifted,
    made_rows,
    numbered,
    order_keys,
    others,
    peers,
)
from viewlet.functions import NULL, Apply, Const, Ref, ScalarExpr, apply, free_variables
from viewlet.schema import BIGINT, DOUBLE, Kind, Type

_RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_NUMBERS = (exp.RowNumber, exp.Ntile)
_PLACES = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


@dataclass(frozen=True)
class OrderValue:
    """ORDER BY one expression of a window."""

    value: Typed
    descending: bool
    nulls_first: bool


@dataclass
class Call:
    """One function over one window, with what it needs of a row."""

    variable: str
    function: exp.Expr
    filter: exp.Expr | None
    ignores_nulls: bool
    partition: tuple[Typed, ...]
    order: tuple[OrderValue, ...]
    frame: Frame
    operands: dict[int, Typed]
    node: exp.Window

    @property
    def needs_positions(self) -> bool:
        """Whether its value is found by the position of rows."""
        if isinstance(self.function, _RANKS):
            return False
        if isinstance(self.function, (*_NUMBERS, *_PLACES)):
            return True
        return self.frame.unit != RANGE or self.frame.exclude is not None

    @property
    def scalars(self) -> list[ScalarExpr]:
        """Everything that is taken from a row."""
        values = [*self.partition, *(o.value for o in self.order), *self.operands.values()]
        return [value.scalar for value in values]


class Windows:
    """The window functions of one SELECT: collected while its scalars are lowered, then made."""

    def __init__(
        self,
        lowering: Lowering,
        named: Mapping[str, exp.Window],
        scope: Scope,
        branches: tuple[Branch, ...],
    ) -> None:
        self.lowering = lowering
        self.variables = lowering.variables
        self.named = named
        self.scope = scope
        self.branches = branches
        self.calls: dict[exp.Window, Call] = {}
        self.types: dict[str, Type] = {}

    def value(self, node: exp.Window, scalars: RowScalars) -> Typed:
        """A variable that stands for the function's value until the rows are made."""
        if node not in self.calls:
            self.calls[node] = self._call(node, scalars)
        variable = self.calls[node].variable
        return Typed(Ref(variable), self.types[variable])

    def _call(self, node: exp.Window, scalars: RowScalars) -> Call:
        function, filter_, ignores = node.this, None, False
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            if isinstance(function, exp.Filter):
                filter_ = function.expression.this
            ignores |= isinstance(function, exp.IgnoreNulls)
            function = function.this
        text = window_text(node, self.named)
        operands = {id(part): scalars.lower(part) for part in _operands(function)}
        if filter_ is not None:
            if isinstance(function, (*_RANKS, *_NUMBERS, *_PLACES)):
                raise fault(UnsupportedError, "FILTER belongs to an aggregate", node)
            operands[id(filter_)] = scalars.boolean(filter_, "FILTER")
        order = tuple(self._ordered(part, scalars) for part in text.order)
        partition = tuple(scalars.lower(part) for part in text.partition)
        if ignores and isinstance(function, exp.Lag | exp.Lead | exp.NthValue):
            raise fault(
                UnsupportedError,
                f"IGNORE NULLS of {function.sql_name()} is not supported",
                node,
                "filter the NULLs in a subquery first",
            )
        if ignores and not isinstance(function, _PLACES):
            raise fault(
                UnsupportedError, "IGNORE NULLS belongs to FIRST_VALUE and LAST_VALUE", node
            )
        type_, nullable = self._type(function, filter_, operands, node)
        variable = self.variables.fresh(_hint(function), nullable=nullable, double=type_ == DOUBLE)
        self.types[variable] = type_
        return Call(
            variable, function, filter_, ignores, partition, order, text.frame, operands, node
        )

    def _ordered(self, node: exp.Ordered, scalars: RowScalars) -> OrderValue:
        value = scalars.lower(node.this)
        descending = bool(node.args.get("desc"))
        first = node.args.get("nulls_first")
        return OrderValue(value, descending, descending if first is None else bool(first))

    def _type(
        self,
        function: exp.Expr,
        filter_: exp.Expr | None,
        operands: dict[int, Typed],
        node: exp.Window,
    ) -> tuple[Type, bool]:
        if isinstance(function, exp.PercentRank | exp.CumeDist):
            return DOUBLE, False
        if isinstance(function, (*_RANKS, *_NUMBERS)):
            return BIGINT, False
        if isinstance(function, _PLACES):
            value = operands[id(function.this)]
            default = function.args.get("default")
            if default is not None:
                return meeting_type([value, operands[id(default)]], node, "LAG and LEAD"), True
            return value.type, True
        if not isinstance(function, exp.AggFunc):
            raise fault(UnsupportedError, f"{sql_of(function)} is no window function", node)
        probe = _Frames(self, operands, self.branches, (), [])
        return probe.aggregate(function, filter_).type, True

    # Rows.

    def rows(
        self,
        branches: tuple[Branch, ...],
        uses: Iterable[ScalarExpr],
        needs: Iterable[str],
        most: Mapping[str, int],
        key: Sequence[str] | None,
    ) -> tuple[Branch, ...]:
        """The rows with the values of all calls.

        `uses` and `needs` are scalars and variables that stand beside them, `most` says up to which
        value a call's rows are wanted, `key` are variables that no two rows share.
        """
        calls = list(self.calls.values())
        scalars = [*uses, *(s for call in calls for s in call.scalars)]
        given = frozenset[str]().union(*(b.own | b.bindings.keys() for b in branches))
        names = set(needs).union(*(free_variables(s) for s in scalars)) & given
        names |= set(key or ())
        columns = as_columns(sorted(names))
        partitions: dict[tuple[ScalarExpr, ...], list[Call]] = {}
        for call in calls:
            columns += [("partition", value) for value in call.partition]
            columns += [(name, value) for name, value, _ in self.order_columns(call)]
            partitions.setdefault(tuple(v.scalar for v in call.partition), []).append(call)
        bound, values, keys = keyed(self.variables, branches, columns)
        final = {
            before.scalar: after.scalar for (_, before), after in zip(columns, values, strict=True)
        }
        rows = inner_rows(self.lowering, keys, summed(self.variables, keys, bound))
        bindings: dict[str, ScalarExpr] = {}
        ties = tuple(key) if key is not None else tuple(n for n in keys if n in names)
        for members in partitions.values():
            stage = _Stage(self, final, ties, key is not None, most)
            rows = stage.made(rows, members, bindings)
        return (Branch((rows.expr,), bindings),)

    def order_columns(self, call: Call) -> list[tuple[str, Typed, bool]]:
        """The order of a call as keys that are never NULL, each with its direction."""
        is_shifted = any(b.offset is not None and b != CURRENT for b in call.frame.bounds)
        return [
            column
            for order in call.order
            for column in order_keys(
                self.variables,
                order.value,
                order.descending,
                order.nulls_first,
                is_shifted=is_shifted,
            )
        ]


def _operands(function: exp.Expr) -> list[exp.Expr]:
    """What a function takes from each row."""
    if isinstance(function, (*_RANKS, *_NUMBERS)):
        return []
    if isinstance(function, _PLACES):
        default = function.args.get("default")
        return [function.this, *([default] if default is not None else [])]
    operand = function.args.get("this")
    if isinstance(operand, exp.Distinct):
        return list(operand.expressions)
    if operand is None or isinstance(operand, exp.Star):
        return []
    return [operand, *(function.expressions if isinstance(function, exp.Count) else [])]


def _hint(function: exp.Expr) -> str:
    return function.sql_name().lower() if isinstance(function, exp.Func) else "window"


class _Given(RowScalars):
    """Operands that were lowered when the call was met."""

    def __init__(self, lowering: Lowering, scope: Scope, operands: Mapping[int, Typed]) -> None:
        super().__init__(lowering, scope)
        self._operands = operands

    def lower(self, node: exp.Expr) -> Typed:
        return self._operands[id(node)]

    def conditions(self, node: exp.Expr) -> list[Expr]:
        return [cond(self._operands[id(node)].scalar)]


class _Frames(Grouped):
    """Aggregates over the rows of a frame, given as branches."""

    def __init__(
        self,
        windows: Windows,
        operands: Mapping[int, Typed],
        branches: tuple[Branch, ...],
        keys: tuple[str, ...],
        factors: list[Expr],
    ) -> None:
        sink = Lifts(windows.variables, factors)
        super().__init__(windows.lowering, windows.scope, branches, (), keys, True, sink)
        self._given = _Given(windows.lowering, windows.scope, operands)

    def row_scalars(self, node: exp.Expr) -> RowScalars:
        return self._given


@dataclass
class _Stage:
    """The calls over one partition."""

    windows: Windows
    final: Mapping[ScalarExpr, ScalarExpr]
    ties: tuple[str, ...]
    is_unique: bool
    most: Mapping[str, int]
    partition: tuple[str, ...] = ()
    totals: dict[str, str] = field(default_factory=dict)

    @property
    def variables(self):  # type: ignore[no-untyped-def]
        return self.windows.variables

    def made(self, rows: Rows, calls: Sequence[Call], bindings: dict[str, ScalarExpr]) -> Rows:
        """The rows with the values of the calls, to which the calls' variables are bound."""
        self.partition = self._names(value.scalar for value in calls[0].partition)
        over_rows = [call for call in calls if not call.needs_positions]
        positional = [call for call in calls if call.needs_positions]
        if over_rows:
            rows = self._over_rows(rows, over_rows, bindings)
        if positional:
            rows = self._over_positions(rows, positional, bindings)
        return rows

    def _names(self, scalars: Iterable[ScalarExpr]) -> tuple[str, ...]:
        """The variables of partition keys; constants make no partitions."""
        found = (self.final[scalar] for scalar in scalars)
        return tuple(dict.fromkeys(s.name for s in found if isinstance(s, Ref)))

    def _order(self, call: Call) -> list[OrderKey]:
        keys = []
        for _, value, descending in self.windows.order_columns(call):
            scalar = self.final[value.scalar]
            if isinstance(scalar, Ref) and scalar.name not in self.partition:
                keys.append(OrderKey(scalar.name, descending))
        return keys

    # Over the rows as they are.

    def _over_rows(
        self, rows: Rows, calls: Sequence[Call], bindings: dict[str, ScalarExpr]
    ) -> Rows:
        factors: list[Expr] = []
        edges: set[OrderKey | None] = set()
        for call in calls:
            order = self._order(call)
            if isinstance(call.function, _RANKS):
                scalar = self._rank(rows, call, order, factors)
            else:
                branches, shown = self._frame(rows, call, order)
                frames = _Frames(
                    self.windows, call.operands, branches, (*self.partition, *shown), factors
                )
                scalar = frames.aggregate(call.function, call.filter).scalar
            bindings[call.variable] = scalar
            limit = self.most.get(call.variable)
            if limit is not None and isinstance(call.function, exp.Rank | exp.DenseRank):
                factors.append(cond(apply("<=", scalar, Const(limit))))
                if order and isinstance(call.function, exp.Rank):
                    factors[:0] = at_most_before(
                        self.variables, rows, self.partition, order[0], limit
                    )
            looks_back = isinstance(call.function, exp.Rank | exp.DenseRank) or (
                call.frame == UP_TO_PEERS and not isinstance(call.function, _RANKS)
            )
            edges.add(order[0] if order and looks_back else None)
        used = frozenset[str]().union(*(free_variables(bindings[c.variable]) for c in calls))
        values = [name for name in lifted(factors) if name in used]
        (edge,) = edges if len(edges) == 1 else (None,)
        if any(call.variable in self.most for call in calls):
            # The first rows are few: they are replaced as a whole, and found from the first on.
            edge = None
        return made_rows(
            self.windows.lowering,
            rows,
            self.partition,
            factors,
            values,
            Narrowed(edge) if edge is not None else None,
        )

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
            return (rows.branch(variables, self.partition)[0],), ()
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
        (value,) = call.order
        typed = Typed(Ref(key.variable), value.value.type)
        other = Typed(Ref(names[key.variable]), value.value.type)
        tests: list[Expr] = []
        outside: list[Branch] = []
        for bound, is_start in ((frame.start, True), (frame.end, False)):
            if bound.offset is None:
                if absent:
                    flag = absent[0]
                    turned = OrderKey(flag.variable, flag.descending == is_start)
                    outside += others(
                        variables,
                        rows,
                        self.partition,
                        [flag if is_start else OrderKey(flag.variable, not flag.descending)],
                    )
                continue
            limit = self._limit(typed, bound, key.descending, call)
            operator = ">=" if is_start != key.descending else "<="
            tests.append(cond(comparison(operator, other, limit, call.node).scalar))
        inside = Branch((*branch.factors, *tests), branch.bindings)
        return (inside, *outside), shown

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
        by = convert_number(offset)
        if value.type.kind is Kind.DATE and by.type.kind is not Kind.DECIMAL:
            return Typed(apply("+" if is_plus else "-", value.scalar, by.scalar), value.type)
        number = as_number(value, call.node, "RANGE with an offset")
        return arithmetic("+" if is_plus else "-", number, by, call.node)

    # Over positions.

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
        later = [call for call in calls if not isinstance(call.function, _NUMBERS)]
        dense: dict[tuple[OrderKey, ...], str] = {}
        for call in later:
            order = tuple(self._order(call))
            if (call.frame.unit == GROUPS or call.frame.exclude) and order not in dense:
                scalar = self._dense(rows, order, factors)
                dense[order] = scalar.name if isinstance(scalar, Ref) else ""
            if (
                call.frame.unit == RANGE
                and not call.frame.is_whole
                and isinstance(call.function, _PLACES)
            ):
                self._range_ends(rows, call, order, factors)
        orders = list(positions)
        numbers_only = all(isinstance(call.function, exp.RowNumber) for call in calls)
        is_narrow = len(orders) == 1 and orders[0] and not factors and not most
        edge = orders[0][0] if is_narrow else None
        numbers = numbered(
            self.windows.lowering,
            rows,
            self.partition,
            [(position, order) for order, position in positions.items()],
            self.ties,
            most,
            factors,
            lifted(factors),
            Narrowed(edge) if edge is not None else None,
            is_unique=self.is_unique,
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
        inside = self._lift("in_frame", counted(self.partition, shown, branches), factors)
        assert isinstance(inside, Ref)
        self.totals[call.variable + " size"] = inside.name
        if call.frame.start.offset is not None:
            first = Frame(RANGE, call.frame.start, call.frame.end)
            turned = [OrderKey(k.variable, k.descending) for k in order]
            before = self._before(rows, turned, factors) if call.frame.start == CURRENT else None
            if before is None:
                raise fault(
                    UnsupportedError,
                    f"{sql_of(call.function)} over RANGE with an offset is not supported",
                    call.node,
                    "use a frame of ROWS",
                )
            assert isinstance(before, Ref) and first
            self.totals[call.variable + " before"] = before.name

    def _at_positions(
        self,
        rows: Rows,
        calls: Sequence[Call],
        positions: Mapping[tuple[OrderKey, ...], str],
        dense: Mapping[tuple[OrderKey, ...], str],
        bindings: dict[str, ScalarExpr],
    ) -> Rows:
        factors: list[Expr] = []
        values: list[str] = []
        reach: int | None = 0
        for call in calls:
            order = tuple(self._order(call))
            position = positions[order]
            if isinstance(call.function, _PLACES):
                bindings[call.variable] = self._place(
                    rows, call, position, dense.get(order, ""), factors
                )
            else:
                frame = self._counted_frame(rows, call, position, dense.get(order, ""))
                frames = _Frames(self.windows, call.operands, (frame,), (*self.partition,), factors)
                bindings[call.variable] = frames.aggregate(call.function, call.filter).scalar
            ahead = self._reach(call)
            reach = None if ahead is None or reach is None else max(reach, ahead)
        values = lifted(factors)
        (position, *more) = positions.values()
        narrowed = None
        if reach is not None and not more:
            narrowed = Narrowed(OrderKey(position), reach)
        return made_rows(self.windows.lowering, rows, self.partition, factors, values, narrowed)

    def _reach(self, call: Call) -> int | None:
        """How many rows a value looks ahead; None: to the end."""
        if isinstance(call.function, exp.Lag):
            return 0
        if isinstance(call.function, exp.Lead):
            # The row count decides where LEAD ends.
            return None
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
            if bound != CURRENT:
                raise fault(
                    UnsupportedError,
                    "RANGE with an offset and EXCLUDE is not supported",
                    call.node,
                    "use a frame of ROWS or GROUPS",
                )
            test: ScalarExpr = Const(True)
            for key in reversed(order):
                operator = key.before if not is_start else {"<": ">", ">": "<"}[key.before]
                other, own = Ref(names[key.variable]), Ref(key.variable)
                nearer = apply(operator, other, own)
                test = apply("or", nearer, apply("and", apply("==", other, own), test))
            tests.append(cond(test))
        return tests

    def _place(
        self, rows: Rows, call: Call, position: str, dense: str, factors: list[Expr]
    ) -> ScalarExpr:
        """The value of the row at another position."""
        function = call.function
        value = call.operands[id(function.this)]
        if isinstance(function, exp.Lag | exp.Lead):
            offset = function.args.get("offset")
            by = _signed_number(offset) if offset is not None else 1
            at = apply("+", Ref(position), Const(by if isinstance(function, exp.Lead) else -by))
            found = self._value_at(rows, value, position, at, factors)
            default = function.args.get("default")
            target = self.windows.types[call.variable]
            result = convert(Typed(found, value.type), target, call.node).scalar
            if default is None:
                return result
            other = convert(call.operands[id(default)], target, call.node).scalar
            inside = apply("<=", Const(1), at)
            if (by > 0) == isinstance(function, exp.Lead):
                inside = apply("<=", at, self._total(rows, factors))
            return apply("case", inside, result, other)
        first, last = self._ends(rows, call, position, dense, value, factors)
        if isinstance(function, exp.NthValue):
            number = whole_number(function.args.get("offset"), "NTH_VALUE", 1)
            at = apply("+", first, Const(number - 1))
        else:
            at = first if isinstance(function, exp.FirstValue) else last
        found = self._value_at(rows, value, position, at, factors)
        inside = apply("and", apply("<=", first, at), apply("<=", at, last))
        return apply("case", inside, found, NULL)

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
            if call.variable + " size" in self.totals:
                size = Ref(self.totals[call.variable + " size"])
                before_name = self.totals.get(call.variable + " before")
                skipped: ScalarExpr = Const(0) if before_name is None else Ref(before_name)
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
        place = self.variables.fresh("place", nullable=self.variables.can_be_null(at))
        factors.append(assign(place, at))
        branch, names = rows.branch(self.variables, self.partition)
        target = self.variables.fresh("value", nullable=True)
        same = cond(apply("==", Ref(names[position]), Ref(place)))
        held = assign(target, branch.resolve(value.scalar))
        body = sum_over((*self.partition, place, target), product((*branch.factors, same, held)))
        variable = self.variables.fresh("found", nullable=True)
        factors.append(extreme(variable, "max", target, body))
        return Ref(variable)


def convert_number(node: exp.Literal) -> Typed:
    """A constant offset."""
    from viewlet.frontend.types import number_literal

    return number_literal(node.name)


def _signed_number(node: exp.Expr) -> int:
    if isinstance(node, exp.Neg):
        return -whole_number(node.this, "LAG and LEAD")
    return whole_number(node, "LAG and LEAD")


def with_windows(
    lowering: Lowering,
    windows: Windows,
    branches: tuple[Branch, ...],
    columns: Sequence[tuple[str, Typed]],
    tests: Sequence[Expr],
    key: Sequence[str] | None,
) -> tuple[Branch, ...]:
    """Rows with the values of their windows, those that QUALIFY keeps."""
    uses = [typed.scalar for _, typed in columns]
    needs = frozenset[str]().union(*(inputs(test) for test in tests))
    rows = windows.rows(branches, uses, needs, _most(tests), key)
    return extended(lowering.variables, rows, tests)


def _most(tests: Sequence[Expr]) -> dict[str, int]:
    """{n <= 3}, {n < 4} and {n = 3}: the greatest value of n that passes"""
    found: dict[str, int] = {}
    for test in tests:
        if not isinstance(test, Cond) or not isinstance(test.scalar, Apply):
            continue
        operator, arguments = test.scalar.function, test.scalar.arguments
        if len(arguments) != 2:
            continue
        left, right = arguments
        if isinstance(left, Const) and operator in MIRRORED:
            left, right, operator = right, left, MIRRORED[operator]
        if not isinstance(left, Ref) or not isinstance(right, Const):
            continue
        if not isinstance(right.value, int) or operator not in ("<", "<=", "=", "=="):
            continue
        most = right.value - 1 if operator == "<" else right.value
        found[left.name] = min(most, found.get(left.name, most))
    return found


MIRRORED = {">": "<", ">=": "<=", "=": "=", "==": "=="}
