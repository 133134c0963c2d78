"""Aggregates as sums over a block, and the scalars that finish them.

    COUNT(*)            Sum[g](Q)
    COUNT(e)            Sum[g](Q * {not(is_null(e))})
    SUM(e)              Sum[g](Q * e), NULL where no e was
    COUNT(DISTINCT e)   Sum[g](Exists(Sum[g, e](Q * {not(is_null(e))})))
    MIN(e)              (m := min e in Sum[g, e](Q * {not(is_null(e))}))
    AVG, STDDEV, ...    formulas over those

Where the sums are kept is the sink's business: components of a view, or lifts in a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sqlglot import exp

from viewlet.calculus.expr import (
    ZERO,
    Expr,
    Value,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
    sum_of,
    sum_over,
)
from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.bit_aggregates import KINDS as BIT_AGGREGATES
from viewlet.frontend.bit_aggregates import bits_of
from viewlet.frontend.context import Lowering
from viewlet.frontend.group_moments import GroupMoments, GroupPairs
from viewlet.frontend.moments import FORMULAS
from viewlet.frontend.nested import OVER_ONLY, RowScalars
from viewlet.frontend.order_aggregates import OrderAggregates, is_order_aggregate
from viewlet.frontend.pair_aggregates import PAIRED, further_operands
from viewlet.frontend.products import (
    Branch,
    Variables,
    extended,
    keyed,
    not_null,
    product,
    summed,
    without_null_tests,
)
from viewlet.frontend.ring_values import double_value, ring_value
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import fault, sql_of, walk_level
from viewlet.frontend.types import Typed, as_boolean, as_number, convert, to_double
from viewlet.functions import NULL, Apply, Const, Ref, ScalarExpr, apply
from viewlet.schema import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INTEGER, Kind, Type

# Any value will do for ANY_VALUE, and the least is the same one on every engine.
EXTREMES = {exp.Min: "min", exp.Max: "max", exp.AnyValue: "min"}

_SPREADS: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.Stddev: (True, True),
    exp.StddevSamp: (True, True),
    exp.StddevPop: (True, False),
    exp.Variance: (False, True),
    exp.VariancePop: (False, False),
}
"""Whether the root is taken, and whether of a sample."""

_SPREAD_PARTS = (
    ("sum_high", "x_high"),
    ("sum_low", "x_low"),
    ("squares_high", "square_high"),
    ("squares_middle", "square_middle"),
    ("squares_low", "square_low"),
)
"""The sums that they are computed from, in the order in which `deviations` takes them."""


class Sink(Protocol):
    """Takes sums and gives back what refers to them; equal sums are one."""

    def add(self, hint: str, body: Expr) -> ScalarExpr: ...

    def add_extreme(
        self, hint: str, kind: str, target: str, body: Expr, nullable: bool
    ) -> ScalarExpr: ...


class Components:
    """Sums as components of a view; extremes cannot be."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.names: dict[Expr, str] = {}

    def add(self, hint: str, body: Expr) -> ScalarExpr:
        if body not in self.names:
            self.names[body] = self.variables.fresh(hint)
        return Ref(self.names[body])

    def add_extreme(
        self, hint: str, kind: str, target: str, body: Expr, nullable: bool
    ) -> ScalarExpr:
        raise AssertionError("queries with MIN or MAX are lowered to rows")


class Lifts:
    """Sums as lifts, for an aggregate query that stands inside of another or has extremes."""

    def __init__(self, variables: Variables, factors: list[Expr]) -> None:
        self.variables = variables
        self.factors = factors
        self.lifted: dict[tuple[str, Expr], ScalarExpr] = {}

    def add(self, hint: str, body: Expr) -> ScalarExpr:
        key = ("sum", body)
        if isinstance(body, Value):
            return body.scalar
        if key not in self.lifted:
            variable = self.variables.fresh(hint)
            self.factors.append(lift(variable, body))
            self.lifted[key] = Ref(variable)
        return self.lifted[key]

    def add_extreme(
        self, hint: str, kind: str, target: str, body: Expr, nullable: bool
    ) -> ScalarExpr:
        key = (f"{kind} {target}", body)
        if body == ZERO:
            return NULL
        if key not in self.lifted:
            variable = self.variables.fresh(hint, nullable=nullable)
            self.factors.append(extreme(variable, kind, target, body))
            self.lifted[key] = Ref(variable)
        return self.lifted[key]


