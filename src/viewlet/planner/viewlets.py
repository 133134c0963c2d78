"""The viewlet transform: from view definitions to a program that maintains them.

Thesis chapter 3, Algorithm 3.2. Every map's definition is differentiated for every relation that it
depends on; the delta is put in terms of the batch and of maps, which are maintained in turn.
Recursion ends because a flat delta joins fewer relations than its map (Theorem 2.3.1), and nested
bodies are maps of their own (Rule 4), whose change in a batch is a buffer that the others read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from viewlet.calculus.delta import Change, delta, unbounded
from viewlet.calculus.expr import (
    ZERO,
    Add,
    Cond,
    Delta,
    Exists,
    Expr,
    Lift,
    MapRef,
    Mul,
    NestedValue,
    Rel,
    Sum,
    Value,
    children,
    factors_of,
    mapped,
    product_of,
    rebuild,
    relations,
    transform,
    walk,
    with_fields,
)
from viewlet.calculus.query import InnerView, Plan, Query, with_expressions
from viewlet.calculus.rewrite import expand, project
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import all_names, inputs, outputs
from viewlet.calculus.simplify import simplify
from viewlet.calculus.typing import variable_slots, weight_type
from viewlet.functions import Const, apply
from viewlet.garbage import no_collection
from viewlet.planner.assemble import Maintenance, assemble
from viewlet.planner.duplicates import merge_duplicates
from viewlet.planner.frontiers import (
    EVERYTHING_EAGER,
    Frontier,
    joined_variables,
    used_variables,
)
from viewlet.planner.grouped_views import with_grouped_views
from viewlet.planner.maps import Maps, PlannedMap, is_value
from viewlet.planner.materialize import Materializer
from viewlet.planner.plan_choice import Attempt, Budget, Choice, choose, compared
from viewlet.planner.plan_text import plan_text
from viewlet.planner.tree_maps import TreeMaps
from viewlet.program.check import check
from viewlet.program.frontier import reevaluate_on_read
from viewlet.program.ir import Program, View, relation_signature
from viewlet.program.optimize import optimize
from viewlet.schema import Catalog, Physical, Relation


@no_collection()
def compile_program(
    catalog: Catalog,
    queries: Sequence[Query],
    *,
    keyed: bool = True,
    frontiers: Mapping[str, Frontier] = EVERYTHING_EAGER,
) -> Program:
    """The program that keeps all the views current, sharing what they have in common.

    `keyed`: joins along declared keys are kept in parts (materialize.py), which one process looks
    up at little cost. Without it every join is one map, as the thesis has it: more state, but a
    batch meets its matches in one place, and a cluster moves less. `frontiers`: how far batches go
    for each view; of those that are not named, all the way.
    """
    chosen = {q.name: frontiers.get(q.name, Frontier.EAGER) for q in queries}
    on_read = frozenset(view for view, frontier in chosen.items() if frontier.is_on_read)
    choices = [plan_choice(catalog, query, keyed=keyed) for query in queries]
    if (
        len(choices) == 1
        and choices[0].program is not None
        and Frontier.LEAVES not in chosen.values()
    ):
        program = choices[0].program
    else:
        plans = [choice.plan for choice in choices]
        program = _planned(catalog, queries, plans, keyed, Budget(), frontiers)
    return reevaluate_on_read(program, on_read)


def joins_on_read(program: Program, view: str) -> bool:
    """Whether a read of a view that is cut at its leaves has more to do than to copy one map."""
    refresh = program.refresh(view)
    return refresh is not None and any(len(s.reads) > 1 for s in refresh.statements)


def plan_choice(catalog: Catalog, query: Query, *, keyed: bool = True) -> Choice:
    """How a view is maintained, and what else was considered."""
    return _choice(tuple(catalog), query, keyed)


def explain_plan(catalog: Catalog, query: Query, *, keyed: bool = True) -> str:
    """The plan of a view with both candidates, compared even where that decided nothing."""
    choice = plan_choice(catalog, query, keyed=keyed)
    if choice.tree is None:
        both = compared(catalog, _attempts(catalog, query, keyed))
        choice = replace(choice, recursive=both.recursive, tree=both.tree)
    planner = _Planner(catalog, [query.name], keyed, Budget())
    planner.view(query, Plan.TREE)
    planner.run()
    recomputed = recomputations(catalog, query, choice.plan, keyed=keyed)
    return plan_text(query, choice, planner.trees.rooted, recomputed)


def recomputations(
    catalog: Catalog, query: Query, plan: Plan | None = None, *, keyed: bool = True
) -> list[str]:
    """What batches compute anew for a view instead of changing it, and why."""
    reasons = list(dict.fromkeys(v.recomputed for v in query.inner if v.recomputed))
    chosen = plan or plan_choice(catalog, query, keyed=keyed).plan
    program = _planned(catalog, [query], [chosen], keyed, Budget())
    whole = {
        (statement.target, trigger.relation)
        for trigger in program.triggers
        for statement in trigger.statements
        if statement.op == ":=" and not program.map(statement.target).buffer
    }
    why = (
        f"plan = '{chosen.value}'"
        if chosen is Plan.REEVALUATED
        else "a nested value of it is tied to no row by ="
    )
    return reasons + [f"{name} by changes of {relation}: {why}" for name, relation in sorted(whole)]


@lru_cache(maxsize=1 << 8)  # a database plans all of its views anew when one comes or goes
@no_collection()
def _choice(relations: tuple[Relation, ...], query: Query, keyed: bool) -> Choice:
    catalog = Catalog({relation.name: relation for relation in relations})
    return choose(catalog, query, _attempts(catalog, query, keyed))


def _attempts(catalog: Catalog, query: Query, keyed: bool) -> Attempt:
    """The program of one view alone, by plan."""

    def attempt(plan: Plan, budget: Budget) -> Program:
        return _planned(catalog, [query], [plan], keyed, budget)

    return attempt


def _planned(
    catalog: Catalog,
    queries: Sequence[Query],
    plans: Sequence[Plan],
    keyed: bool,
    budget: Budget,
    frontiers: Mapping[str, Frontier] = EVERYTHING_EAGER,
) -> Program:
    planner = _Planner(catalog, [query.name for query in queries], keyed, budget, frontiers)
    views = tuple(map(planner.view, queries, plans))
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
    def __init__(
        self,
        catalog: Catalog,
        views: Sequence[str],
        keyed: bool,
        budget: Budget,
        frontiers: Mapping[str, Frontier] = EVERYTHING_EAGER,
    ) -> None:
        self._budget = budget
        self._frontiers = frontiers
        self._catalog = catalog
        self.maps = Maps(catalog, views)
        self.maintenance = Maintenance()
        self._materializer = Materializer(catalog, self.maps, keyed)
        self.trees = TreeMaps(catalog, self.maps)
        self._unchanged: set[tuple[str, str, str]] = set()
        """Columns of maps that read a relation whose changes cancel in them."""

    def view(self, query: Query, plan: Plan) -> View:
        """Allocate the view's own map and those that its lets and inner views read."""
        self.maps.plan = plan
        planned_query = self._over_inner_maps(with_grouped_views(query))
        rows = conditions(planned_query.components[0][1])
        columns = {
            name: self._materializer.decorrelate(as_values(component, rows))
            for name, component in planned_query.components
        }
        planned = self.maps.add_view(query.name, query.keys, columns)
        if self._frontiers.get(query.name) is Frontier.LEAVES:
            planned.refreshes = query.name
        lets = tuple(self._let(let) for let in planned_query.lets)
        sources = tuple((name, planned.name, name) for name, _ in query.components)
        return View(replace(query, lets=lets), sources)

    def _over_inner_maps(self, query: Query) -> Query:
        """joined_1[x, y].count  ->  m_joined_1a2b[x, y].count, a map with the inner view's rows"""
        names: dict[str, str] = {}
        sources = {view.made_from for view in query.inner}

        def rule(node: Expr) -> Expr:
            if isinstance(node, MapRef) and node.name in names:
                return MapRef(names[node.name], node.column, node.keys)
            return node

        for view in query.inner:
            body = transform(view.body, rule)
            definition = self._materializer.decorrelate(self._with_sums_as_values(body))
            is_shared = view.name not in sources
            planned = self.maps.add_inner(view.keys, body, definition, is_shared=is_shared)
            names[view.name] = planned.name
            if view.made_from is not None and planned.touched is None:
                touched = transform(view.touched, rule)
                planned.touched = self._touched(touched, view, names[view.made_from])
        return with_expressions(query, lambda expr: transform(expr, rule)) if names else query

    def _with_sums_as_values(self, body: Expr) -> Expr:
        """Exists(q) * (x := q * {p} * a)  ->  Exists(q) * (x := q * [case(p, 1, 0)] * a)

        The sums of a grouped subquery are columns of the maps that say which groups there are, as
        those of a view are; whole numbers only, since 0 times infinity is not 0.
        """
        rows = [conditions(f.body) for f in factors_of(body) if isinstance(f, Exists)]
        if len(rows) != 1 or isinstance(body, Exists):
            return body
        factors = []
        for factor in factors_of(body):
            if isinstance(factor, Lift) and self._is_whole(factor.body):
                factor = Lift(factor.variable, as_values(factor.body, rows[0]))
            factors.append(factor)
        return product_of(*factors)

    def _is_whole(self, expr: Expr) -> bool:
        """Whether the weights of an expression over relations alone are whole numbers."""
        if any(isinstance(node, MapRef) for node in walk(expr)):
            return False
        signatures = {name: relation_signature(self._catalog[name]) for name in relations(expr)}
        slots = variable_slots(expr, signatures)
        return weight_type(expr, signatures, slots) is Physical.INT

    def _touched(self, touched: Expr, view: InnerView, source: str) -> Expr:
        """The rows that are replaced, over the buffer that holds the change of their source, and
        what is counted in the source itself over maps."""
        buffer = self.maps.change(source)

        def rule(node: Expr) -> Expr:
            if isinstance(node, MapRef) and node.name == view.change:
                return MapRef(buffer, node.column, node.keys, buffer=True)
            return node

        touched = transform(touched, rule)
        if not any(map(self.maps.is_inner, walk(touched))):
            return touched
        return self._values_over_maps(simplify(touched))

    def _values_over_maps(self, expr: Expr) -> Expr:
        """Lifts and extremes over maps; all around them stays as it is."""
        if isinstance(expr, NestedValue):
            return self._materializer.decorrelate(expr)
        return mapped(expr, part=self._values_over_maps)

    def _let(self, let: NestedValue) -> NestedValue:
        simple = simplify(let)
        if not isinstance(simple, NestedValue):
            # A constant, which a reader computes as well from the let as it stands.
            simple = let
        bound = inputs(simple)
        return with_fields(
            simple, part=lambda body: schedule(self._materializer.body(body, bound), bound)
        )

    def run(self) -> None:
        while self.maps.unplanned:
            planned, column = self.maps.unplanned.pop(0)
            self.maps.plan = planned.plan
            definition = planned.columns[column]
            if planned.refreshes is not None:
                self._refresh(planned.refreshes, planned, column)
                continue
            for relation in sorted(self.maps.depends(definition)):
                self._maintain(planned, column, definition, relation)

    def _refresh(self, view: str, planned: PlannedMap, column: str) -> None:
        """The definition over maps of one relation each, and of nested values."""
        definition = planned.columns[column]
        changing = self.maps.depends(definition)
        computed = self._materializer.recomputed(definition, changing, joined_variables)
        if computed != ZERO:
            self.maintenance.refresh(view, planned.name, column, schedule(computed))

    def _maintain(self, planned: PlannedMap, column: str, definition: Expr, relation: str) -> None:
        self._budget.spend(sum(isinstance(node, Rel) for node in walk(definition)))
        change = self._change(relation)
        if planned.touched is not None:
            self._replace(planned, planned.touched, column, relation)
            return
        if planned.is_reevaluated:
            self._reevaluate(planned, column, relation)
            return
        if self._must_recompute(definition, relation, change):
            recomputed = self._materializer.recomputed(definition, frozenset((relation,)))
            self.maintenance.recompute(relation, planned.name, column, schedule(recomputed))
            return
        tree = self.trees.tree(planned, column) if planned.plan is Plan.TREE else None
        if tree is not None:
            along = self.trees.change(tree, frozenset(planned.keys), change)
            self.maintenance.update(relation, planned.name, column, schedule(along))
            return
        difference = simplify(delta(definition, change), planned.keys)
        if difference == ZERO:
            self._unchanged.add((planned.name, column, relation))
            return
        changing = frozenset((relation,))
        over_maps = (
            self._materializer.recomputed(difference, changing, joined_variables)
            if planned.plan is Plan.CLASSICAL
            else self._materializer.expression(difference, changing, frozenset())
        )
        self.maintenance.update(relation, planned.name, column, schedule(over_maps))

    def _reevaluate(self, planned: PlannedMap, column: str, relation: str) -> None:
        """A column over the rows of relations, in what any column of its map uses of them."""
        used = frozenset[str]().union(
            *(
                used_variables(monomial.factors)
                for definition in planned.columns.values()
                for monomial in expand(definition)
            )
        )
        computed = self._materializer.recomputed(
            planned.columns[column],
            frozenset((relation,)),
            lambda factors: used & frozenset[str]().union(*map(outputs, factors)),
        )
        self.maintenance.recompute(relation, planned.name, column, schedule(computed))

    def _replace(self, planned: PlannedMap, touched: Expr, column: str, relation: str) -> None:
        """Rows that are touched go as they are, and come back as the source has them then.

        Everything is over maps already. A source that is recomputed says nothing about what changed
        in it.
        """
        definition = planned.columns[column]
        if self._reads_recomputed(definition, relation):
            self.maintenance.recompute(relation, planned.name, column, schedule(definition))
            return
        old = MapRef(planned.name, column, planned.keys)
        self.maintenance.replace(
            relation,
            planned.name,
            column,
            out=schedule(product_of(touched, old)),
            into=schedule(project(planned.keys, _touched_rows(touched, definition))),
        )

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
            if (atom.name, atom.column, relation) in self._unchanged:
                return ZERO
            return MapRef(self.maps.change(atom.name), atom.column, atom.keys, buffer=True)

        return change

    def _must_recompute(self, definition: Expr, relation: str, change: Change) -> bool:
        """Thesis 3.5: recompute where a nested change is not bound to equality-correlated tuples.

        A map over a nested map that is itself recomputed has no delta to start from either.
        """
        if self._reads_recomputed(definition, relation):
            return True
        return any(unbounded(monomial.expr(), change) for monomial in expand(definition))

    def _reads_recomputed(self, definition: Expr, relation: str) -> bool:
        return any(
            isinstance(node, MapRef)
            and self.maintenance.is_recomputed(relation, node.name, node.column)
            for node in walk(definition)
        )


def _touched_rows(touched: Expr, definition: Expr) -> Expr:
    """t * Sum[k](q) -> t * q  where t has no variable of q but k: its tests end the loop of q"""
    body = definition.body if isinstance(definition, Sum) else definition
    keys = frozenset(definition.keys) if isinstance(definition, Sum) else frozenset[str]()
    if all_names(touched) & all_names(body) <= keys:
        return product_of(touched, body)
    return product_of(touched, definition)
