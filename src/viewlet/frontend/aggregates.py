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

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from viewlet.calculus.expr import (
    ONE,
    ZERO,
    Expr,
    Value,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
    negate,
    product_of,
    sum_of,
    sum_over,
    value_of,
)
from viewlet.calculus.scope import Names
from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.context import Lowering
from viewlet.frontend.moments import FORMULAS, times
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.products import (
    Branch,
    Variables,
    condition,
    extended,
    keyed,
    known,
    product,
    summed,
    without_null_tests,
)
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import fault, sql_of, walk_level
from viewlet.frontend.types import Typed, as_boolean, convert
from viewlet.functions import NULL, Apply, Const, Ref, ScalarExpr, apply, can_refuse
from viewlet.schema import BIGINT, BOOLEAN, DECIMAL, DOUBLE, Kind, Type

EXTREMES = {exp.Min: "min", exp.Max: "max"}

_SPREADS: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.Stddev: (True, True),
    exp.StddevSamp: (True, True),
    exp.StddevPop: (True, False),
    exp.Variance: (False, True),
    exp.VariancePop: (False, False),
}
"""Whether the root is taken, and whether of a sample."""


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
        self.known: dict[tuple[str, Expr], ScalarExpr] = {}

    def add(self, hint: str, body: Expr) -> ScalarExpr:
        key = ("sum", body)
        if isinstance(body, Value):
            return body.scalar
        if key not in self.known:
            variable = self.variables.fresh(hint)
            self.factors.append(lift(variable, body))
            self.known[key] = Ref(variable)
        return self.known[key]

    def add_extreme(
        self, hint: str, kind: str, target: str, body: Expr, nullable: bool
    ) -> ScalarExpr:
        key = (f"{kind} {target}", body)
        if body == ZERO:
            return NULL
        if key not in self.known:
            variable = self.variables.fresh(hint, nullable=nullable)
            self.factors.append(extreme(variable, kind, target, body))
            self.known[key] = Ref(variable)
        return self.known[key]


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

    def group_key(self, found: Typed, node: exp.Expr) -> Typed:
        """What a column of the block is once its rows are grouped."""
        if found.scalar in self.groups:
            return self.groups[found.scalar]
        if isinstance(found.scalar, Const):
            return found
        raise fault(
            TypingError,
            f"column {sql_of(node)} is neither grouped nor aggregated",
            node,
            f"add it to GROUP BY, or use it in an aggregate such as MIN({sql_of(node)})",
        )

    def leaf(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Filter):
            if not isinstance(node.this, exp.AggFunc):
                raise fault(UnsupportedError, "FILTER belongs to an aggregate", node)
            return self.aggregate(node.this, node.expression.this)
        if isinstance(node, exp.AggFunc):
            return self.aggregate(node, None)
        if not isinstance(node, exp.Column | exp.Literal) and self.groups:
            key = self._whole_group_expression(node)
            if key is not None:
                return key
        return super().leaf(node)

    def _whole_group_expression(self, node: exp.Expr) -> Typed | None:
        """SELECT a + 1 ... GROUP BY a + 1"""
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
        for part in walk_level(node):
            if part is not node and isinstance(part, exp.AggFunc):
                raise fault(UnsupportedError, "aggregates cannot be nested", part)
        scalars = RowScalars(self.lowering, self.rows)
        extra: list[Expr] = []
        if filter_ is not None:
            extra = scalars.conditions(filter_)
        operand, distinct = node.this, False
        if isinstance(operand, exp.Distinct):
            distinct, operands = True, operand.expressions
        elif operand is None or isinstance(operand, exp.Star):
            operands = []
        else:
            operands = [operand, *(node.expressions if isinstance(node, exp.Count) else [])]
        values = [scalars.lower(o) for o in operands]
        extra += scalars.take_prelude()
        branches = extended(self.variables, self.branches, extra)
        filtered = filter_ is not None
        if isinstance(node, exp.Count):
            return self._count(branches, values, distinct)
        if len(values) != 1:
            raise fault(TypingError, f"{node.sql_name()} takes one argument", node)
        (value,) = values
        if type(node) in EXTREMES:
            return self._extreme(EXTREMES[type(node)], branches, value, filtered)
        if isinstance(node, exp.LogicalAnd | exp.LogicalOr):
            return self._logical(node, branches, as_boolean(value, operands[0], "BOOL_AND/OR"))
        if not isinstance(node, exp.Sum | exp.Avg) and type(node) not in (*_SPREADS, *FORMULAS):
            raise fault(
                UnsupportedError,
                f"aggregate {sql_of(node).partition('(')[0]} is not supported",
                node,
                "aggregates are SUM, COUNT, AVG, MIN, MAX, STDDEV, VARIANCE, SKEWNESS, BOOL_AND, "
                "BOOL_OR",
            )
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
            moments = _GroupMoments(self, branches, convert(value, DOUBLE, node))
            return Typed(FORMULAS[type(node)](moments), DOUBLE)
        return self._spread(node, branches, value)

    def _nullable(self, branches: Sequence[Branch], value: Typed) -> bool:
        return any(self.variables.can_be_null(b.resolve(value.scalar), b.own) for b in branches)

    def _known(self, value: Typed) -> Expr:
        """{not(is_null(value))}"""
        return cond(apply("not", apply("is_null", value.scalar)))

    def _count(self, branches: tuple[Branch, ...], values: list[Typed], distinct: bool) -> Typed:
        if distinct:
            rows, _ = self._distinct(branches, values)
            body = summed(self.variables, self.keys, rows)
            return Typed(self.sink.add("distinct", body), BIGINT)
        guards = [self._known(v) for v in values]
        body = summed(self.variables, self.keys, branches, *guards)
        return Typed(self.sink.add("number", body), BIGINT)

    def _known_count(self, branches: tuple[Branch, ...], value: Typed) -> ScalarExpr:
        body = summed(self.variables, self.keys, branches, self._known(value))
        return self.sink.add("number", body)

    def _distinct(
        self, branches: tuple[Branch, ...], values: list[Typed]
    ) -> tuple[tuple[Branch, ...], list[Typed]]:
        """Exists(Sum[g, e](Q * {not(is_null(e))})): the values of each group once."""
        counted = extended(self.variables, branches, [self._known(v) for v in values])
        columns = [("distinct_value", value) for value in values]
        bound, targets, names = keyed(self.variables, counted, columns)
        body = exists_of(summed(self.variables, (*self.keys, *names), bound))
        return ((Branch((body,)),) if body != ZERO else ()), targets

    def _total(self, branches: tuple[Branch, ...], value: Typed) -> Expr:
        """Sum[g](Q * value)"""
        terms = []
        for branch in branches:
            own = branch.own
            scalar = without_null_tests(self.variables, branch.resolve(value.scalar), own)
            weight = ring_value(self.variables, scalar, own)
            if weight != ZERO:
                terms.append(sum_over(self.keys, product((*branch.factors, weight))))
        return sum_of(*terms)

    def _sum(self, branches: tuple[Branch, ...], value: Typed, nullable: bool) -> Typed:
        total = self.sink.add("sum", self._total(branches, value))
        if nullable or self.total:
            none = apply("=", self._known_count(branches, value), Const(0))
            total = apply("case", none, NULL, total)
        return Typed(total, sum_type(value.type))

    def _average(self, branches: tuple[Branch, ...], value: Typed) -> Typed:
        """Division by a count of 0 is the NULL that AVG of nothing is."""
        total = self.sink.add("sum", self._total(branches, value))
        number = self._known_count(branches, value)
        if value.type.kind is Kind.DECIMAL:
            number = apply("*", number, Const(10**value.type.scale))
        return Typed(apply("/", total, number), DOUBLE)

    def _spread(self, node: exp.Expr, branches: tuple[Branch, ...], value: Typed) -> Typed:
        """variance = (sum(x * x) - sum(x) ** 2 / n) / n, over n - 1 of a sample; never below 0"""
        root, sample = _SPREADS[type(node)]
        scale = 10.0**value.type.scale
        square = Typed(apply("*", value.scalar, value.scalar), value.type)
        sums = apply("to_float", self.sink.add("sum", self._total(branches, value)))
        squares = apply("to_float", self.sink.add("squares", self._total(branches, square)))
        if value.type.scale:
            sums = apply("/", sums, Const(scale))
            squares = apply("/", squares, Const(scale * scale))
        number = self._known_count(branches, value)
        spread = apply("-", squares, apply("/", apply("*", sums, sums), number))
        divisor = apply("-", number, Const(1)) if sample else number
        result = apply("/", apply("greatest", spread, Const(0.0)), divisor)
        return Typed(apply("sqrt", result) if root else result, DOUBLE)

    def _logical(self, node: exp.Expr, branches: tuple[Branch, ...], value: Typed) -> Typed:
        """BOOL_AND: no value is false;  BOOL_OR: some value is true"""
        wanted = value.scalar
        if isinstance(node, exp.LogicalAnd):
            wanted = apply("not", wanted)
        body = summed(self.variables, self.keys, branches, cond(wanted))
        hits = self.sink.add("hits", body)
        operator = "=" if isinstance(node, exp.LogicalAnd) else ">"
        none = apply("=", self._known_count(branches, value), Const(0))
        return Typed(apply("case", none, NULL, apply(operator, hits, Const(0))), BOOLEAN)

    def _extreme(
        self, kind: str, branches: tuple[Branch, ...], value: Typed, filtered: bool
    ) -> Typed:
        counted = extended(self.variables, branches, [self._known(value)])
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


