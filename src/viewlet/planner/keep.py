"""Which maps to keep between two refreshes within a budget of memory (paper 002, section 4).

    minimize   cost of what must be built before the next change can be applied
    such that  the bytes of what is kept fit

The paper fills a table of costs by memory over a tree of operators, D(m) and F(m). The maps of a
trigger program are a DAG, and what is built for one serves others: the cost of a set is that of the
union of the statements that build it. So the set is found by branch and bound, exactly unless there
are very many maps: dropping one more never makes it cheaper, which is the bound. `recycle` is the
greedy rule that the paper compares with: most cost per byte first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from viewlet.planner.plan_cost import RecordCounter
from viewlet.program.ir import Program
from viewlet.program.keys import Keys
from viewlet.program.prune import part_of

_MOST_STEPS = 20_000
"""Sets that are looked at; the best of them is taken when there are more."""

Cost = Callable[[frozenset[str]], float]
"""What it costs to build a set of maps anew."""


@dataclass(frozen=True)
class BuildCosts:
    """The work of building maps from the rows of relations, statement by statement."""

    statements: Mapping[str, frozenset[int]]
    """Of each map, the statements that its contents take."""
    work: Sequence[float]
    """Of each statement, the records that it touches over all rows of its relation."""

    def of(self, maps: Collection[str]) -> float:
        """The records that are touched to build all of these together."""
        needed = frozenset[int]().union(*(self.statements[name] for name in maps))
        return sum(self.work[i] for i in needed)


def build_costs(
    program: Program, maps: Collection[str], rows: Mapping[str, float], sizes: Mapping[str, float]
) -> BuildCosts:
    """What each map costs. `rows` are those of relations, `sizes` those of maps, by their names."""
    keys = Keys(program)
    work: list[float] = []
    numbers: dict[tuple[str, object], int] = {}
    for trigger in program.triggers:
        counter = RecordCounter(keys, sizes)
        for statement in trigger.statements:
            numbers[trigger.relation, statement] = len(work)
            work.append(rows.get(trigger.relation, 0.0) * counter.statement(statement))
    statements = {}
    for name in maps:
        part = part_of(program, maps=(name,))
        statements[name] = frozenset(
            numbers[t.relation, s] for t in part.triggers for s in t.statements
        )
    return BuildCosts(statements, work)


def choose(sizes: Mapping[str, int], budget: float, cost: Cost) -> frozenset[str]:
    """The maps to keep: those without which the rest costs least to build, within the budget.

    `cost` must not fall when its set grows.
    """
    if sum(sizes.values()) <= budget:
        return frozenset(sizes)
    search = _Search(sizes, budget, cost, recycle(sizes, budget, cost))
    search.descend(0, frozenset(), frozenset(), 0)
    return search.best


def recycle(sizes: Mapping[str, int], budget: float, cost: Cost) -> frozenset[str]:
    """What costs most per byte is kept first, as long as it fits."""
    each = {name: cost(frozenset((name,))) / max(size, 1) for name, size in sizes.items()}
    chosen: set[str] = set()
    used = 0
    for name in sorted(sizes, key=lambda n: (-each[n], n)):
        if used + sizes[name] <= budget:
            chosen.add(name)
            used += sizes[name]
    return frozenset(chosen)


class _Search:
    """Depth first: the largest map is kept or dropped, then the next."""

    def __init__(
        self, sizes: Mapping[str, int], budget: float, cost: Cost, start: frozenset[str]
    ) -> None:
        self._sizes = sizes
        self._names = sorted(sizes, key=lambda n: (-sizes[n], n))
        self._budget = budget
        self._cost = cost
        self._steps = 0
        self.best = start
        self._least = cost(frozenset(sizes) - start)

    def descend(self, at: int, chosen: frozenset[str], dropped: frozenset[str], used: int) -> None:
        """Decide about the maps from `at` on."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return
        cost = self._cost(dropped)
        if cost >= self._least:
            return
        if at == len(self._names):
            self.best, self._least = chosen, cost
            return
        name = self._names[at]
        if used + self._sizes[name] <= self._budget:
            self.descend(at + 1, chosen | {name}, dropped, used + self._sizes[name])
        self.descend(at + 1, chosen, dropped | {name}, used)
