"""Recursive or tree: a plan for each view, by what both would cost.

    WITH (plan = ...)                              as it says
    joins of fewer than LEAST_JOINED relations     recursive: it has few maps there
    the recursive plan needs too many steps        tree
    otherwise                                      recursive, unless the tree costs much less

Steps are counted and not timed: a view has the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewlet.calculus.expr import Add, Atom, Expr, Mul, Nested, Rel, Sum, children
from viewlet.calculus.fields import remembered
from viewlet.calculus.query import Plan, Query, expressions
from viewlet.calculus.rewrite import expand
from viewlet.planner.join_graph import JoinGraph
from viewlet.planner.plan_cost import PlanEstimate, estimate
from viewlet.planner.statistics import Statistics
from viewlet.program.ir import Program
from viewlet.schema import Catalog

LEAST_JOINED = 5
MOST_STEPS = 600
TIMES_THE_TREE = 3
"""The recursive plan may take so many times the steps of the tree, within LEAST and MOST_STEPS: one
that takes more has more statements by as much."""
LEAST_STEPS = 200
MUCH_LESS = 0.5
"""Estimates are guesses: the tree is taken where it is expected to cost less than half."""


class TooManySteps(Exception):
    """A plan is given up."""


@dataclass
class Budget:
    """The steps that a plan takes; a step is one relation in a definition that changes."""

    most: int | None = None
    spent: int = 0

    def spend(self, steps: int) -> None:
        """Count some steps; TooManySteps where that is more than may be taken."""
        self.spent += steps
        if self.most is not None and self.spent > self.most:
            raise TooManySteps


Attempt = Callable[[Plan, Budget], Program]


@dataclass(frozen=True)
class Choice:
    """The plan of a view and why. An estimate is None where that plan was given up, or not made."""

    plan: Plan
    reason: str
    recursive: PlanEstimate | None = None
    tree: PlanEstimate | None = None
    program: Program | None = None
    """The program of the view alone, where it was made for an estimate."""


def choose(catalog: Catalog, query: Query, attempt: Attempt) -> Choice:
    """The plan of one view; `attempt` makes the program of it alone."""
    if query.plan is not None:
        return Choice(query.plan, "asked for")
    joined = widest_join(query)
    if joined < LEAST_JOINED:
        return Choice(Plan.RECURSIVE, f"{joined} relations joined at most")
    return compared(catalog, attempt)


def compared(catalog: Catalog, attempt: Attempt) -> Choice:
    """The better of both plans."""
    steps = Budget()
    tree_program = attempt(Plan.TREE, steps)
    rates = _rates(catalog, tree_program)
    tree = estimate(tree_program, rates)
    if steps.spent > MOST_STEPS:
        reason = f"recursive: not tried, the tree took {steps.spent} steps"
        return Choice(Plan.TREE, reason, None, tree, tree_program)
    most = min(MOST_STEPS, max(LEAST_STEPS, TIMES_THE_TREE * steps.spent))
    try:
        recursive_program = attempt(Plan.RECURSIVE, Budget(most))
    except TooManySteps:
        reason = f"recursive: given up after {most} steps"
        return Choice(Plan.TREE, reason, None, tree, tree_program)
    recursive = estimate(recursive_program, rates)
    ratio = tree.total / recursive.total
    reason = f"the tree is expected to cost {ratio:.2f} times as much"
    if ratio < MUCH_LESS:
        return Choice(Plan.TREE, reason, recursive, tree, tree_program)
    return Choice(Plan.RECURSIVE, reason, recursive, tree, recursive_program)


def widest_join(query: Query) -> int:
    """The most relations that one product of a query joins."""
    return max((_widest(expr) for expr in expressions(query)), default=0)


@remembered
def _widest(expr: Expr) -> int:
    nested = [_joined(expr.body)] if isinstance(expr, Nested) else []
    return max([_joined(expr), *nested, *map(_widest, children(expr))])


@remembered
def _joined(expr: Expr) -> int:
    """The most atoms of a term, those of nested bodies aside."""
    if isinstance(expr, Atom):
        return 1
    parts = [_joined(part) for part in children(expr)] if isinstance(expr, Add | Mul | Sum) else []
    return sum(parts) if isinstance(expr, Mul) else max(parts, default=0)


def _rates(catalog: Catalog, program: Program) -> dict[str, float]:
    """How often each relation changes, guessed from the widest joins that it takes part in."""
    rates: dict[str, float] = {}
    definitions = [m.columns[0].definition for m in program.state if m.columns[0].definition]
    for definition in sorted(definitions, key=_joined, reverse=True):
        for monomial in expand(definition):
            names = {f.name for f in monomial.factors if isinstance(f, Rel)}
            if names <= rates.keys():
                continue
            graph = JoinGraph(catalog, monomial.factors)
            statistics = Statistics(graph)
            for number, leaf in enumerate(graph.leaves):
                if isinstance(leaf.atom, Rel):
                    highest = rates.get(leaf.atom.name, 0.0)
                    rates[leaf.atom.name] = max(highest, statistics.rate(number))
    return rates
