"""Expressions over the rows of a FROM, with the subqueries in them (thesis 2.2, 3.2.3).

A subquery becomes factors of the product that it stands in: lifts of counts and sums, to which its
scalar refers. As a conjunct of WHERE, a test on a subquery is a factor of its own:

    EXISTS (q)       Exists(Sum[](q))                 NOT EXISTS (q)   (n := Sum[](q)) * {n = 0}
    x IN (q)         Exists(Sum[](q * {x = c}))       x op ANY (q)     the same with op
    x NOT IN (q)     (n := Sum[](q * {not((x = c) is false)})) * {n = 0}
    x op ALL (q)     (n := Sum[](q * {not((x op c) is true)})) * {n = 0}

Elsewhere the counts are lifted and compared, with a second count for the rows whose comparison is
NULL where that is possible.
"""

from __future__ import annotations

from typing import Protocol

from sqlglot import exp

from viewlet.calculus.expr import (
    Binder,
    Cond,
    Expr,
    Value,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
)
from viewlet.errors import TypingError, UnsupportedError
from viewlet.frontend.context import Lowering
from viewlet.frontend.products import Branch, Table, summed
from viewlet.frontend.refusals import refused_node
from viewlet.frontend.scalars import COMPARISONS, Scalars
from viewlet.frontend.scope import Scope
from viewlet.frontend.syntax import conjuncts_of, fault, unwrapped
from viewlet.frontend.top_rows import has_ties, limit_of
from viewlet.frontend.types import Typed, comparison
from viewlet.functions import NULL, Apply, Const, Ref, ScalarExpr, apply
from viewlet.schema import BOOLEAN

ZERO_COUNT = Const(0)

OVER_ONLY = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
"""What has a meaning over a window only."""


class WindowValues(Protocol):
    """Gives window functions their values, where they can stand."""

    def value(self, node: exp.Window, scalars: RowScalars) -> Typed: ...