class _GroupMoments:
    """Sums of powers of one value, as sums that its block keeps."""

    def __init__(self, grouped: Grouped, branches: tuple[Branch, ...], value: Typed) -> None:
        self._grouped, self._branches, self._value = grouped, branches, value

    def count(self) -> ScalarExpr:
        return self._grouped._known_count(self._branches, self._value)

    def power_sum(self, exponent: int) -> ScalarExpr:
        power = Typed(times(*(self._value.scalar for _ in range(exponent))), DOUBLE)
        hint = "sum" if exponent == 1 else f"power_{exponent}"
        return self._grouped.sink.add(hint, self._grouped._total(self._branches, power))


def sum_type(type: Type) -> Type:
    """SUM of integers is BIGINT, of DECIMAL(p, s) DECIMAL(38, s), of DOUBLE DOUBLE."""
    if type.kind is Kind.DECIMAL:
        return DECIMAL(38, type.scale)
    return DOUBLE if type.kind is Kind.DOUBLE else BIGINT


def ring_value(variables: Variables, scalar: ScalarExpr, own: Names) -> Expr:
    """A number as a weight, split as far as NULLs allow; NULL weighs 0.

    [a * b]                        -> [a] * [b]
    [a + b]                        -> {not(is_null(a))} * {not(is_null(b))} * ([a] + [b])
    [case(p, a, b)]                -> {p} * [a] + {not(is_true(p))} * [b]
    """
    if isinstance(scalar, Const) and not scalar.value:
        return ZERO
    if not isinstance(scalar, Apply):
        return value_of(scalar)
    if scalar.function == "*":
        return product_of(*(ring_value(variables, a, own) for a in scalar.arguments))
    if scalar.function == "neg":
        return negate(ring_value(variables, scalar.arguments[0], own))
    if scalar.function in ("+", "-"):
        left, right = (ring_value(variables, a, own) for a in scalar.arguments)
        guards = dict.fromkeys(g for a in scalar.arguments for g in known(variables, a, own))
        terms = sum_of(left, negate(right) if scalar.function == "-" else right)
        return product_of(*guards, terms)
    # A branch that is not chosen must not be computed where it could be an error.
    if scalar.function == "case" and not can_refuse(scalar):
        *branches, otherwise = scalar.arguments
        terms_: list[Expr] = []
        before: Expr = ONE
        for test, then in zip(branches[::2], branches[1::2], strict=True):
            met = condition(variables, test, own)
            terms_.append(product_of(before, met, ring_value(variables, then, own)))
            missed = without_null_tests(variables, apply("is_true", test), own)
            before = product_of(before, cond(apply("not", missed)))
        terms_.append(product_of(before, ring_value(variables, otherwise, own)))
        return sum_of(*terms_)
    return value_of(scalar)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate is in the expression, outside of subqueries."""
    return any(isinstance(part, exp.AggFunc) for part in walk_level(node))


def has_extreme(node: exp.Expr) -> bool:
    """Whether MIN, MAX or a sibling of them is in the expression, outside of subqueries."""
    return any(type(part) in EXTREMES for part in walk_level(node))
