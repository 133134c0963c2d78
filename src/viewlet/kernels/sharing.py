"""What statements of one step have in common, done once.

    range(count; M, key, p < x) ... range(sum; M, key, p < x)  ->  range(count, sum; M, key, p < x)
    M[k].a += x ... M[k].b += y, M[k].a += z                   ->  M[k].a += x, .b += y, .a += z

Every term of a statement and every statement of a step is built by itself; only the finished step
shows that several descend one tree to one range, or change one record.
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.functions import Ref, free_variables, substitute
from viewlet.kernels.block_walk import bodies, changed_maps, with_bodies
from viewlet.kernels.loop_nodes import (
    AtBorder,
    Block,
    IfMonotone,
    Node,
    Range,
    Step,
    SubtreeSum,
    Total,
    Update,
)
from viewlet.kernels.ranges import Bound, KeyTest

RangeKey = tuple[object, ...]
"""Equal for descents of one tree over one range, whichever sums they bring."""


def shared(step: Step) -> Step:
    """Descents of one tree over one range -> one descent that brings all sums."""
    sharing = _Sharing(step.targets)
    sharing.note_repeated(step.block, {})
    return replace(step, block=sharing.rewritten(step.block))


class _Sharing:
    """The descents of a block that repeat an earlier one, and the block without them.

    Several steps may have the same node, so none is changed: the block is copied.
    """

    def __init__(self, targets: tuple[str, ...]) -> None:
        self.targets = targets
        self.extra_sums: dict[int, list[SubtreeSum]] = {}
        """What a descent brings for those that repeat it, by its id()."""
        self.repeated: set[int] = set()

    def note_repeated(self, block: Block, descents: dict[RangeKey, Range]) -> None:
        """`descents`: those made on every path to this block, in maps not changed since."""
        for node in block:
            if isinstance(node, Range):
                first = descents.setdefault(_range_key(node), node)
                if first is not node:
                    self.extra_sums.setdefault(id(first), []).extend(node.sums)
                    self.repeated.add(id(node))
            changed = changed_maps([node])
            _forget(descents, changed)
            if isinstance(node, IfMonotone) and node.of_finite_keys:
                self.note_repeated(node.otherwise, dict(descents))
                self._note_where_finite(node, descents)
                _forget(descents, changed)
                continue
            for body in bodies(node):
                # A condition or a loop may skip its body: its descents count inside only. A total
                # never does.
                self.note_repeated(body, descents if isinstance(node, Total) else dict(descents))
            _forget(descents, changed)

    def _note_where_finite(self, node: IfMonotone, descents: dict[RangeKey, Range]) -> None:
        """Two choices by the keys of a tree go the same way until its map changes."""
        tree = ("where finite", node.map, node.index)
        inside = dict(descents)
        for key, descent in descents.items():
            if key[:3] == tree:
                inside.setdefault(key[3:], descent)
        self.note_repeated(node.body, inside)
        for key, descent in inside.items():
            if descent.map == node.map and key[0] != tree[0]:
                descents.setdefault((*tree, *key), descent)

    def rewritten(self, block: Block) -> Block:
        """The block with every descent once, and one update for each record."""
        nodes = [self._rewritten_node(node) for node in block if id(node) not in self.repeated]
        return _joined_updates(nodes, self.targets)

    def _rewritten_node(self, node: Node) -> Node:
        if isinstance(node, Range):
            return replace(node, sums=[*node.sums, *self.extra_sums.get(id(node), ())])
        return with_bodies(node, self.rewritten)


def _joined_updates(block: Block, targets: tuple[str, ...]) -> Block:
    """Updates of one record -> one, where the last of them stood: no step reads its targets."""
    by_record: dict[tuple[str, tuple[str, ...]], list[Update]] = {}
    for node in block:
        if isinstance(node, Update) and node.map in targets:
            by_record.setdefault(_record(node), []).append(node)
    last = {id(updates[-1]): updates for updates in by_record.values()}
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


def _forget(descents: dict[RangeKey, Range], maps: frozenset[str]) -> None:
    for key in [key for key, node in descents.items() if node.map in maps]:
        del descents[key]


def _range_key(node: Range) -> RangeKey:
    """Variables are distinguished by their locals, which are of one value wherever they stand."""
    return (
        node.map,
        node.index,
        tuple(node.key),
        node.root,
        node.outside,
        tuple(_bound_key(node, bound) for bound in node.bounds),
    )


def _bound_key(node: Range, bound: Bound | KeyTest | AtBorder) -> RangeKey:
    if isinstance(bound, AtBorder):
        return (bound,)
    names = free_variables(bound.scalar)
    kind: RangeKey = ("<>=", bound.operator) if isinstance(bound, Bound) else ()
    if isinstance(bound, KeyTest):
        kind = ("test", bound.upper, bound.holds)
        names -= {bound.variable}
    local_refs = {name: Ref(f"local {node.scope[name].name}") for name in names}
    own = {bound.variable: Ref("key")} if isinstance(bound, KeyTest) else {}
    slots = frozenset((node.scope[name].name, node.scope[name].slot) for name in names)
    return (*kind, substitute(bound.scalar, {**local_refs, **own}), slots)
