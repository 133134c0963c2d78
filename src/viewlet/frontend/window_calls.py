"""The calls of window functions: what each takes from a row, and aggregates over its frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from viewlet.calculus.expr import Expr, cond
from viewlet.frontend.aggregates import Grouped, Lifts
from viewlet.frontend.context import Lowering
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.pair_aggregates import further_operands
from viewlet.frontend.products import Branch, Variables
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import sql_of
from viewlet.frontend.types import Typed
from viewlet.frontend.window_frames import CURRENT, RANGE, WindowFrame
from viewlet.frontend.window_rows import order_keys
from viewlet.functions import ScalarExpr

RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
NUMBERS = (exp.RowNumber, exp.Ntile)
NEIGHBORS = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)


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
    frame: WindowFrame
    operands: dict[int, Typed]
    node: exp.Window

    @property
    def needs_positions(self) -> bool:
        """Whether its value is found by the position of rows."""
        if isinstance(self.function, RANKS):
            return False
        if isinstance(self.function, (*NUMBERS, *NEIGHBORS)):
            return True
        return self.frame.unit != RANGE or self.frame.exclude is not None

    @property
    def scalars(self) -> list[ScalarExpr]:
        """Everything that is taken from a row."""
        values = [*self.partition, *(o.value for o in self.order), *self.operands.values()]
        return [value.scalar for value in values]

    def order_columns(self, variables: Variables) -> list[tuple[str, Typed, bool]]:
        """The order as keys that are never NULL, each with its direction."""
        is_shifted = any(b.offset is not None and b != CURRENT for b in self.frame.bounds)
        return [
            column
            for order in self.order
            for column in order_keys(
                variables,
                order.value,
                order.descending,
                order.nulls_first,
                is_shifted=is_shifted,
            )
        ]


def operands_of(function: exp.Expr) -> list[exp.Expr]:
    """What a function takes from each row."""
    if isinstance(function, (*RANKS, *NUMBERS)):
        return []
    if isinstance(function, NEIGHBORS):
        default = function.args.get("default")
        return [function.this, *([default] if default is not None else [])]
    operand = function.args.get("this")
    if isinstance(operand, exp.Distinct):
        return list(operand.expressions)
    if operand is None or isinstance(operand, exp.Star):
        return []
    return [operand, *further_operands(function)]


def whole_partition(calls: Iterable[Call]) -> str:
    """Why values of some calls are made anew in a whole partition when a row of it changes."""
    names = dict.fromkeys(sql_of(call.node) for call in calls)
    return f"partitions of changed rows, where all values may change: {', '.join(names)}"


def hint_of(function: exp.Expr) -> str:
    """What a variable for the value of a function is called after."""
    return function.sql_name().lower() if isinstance(function, exp.Func) else "window"


class GivenOperands(RowScalars):
    """Operands that were lowered when the call was met."""

    def __init__(self, lowering: Lowering, scope: Scope, operands: Mapping[int, Typed]) -> None:
        super().__init__(lowering, scope)
        self._operands = operands

    def lower(self, node: exp.Expr) -> Typed:
        return self._operands[id(node)]

    def conditions(self, node: exp.Expr) -> list[Expr]:
        return [cond(self._operands[id(node)].scalar)]


class FrameAggregates(Grouped):
    """Aggregates over the rows of a frame, given as branches."""

    def __init__(
        self,
        lowering: Lowering,
        scope: Scope,
        operands: Mapping[int, Typed],
        branches: tuple[Branch, ...],
        keys: tuple[str, ...],
        factors: list[Expr],
    ) -> None:
        sink = Lifts(lowering.variables, factors)
        super().__init__(lowering, scope, branches, (), keys, True, sink)
        self._available = GivenOperands(lowering, scope, operands)

    def row_scalars(self, node: exp.Expr) -> RowScalars:
        return self._available
