"""What statements of one step have in common, done once.

    range(count; M, key, p < x) ... range(sum; M, key, p < x)  ->  range(count, sum; M, key, p < x)
    M[k].a += x ... M[k].b += y, M[k].a += z                   ->  M[k].a += x, .b += y, .a += z

Every term of a statement and every statement of a step is built for itself; that several ask one
tree about one range, or change one record, shows only when they stand side by side.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from viewlet.functions import Ref, free_variables, substitute
from viewlet.kernels.loop_nodes import (
    AtBorder,
    Block,
    Node,
    Range,
    Step,
    SubtreeSum,
    Total,
    Update,
    bodies,
    changed_maps,
)
from viewlet.kernels.ranges import Bound, KeyTest

Question = tuple[object, ...]
"""What a descent looks for, whichever sums it brings."""


def shared(step: Step) -> Step:
    """Descents of one tree over one range -> one descent that brings all sums."""
    sharing = _Sharing(step.targets)
    sharing.find(step.block, {})
    return replace(step, block=sharing.rewritten(step.block))


class _Sharing:
    """First who answers whom is found, then the block is written anew: steps share their nodes."""

    def __init__(self, targets: tuple[str, ...]) -> None:
        self.targets = targets
        self.added: dict[int, list[SubtreeSum]] = {}
        self.asked: set[int] = set()

    def find(self, block: Block, known: dict[Question, Range]) -> None:
        """`known` are the descents that are made, and hold still, wherever the block runs."""
        for node in block:
            if isinstance(node, Range):
                first = known.setdefault(_question(node), node)
                if first is not node:
                    self.added.setdefault(id(first), []).extend(node.sums)
                    self.asked.add(id(node))
            changed = changed_maps([node])
            _forget(known, changed)
            for body in bodies(node):
                # What a condition or a loop guards is known inside only; a total guards nothing.
                self.find(body, known if isinstance(node, Total) else dict(known))
            _forget(known, changed)

    def rewritten(self, block: Block) -> Block:
        left = [self._rewrite(node) for node in block if id(node) not in self.asked]
        return _together(left, self.targets)

    def _rewrite(self, node: Node) -> Node:
        if isinstance(node, Range):
            return replace(node, sums=[*node.sums, *self.added.get(id(node), ())])
        written = copy(node)
        for name in ("body", "otherwise"):
            if hasattr(node, name):
                setattr(written, name, self.rewritten(getattr(node, name)))
        return written


def _together(block: Block, targets: tuple[str, ...]) -> Block:
    """Updates of one record become the last of them: no step reads its targets."""
    found: dict[tuple[str, tuple[str, ...]], list[Update]] = {}
    for node in block:
        if isinstance(node, Update) and node.map in targets:
            found.setdefault(_record(node), []).append(node)
    last = {id(updates[-1]): updates for updates in found.values()}
    joined: Block = []
    for node in block:
        if not isinstance(node, Update) or node.map not in targets:
            joined.append(node)
        elif updates := last.get(id(node)):
            columns = [column for update in updates for column in update.columns]
            joined.append(replace(node, columns=columns))
    return joined


def _record(node: Update) -> tuple[str, tuple[str, ...]]:
    return node.map, tuple(variable.name for variable in node.key)


def _forget(known: dict[Question, Range], maps: frozenset[str]) -> None:
    for question in [q for q, node in known.items() if node.map in maps]:
        del known[question]


def _question(node: Range) -> Question:
    """Equal for two descents to the same places: variables are told apart by their locals."""
    return (
        node.map,
        node.index,
        tuple(node.key),
        node.root,
        node.outside,
        tuple(_bound(node, bound) for bound in node.bounds),
    )


def _bound(node: Range, bound: Bound | KeyTest | AtBorder) -> Question:
    if isinstance(bound, AtBorder):
        return (bound,)
    names = free_variables(bound.scalar)
    kind: Question = ("<>=", bound.operator) if isinstance(bound, Bound) else ()
    if isinstance(bound, KeyTest):
        kind = ("test", bound.upper, bound.holds)
        names -= {bound.variable}
    known = {name: Ref(f"local {node.scope[name].name}") for name in names}
    own = {bound.variable: Ref("key")} if isinstance(bound, KeyTest) else {}
    slots = frozenset((node.scope[name].name, node.scope[name].slot) for name in names)
    return (*kind, substitute(bound.scalar, {**known, **own}), slots)