class Grouped(RowScalars):
    """Scalars over the groups of a block: group keys and aggregates."""

    def __init__(
        self,
        lowering: Lowering,
        scope: Scope,
        branches: tuple[Branch, ...],
        groups: Sequence[tuple[ScalarExpr, Typed]],
        keys: tuple[str, ...],
        total: bool,
        sink: Sink,
    ) -> None:
        self.rows = scope
        self.branches = branches
        self.groups = dict(groups)
        self.keys = keys
        self.total = total
        self.sink = sink
        outside = Scope(
            parent=scope.parent,
            sources=scope.sources,
            columns=scope.columns,
            common=scope.common,
            view=self.group_key,
        )
        super().__init__(lowering, outside)

    def group_key(self, column: Typed, node: exp.Expr) -> Typed:
        """What a column of the block is once its rows are grouped."""
        if column.scalar in self.groups:
            return self.groups[column.scalar]
        if isinstance(column.scalar, Const):
            return column
        raise not_grouped(node)

    def _grouping(self, node: exp.Grouping) -> Typed:
        """GROUPING(a, b): a bit for each key, 1 where this grouping does not have it."""
        bits = 0
        for argument in node.expressions:
            scalar = RowScalars(self.lowering, self.rows).lower(argument).scalar
            if scalar not in self.groups:
                raise fault(TypingError, f"{sql_of(argument)} is not in GROUP BY", argument)
            bits = 2 * bits + (self.groups[scalar].scalar == NULL)
        return Typed(Const(bits), INTEGER)

    def leaf(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if isinstance(node, exp.Filter):
            if is_order_aggregate(node.this):
                return self.picked(node.this, node.expression.this)
            if not isinstance(node.this, exp.AggFunc):
                raise fault(UnsupportedError, "FILTER belongs to an aggregate", node)
            return self.aggregate(node.this, node.expression.this)
        if is_order_aggregate(node):
            return self.picked(node, None)
        if isinstance(node, exp.AggFunc) and not isinstance(node, OVER_ONLY):
            return self.aggregate(node, None)
        if not isinstance(node, exp.Column | exp.Literal) and self.groups:
            key = self._group_expression(node)
            if key is not None:
                return key
        return super().leaf(node)

    def _group_expression(self, node: exp.Expr) -> Typed | None:
        """SELECT a + 1 ... GROUP BY a + 1"""
        if not any(isinstance(key, Apply) for key in self.groups):
            return None
        parts = list(walk_level(node))
        if any(isinstance(p, exp.AggFunc | exp.Query | exp.Window) for p in parts):
            return None
        columns = [p for p in parts if isinstance(p, exp.Column)]
        if not columns or not all(self.rows.owns(c) for c in columns):
            return None
        if isinstance(node, exp.Interval):
            return None
        return self.groups.get(RowScalars(self.lowering, self.rows).lower(node).scalar)

    # Aggregates.

    def aggregate(self, node: exp.AggFunc, filter_: exp.Expr | None) -> Typed:
        """SUM(x) FILTER (WHERE c) and the like: components of the view, and a scalar over them."""
        scalars = self.row_scalars(node)
        extra: list[Expr] = []
        if filter_ is not None:
            extra = scalars.conditions(filter_)
        # APPROX_COUNT_DISTINCT is exact here.
        operand, distinct, is_row = node.this, isinstance(node, exp.ApproxDistinct), False
        if isinstance(operand, exp.Distinct):
            distinct, operands = True, operand.expressions
            if len(operands) == 1 and isinstance(operands[0], exp.Tuple):
                is_row, operands = True, operands[0].expressions
        elif isinstance(node, exp.CountIf):
            operands, extra = [], [*extra, *scalars.conditions(operand)]
        elif operand is None or isinstance(operand, exp.Star):
            operands = []
        else:
            operands = [operand, *further_operands(node)]
        values = [scalars.lower(o) for o in operands]
        extra += scalars.take_prelude()
        branches = extended(self.variables, self.branches, extra)
        filtered = filter_ is not None
        if isinstance(node, exp.Count | exp.CountIf | exp.ApproxDistinct):
            return self._count(branches, values, distinct, is_row=is_row)
        expected = 2 if type(node) in PAIRED else 1
        if len(values) != expected:
            number = "two arguments" if expected == 2 else "one argument"
            raise fault(TypingError, f"{node.sql_name()} takes {number}", node)
        if expected == 2:
            return self._paired(node, branches, operands, values)
        if distinct and isinstance(node, exp.BitwiseXorAgg):
            branches, values = self._distinct(branches, values)
        (value,) = values
        if type(node) in EXTREMES:
            return self._extreme(EXTREMES[type(node)], branches, value, filtered)
        if isinstance(node, BIT_AGGREGATES):
            return bits_of(node, self.variables, self.keys, branches, value, self.sink)
        if isinstance(node, exp.LogicalAnd | exp.LogicalOr):
            return self._logical(node, branches, as_boolean(value, operands[0], "BOOL_AND/OR"))
        if not value.type.is_number and value.type.kind is not Kind.NULL:
            raise fault(
                TypingError,
                f"{node.sql_name()} needs a number, {sql_of(operands[0])} is {value.type}",
                operands[0],
            )
        nullable = filtered or self._nullable(branches, value)
        if distinct:
            branches, (value,) = self._distinct(branches, [value])
        if isinstance(node, exp.Sum):
            return self._sum(branches, value, nullable)
        if isinstance(node, exp.Avg):
            return self._average(branches, value)
        if type(node) in FORMULAS:
            moments = GroupMoments(self, branches, convert(value, DOUBLE, node))
            return Typed(FORMULAS[type(node)](moments), DOUBLE)
        return self._spread(node, branches, value)

    def picked(self, node: exp.Expr, filter_: exp.Expr | None) -> Typed:
        """MEDIAN(x), ARG_MAX(x, y) and the like: a value of the group, by its place in an order."""
        scalars = RowScalars(self.lowering, self.rows)
        tests = scalars.conditions(filter_) if filter_ is not None else []
        picking = OrderAggregates(self.lowering, self.keys, self.branches, self.sink.add_extreme)
        return picking.lower(node, scalars, tests)

    def row_scalars(self, node: exp.Expr) -> RowScalars:
        """What lowers the operands of an aggregate: scalars over the rows that it is of."""
        for part in walk_level(node):
            if part is not node and isinstance(part, exp.AggFunc):
                raise fault(UnsupportedError, "aggregates cannot be nested", part)
        return RowScalars(self.lowering, self.rows)

    def _nullable(self, branches: Sequence[Branch], value: Typed) -> bool:
        return any(self.variables.can_be_null(b.resolve(value.scalar), b.own) for b in branches)

    def _count(
        self,
        branches: tuple[Branch, ...],
        values: list[Typed],
        distinct: bool,
        *,
        is_row: bool = False,
    ) -> Typed:
        if distinct:
            rows, _ = self._distinct(branches, values, is_row=is_row)
            body = summed(self.variables, self.keys, rows)
            return Typed(self.sink.add("distinct", body), BIGINT)
        guards = [not_null(v.scalar) for v in values]
        body = summed(self.variables, self.keys, branches, *guards)
        return Typed(self.sink.add("number", body), BIGINT)

    def not_null_count(self, branches: tuple[Branch, ...], value: Typed) -> ScalarExpr:
        """Sum[g](Q * {not(is_null(value))})"""
        body = summed(self.variables, self.keys, branches, not_null(value.scalar))
        return self.sink.add("number", body)

    def _distinct(
        self, branches: tuple[Branch, ...], values: list[Typed], *, is_row: bool = False
    ) -> tuple[tuple[Branch, ...], list[Typed]]:
        """Exists(Sum[g, e](Q * {not(is_null(e))})): the values of each group once.

        A row (a, b) is a value even where its columns are NULL.
        """
        guards = [] if is_row else [not_null(v.scalar) for v in values]
        counted = extended(self.variables, branches, guards)
        columns = [("distinct_value", value) for value in values]
        bound, targets, names = keyed(self.variables, counted, columns)
        body = exists_of(summed(self.variables, (*self.keys, *names), bound))
        return ((Branch((body,)),) if body != ZERO else ()), targets

    def total_of(self, branches: tuple[Branch, ...], value: Typed) -> Expr:
        """Sum[g](Q * value)"""
        terms = []
        for branch in branches:
            own = branch.own
            scalar = without_null_tests(self.variables, branch.resolve(value.scalar), own)
            if value.type.kind is Kind.DOUBLE:
                weight = double_value(self.variables, scalar, branch)
            else:
                weight = ring_value(self.variables, scalar, own)
            if weight != ZERO:
                terms.append(sum_over(self.keys, product((*branch.factors, weight))))
        return sum_of(*terms)

    def _sum(self, branches: tuple[Branch, ...], value: Typed, nullable: bool) -> Typed:
        total = self.sink.add("sum", self.total_of(branches, value))
        if nullable or self.total:
            none = apply("=", self.not_null_count(branches, value), Const(0))
            total = apply("case", none, NULL, total)
        return Typed(total, sum_type(value.type))

    def _average(self, branches: tuple[Branch, ...], value: Typed) -> Typed:
        """Division by a count of 0 is the NULL that AVG of nothing is."""
        total = self.sink.add("sum", self.total_of(branches, value))
        number = self.not_null_count(branches, value)
        if value.type.kind is Kind.DECIMAL:
            number = apply("*", number, Const(10**value.type.scale))
        return Typed(apply("/", total, number), DOUBLE)

    def _spread(self, node: exp.Expr, branches: tuple[Branch, ...], value: Typed) -> Typed:
        """variance = (n * sum(x * x) - sum(x) ** 2) / n / n, over n - 1 of a sample

        The sums are those of parts of x and of x * x (functions.spreads). DECIMALs are their
        integers there: 10**scale times as large, for which the last division makes up.
        """
        root, sample = _SPREADS[type(node)]
        number = self.not_null_count(branches, value)
        spread = self.spread(branches, value.scalar, number)
        if value.type.scale:
            spread = apply("/", spread, Const(100.0**value.type.scale))
        divisor = apply("-", number, Const(1)) if sample else number
        result = apply("/", spread, divisor)
        return Typed(apply("sqrt", result) if root else result, DOUBLE)

    def spread(
        self, branches: tuple[Branch, ...], scalar: ScalarExpr, number: ScalarExpr
    ) -> ScalarExpr:
        """The sum of the squares around the mean."""
        parts = [
            self.sink.add(hint, self.total_of(branches, Typed(apply(function, scalar), DOUBLE)))
            for hint, function in _SPREAD_PARTS
        ]
        return apply("/", apply("deviations", number, *parts), number)

    def _paired(
        self,
        node: exp.AggFunc,
        branches: tuple[Branch, ...],
        operands: Sequence[exp.Expr],
        values: Sequence[Typed],
    ) -> Typed:
        """CORR(y, x) and the like, of the pairs without a NULL."""
        y, x = (
            to_double(as_number(value, operand, node.sql_name()))
            for value, operand in zip(values, operands, strict=True)
        )
        known = extended(self.variables, branches, [not_null(y.scalar), not_null(x.scalar)])
        type_, formula = PAIRED[type(node)]
        return Typed(formula(GroupPairs(self, known, y.scalar, x.scalar)), type_)

    def _logical(self, node: exp.Expr, branches: tuple[Branch, ...], value: Typed) -> Typed:
        """BOOL_AND: no value is false;  BOOL_OR: some value is true"""
        decisive = value.scalar
        if isinstance(node, exp.LogicalAnd):
            decisive = apply("not", decisive)
        body = summed(self.variables, self.keys, branches, cond(decisive))
        hits = self.sink.add("hits", body)
        operator = "=" if isinstance(node, exp.LogicalAnd) else ">"
        none = apply("=", self.not_null_count(branches, value), Const(0))
        return Typed(apply("case", none, NULL, apply(operator, hits, Const(0))), BOOLEAN)

    def _extreme(
        self, kind: str, branches: tuple[Branch, ...], value: Typed, filtered: bool
    ) -> Typed:
        counted = extended(self.variables, branches, [not_null(value.scalar)])
        nullable = self.total or filtered or self._nullable(branches, value)
        scalar = value.scalar
        plain = isinstance(scalar, Ref) and all(scalar.name in b.own for b in counted)
        if plain and isinstance(scalar, Ref) and scalar.name not in self.keys:
            target = scalar.name
        else:
            # A group key keeps its value outside of the lift, so the target needs its own name.
            target = self.variables.fresh(f"{kind}_value")
            counted = extended(self.variables, counted, [assign(target, scalar)])
        body = summed(self.variables, (*self.keys, target), counted)
        return Typed(self.sink.add_extreme(kind, kind, target, body, nullable), value.type)


def not_grouped(node: exp.Expr) -> Exception:
    """A column that is many values where a group has one."""
    return fault(
        TypingError,
        f"column {sql_of(node)} is neither grouped nor aggregated",
        node,
        f"add it to GROUP BY, or use it in an aggregate such as MIN({sql_of(node)})",
    )


def sum_type(type: Type) -> Type:
    """SUM of integers is BIGINT, of DECIMAL(p, s) DECIMAL(38, s), of DOUBLE DOUBLE."""
    if type.kind is Kind.DECIMAL:
        return DECIMAL(38, type.scale)
    return DOUBLE if type.kind is Kind.DOUBLE else BIGINT


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate is in the expression, outside of subqueries."""
    return any(True for _ in _aggregates(node))


def columns_outside(node: exp.Expr) -> set[str]:
    """Names of the columns that an expression reads of a group, not of its rows: a + SUM(b) -> a"""
    inside = {id(column) for part in _aggregates(node) for column in part.find_all(exp.Column)}
    return {column.name for column in node.find_all(exp.Column) if id(column) not in inside}


def has_window(node: exp.Expr) -> bool:
    """Whether a window function is in the expression, outside of subqueries."""
    return any(isinstance(part, exp.Window) for part in walk_level(node))


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates in an expression; a function over a window is none, its operands may be."""
    over = {
        id(function)
        for part in walk_level(node)
        if isinstance(part, exp.Window)
        for function in _functions_over(part)
    }
    for part in walk_level(node):
        if isinstance(part, exp.AggFunc) and id(part) not in over:
            yield part


def _functions_over(window: exp.Window) -> Iterator[exp.Expr]:
    function = window.this
    yield function
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
        yield function


def has_extreme(node: exp.Expr) -> bool:
    """Whether MIN, MAX or a sibling of them is in the expression, outside of subqueries."""
    return any(type(part) in EXTREMES or is_order_aggregate(part) for part in _aggregates(node))
