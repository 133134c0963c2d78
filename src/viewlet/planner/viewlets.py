"""The viewlet transform: from view definitions to a programme that maintains them.

Algorithm 3.2 of the thesis. Every map's definition is differentiated for every relation that it
depends on; the delta is put in terms of the batch and of maps, which are maintained in turn.
Recursion ends because a flat delta joins fewer relations than its map (Theorem 2.3.1), and nested
bodies are maps of their own (Rule 4), whose change in a batch is a buffer that the others read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewlet.calculus.delta import Change, delta, unbounded
from viewlet.calculus.expr import (
    BUFFER,
    ZERO,
    Add,
    Cond,
    Delta,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    children,
    rebuild,
    walk,
)
from viewlet.calculus.query import Query
from viewlet.calculus.rewrite import expand
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import outputs
from viewlet.calculus.simplify import simplify
from viewlet.functions import Const, apply
from viewlet.planner.assemble import Maintenance, assemble
from viewlet.planner.duplicates import merge_duplicates
from viewlet.planner.maps import Maps, PlannedMap, is_value
from viewlet.planner.materialize import Materializer
from viewlet.program.check import check
from viewlet.program.ir import Program, View
from viewlet.program.optimize import optimize
from viewlet.schema import Catalog


def compile_program(catalog: Catalog, queries: Sequence[Query], *, keyed: bool = True) -> Program:
    """The programme that keeps all the views current, sharing what they have in common.

    `keyed`: joins along declared keys are kept in parts (materialize.py), which one process looks
    up at little cost. Without it every join is one map, as the thesis has it: more state, but a
    batch meets its matches in one place, and a cluster moves less.
    """
    planner = _Planner(catalog, keyed)
    views = tuple(planner.view(query) for query in queries)
    planner.run()
    views = merge_duplicates(planner.maps, planner.maintenance, views)
    return optimize(check(assemble(catalog, planner.maps, planner.maintenance, views)))


def conditions(expr: Expr) -> frozenset[Expr]:
    """The conditions of a query's rows, those of nested queries left aside."""
    if isinstance(expr, Cond):
        return frozenset((expr,))
    if isinstance(expr, Add | Mul | Sum):
        return frozenset[Expr]().union(*(conditions(part) for part in children(expr)))
    return frozenset()


def as_values(expr: Expr, rows: frozenset[Expr]) -> Expr:
    """q * {p} * a  ->  q * [case(p, 1, 0)] * a        p is not a condition of the rows

    The conditions of COUNT(x) FILTER (WHERE p) and SUM(CASE WHEN p THEN a END) choose what is added
    up, not which rows there are. As values they leave the skeleton alone, and all aggregates of a
    query are columns of the same maps.
    """
    if isinstance(expr, Cond) and expr not in rows and not is_value(expr):
        return Value(apply("case", expr.scalar, Const(1), Const(0)))
    if isinstance(expr, Add | Mul | Sum):
        return rebuild(expr, (as_values(part, rows) for part in children(expr)))
    return expr


class _Planner:
    def __init__(self, catalog: Catalog, keyed: bool) -> None:
        self._catalog = catalog
        self.maps = Maps(catalog)
        self.maintenance = Maintenance()
        self._materializer = Materializer(catalog, self.maps, keyed)

    def view(self, query: Query) -> View:
        """Allocate the view's own map and those that its lets read."""
        rows = conditions(query.components[0][1])
        columns = {
            name: self._materializer.decorrelate(as_values(component, rows))
            for name, component in query.components
        }
        planned = self.maps.add_view(query.name, query.keys, columns)
        lets = tuple(self._let(let) for let in query.lets)
        sources = tuple((name, planned.name, name) for name, _ in query.components)
        return View(replace(query, lets=lets), sources)

    def _let(self, let: Lift | Extreme) -> Lift | Extreme:
        simple = simplify(let)
        if not isinstance(simple, Lift | Extreme):
            # A constant, which a reader computes as well from the let as it stands.
            simple = let
        bound = outputs(simple.body)
        if isinstance(simple, Extreme):
            bound -= {simple.target}
        return replace(simple, body=schedule(self._materializer.body(simple.body, bound), bound))

    def run(self) -> None:
        while self.maps.unplanned:
            planned, column = self.maps.unplanned.pop(0)
            definition = planned.columns[column]
            for relation in sorted(self.maps.depends(definition)):
                self._maintain(planned, column, definition, relation)

    def _maintain(self, planned: PlannedMap, column: str, definition: Expr, relation: str) -> None:
        change = self._change(relation)
        if self._must_recompute(definition, relation, change):
            whole = self._materializer.expression(definition, frozenset((relation,)), frozenset())
            self.maintenance.recompute(relation, planned.name, column, schedule(whole))
            return
        difference = simplify(delta(definition, change), planned.keys)
        if difference == ZERO:
            return
        over_maps = self._materializer.expression(difference, frozenset((relation,)), frozenset())
        self.maintenance.update(relation, planned.name, column, schedule(over_maps))

    def _change(self, relation: str) -> Change:
        """R changes by ΔR; a nested map that depends on R changes by its buffer."""

        def change(atom: Rel | MapRef) -> Expr:
            if isinstance(atom, Rel):
                if atom.name == relation:
                    return Delta(atom.name, atom.variables)
                return ZERO
            definition = self.maps.by_name[atom.name].columns[atom.column]
            if relation not in self.maps.depends(definition):
                return ZERO
            return MapRef(BUFFER + atom.name, atom.column, atom.keys)

        return change

    def _must_recompute(self, definition: Expr, relation: str, change: Change) -> bool:
        """Thesis 3.5: recompute where a nested change is not bound to equality-correlated tuples.

        A map over a nested map that is itself recomputed has no delta to start from either.
        """
        if any(
            isinstance(node, MapRef)
            and self.maintenance.is_recomputed(relation, node.name, node.column)
            for node in walk(definition)
        ):
            return True
        return any(unbounded(monomial.expr(), change) for monomial in expand(definition))
