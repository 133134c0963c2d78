"""A program as a picture: which batch changes which map, and what it reads on the way.

Batches stand left, views right; a map stands further right the more relations its definition
joins, so the viewlet transform reads from right to left: each map is there for the deltas of those
behind it. A full line is a batch that changes a map, a dashed one a map that is read for it; both
have the color of the batch, and a dot where they arrive. Hold the pointer over a box for its
definition, over a line for its statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from viewlet.calculus.expr import Rel, walk
from viewlet.calculus.query_text import query_text, relation_text
from viewlet.interfaces.layout import LayoutLine, LayoutNode, arrange
from viewlet.program.ir import Map, Program
from viewlet.program.prune import maps_of
from viewlet.program.text import map_text, statement_text

COLORS = ("#2f6f9f", "#b5483a", "#4b8b3b", "#8a5fa8", "#b07d2b", "#2a8c8c", "#a04b76", "#5b6570")
_CHARACTER, _LINE, _PADDING = 7.2, 16, 8


class Drawing(str):
    """SVG text that notebooks show as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass
class _Box:
    name: str
    lines: list[str]
    tip: str
    node: LayoutNode
    style: str
    color: str = "#444"


def _box(
    name: str, lines: list[str], tip: str, layer: int, style: str, color: str = "#444"
) -> _Box:
    width = max(map(len, lines)) * _CHARACTER + 2 * _PADDING
    height = len(lines) * _LINE + 2 * _PADDING - 2
    return _Box(name, lines, tip, LayoutNode(layer, width, height), style, color)


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    color: str
    dashed: bool


@dataclass
class _Graph:
    """Boxes by name, and what each edge is there for."""

    boxes: dict[str, _Box] = field(default_factory=dict)
    edges: dict[_Edge, list[str]] = field(default_factory=dict)

    def add(self, edge: _Edge, tip: str) -> None:
        self.edges.setdefault(edge, []).append(tip)


def draw(program: Program) -> Drawing:
    """The program as SVG."""
    graph = _graph(program)
    boxes = graph.boxes
    links = {
        edge: LayoutLine(boxes[edge.source].node, boxes[edge.target].node) for edge in graph.edges
    }
    width, height = arrange([box.node for box in boxes.values()], list(links.values()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *(_curve(edge, link, graph.edges[edge]) for edge, link in links.items()),
        *(_shape(box) for box in boxes.values()),
        "</svg>",
    ]
    return Drawing("\n".join(parts) + "\n")


# --- what is drawn --------------------------------------------------------------------------------


def _graph(program: Program) -> _Graph:
    graph = _Graph()
    colors = {
        trigger.relation: COLORS[at % len(COLORS)] for at, trigger in enumerate(program.triggers)
    }
    for trigger in program.triggers:
        name = trigger.relation
        tip = relation_text(program.relation(name))
        graph.boxes[f"Δ{name}"] = _box(f"Δ{name}", [f"Δ{name}"], tip, 0, "batch", colors[name])
    ranks = _ranks(program)
    last = max(ranks.values(), default=0) + 1
    for map in program.maps:
        graph.boxes[map.name] = _box(
            map.name, _lines(map), map_text(map), ranks[map.name], "buffer" if map.buffer else "map"
        )
    for view in program.views:
        name = f"view {view.name}"
        shown = ", ".join(column.name for column in view.query.columns)
        graph.boxes[name] = _box(
            name, [name, *_wrapped(shown)], query_text(view.query), last, "view"
        )
        for map_name in sorted(maps_of(view)):
            graph.add(_Edge(map_name, name, "#444", False), f"{view.name} is made of it")
    for trigger in program.triggers:
        color = colors[trigger.relation]
        for statement in trigger.statements:
            tip = f"on {trigger.relation}:\n{statement_text(statement)}"
            graph.add(_Edge(f"Δ{trigger.relation}", statement.target, color, False), tip)
            for read in sorted(statement.reads):
                graph.add(_Edge(read, statement.target, color, True), tip)
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


# --- how it is drawn ------------------------------------------------------------------------------


def _curve(edge: _Edge, link: LayoutLine, tips: list[str]) -> str:
    dash = ' stroke-dasharray="4 4"' if edge.dashed else ""
    x, y = link.end
    tip = escape("\n\n".join(dict.fromkeys(tips)))
    return (
        f'<g fill="none" stroke="{edge.color}" stroke-width="1.3"><path d="{link.path}"{dash}>'
        f"<title>{tip}</title></path>"
        f'<circle cx="{x:.0f}" cy="{y:.1f}" r="2.5" fill="{edge.color}"/></g>'
    )


_FILLS = {"batch": "#ffffff", "map": "#eef3f7", "buffer": "#ffffff", "view": "#eaf4e4"}


def _shape(box: _Box) -> str:
    x, y = box.node.x, box.node.y
    dash = ' stroke-dasharray="3 3"' if box.style == "buffer" else ""
    first, *others = map(escape, box.lines)
    text = f'<tspan font-weight="bold">{first}</tspan>' + "".join(
        f'<tspan x="{x + _PADDING:.0f}" dy="{_LINE}">{line}</tspan>' for line in others
    )
    return (
        f'<g><title>{escape(box.tip)}</title><rect x="{x:.0f}" y="{y:.0f}" rx="4" '
        f'width="{box.node.width:.0f}" height="{box.node.height:.0f}" fill="{_FILLS[box.style]}" '
        f'stroke="{box.color}"{dash}/>'
        f'<text x="{x + _PADDING:.0f}" y="{y + _PADDING + 10:.0f}" '
        f'fill="{box.color}">{text}</text></g>'
    )
