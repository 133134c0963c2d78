"""Aggregates that pick a value of a group by its ordinal in an order.

    W[g, y, x] := Sum[g, y, x](Q)                the values of each group, counted
    D[g, v]    := Exists(Sum[g](W)) * (v := ...) one value for each group, made from W

    PERCENTILE_DISC(f), MEDIAN    v is the least x with k values up to it: one descent
    ARG_MAX(x, y)                 m is the greatest y, v the least x beside it
    FIRST(x ORDER BY y)           the same with the first y
    MODE(x)                       m is the greatest count of a value, v the least value with it

The aggregate is then the value that D has for the group.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence

from sqlglot import exp

from viewlet.calculus.expr import (
    Expr,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
    sum_over,
)
from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.context import Lowering
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.products import Branch, extended, product, summed
from viewlet.frontend.syntax import fault, sql_of
from viewlet.frontend.types import Typed, to_double
from viewlet.frontend.window_rows import (
    Rows,
    inner_rows,
    made_from,
    made_rows,
    never_null,
    order_keys,
)
from viewlet.functions import Const, Ref, ScalarExpr, apply
from viewlet.schema import BIGINT, DOUBLE

Add = Callable[[str, str, str, Expr, bool], ScalarExpr]
"""Takes an extreme (hint, kind, target, body, whether it can be NULL) and gives its value."""

_ABSENT = "value_or_null"
"""The name of values that may be NULL; others are not, by a test."""

_PERCENTILES = (exp.PercentileCont, exp.PercentileDisc)
KINDS = (
    *(exp.Median, exp.Mode, exp.ArgMax, exp.ArgMin, exp.First, exp.Last),
    *_PERCENTILES,
)


def is_order_aggregate(node: exp.Expr) -> bool:
    """Whether a node is such an aggregate, with WITHIN GROUP where it needs that."""
    return isinstance(node, (exp.WithinGroup, *KINDS))


class OrderAggregates:
    """The aggregates of one grouped block."""

    def __init__(
        self, lowering: Lowering, keys: tuple[str, ...], branches: tuple[Branch, ...], add: Add
    ) -> None:
        self.lowering = lowering
        self.variables = lowering.variables
        self.keys = keys
        self.branches = branches
        self.add = add

    def lower(self, node: exp.Expr, scalars: RowScalars, tests: Sequence[Expr]) -> Typed:
        """The aggregate as a value of its group; `tests` are those of FILTER."""
        function, order = node, None
        if isinstance(node, exp.WithinGroup):
            function, order = node.this, node.expression.expressions
        if isinstance(function, exp.ArgMax | exp.ArgMin):
            kind = "max" if isinstance(function, exp.ArgMax) else "min"
            return self._beside(function, scalars, tests, kind)
        if isinstance(function, exp.First | exp.Last):
            return self._first(function, scalars, tests)
        if order is None and isinstance(function, exp.Mode | exp.Median):
            operand, descending = function.this, False
        elif order is not None and len(order) == 1:
            operand, descending = order[0].this, bool(order[0].args.get("desc"))
        else:
            raise fault(
                TypingError,
                f"{_name(function)} needs WITHIN GROUP (ORDER BY one expression)",
                node,
            )
        value = scalars.lower(operand)
        known = [*scalars.take_prelude(), *tests, _known(value)]
        if isinstance(function, exp.Mode):
            return self._mode(value, known, descending)
        if isinstance(function, exp.PercentileDisc):
            share = _share(function.this)
            return self._discrete(value, known, share, descending)
        if not value.type.is_number:
            raise fault(
                TypingError,
                f"{_name(function)} needs a number, {sql_of(operand)} is {value.type}",
                operand,
                "PERCENTILE_DISC takes values of any type",
            )
        share = (
            decimal.Decimal("0.5") if isinstance(function, exp.Median) else _share(function.this)
        )
        return self._continuous(value, known, share, descending)

    # Parts.

    def _rows(
        self, values: Sequence[tuple[str, Typed]], tests: Sequence[Expr]
    ) -> tuple[Rows, list[str]]:
        """W: the values of each group, under variables that are not those of the keys."""
        names = []
        binds: list[Expr] = []
        for hint, typed in values:
            nullable = hint == _ABSENT and self.variables.can_be_null(typed.scalar)
            name = self.variables.fresh(hint, nullable=nullable, double=typed.type == DOUBLE)
            names.append(name)
            binds.append(assign(name, typed.scalar if nullable else never_null(typed)))
        bound = extended(self.variables, self.branches, [*tests, *binds])
        keys = (*self.keys, *names)
        return inner_rows(self.lowering, keys, summed(self.variables, keys, bound)), names

    def _groups(self, rows: Rows) -> Expr:
        """Exists(Sum[g](W))"""
        expr, _ = rows.copy(self.variables, self.keys)
        return exists_of(sum_over(self.keys, expr))

    def _extreme(
        self, rows: Rows, kind: str, target: str, same: Sequence[str], hint: str
    ) -> tuple[str, Expr]:
        """(m := min x in Sum[g, x](W))"""
        expr, names = rows.copy(self.variables, (*self.keys, *same))
        variable = self.variables.fresh(hint, nullable=True)
        body = sum_over((*self.keys, *same, names[target]), expr)
        return variable, extreme(variable, kind, names[target], body)

    def _value(self, rows: Rows, factors: Sequence[Expr], value: str, typed: Typed) -> ScalarExpr:
        """D, and the value that it has for a group."""
        body = product((self._groups(rows), *factors))
        made = made_from(self.lowering, rows, self.keys, (*self.keys, value), body)
        return self.add("picked", "max", value, made.expr, True)

    def _count(self, rows: Rows) -> tuple[str, Expr]:
        expr, _ = rows.copy(self.variables, self.keys)
        count = self.variables.fresh("number")
        return count, lift(count, sum_over(self.keys, expr))

    def _at(self, rows: Rows, value: str, ordinal: ScalarExpr) -> tuple[str, list[Expr]]:
        """(v := min x in W[g, x] * (c := Sum[](W[g, x'] * {x' <= x})) * {c >= k})"""
        rank = self.variables.fresh("rank")
        expr, names = rows.copy(self.variables, self.keys)
        other, others = rows.copy(self.variables, self.keys)
        upto = self.variables.fresh("up_to")
        before = cond(apply("<=", Ref(others[value]), Ref(names[value])))
        up_to = lift(upto, sum_over((*self.keys, names[value]), product((other, before))))
        enough = cond(apply(">=", Ref(upto), Ref(rank)))
        choice = self.variables.fresh("found", nullable=True)
        body = sum_over((*self.keys, names[value], rank), product((expr, up_to, enough)))
        return choice, [assign(rank, ordinal), extreme(choice, "min", names[value], body)]

    # Aggregates.

    def _discrete(
        self, value: Typed, tests: Sequence[Expr], share: decimal.Decimal, descending: bool
    ) -> Typed:
        """The value at the ordinal that is ceil(f * n), 1 at least."""
        rows, (name,) = self._rows([("value", value)], tests)
        count, counted = self._count(rows)
        top, bottom = _ratio(share)
        ordinal = _ceiling(apply("*", Ref(count), Const(top)), bottom)
        ordinal = apply("greatest", ordinal, Const(1))
        if descending:
            ordinal = apply("+", apply("-", Ref(count), ordinal), Const(1))
        choice, factors = self._at(rows, name, ordinal)
        return Typed(self._value(rows, [counted, *factors], choice, value), value.type)

    def _continuous(
        self, value: Typed, tests: Sequence[Expr], share: decimal.Decimal, descending: bool
    ) -> Typed:
        """Between the two values around f * (n - 1), counted from 0."""
        rows, (name,) = self._rows([("value", value)], tests)
        count, counted = self._count(rows)
        top, bottom = _ratio(1 - share if descending else share)
        ordinal = apply("*", apply("-", Ref(count), Const(1)), Const(top))
        low, rest = apply("div", ordinal, Const(bottom)), apply("mod", ordinal, Const(bottom))
        first, first_factors = self._at(rows, name, apply("+", low, Const(1)))
        ceiling = apply("+", low, apply("case", apply(">", rest, Const(0)), Const(1), Const(0)))
        second, second_factors = self._at(rows, name, apply("+", ceiling, Const(1)))
        a = to_double(Typed(Ref(first), value.type)).scalar
        b = to_double(Typed(Ref(second), value.type)).scalar
        between = self.variables.fresh("between", nullable=True, double=True)
        part = apply("/", rest, Const(bottom))
        mixed = apply("+", a, apply("*", apply("-", b, a), part))
        result = assign(between, apply("case", apply("=", rest, Const(0)), a, mixed))
        factors = [counted, *first_factors, *second_factors, result]
        return Typed(self._value(rows, factors, between, value), DOUBLE)

    def _beside(
        self, function: exp.Expr, scalars: RowScalars, tests: Sequence[Expr], kind: str
    ) -> Typed:
        """ARG_MAX(x, y): rows in which one of both is NULL do not count."""
        if function.args.get("count") is not None:
            raise fault(UnsupportedError, f"{_name(function)} with a count", function)
        if function.args.get("expression") is None:
            raise fault(TypingError, f"{_name(function)} takes two arguments", function)
        value, by = scalars.lower(function.this), scalars.lower(function.expression)
        known = [*scalars.take_prelude(), *tests, _known(value), _known(by)]
        rows, (order, name) = self._rows([("by", by), ("value", value)], known)
        edge, first = self._extreme(rows, kind, order, (), "edge")
        choice, second = self._at_edge(rows, order, edge, name)
        return Typed(self._value(rows, [first, second], choice, value), value.type)

    def _at_edge(self, rows: Rows, order: str, edge: str, value: str) -> tuple[str, Expr]:
        """(v := min x in Sum[g, m, x](W[g, m, x]))"""
        expr, names = rows.copy(self.variables, self.keys)
        choice = self.variables.fresh("found", nullable=True)
        same = cond(apply("==", Ref(names[order]), Ref(edge)))
        body = sum_over((*self.keys, edge, names[value]), product((expr, same)))
        return choice, extreme(choice, "min", names[value], body)

    def _mode(self, value: Typed, tests: Sequence[Expr], descending: bool) -> Typed:
        rows, (name,) = self._rows([("value", value)], tests)
        count = self.variables.fresh("times")
        counted = made_rows(
            self.lowering,
            rows,
            (*self.keys, name),
            [lift(count, rows.expr)],
            (count,),
            None,
            is_once=True,
        )
        most, first = self._extreme(counted, "max", count, (), "most")
        expr, names = counted.copy(self.variables, self.keys)
        choice = self.variables.fresh("found", nullable=True)
        same = cond(apply("==", Ref(names[count]), Ref(most)))
        body = sum_over((*self.keys, most, names[name]), product((expr, same)))
        second = extreme(choice, "max" if descending else "min", names[name], body)
        return Typed(self._value(counted, [first, second], choice, value), value.type)

    def _first(self, function: exp.Expr, scalars: RowScalars, tests: Sequence[Expr]) -> Typed:
        """FIRST(x ORDER BY y, z): the x of the first row, NULL if it is; of ties the least."""
        order = function.this
        if not isinstance(order, exp.Order):
            raise fault(
                UnsupportedError,
                f"{_name(function)} without ORDER BY depends on no order of the rows",
                function,
                f"write {_name(function)}(x ORDER BY y), or ANY_VALUE, MIN or MAX",
            )
        value = scalars.lower(order.this)
        keys: list[tuple[Typed, bool]] = []
        for ordered in order.expressions:
            typed = scalars.lower(ordered.this)
            descending = bool(ordered.args.get("desc"))
            nulls = ordered.args.get("nulls_first")
            first = descending if nulls is None else bool(nulls)
            keys += [
                (column, down)
                for _, column, down in order_keys(self.variables, typed, descending, first)
            ]
        before = [*scalars.take_prelude(), *tests]
        absent = apply("case", apply("is_null", value.scalar), Const(1), Const(0))
        columns = [("by", key) for key, _ in keys]
        columns += [("is_absent", Typed(absent, BIGINT)), (_ABSENT, value)]
        rows, names = self._rows(columns, before)
        *orders, absence, name = names
        is_last = isinstance(function, exp.Last)
        factors: list[Expr] = []
        fixed: dict[str, str] = {}
        for column, (_, down) in zip(orders, keys, strict=True):
            edge, factor = self._fixed_extreme(
                rows, column, "max" if down != is_last else "min", fixed
            )
            fixed[column] = edge
            factors.append(factor)
        edge, factor = self._fixed_extreme(rows, absence, "min", fixed)
        fixed[absence] = edge
        choice, last = self._fixed_extreme(rows, name, "min", fixed)
        factors += [factor, last]
        return Typed(self._value(rows, factors, choice, value), value.type)

    def _fixed_extreme(
        self, rows: Rows, column: str, kind: str, fixed: dict[str, str]
    ) -> tuple[str, Expr]:
        """The least value of a column among rows that have some others."""
        expr, names = rows.copy(self.variables, self.keys)
        tests = [cond(apply("==", Ref(names[own]), Ref(edge))) for own, edge in fixed.items()]
        variable = self.variables.fresh("edge", nullable=True)
        body = sum_over((*self.keys, *fixed.values(), names[column]), product((expr, *tests)))
        return variable, extreme(variable, kind, names[column], body)


def _known(value: Typed) -> Expr:
    return cond(apply("not", apply("is_null", value.scalar)))


def _share(node: exp.Expr | None) -> decimal.Decimal:
    """The fraction of a percentile."""
    if isinstance(node, exp.Literal) and not node.is_string:
        share = decimal.Decimal(node.name)
        if 0 <= share <= 1:
            return share
    raise fault(TypingError, "a percentile needs a constant between 0 and 1", node)


def _ratio(share: decimal.Decimal) -> tuple[int, int]:
    return share.as_integer_ratio()


def _ceiling(number: ScalarExpr, divisor: int) -> ScalarExpr:
    """number / divisor, rounded up"""
    return apply("div", apply("+", number, Const(divisor - 1)), Const(divisor))


def _name(function: exp.Expr) -> str:
    return function.sql_name() if isinstance(function, exp.Func) else sql_of(function)
