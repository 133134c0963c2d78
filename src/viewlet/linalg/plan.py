"""Strategies: re-evaluated, incremental or hybrid, under an iterative model (thesis 6.4).

  reevaluation  keep inputs and outputs, recompute every affected view
  incremental   every delta factored, dV = U V^T
  hybrid        deltas of narrow views and of the T_i of a recurrence dense, the others factored

`rank_plans` orders all combinations by estimated time for the expected update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from viewlet.errors import TypingError
from viewlet.linalg import cost
from viewlet.linalg import expr as ex
from viewlet.linalg.cost import Sizes
from viewlet.linalg.delta import Trigger, derive
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.fuse import fuse_products
from viewlet.linalg.lower import Statement, Views, lower
from viewlet.linalg.models import EXPONENTIAL, candidates, parse_model
from viewlet.linalg.ops import OpList, compile_assignments
from viewlet.linalg.traverse import children, leaves

STRATEGIES = ("reevaluation", "incremental", "hybrid")


@dataclass(frozen=True, eq=False)
class CompiledTrigger:
    """A trigger with its operations."""

    trigger: Trigger
    code: OpList
    fused: OpList  # the same with products over one matrix in one pass


class MaintenancePlan:
    """One strategy under one model: its views, and triggers compiled when first needed."""

    def __init__(self, strategy: str, views: Views) -> None:
        self.strategy = strategy
        self.views = views
        self._triggers: dict[tuple[tuple[Matrix, int], ...], CompiledTrigger] = {}
        self._evaluations: dict[frozenset[Matrix] | None, OpList] = {}

    def __str__(self) -> str:
        return f"{self.strategy}/{self.views.model}"

    @cached_property
    def dense(self) -> set[Matrix]:
        """The views whose deltas are one matrix; only hybrid has any."""
        if self.strategy != "hybrid":
            return set()
        return {
            view.matrix
            for view in self.views.views
            if not isinstance(view.definition, ex.Inverse)
            and (view.iterate or 2 * min(view.matrix.shape) < max(view.matrix.shape))
        }

    def trigger(self, ranks: Mapping[Matrix, int]) -> CompiledTrigger:
        """The trigger for updates of these ranks, compiled when it is first needed."""
        key = tuple(sorted(ranks.items(), key=lambda item: item[0].name))
        if key not in self._triggers:
            trigger = self._derive(dict(key))
            trigger = trigger.applied_to(self.stored | set(self.views.inputs))
            code = compile_assignments((a.target, a.value) for a in trigger.assignments)
            self._triggers[key] = CompiledTrigger(trigger, code, fuse_products(code))
        return self._triggers[key]

    def _derive(self, ranks: Mapping[Matrix, int]) -> Trigger:
        return derive(self.views, ranks, self.dense)

    def evaluation(self, changed: frozenset[Matrix] | None = None) -> OpList:
        """Code that recomputes the views that depend on `changed`; all views without it.

        What an affected view reads must be computed again unless it is kept.
        """
        if changed not in self._evaluations:
            views = self.views.views
            if changed is not None:
                views = self.views.affected_by(set(changed))
            targets = {view.matrix for view in views}
            targets |= self._unkept(targets)
            self._evaluations[changed] = compile_assignments(
                (view.matrix, view.definition)
                for view in self.views.views
                if view.matrix in targets
            )
        return self._evaluations[changed]

    def _unkept(self, targets: set[Matrix]) -> set[Matrix]:
        needed: set[Expr] = set()
        for view in reversed(self.views.views):
            if view.matrix in targets or view.matrix in needed:
                needed |= leaves(view.definition)
        return {
            v.matrix for v in self.views.views if v.matrix in needed and v.matrix not in self.stored
        }

    @cached_property
    def stored(self) -> set[Matrix]:
        """The views held as state: the outputs, and what some trigger reads.

        Z = X^T X of a regression is neither: only its factored delta is needed.
        """
        stored = set(self.views.outputs.values()) - set(self.views.inputs)
        if self.strategy == "reevaluation":
            return stored
        read: set[Expr] = set()
        for matrix in self.views.inputs:
            for assignment in self._derive({matrix: 1}).assignments:
                read |= leaves(assignment.value)
        return stored | {view.matrix for view in self.views.views if view.matrix in read}

    def reevaluation_seconds(self, changed: frozenset[Matrix], sizes: Sizes | None = None) -> float:
        """What computing anew all that depends on these inputs is estimated to take."""
        return cost.code_seconds(self.evaluation(changed), cost.machine_constants(), sizes)

    def trigger_seconds(self, ranks: Mapping[Matrix, int], sizes: Sizes | None = None) -> float:
        """What the trigger for updates of these ranks is estimated to take."""
        compiled = self.trigger(ranks)
        return cost.trigger_seconds(
            compiled.trigger, compiled.fused, cost.machine_constants(), sizes
        )

    def update_seconds(self, ranks: Mapping[Matrix, int], sizes: Sizes | None = None) -> float:
        """What an update of these ranks is estimated to take, by the plan's strategy."""
        if self.strategy == "reevaluation":
            return self.reevaluation_seconds(frozenset(ranks), sizes)
        return self.trigger_seconds(ranks, sizes)


@dataclass(frozen=True)
class Estimate:
    """What a plan is expected to take."""

    plan: MaintenancePlan
    seconds: float  # per update
    memory: int  # bytes of state


def longest_iteration(statements: Sequence[Statement]) -> int:
    """The most steps that an iteration of the program has."""
    longest = 0
    stack: list[Expr] = [e for _, e in statements]
    visited: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in visited:
            continue
        visited.add(e)
        if isinstance(e, ex.Power | ex.PowerSum | ex.Recurrence):
            longest = max(longest, e.k)
        stack.extend(children(e))
    return longest


def rank_plans(
    statements: Sequence[Statement],
    inputs: Sequence[Matrix],
    outputs: Sequence[str] | None,
    *,
    strategy: str = "auto",
    model: str = "auto",
    changing: Sequence[Matrix] | None = None,
    rank: int = 1,
    sizes: Sizes | None = None,
) -> list[Estimate]:
    """All plans that the request allows, cheapest first.

    The price of a plan is its mean time over updates of the given rank to each changing input.
    """
    short = {"reeval": "reevaluation", "incr": "incremental"}.get(strategy, strategy)
    if short not in (*STRATEGIES, "auto"):
        raise TypingError(
            f"unknown strategy {strategy!r}",
            hint=f"use 'auto' or one of {', '.join(repr(s) for s in STRATEGIES)}",
        )
    longest = longest_iteration(statements)
    if model == "auto":
        models = candidates(longest)
    else:
        models = [parse_model(model)] if longest else [EXPONENTIAL]
    strategies = STRATEGIES if short == "auto" else (short,)
    estimates = []
    for unfolded in models:
        views = lower(statements, inputs, unfolded, outputs)
        moving = [m for m in (changing or inputs) if views.affected_by({m})] or list(inputs)
        for name in strategies:
            plan = MaintenancePlan(name, views)
            if name == "hybrid" and short == "auto" and not plan.dense:
                continue  # the same as incremental
            times = [plan.update_seconds({m: rank}, sizes) for m in moving]
            seconds = sum(times) / max(len(times), 1)
            estimates.append(Estimate(plan, seconds, cost.memory_bytes({*inputs, *plan.stored})))
    return sorted(estimates, key=lambda e: e.seconds)
