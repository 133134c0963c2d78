"""Window functions: what stands before OVER becomes values beside the rows (window_rows.py).

RANK()             1 + rows of the partition before           a range count
DENSE_RANK()       1 + different order keys before
ROW_NUMBER()       the position; ties by the other columns that the query uses
SUM(x) OVER (...)  the sum over the frame's rows              a range sum
LAG(x), NTH_VALUE  the value at another position              a lookup
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from viewlet.calculus.expr import Cond, Expr
from viewlet.calculus.scope import inputs
from viewlet.errors import UnsupportedError
from viewlet.frontend.context import Lowering
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.order_aggregates import is_order_aggregate
from viewlet.frontend.products import Branch, extended, keyed, product, summed
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import fault, sql_of
from viewlet.frontend.types import Typed, meeting_type
from viewlet.frontend.window_calls import (
    NEIGHBORS,
    NUMBERS,
    RANKS,
    Call,
    FrameAggregates,
    OrderValue,
    hint_of,
    operands_of,
)
from viewlet.frontend.window_frames import window_text
from viewlet.frontend.window_positions import PositionStage
from viewlet.frontend.window_rows import as_columns, inner_rows
from viewlet.functions import Apply, Const, Ref, ScalarExpr, free_variables
from viewlet.schema import BIGINT, DOUBLE, Type


class Windows:
    """The window functions of one SELECT: collected while its scalars are lowered, then made."""

    def __init__(
        self,
        lowering: Lowering,
        named: Mapping[str, exp.Window],
        scope: Scope,
        branches: tuple[Branch, ...],
        ties: tuple[Typed, ...] = (),
    ) -> None:
        """`ties` partition every window, because rows outside choose among them later."""
        self.ties = ties
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
        inner = next((p for p in node.this.walk() if isinstance(p, exp.Window)), None)
        if inner is not None:
            raise fault(
                UnsupportedError,
                "window functions cannot be nested",
                inner,
                "compute the inner one in a subquery",
            )
        if is_order_aggregate(function):
            raise fault(
                UnsupportedError,
                f"{sql_of(function)} over a window is not supported",
                node,
                "join with a grouped subquery instead",
            )
        text = window_text(node, self.named)
        operands = {id(part): scalars.lower(part) for part in operands_of(function)}
        if filter_ is not None:
            if isinstance(function, (*RANKS, *NUMBERS, *NEIGHBORS)):
                raise fault(UnsupportedError, "FILTER belongs to an aggregate", node)
            operands[id(filter_)] = scalars.boolean(filter_, "FILTER")
        order = tuple(self._ordered(part, scalars) for part in text.order)
        partition = (*self.ties, *(scalars.lower(part) for part in text.partition))
        if ignores and isinstance(function, exp.Lag | exp.Lead | exp.NthValue):
            raise fault(
                UnsupportedError,
                f"IGNORE NULLS of {function.sql_name()} is not supported",
                node,
                "filter the NULLs in a subquery first",
            )
        if ignores and not isinstance(function, NEIGHBORS):
            raise fault(
                UnsupportedError, "IGNORE NULLS belongs to FIRST_VALUE and LAST_VALUE", node
            )
        type_, nullable = self._type(function, filter_, operands, node)
        variable = self.variables.fresh(
            hint_of(function), nullable=nullable, double=type_ == DOUBLE
        )
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
        if isinstance(function, (*RANKS, *NUMBERS)):
            return BIGINT, False
        if isinstance(function, NEIGHBORS):
            value = operands[id(function.this)]
            default = function.args.get("default")
            if default is not None:
                return meeting_type([value, operands[id(default)]], node, "LAG and LEAD"), True
            return value.type, True
        if not isinstance(function, exp.AggFunc):
            raise fault(UnsupportedError, f"{sql_of(function)} is no window function", node)
        probe = FrameAggregates(self.lowering, self.scope, operands, self.branches, (), [])
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
        value a call's rows are needed_count, `key` are variables that no two rows share.
        """
        calls = list(self.calls.values())
        scalars = [*uses, *(s for call in calls for s in call.scalars)]
        available = frozenset[str]().union(*(b.own | b.bindings.keys() for b in branches))
        names = set(needs).union(*(free_variables(s) for s in scalars)) & available
        names |= set(key or ())
        columns = as_columns(sorted(names))
        keyed(self.variables, branches, columns)  # now it is known which of them may be NULL
        partitions: dict[tuple[ScalarExpr, ...], list[Call]] = {}
        for call in calls:
            columns += [("partition", value) for value in call.partition]
            columns += [(name, value) for name, value, _ in call.order_columns(self.variables)]
            partitions.setdefault(tuple(v.scalar for v in call.partition), []).append(call)
        bound, values, keys = keyed(self.variables, branches, columns)
        final = {
            before.scalar: after.scalar for (_, before), after in zip(columns, values, strict=True)
        }
        rows = inner_rows(self.lowering, keys, summed(self.variables, keys, bound))
        bindings: dict[str, ScalarExpr] = {}
        ties = tuple(key) if key is not None else tuple(n for n in keys if n in names)
        # What is left out must not be missing where another value is made.
        is_last = len(calls) == 1 or not any(call.needs_positions for call in calls)
        needed_count = most if is_last and len(partitions) == 1 else {}
        for members in partitions.values():
            stage = PositionStage(
                self.lowering, self.scope, self.types, final, ties, key is not None, needed_count
            )
            rows = stage.made(rows, members, bindings)
        return (Branch((rows.expr,), bindings),)


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
    if key is None and any(inputs(product(branch.factors)) for branch in branches):
        raise fault(
            UnsupportedError,
            "windows and LIMIT over rows that rows outside choose other than by = are not supported"
            " where the rows have no key",
            next(iter(windows.calls)),
            "declare a PRIMARY KEY, or tie the query to the rows outside by =",
        )
    rows = windows.rows(branches, uses, needs, _most(tests), key)
    return extended(lowering.variables, rows, tests)


def _most(tests: Sequence[Expr]) -> dict[str, int]:
    """{n <= 3}, {n < 4} and {n = 3}: the greatest value of n that passes"""
    choice: dict[str, int] = {}
    for test in tests:
        if not isinstance(test, Cond) or not isinstance(test.scalar, Apply):
            continue
        operator, arguments = test.scalar.function, test.scalar.arguments
        if len(arguments) != 2:
            continue
        left, right = arguments
        if isinstance(left, Const) and operator in _TURNED:
            left, right, operator = right, left, _TURNED[operator]
        if not isinstance(left, Ref) or not isinstance(right, Const):
            continue
        if not isinstance(right.value, int) or operator not in ("<", "<=", "=", "=="):
            continue
        most = right.value - 1 if operator == "<" else right.value
        choice[left.name] = min(most, choice.get(left.name, most))
    return choice


_TURNED = {">": "<", ">=": "<=", "=": "=", "==": "=="}
