"""The plan of a view as `explain` prints it: both candidates, their estimates, and the trees.

view v: tree, recursive: given up after 1000 steps
  tree       20 maps, 70 statements, 48.4 records for a changed row
    cast_info 61.2, company_name 80.1, ...
  trees
    m_title[t_title]
      [] title
        [t_id] movie_companies
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.calculus.query import Plan, Query
from viewlet.planner.grouped_views import MOST_NODES, length, with_grouped_views
from viewlet.planner.join_graph import JoinGraph
from viewlet.planner.plan_choice import Choice
from viewlet.planner.plan_cost import PlanEstimate
from viewlet.planner.tree_maps import Rooted
from viewlet.planner.view_tree import TreeNode


def plan_text(
    query: Query, choice: Choice, trees: Iterable[Rooted], recomputed: Iterable[str] = ()
) -> str:
    """The choice for a view, the trees that it would have or has, and what is `recomputed`."""
    lines = [f"view {query.name}: {choice.plan.value}, {choice.reason}"]
    stored = len(with_grouped_views(query).inner) - len(query.inner)
    if stored:
        lines.append(
            f"  {stored} grouped subqueries are kept with their rows, as the query is long: "
            f"{length(query)} nodes, and {MOST_NODES} at most are planned in one piece"
        )
    for plan, estimate in ((Plan.RECURSIVE, choice.recursive), (Plan.TREE, choice.tree)):
        if estimate is not None:
            lines += _estimate_lines(plan, estimate)
    # The columns of a map have the same tree, most often.
    shown = dict.fromkeys(_tree_text(rooted) for rooted in trees)
    if shown:
        lines += ["  trees", *shown]
    lines += [f"  recomputed: {reason}" for reason in recomputed]
    return "\n".join(lines) + "\n"


def _estimate_lines(plan: Plan, estimate: PlanEstimate) -> list[str]:
    touched = ", ".join(f"{name} {count:.1f}" for name, count in sorted(estimate.touched.items()))
    return [
        f"  {plan.value:10} {estimate.maps} maps, {estimate.statements} statements, "
        f"{estimate.total:.1f} records for a changed row",
        f"    {touched}",
    ]


def _tree_text(rooted: Rooted) -> str:
    head = f"    {rooted.map}[{', '.join(rooted.keys)}]"
    return "\n".join([head, *_node_lines(rooted.graph, rooted.root, 6)])


def _node_lines(graph: JoinGraph, node: TreeNode, indent: int) -> list[str]:
    """A line for each node: what its message shows, and the relations of its bag."""
    names = " * ".join(graph.leaves[leaf].atom_name for leaf in node.bag)
    note = "" if len(node.bag) == 1 else "  cyclic: joined row by row, pairs are not kept"
    line = f"{' ' * indent}[{', '.join(sorted(node.shown))}] {names}{note}"
    below = (_node_lines(graph, child, indent + 2) for child in node.children)
    return [line, *(text for part in below for text in part)]
