"""A programme as a picture: which batch changes which map, and what it reads on the way.

Batches stand left, views right; a map stands further right the more relations its definition
joins, so the viewlet transform reads from right to left: each map is there for the deltas of those
behind it. A full line is a batch that changes a map, a dashed one a map that is read for it; both
have the colour of the batch. Hold the pointer over a box for its definition, over a line for its
statement. Layers, order within layers by the mean of the neighbours (Sugiyama), curves: that is
all the layout there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from viewlet.calculus.expr import Rel, walk
from viewlet.calculus.query_text import query_text, relation_text
from viewlet.program.ir import Map, Program
from viewlet.program.text import map_text, statement_text

COLOURS = ("#2f6f9f", "#b5483a", "#4b8b3b", "#8a5fa8", "#b07d2b", "#2a8c8c", "#a04b76", "#5b6570")
_CHARACTER, _LINE, _PADDING = 7.2, 16, 8
_BETWEEN_LAYERS, _BETWEEN_BOXES, _MARGIN = 110, 22, 16
_SWEEPS = 8


class Drawing(str):
    """SVG text that notebooks show as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass
class _Box:
    name: str
    lines: list[str]
    tip: str
    layer: int
    style: str
    colour: str = "#444"
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * _CHARACTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _PADDING - 2


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    colour: str
    dashed: bool
    tip: str


@dataclass
class _Graph:
    boxes: dict[str, _Box] = field(default_factory=dict)
    edges: list[_Edge] = field(default_factory=list)

    def layers(self) -> list[list[_Box]]:
        used = sorted({box.layer for box in self.boxes.values()})
        return [[box for box in self.boxes.values() if box.layer == layer] for layer in used]


def draw(program: Program) -> Drawing:
    """The programme as SVG."""
    graph = _graph(program)
    layers = _ordered(graph)
    width, height = _place(layers)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *(_curve(edge, graph.boxes) for edge in graph.edges),
        *(_shape(box) for box in graph.boxes.values()),
        "</svg>",
    ]
    return Drawing("\n".join(parts) + "\n")


# --- what is drawn --------------------------------------------------------------------------------


def _graph(program: Program) -> _Graph:
    graph = _Graph()
    colours = {
        trigger.relation: COLOURS[at % len(COLOURS)] for at, trigger in enumerate(program.triggers)
    }
    for trigger in program.triggers:
        name = trigger.relation
        tip = relation_text(program.relation(name))
        graph.boxes[f"Δ{name}"] = _Box(f"Δ{name}", [f"Δ{name}"], tip, 0, "batch", colours[name])
    ranks = _ranks(program)
    last = max(ranks.values(), default=0) + 1
    for map in program.maps:
        graph.boxes[map.name] = _Box(
            map.name, _lines(map), map_text(map), ranks[map.name], "buffer" if map.buffer else "map"
        )
    for view in program.views:
        name = f"view {view.name}"
        shown = ", ".join(column.name for column in view.query.columns)
        graph.boxes[name] = _Box(
            name, [name, *_wrapped(shown)], query_text(view.query), last, "view"
        )
        for map_name in dict.fromkeys(map for _, map, _ in view.sources):
            graph.edges.append(_Edge(map_name, name, "#444", False, f"{view.name} is made of it"))
    for trigger in program.triggers:
        colour = colours[trigger.relation]
        for statement in trigger.statements:
            tip = f"on {trigger.relation}:\n{statement_text(statement)}"
            graph.edges.append(_Edge(f"Δ{trigger.relation}", statement.target, colour, False, tip))
            for read in sorted(statement.reads):
                graph.edges.append(_Edge(read, statement.target, colour, True, tip))
    graph.edges = list(dict.fromkeys(graph.edges))
    return graph


def _ranks(program: Program) -> dict[str, int]:
    """How many relations a map's definition joins; a buffer stands before what it is read for."""
    ranks = {}
    for map in program.maps:
        joined = [
            sum(isinstance(node, Rel) for node in walk(column.definition))
            for column in map.columns
            if column.definition is not None
        ]
        ranks[map.name] = max(joined, default=1)
    for trigger in program.triggers:
        for statement in reversed(trigger.statements):
            for read in statement.reads:
                if program.map(read).buffer:
                    ranks[read] = min(ranks[read], max(ranks[statement.target] - 1, 1))
    return ranks


