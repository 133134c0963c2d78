"""Values that are chosen by the rows around a row, found by counting and kept by no position.

    b      := Sum[](W[g, o', k'] * {(o', k') < (o, k)})         how many rows are before a row
    (o, k)  the row at place p: the least o with p rows up to it, the least k beside it
    LAG(x)  the x of the row at place b

    T[g, o, k] := Exists(ΔW[g, o, k]
                       + ΔW[g, o', k'] * (b := before (o', k')) * Each(i, 1 + back + ahead)
                         * (the row at place b + i - back))

are the rows that have a changed row among those around them: as many as the batch has, wherever it
falls, where positions that are kept change with every row before. Each count and each place is a
descent in an ordered index. Rows must be told apart by keys that are never NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewlet.calculus.expr import (
    PRESENCE,
    Each,
    Expr,
    MapRef,
    assign,
    cond,
    exists_of,
    extreme,
    lift,
    product_of,
    sum_of,
    sum_over,
)
from viewlet.frontend.products import Branch, Variables, product
from viewlet.frontend.window_rows import OrderKey, Rows
from viewlet.functions import Const, Ref, ScalarExpr, apply

Keys = Mapping[str, str]
"""The variables of a row's order keys, by those of the rows' own names."""


@dataclass(frozen=True)
class NearbyRows:
    """The variables of how many rows are before a frame, and how many are in it."""

    start: str
    size: str

    @property
    def end(self) -> ScalarExpr:
        """The place of its last row."""
        return apply("+", Ref(self.start), Ref(self.size))


@dataclass(frozen=True)
class Neighbors:
    """The rows of partitions in an order that tells all of them apart."""

    variables: Variables
    rows: Rows
    partition: tuple[str, ...]
    order: tuple[OrderKey, ...]

    @property
    def own(self) -> dict[str, str]:
        """The keys of the row that values are made for."""
        return {key.variable: key.variable for key in self.order}

    def before(self, row: Keys) -> tuple[str, Expr]:
        """(b := rows of the partition before a row)"""
        count = self.variables.fresh("before")
        return count, lift(count, self._before(row, self.order))

    def _before(self, row: Keys, order: Sequence[OrderKey]) -> Expr:
        terms = []
        for at, key in enumerate(order):
            expr, names = self.rows.copy(self.variables, self.partition)
            tests = [self._same(names, row, k) for k in order[:at]]
            tests.append(cond(apply(key.before, Ref(names[key.variable]), Ref(row[key.variable]))))
            shown = [row[k.variable] for k in order[: at + 1]]
            terms.append(sum_over((*self.partition, *shown), product((expr, *tests))))
        return sum_of(*terms)

    def _same(self, names: Mapping[str, str], row: Keys, key: OrderKey) -> Expr:
        return cond(apply("==", Ref(names[key.variable]), Ref(row[key.variable])))

    def at(self, ordinal: str) -> tuple[dict[str, str], list[Expr]]:
        """The keys of the row at a place from 1 on, NULL behind the last, and what finds them."""
        row: dict[str, str] = {}
        factors: list[Expr] = []
        for at, key in enumerate(self.order):
            ahead = self.order[:at]
            expr, names = self.rows.copy(self.variables, self.partition)
            other, others = self.rows.copy(self.variables, self.partition)
            target = names[key.variable]
            is_up_to = ">=" if key.descending else "<="
            fixed = [row[k.variable] for k in ahead]
            up_to = self.variables.fresh("up_to")
            tests = [self._same(others, row, k) for k in ahead]
            tests.append(cond(apply(is_up_to, Ref(others[key.variable]), Ref(target))))
            count = lift(
                up_to, sum_over((*self.partition, *fixed, target), product((other, *tests)))
            )
            enough = cond(apply(">=", Ref(up_to), Ref(ordinal)))
            same = [self._same(names, row, k) for k in ahead]
            body = sum_over(
                (*self.partition, *fixed, target, ordinal), product((expr, *same, count, enough))
            )
            choice = self.variables.fresh("row_key", nullable=True)
            factors.append(extreme(choice, "max" if key.descending else "min", target, body))
            row[key.variable] = choice
            if at + 1 < len(self.order):
                skipped, skipping = self._strictly_before(row, at)
                rest = self.variables.fresh("rest")
                factors += [skipping, assign(rest, apply("-", Ref(ordinal), Ref(skipped)))]
                ordinal = rest
        return row, factors

    def _strictly_before(self, row: Keys, at: int) -> tuple[str, Expr]:
        """Rows that equal a row in the keys before one, and are before it in that one."""
        key = self.order[at]
        expr, names = self.rows.copy(self.variables, self.partition)
        tests = [self._same(names, row, k) for k in self.order[:at]]
        tests.append(cond(apply(key.before, Ref(names[key.variable]), Ref(row[key.variable]))))
        shown = [row[k.variable] for k in self.order[: at + 1]]
        count = self.variables.fresh("skipped")
        return count, lift(count, sum_over((*self.partition, *shown), product((expr, *tests))))

    def is_there(self, row: Keys) -> ScalarExpr:
        """Whether there was a row at the place."""
        return apply("not", apply("is_null", Ref(row[self.order[-1].variable])))

    def value(self, row: Keys, scalar: ScalarExpr) -> tuple[str, Expr]:
        """(v := the scalar of a row), NULL where there is no row."""
        branch, names = self.rows.branch(self.variables, self.partition)
        target = self.variables.fresh("value", nullable=True)
        same = [self._same(names, row, key) for key in self.order]
        content = assign(target, branch.resolve(scalar))
        shown = [row[key.variable] for key in self.order]
        body = sum_over(
            (*self.partition, *shown, target), product((*branch.factors, *same, content))
        )
        variable = self.variables.fresh("found", nullable=True)
        return variable, extreme(variable, "max", target, body)

    def frame(self, before: str, first: int, last: int) -> tuple[NearbyRows, list[Expr]]:
        """The places from one distance to another around a row, as far as there are rows."""
        expr, _ = self.rows.copy(self.variables, self.partition)
        total = self.variables.fresh("total")
        start, size = self.variables.fresh("start"), self.variables.fresh("size")
        from_, to = apply("+", Ref(before), Const(first)), apply("+", Ref(before), Const(last + 1))
        factors = [
            lift(total, sum_over(self.partition, expr)),
            assign(start, apply("greatest", from_, Const(0))),
            assign(size, apply("-", apply("least", to, Ref(total)), Ref(start))),
        ]
        return NearbyRows(start, size), factors

    def around(
        self, frame: NearbyRows, excluded: str | None, peers: Sequence[OrderKey]
    ) -> tuple[Branch, str]:
        """The rows of a frame, and the variable of their places."""
        step, ordinal = self.variables.fresh("step"), self.variables.fresh("place")
        row, finding = self.at(ordinal)
        branch, names = self.rows.branch(self.variables, self.partition)
        tests = [self._same(names, row, key) for key in self.order]
        if excluded is not None:
            is_same = self._equal(names, self.order)
            is_peer = self._equal(names, peers)
            if excluded == "CURRENT ROW":
                left_out = is_same
            elif excluded == "GROUP":
                left_out = is_peer
            else:
                left_out = apply("and", is_peer, apply("not", is_same))
            tests.append(cond(apply("not", left_out)))
        factors = (
            Each(step, Ref(frame.size)),
            assign(ordinal, apply("+", Ref(frame.start), Ref(step))),
            *finding,
        )
        return Branch((*factors, *branch.factors, *tests), branch.bindings), ordinal

    def _equal(self, names: Mapping[str, str], keys: Sequence[OrderKey]) -> ScalarExpr:
        """Whether another row has the keys of the row that values are made for."""
        result: ScalarExpr = Const(True)
        for key in keys:
            result = apply("and", apply("==", Ref(names[key.variable]), Ref(key.variable)), result)
        return result

    def touched(self, change: str, back: int, ahead: int) -> Expr:
        """T: rows with a changed one at most `ahead` rows before them, or `back` rows behind."""
        assert isinstance(self.rows.expr, MapRef)
        own = [key.variable for key in self.order]
        copy, _ = self.rows.copy(self.variables, (*self.partition, *own))
        other, names = self.rows.copy(self.variables, self.partition)
        assert isinstance(copy, MapRef) and isinstance(other, MapRef)
        changed = MapRef(change, PRESENCE, copy.keys)
        source = MapRef(change, PRESENCE, other.keys)
        point = {variable: names[variable] for variable in own}
        count, counting = self.before(point)
        step, ordinal = self.variables.fresh("step"), self.variables.fresh("place")
        row, finding = self.at(ordinal)
        near = product_of(
            exists_of(sum_over((*self.partition, *point.values()), source)),
            counting,
            Each(step, Const(1 + back + ahead)),
            assign(ordinal, apply("-", apply("+", Ref(count), Ref(step)), Const(back))),
            cond(apply(">=", Ref(ordinal), Const(1))),
            *finding,
            cond(self.is_there(row)),
            *(assign(variable, Ref(row[variable])) for variable in own),
        )
        keys = (*self.partition, *own)
        return exists_of(sum_of(sum_over(keys, changed), sum_over(keys, near)))
