"""Which steps of a trigger can run at the same time, in two lanes.

Two steps conflict where one writes a map that the other reads or writes; of such a pair the first
must have ended before the second starts. Steps that write the same map are one task. Tasks that no
chain of conflicts joins need no order at all:

    on lineitem:  d += Δlineitem | v += d * m | m += d | n += Δlineitem * k
    ->            phase 1:  [d, v, m] beside [n]

Where everything is joined, tasks run level by level, and those of a level side by side:

    on lineitem:  d += Δlineitem | v += d * m | w += d * m | m += d
    ->            phase 1: [d]   phase 2: [v] beside [w]   phase 3: [m]

The order of conflicting steps is kept, so all phases one after the other are the trigger.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_walk import bodies, changed_maps, read_maps
from viewlet.kernels.loop_nodes import Block, Step

Task = list[int]
"""Numbers of steps, in their order."""

_SMALLEST_SHARE = 0.15
_SMALLEST_COST = 3.0
"""What a lane must have of a phase's cost, and at least: less is not worth a loop over the rows."""


def plan_lanes(steps: list[Step]) -> list[list[list[Step]]]:
    """Phases of lanes of steps: together the same steps, in an order that keeps conflicts."""
    tasks, before = _tasks(steps)
    costs = [sum(_cost(steps[i].block) for i in task) for task in tasks]
    groups = _components(len(tasks), before)
    shared = _two_lanes(groups, costs)
    if len(shared) > 1:
        phases = [shared]
    else:
        phases = [_two_lanes([[task] for task in level], costs) for level in _levels(before)]
    return [
        [[steps[i] for i in sorted(i for task in lane for i in tasks[task])] for lane in phase]
        for phase in _joined(phases)
    ]


def _tasks(steps: list[Step]) -> tuple[list[Task], list[set[int]]]:
    """Tasks, and for each one all that must end before it."""
    number = len(steps)
    reads = [read_maps(step.block) for step in steps]
    writes = [changed_maps(step.block) for step in steps]
    reaches = [[False] * number for _ in range(number)]
    for i, j in combinations(range(number), 2):
        same = bool(writes[i] & writes[j])
        reaches[i][j] = same or bool(writes[i] & reads[j] or reads[i] & writes[j])
        reaches[j][i] = same
    for k in range(number):
        for i in range(number):
            if reaches[i][k]:
                reaches[i] = [a or b for a, b in zip(reaches[i], reaches[k], strict=True)]
    # Steps that reach each other are one task: those of one map, and what lies between them.
    tasks: list[Task] = []
    for i in range(number):
        home = next((task for task in tasks if reaches[i][task[0]] and reaches[task[0]][i]), None)
        if home is None:
            tasks.append([i])
        else:
            home.append(i)
    before = [
        {a for a, first in enumerate(tasks) if a != b and reaches[first[0]][second[0]]}
        for b, second in enumerate(tasks)
    ]
    return tasks, before


def _components(number: int, before: list[set[int]]) -> list[list[int]]:
    """Tasks that depend on each other in some way, together."""
    groups: list[set[int]] = []
    for task in range(number):
        joined = {task, *before[task]}
        for group in [group for group in groups if group & joined]:
            joined |= group
            groups.remove(group)
        groups.append(joined)
    return [sorted(group) for group in groups]


def _levels(before: list[set[int]]) -> Iterator[list[int]]:
    """Tasks whose predecessors are all done, again and again."""
    pending = set(range(len(before)))
    while pending:
        ready = [task for task in sorted(pending) if not before[task] & pending]
        yield ready
        pending -= set(ready)


def _two_lanes(groups: list[list[int]], costs: list[float]) -> list[list[int]]:
    """Groups of tasks in two lanes of about the same cost; in one, where that is far from equal."""
    lanes: list[list[int]] = [[], []]
    loads = [0.0, 0.0]
    work = {id(group): sum(costs[task] for task in group) for group in groups}
    for group in sorted(groups, key=lambda group: -work[id(group)]):
        least = loads.index(min(loads))
        lanes[least] += group
        loads[least] += work[id(group)]
    if min(loads) < max(_SMALLEST_COST, _SMALLEST_SHARE * sum(loads)):
        return [sorted([*lanes[0], *lanes[1]])]
    return lanes


def _joined(phases: list[list[list[int]]]) -> Iterator[list[list[int]]]:
    """Neighboring phases of one lane each are one."""
    lane: list[int] = []
    for phase in phases:
        if len(phase) == 1:
            lane += phase[0]
            continue
        if lane:
            yield [lane]
        lane = []
        yield phase
    if lane:
        yield [lane]


def _cost(block: Block) -> float:
    """Cache misses that every row of the batch makes, roughly.

    What is behind a filter does not count: it may let few rows pass, and then reading the rows is
    most of the work, which a second lane does once more.
    """
    cost = 0.0
    for node in block:
        inside = sum(_cost(body) for body in bodies(node))
        match node:
            case ir.Update():
                cost += 4 if node.key else 0.2
            case ir.Get() | ir.Run():
                cost += 3 + inside
            case ir.Slice() | ir.Walk() | ir.Groups() | ir.Range() | ir.Border():
                cost += 3 + 2 * inside
            case ir.If():
                cost += 0.2
            case ir.MatchKey() | ir.IfTotal():
                cost += 0.2 + 0.5 * inside
            case _:
                cost += 0.1 + inside
    return cost