def _lines(map: Map) -> list[str]:
    keys = ", ".join(map.key_names)
    columns = ", ".join(column.name for column in map.columns)
    return [*_wrapped(f"{map.name}[{keys}]"), *_wrapped(columns)]


def _wrapped(text: str, width: int = 30) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


# --- where it is drawn ----------------------------------------------------------------------------


def _ordered(graph: _Graph) -> list[list[_Box]]:
    """Layers, each sorted by the mean position of what its boxes are connected with."""
    layers = graph.layers()
    neighbours: dict[str, set[str]] = {name: set() for name in graph.boxes}
    for edge in graph.edges:
        neighbours[edge.source].add(edge.target)
        neighbours[edge.target].add(edge.source)
    places = {
        box.name: at / len(layer) for layer in layers for at, box in enumerate(layer, start=1)
    }
    for _ in range(_SWEEPS):
        for layer in layers:
            names = {box.name for box in layer}
            means = {
                name: _mean([places[n] for n in neighbours[name] - names], places[name])
                for name in names
            }
            layer.sort(key=lambda box: (means[box.name], box.name))
            for at, box in enumerate(layer, start=1):
                places[box.name] = at / len(layer)
    return layers


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(layers: Sequence[Sequence[_Box]]) -> tuple[float, float]:
    """Positions for all boxes; the size of the picture."""
    heights = [
        sum(box.height for box in layer) + _BETWEEN_BOXES * (len(layer) - 1) for layer in layers
    ]
    height = max(heights, default=0.0)
    x = float(_MARGIN)
    for layer, taken in zip(layers, heights, strict=True):
        width = max(box.width for box in layer)
        y = _MARGIN + (height - taken) / 2
        for box in layer:
            box.x, box.y = x + (width - box.width) / 2, y
            y += box.height + _BETWEEN_BOXES
        x += width + _BETWEEN_LAYERS
    return max(x - _BETWEEN_LAYERS, 0) + _MARGIN, height + 2 * _MARGIN


def _curve(edge: _Edge, boxes: dict[str, _Box]) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    x1, y1 = source.x + source.width, source.y + source.height / 2
    x2, y2 = target.x, target.y + target.height / 2
    if source is target:  # a map that is read for its own refresh: a loop above it
        x1, y1, x2, y2 = x1 - 14, source.y, x2 + 14, target.y
        path = (
            f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 - 24:.0f} {x2:.0f},{y2 - 24:.0f} {x2:.0f},{y2:.0f}"
        )
    elif source.x >= target.x:  # against the stream, or within a layer: around the left
        x1 = source.x
        bend = min(x1, x2) - 50
        path = f"M{x1:.0f},{y1:.0f} C{bend:.0f},{y1:.0f} {bend:.0f},{y2:.0f} {x2:.0f},{y2:.0f}"
    else:
        bend = max((x2 - x1) / 2, 40)
        path = (
            f"M{x1:.0f},{y1:.0f} C{x1 + bend:.0f},{y1:.0f} {x2 - bend:.0f},{y2:.0f} "
            f"{x2:.0f},{y2:.0f}"
        )
    dash = ' stroke-dasharray="4 4"' if edge.dashed else ""
    return (
        f'<g fill="none" stroke="{edge.colour}" stroke-width="1.3"><path d="{path}"{dash}>'
        f"<title>{escape(edge.tip)}</title></path>"
        f'<circle cx="{x2:.0f}" cy="{y2:.0f}" r="2.5" fill="{edge.colour}"/></g>'
    )


_FILLS = {"batch": "#ffffff", "map": "#eef3f7", "buffer": "#ffffff", "view": "#eaf4e4"}


def _shape(box: _Box) -> str:
    dash = ' stroke-dasharray="3 3"' if box.style == "buffer" else ""
    first, *others = map(escape, box.lines)
    text = f'<tspan font-weight="bold">{first}</tspan>' + "".join(
        f'<tspan x="{box.x + _PADDING:.0f}" dy="{_LINE}">{line}</tspan>' for line in others
    )
    return (
        f'<g><title>{escape(box.tip)}</title><rect x="{box.x:.0f}" y="{box.y:.0f}" rx="4" '
        f'width="{box.width:.0f}" height="{box.height:.0f}" fill="{_FILLS[box.style]}" '
        f'stroke="{box.colour}"{dash}/>'
        f'<text x="{box.x + _PADDING:.0f}" y="{box.y + _PADDING + 10:.0f}" '
        f'fill="{box.colour}">{text}</text></g>'
    )
