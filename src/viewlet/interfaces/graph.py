"""A program as a picture: which batch changes which map, and what it reads on the way.

Batches stand left, views right; a map stands further right the more relations its definition
joins, so the viewlet transform reads from right to left: each map is there for the deltas of those
behind it. A full line is a batch that changes a map, a dashed one a map that is read for it; both
have the color of the batch, and a dot where they arrive. Hold the pointer over a box for its
definition, over a line for its statements.

With a load, what a running database has measured, boxes say what their maps hold and are the higher
the more bytes that is, and lines are the warmer and thicker the more time their statements take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from viewlet.calculus.expr import Rel, walk
from viewlet.calculus.query_text import query_text, relation_text
from viewlet.engine.contract import MapSize
from viewlet.interfaces.layout import LayoutLine, LayoutNode, arrange
from viewlet.program.ir import Map, Program
from viewlet.program.prune import maps_of
from viewlet.program.text import map_text, statement_text

COLORS = ("#2f6f9f", "#b5483a", "#4b8b3b", "#8a5fa8", "#b07d2b", "#2a8c8c", "#a04b76", "#5b6570")
_CHARACTER, _LINE, _PADDING = 7.2, 16, 8
_FULL_HEIGHT = 72
"""What the bytes of the largest map add to the height of its box."""


@dataclass(frozen=True)
class ProgramLoad:
    """The size of each map, and the seconds that the statements of each relation have taken.

    Of a relation whose statements were not told apart, one number is for all of them.
    """

    sizes: Mapping[str, MapSize]
    seconds: Mapping[str, Sequence[float]]

    def fullness(self, map_name: str) -> float:
        """A map's bytes as a share of the largest one's; by roots, so that small ones are seen."""
        largest = max((size.bytes for size in self.sizes.values()), default=0)
        size = self.sizes.get(map_name)
        return (size.bytes / largest) ** 0.5 if size is not None and largest else 0.0

    def share(self, relation: str, statement: int | None = None) -> float:
        """A relation's part of the time of all batches, or that of one of its statements."""
        whole = sum(map(sum, self.seconds.values()))
        seconds = self.seconds.get(relation, ())
        is_one = statement is not None and len(seconds) > 1
        part = seconds[statement] if is_one and statement is not None else sum(seconds)
        return part / whole if whole else 0.0

    def time_text(self, relation: str, statement: int) -> str:
        """What a line says of the time of its statement."""
        is_shared = len(self.seconds.get(relation, ())) == 1
        share = f"{100 * self.share(relation, statement):.1f} % of the time"
        return f"{share}, all statements of {relation} together" if is_shared else share


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
    fullness: float = 0.0


def _box(
    name: str,
    lines: list[str],
    tip: str,
    layer: int,
    style: str,
    color: str = "#444",
    fullness: float = 0.0,
) -> _Box:
    width = max(map(len, lines)) * _CHARACTER + 2 * _PADDING
    height = len(lines) * _LINE + 2 * _PADDING - 2 + _FULL_HEIGHT * fullness
    return _Box(name, lines, tip, LayoutNode(layer, width, height), style, color, fullness)


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    color: str
    dashed: bool
    width: float = 1.3


@dataclass
class _Graph:
    """Boxes by name, and what each edge is there for."""

    boxes: dict[str, _Box] = field(default_factory=dict)
    edges: dict[_Edge, list[str]] = field(default_factory=dict)

    def add(self, edge: _Edge, tip: str) -> None:
        self.edges.setdefault(edge, []).append(tip)


def draw(program: Program, load: ProgramLoad | None = None) -> Drawing:
    """The program as SVG."""
    graph = _graph(program, load)
    boxes = graph.boxes
    links = {
        edge: LayoutLine(boxes[edge.source].node, boxes[edge.target].node) for edge in graph.edges
    }
    width, height = arrange([box.node for box in boxes.values()], list(links.values()))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="12">',
        f'<rect width="{width:.0f}" height="{height:.0f}" {_filled("paper", "white")}/>',
        *(_curve(edge, link, graph.edges[edge]) for edge, link in links.items()),
        *(_shape(box) for box in boxes.values()),
        "</svg>",
    ]
    return Drawing("\n".join(parts) + "\n")


# --- what is drawn --------------------------------------------------------------------------------


