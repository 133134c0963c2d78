"""Where boxes and lines of a drawing go: layers from left to right, lines around boxes.

The method of Sugiyama, Tagawa and Toda. A line that passes layers gets a waypoint in each of them,
which takes its place among the boxes there, so no line ever runs behind a box. Then

    order     every layer is sorted by the mean position of what its nodes are linked with, back and
              forth; the order with the fewest crossings stands
    height    every node is moved to the mean height of its neighbors, as near as order and
              distances allow (least squares under an order: pool adjacent violators)
    ports     lines that meet at a side of a box are spread over it in the order they come from

Boxes of a layer stand at its left edge. A line leaves its layer horizontally and bends only in the
gap between two layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MARGIN = 16
BETWEEN_LAYERS = 90
BETWEEN_BOXES = 24
BETWEEN_LINES = 9
SWEEPS = 12


@dataclass(eq=False)
class LayoutNode:
    """A box in a layer, or a waypoint (of no width) of a line that passes the layer."""

    layer: int
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    middle: float = 0.0

    @property
    def y(self) -> float:
        """The upper edge."""
        return self.middle - self.height / 2

    @property
    def is_waypoint(self) -> bool:
        """Whether it is only a point where a long line bends, not a box."""
        return self.width == 0


@dataclass(eq=False)
class LayoutLine:
    """A line from one box to another: the nodes that it passes, and in the end its path."""

    source: LayoutNode
    target: LayoutNode
    chain: list[LayoutNode] = field(default_factory=list)
    path: str = ""
    end: tuple[float, float] = (0.0, 0.0)


def arrange(boxes: Sequence[LayoutNode], links: Sequence[LayoutLine]) -> tuple[float, float]:
    """Set the positions of boxes and the paths of links; returns the size of the picture."""
    used = sorted({box.layer for box in boxes})
    renumbered = {layer: at for at, layer in enumerate(used)}
    layers: list[list[LayoutNode]] = [[] for _ in used]
    for box in boxes:
        box.layer = renumbered[box.layer]
        layers[box.layer].append(box)
    for link in links:
        _waypoints(link, layers)
    near = _neighbors(links)
    _order(layers, near)
    height = _heights(layers, near)
    lefts, rights = _columns(layers)
    _paths(links, lefts, rights)
    return (rights[-1] if rights else 0.0) + MARGIN, height


def _waypoints(link: LayoutLine, layers: Sequence[list[LayoutNode]]) -> None:
    """Source, a waypoint in every layer between, target."""
    first, last = link.source.layer, link.target.layer
    step = 1 if last > first else -1
    between = (
        [LayoutNode(layer) for layer in range(first + step, last, step)] if first != last else []
    )
    for node in between:
        layers[node.layer].append(node)
    link.chain = [link.source, *between, link.target]


Near = dict[LayoutNode, list[LayoutNode]]


def _neighbors(links: Iterable[LayoutLine]) -> Near:
    near: Near = {}
    for link in links:
        for one, other in pairwise(link.chain):
            if one.layer != other.layer:
                near.setdefault(one, []).append(other)
                near.setdefault(other, []).append(one)
    return near


# --- order ----------------------------------------------------------------------------------------


def _order(layers: list[list[LayoutNode]], near: Near) -> None:
    best, fewest = [list(layer) for layer in layers], _crossings(layers, near)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for layer in layers if forward else reversed(layers):
            positions = {node: at for nodes in layers for at, node in enumerate(nodes)}
            step = -1 if forward else 1
            means = {
                node: _mean(
                    [positions[n] for n in near.get(node, ()) if n.layer == node.layer + step],
                    positions[node],
                )
                for node in layer
            }
            layer.sort(key=lambda node: means[node])
        crossings = _crossings(layers, near)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    for layer, chosen in zip(layers, best, strict=True):
        layer[:] = chosen


def _crossings(layers: Sequence[Sequence[LayoutNode]], near: Near) -> int:
    """Pairs of lines between two layers that start in one order and end in the other."""
    count = 0
    for left, right in pairwise(layers):
        positions = {node: at for at, node in enumerate(right)}
        ends = [
            (at, positions[other])
            for at, node in enumerate(left)
            for other in near.get(node, ())
            if other in positions
        ]
        for at, (start, end) in enumerate(ends):
            count += sum((start - before) * (end - other) < 0 for before, other in ends[:at])
    return count


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


# --- height ---------------------------------------------------------------------------------------


def _heights(layers: Sequence[Sequence[LayoutNode]], near: Near) -> float:
    """Set the middle of every node; the height of the picture."""
    for layer in layers:
        for node, height in zip(layer, spread([0.0] * len(layer), _gaps(layer)), strict=True):
            node.middle = height
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            targets = [_mean([n.middle for n in near.get(node, ())], node.middle) for node in layer]
            for node, height in zip(layer, spread(targets, _gaps(layer)), strict=True):
                node.middle = height
    nodes = [node for layer in layers for node in layer]
    top = min((node.y for node in nodes), default=0.0)
    for node in nodes:
        node.middle += MARGIN - top
    return max((node.y + node.height for node in nodes), default=0.0) + MARGIN


def _gaps(layer: Sequence[LayoutNode]) -> list[float]:
    """How far the middles of two neighbors must be apart."""
    return [
        (one.height + other.height) / 2
        + (BETWEEN_LINES if one.is_waypoint and other.is_waypoint else BETWEEN_BOXES)
        for one, other in pairwise(layer)
    ]


def spread(targets: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The positions p nearest to the targets with p[i+1] - p[i] >= gaps[i].

    Without the gaps' sum before it, each position must not be below the one before: neighbors that
    violate that are pooled, and stand at the mean of what they want.
    """
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    pools: list[tuple[float, int]] = []  # sum of wants, how many
    for want, offset in zip(targets, offsets, strict=False):
        pools.append((want - offset, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1] = pools[-1][0] + total, pools[-1][1] + count
    flat = [total / count for total, count in pools for _ in range(count)]
    return [position + offset for position, offset in zip(flat, offsets, strict=False)]


# --- columns and paths ----------------------------------------------------------------------------


def _columns(layers: Sequence[Sequence[LayoutNode]]) -> tuple[list[float], list[float]]:
    """Where each layer begins and ends."""
    lefts, rights, x = [], [], float(MARGIN)
    for layer in layers:
        width = max((node.width for node in layer), default=0.0)
        for node in layer:
            node.x = x
        lefts.append(x)
        rights.append(x + width)
        x += width + BETWEEN_LAYERS
    return lefts, rights


def _paths(links: Sequence[LayoutLine], lefts: Sequence[float], rights: Sequence[float]) -> None:
    ports = _ports(links)
    for link in links:
        if link.source is link.target:
            _loop(link)
            continue
        leaves, enters = ports[link]
        first, last = link.source, link.target
        if first.layer == last.layer:  # around, in the gap before the layer
            x = lefts[first.layer]
            bend = x - BETWEEN_LAYERS / 2
            link.path = (
                f"M{_at(x, leaves)} C{_at(bend, leaves)} {_at(bend, enters)} {_at(x, enters)}"
            )
            link.end = x, enters
            continue
        forward = last.layer > first.layer
        near, far = (lefts, rights) if forward else (rights, lefts)
        begin = first.x + first.width if forward else first.x
        parts = [f"M{_at(begin, leaves)} H{far[first.layer]:.0f}"]
        y = leaves
        for one, other in pairwise(link.chain):
            x, next_x = far[one.layer], near[other.layer]
            next_y = enters if other is last else other.middle
            middle = (x + next_x) / 2
            parts.append(f"C{_at(middle, y)} {_at(middle, next_y)} {_at(next_x, next_y)}")
            if other is not last:
                parts.append(f"H{far[other.layer]:.0f}")
            y = next_y
        end = last.x if forward else last.x + last.width
        parts.append(f"H{end:.0f}")
        link.path, link.end = " ".join(parts), (end, enters)


def _loop(link: LayoutLine) -> None:
    """A box that is linked with itself: above it."""
    box = link.source
    left, right, top = box.x + 14, box.x + min(box.width - 14, 60), box.y
    link.path = f"M{_at(right, top)} C{_at(right, top - 22)} {_at(left, top - 22)} {_at(left, top)}"
    link.end = left, top


def _ports(links: Sequence[LayoutLine]) -> dict[LayoutLine, tuple[float, float]]:
    """The heights at which each link leaves its source and enters its target."""
    sides: dict[tuple[LayoutNode, bool], list[tuple[float, int, LayoutLine, bool]]] = {}
    for at, link in enumerate(links):
        if link.source is link.target:
            continue
        forward = link.target.layer > link.source.layer
        after, before = link.chain[1], link.chain[-2]
        sides.setdefault((link.source, forward), []).append((after.middle, at, link, True))
        sides.setdefault((link.target, not forward and not _level(link)), []).append(
            (before.middle, at, link, False)
        )
    ports: dict[LayoutLine, list[float]] = {}
    for (box, _), meeting in sides.items():
        meeting.sort(key=lambda port: port[:2])
        for number, (_, _, link, leaves) in enumerate(meeting, start=1):
            height = box.y + box.height * number / (len(meeting) + 1)
            ports.setdefault(link, [0.0, 0.0])[0 if leaves else 1] = height
    return {link: (leaves, enters) for link, (leaves, enters) in ports.items()}


def _level(link: LayoutLine) -> bool:
    return link.source.layer == link.target.layer


def _at(x: float, y: float) -> str:
    return f"{x:.0f},{y:.1f}"