class RowScalars(Scalars):
    """Scalars over the rows of one block; lifts that they need gather in `prelude`."""

    def __init__(self, lowering: Lowering, scope: Scope) -> None:
        self.lowering = lowering
        self.variables = lowering.variables
        self.scope = scope
        self.prelude: list[Expr] = []
        self.windows: WindowValues | None = None

    def leaf(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise refused_node(node.this)
            return self.scope.resolve(node)
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            return self._scalar_subquery(node)
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            raise fault(
                UnsupportedError,
                "IGNORE NULLS is not supported",
                node,
                "aggregates pass over NULLs",
            )
        if isinstance(node, OVER_ONLY):
            raise fault(
                TypingError,
                f"{node.sql_name()} needs a window",
                node,
                f"write {node.sql_name()}() OVER (ORDER BY ...)",
            )
        if isinstance(node, exp.Window):
            if self.windows is None:
                raise fault(
                    UnsupportedError,
                    "a window function cannot stand here",
                    node,
                    "compute it in the select list of a subquery, or filter with QUALIFY",
                )
            return self.windows.value(node, self)
        test = subquery_test(node)
        if test is not None:
            return test.truth(self)
        if isinstance(node, exp.AggFunc):
            raise fault(
                UnsupportedError,
                f"aggregate {node.sql_name()} cannot stand here",
                node,
                "conditions on aggregates belong in HAVING",
            )
        return None

    def conditions(self, node: exp.Expr) -> list[Expr]:
        """A condition as factors, the lifts it needs first."""
        factors: list[Expr] = []
        for part in conjuncts_of(node):
            test = subquery_test(part)
            if test is not None:
                conjuncts = test.factors(self)
            else:
                conjuncts = [cond(self.boolean(part, "WHERE").scalar)]
            factors += [*self.take_prelude(), *conjuncts]
        return factors

    def take_prelude(self) -> list[Expr]:
        """The factors that subqueries of the last scalars need, to stand before them."""
        prelude, self.prelude = self.prelude, []
        return prelude

    def count(self, hint: str, body: Expr) -> ScalarExpr:
        """Lift a count: (n := body), as a scalar."""
        if isinstance(body, Value):
            return body.scalar
        variable = self.variables.fresh(hint)
        self.prelude.append(lift(variable, body))
        return Ref(variable)

    def subquery(self, node: exp.Expr, needed: frozenset[str] | None = None) -> Table:
        """A subquery as a table, with this row's columns in scope."""
        return self.lowering.query(self.lowering, node, self.scope, needed)

    def _scalar_subquery(self, node: exp.Expr) -> Typed:
        """(SELECT ...) as a value: an aggregate, the one row that a key selects, or
        (n := Sum[](q)) * (m := max v in Sum[v](q * (v := c))) as case(single(n), m, NULL)"""
        table = self.subquery(node)
        if len(table.columns) != 1:
            raise fault(
                TypingError, f"a scalar subquery has {len(table.columns)} columns, not 1", node
            )
        (_, value), branches = table.columns[0], table.branches
        if len(branches) == 1 and not branches[0].bindings:
            lifts, tests = _one_row(branches[0])
            if lifts is not None:
                self.prelude += lifts
                if tests:
                    test = tests[0]
                    for other in tests[1:]:
                        test = apply("and", test, other)
                    return Typed(apply("case", test, value.scalar, Const(None)), value.type)
                return value
        target = self.variables.fresh("row", nullable=True)
        body = summed(self.variables, (target,), branches, assign(target, value.scalar))
        variable = self.variables.fresh("scalar", nullable=True)
        self.prelude.append(extreme(variable, "max", target, body))
        if self._selects_by_key(node) or _is_first_row(node):
            return Typed(Ref(variable), value.type)
        number = self.count("rows_of_scalar", summed(self.variables, (), branches))
        return Typed(apply("case", apply("single", number), Ref(variable), NULL), value.type)

    def _selects_by_key(self, node: exp.Expr) -> bool:
        """Whether WHERE fixes every column of a declared key of the only relation in FROM."""
        while isinstance(node, exp.Subquery):
            node = node.this
        if not isinstance(node, exp.Select) or node.args.get("joins") or node.args.get("group"):
            return False
        source = node.args["from_"].this if node.args.get("from_") else None
        where = node.args.get("where")
        if not isinstance(source, exp.Table) or where is None:
            return False
        if source.name not in self.lowering.catalog or self.scope.common_table(source.name):
            return False
        relation = self.lowering.catalog[source.name]

        def is_own(side: exp.Expr) -> bool:
            return (
                isinstance(side, exp.Column)
                and side.name in relation.names
                and side.table in ("", source.alias_or_name)
            )

        fixed = set()
        for part in conjuncts_of(where.this):
            if isinstance(part, exp.EQ):
                for own, other in ((part.left, part.right), (part.right, part.left)):
                    if is_own(own) and not any(is_own(c) for c in other.find_all(exp.Column)):
                        fixed.add(own.name)
        return bool(relation.key) and fixed.issuperset(relation.key)


def _is_first_row(node: exp.Expr) -> bool:
    """Whether LIMIT leaves one row at most."""
    while isinstance(node, exp.Subquery):
        node = node.this
    return not has_ties(node) and limit_of(node)[0] in (0, 1)


def _one_row(branch: Branch) -> tuple[list[Expr] | None, list[ScalarExpr]]:
    """The lifts and tests of a branch that is one row at most because it only has those."""
    lifts: list[Expr] = []
    tests: list[ScalarExpr] = []
    for factor in branch.factors:
        if isinstance(factor, Binder):
            lifts.append(factor)
        elif isinstance(factor, Cond):
            tests.append(factor.scalar)
        else:
            return None, []
    return lifts, tests


class SubqueryTest:
    """A truth value that hangs on the rows of a subquery."""

    def factors(self, scalars: RowScalars) -> list[Expr]:
        """As a conjunct: the product is 1 where the test is TRUE, else 0."""
        raise NotImplementedError

    def truth(self, scalars: RowScalars) -> Typed:
        """As a scalar: TRUE, FALSE or NULL."""
        raise NotImplementedError


class ExistsTest(SubqueryTest):
    """[NOT] EXISTS (query)"""

    def __init__(self, node: exp.Exists, negated: bool) -> None:
        self.query, self.negated = node.this, negated

    def _body(self, scalars: RowScalars) -> Expr:
        query = self.query
        if query.args.get("limit") is not None and not query.args.get("offset"):
            limit = query.args["limit"].expression
            if isinstance(limit, exp.Literal) and limit.name != "0":
                query = query.copy()
                query.set("limit", None)
        table = scalars.subquery(query, frozenset())
        return summed(scalars.variables, (), table.branches)

    def factors(self, scalars: RowScalars) -> list[Expr]:
        body = self._body(scalars)
        if not self.negated:
            return [exists_of(body)]
        count = scalars.count("found", body)
        return [*scalars.take_prelude(), cond(apply("=", count, ZERO_COUNT))]

    def truth(self, scalars: RowScalars) -> Typed:
        count = scalars.count("found", self._body(scalars))
        operator = "=" if self.negated else ">"
        return Typed(apply(operator, count, ZERO_COUNT), BOOLEAN)


class QuantifiedTest(SubqueryTest):
    """x op ANY (query) and x op ALL (query); IN is = ANY, NOT IN is <> ALL."""

    def __init__(
        self, left: exp.Expr, operator: str, query: exp.Expr, is_all: bool, node: exp.Expr
    ) -> None:
        self.left, self.operator, self.query, self.is_all = left, operator, query, is_all
        self.node = node

    def _compared(self, scalars: RowScalars) -> tuple[Table, ScalarExpr]:
        """The rows and the comparison with each."""
        lefts = self.left.expressions if isinstance(self.left, exp.Tuple) else [self.left]
        values = [scalars.lower(left) for left in lefts]
        table = scalars.subquery(self.query)
        if len(values) != len(table.columns):
            raise fault(
                TypingError,
                f"{len(values)} values are compared with {len(table.columns)} columns",
                self.node,
                "select as many columns as there are values on the left",
            )
        if len(values) > 1 and self.operator not in ("=", "<>"):
            raise fault(UnsupportedError, "rows compare with = and <> only", self.node)
        pairs = [
            comparison("=" if len(values) > 1 else self.operator, value, column, self.node).scalar
            for value, (_, column) in zip(values, table.columns, strict=True)
        ]
        result = pairs[0]
        for pair in pairs[1:]:
            result = apply("and", result, pair)
        if len(values) > 1 and self.operator == "<>":
            result = apply("not", result)
        return table, result

    def factors(self, scalars: RowScalars) -> list[Expr]:
        table, test = self._compared(scalars)
        before = scalars.take_prelude()
        if not self.is_all:
            body = summed(scalars.variables, (), table.branches, cond(test))
            return [*before, exists_of(body)]
        # TRUE unless some row's comparison is FALSE or NULL.
        body = _counted(scalars, table, _not_true(test))
        count = scalars.count("against", body)
        return [*before, *scalars.take_prelude(), cond(apply("=", count, ZERO_COUNT))]

    def truth(self, scalars: RowScalars) -> Typed:
        table, test = self._compared(scalars)
        decisive = apply("not", test) if self.is_all else test
        result = apply(
            ">", scalars.count("decided", _counted(scalars, table, decisive)), ZERO_COUNT
        )
        unknown = _counted(scalars, table, apply("is_null", test))
        open_ = apply(">", scalars.count("open", unknown), ZERO_COUNT)
        if self.is_all:
            result = apply("case", result, Const(False), open_, Const(None), Const(True))
        elif open_ != Const(False):
            result = apply("case", result, Const(True), open_, Const(None), Const(False))
        return Typed(result, BOOLEAN)


def _not_true(test: ScalarExpr) -> ScalarExpr:
    """not(is_true(x <> c)) -> is_null(x) or is_null(c) or x == c, which unifies in one arm"""
    if isinstance(test, Apply) and test.function == "<>":
        left, right = test.arguments
        return apply(
            "or",
            apply("or", apply("is_null", left), apply("is_null", right)),
            apply("==", left, right),
        )
    return apply("not", apply("is_true", test))


def _counted(scalars: RowScalars, table: Table, test: ScalarExpr) -> Expr:
    return summed(scalars.variables, (), table.branches, cond(test))


def subquery_test(node: exp.Expr) -> SubqueryTest | None:
    """The test on a subquery that a node is, if it is one."""
    node = unwrapped(node)
    if isinstance(node, exp.Not):
        inner = unwrapped(node.this)
        if isinstance(inner, exp.Exists):
            return ExistsTest(inner, True)
        if isinstance(inner, exp.In) and inner.args.get("query") is not None:
            return QuantifiedTest(inner.this, "<>", inner.args["query"], True, inner)
        return None
    if isinstance(node, exp.Exists):
        return ExistsTest(node, False)
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return QuantifiedTest(node.this, "=", node.args["query"], False, node)
    if type(node) in COMPARISONS:
        right = node.args["expression"]
        if isinstance(right, exp.Any | exp.All):
            query = unwrapped(right.this)
            is_all = isinstance(right, exp.All)
            return QuantifiedTest(node.this, COMPARISONS[type(node)], query, is_all, node)
    return None