def _graph(program: Program, load: ProgramLoad | None) -> _Graph:
    graph = _Graph()
    colors = {
        trigger.relation: COLORS[at % len(COLORS)]
        if load is None
        else _warmth(load.share(trigger.relation))
        for at, trigger in enumerate(program.triggers)
    }
    for trigger in program.triggers:
        name = trigger.relation
        tip = relation_text(program.relation(name))
        graph.boxes[f"Δ{name}"] = _box(f"Δ{name}", [f"Δ{name}"], tip, 0, "batch", colors[name])
    ranks = _ranks(program)
    last = max(ranks.values(), default=0) + 1
    for map in program.maps:
        graph.boxes[map.name] = _map_box(map, ranks[map.name], load)
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
        width = 1.3
        for number, statement in enumerate(trigger.statements):
            tip = f"on {trigger.relation}:\n{statement_text(statement)}"
            if load is not None:
                share = load.share(trigger.relation, number)
                color, width = _warmth(share), 1.0 + 4 * share
                tip += f"\n{load.time_text(trigger.relation, number)}"
            batch = f"Δ{trigger.relation}"
            graph.add(_Edge(batch, statement.target, color, False, width), tip)
            for read in sorted(statement.reads):
                graph.add(_Edge(read, statement.target, color, True, width), tip)
    return graph


def _map_box(map: Map, rank: int, load: ProgramLoad | None) -> _Box:
    style = "buffer" if map.buffer else "map"
    lines = _lines(map)
    size = None if load is None else load.sizes.get(map.name)
    if load is None or size is None:
        return _box(map.name, lines, map_text(map), rank, style)
    lines.append(_size_text(size))
    fullness = load.fullness(map.name)
    return _box(map.name, lines, map_text(map), rank, style, fullness=fullness)


def _size_text(size: MapSize) -> str:
    amount, unit = float(size.bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{size.records:,} records, {amount:.3g} {unit}"


def _warmth(share: float) -> str:
    """0 -> a cold blue, 1 -> red; both can be read on white and on black."""
    return f"hsl({205 - 195 * share:.0f} 60% 50%)"


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
        f'<g fill="none" stroke="{edge.color}" stroke-width="{edge.width:.1f}">'
        f'<path d="{link.path}"{dash}>'
        f"<title>{tip}</title></path>"
        f'<circle cx="{x:.0f}" cy="{y:.1f}" r="2.5" fill="{edge.color}"/></g>'
    )


_FILLS = {
    "batch": ("paper", "#ffffff"),
    "map": ("map", "#eef3f7"),
    "buffer": ("paper", "#ffffff"),
    "view": ("view", "#eaf4e4"),
}


def _filled(variable: str, otherwise: str) -> str:
    """A fill that a page's style sheet may set."""
    return f'style="fill: var(--{variable}, {otherwise})"'


def _shape(box: _Box) -> str:
    x, y = box.node.x, box.node.y
    dash = ' stroke-dasharray="3 3"' if box.style == "buffer" else ""
    first, *others = map(escape, box.lines)
    text = f'<tspan font-weight="bold">{first}</tspan>' + "".join(
        f'<tspan x="{x + _PADDING:.0f}" dy="{_LINE}">{line}</tspan>' for line in others
    )
    ink = _filled("ink", box.color) if box.color == "#444" else f'fill="{box.color}"'
    return (
        f'<g><title>{escape(box.tip)}</title><rect x="{x:.0f}" y="{y:.0f}" rx="4" '
        f'width="{box.node.width:.0f}" height="{box.node.height:.0f}" '
        f'{_filled(*_FILLS[box.style])} stroke="{box.color}"{dash}/>{_filling(box)}'
        f'<text x="{x + _PADDING:.0f}" y="{y + _PADDING + 10:.0f}" {ink}>{text}</text></g>'
    )


def _filling(box: _Box) -> str:
    """The part of a box that its map's bytes have added, below the text."""
    height = _FULL_HEIGHT * box.fullness
    if height < 1:
        return ""
    node = box.node
    return (
        f'<rect x="{node.x + 1:.0f}" y="{node.y + node.height - height:.0f}" rx="3" '
        f'height="{height - 1:.1f}" width="{node.width - 2:.0f}" fill="#2f6f9f" opacity="0.55"/>'
    )
