"""Cache lines asked for ahead of need: what a batch's rows will touch, some rows before they do.

A probe of a large map waits for memory twice, for the slot and for the record. The keys of later
rows are known, so both loads can be on their way while earlier rows are worked on:

    row + FAR      the slot
    row + NEAR     the record whose number is in the slot, which has come by then, unless the tag
                   says that it has another key

Only accesses that every row makes, or every row that was chosen (kernels.selection), with keys that
are columns of the batch or of the buffer that is gone through: behind a filter most lines would
come for nothing, and maps that fit into a cache need none. Where rows come one by one only the row
itself is known, but its steps are several: the slot that a later one looks up, and if the map is in
order, the record; descents in its tree take long enough for both to come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_walk import bodies
from viewlet.kernels.frame import Frame
from viewlet.kernels.loop_nodes import Block
from viewlet.kernels.scalar_source import Variable
from viewlet.schema import Physical
from viewlet.storage.columns import CHAIN, MASK, SLOTS, USED

FAR, NEAR = 32, 12
SMALL = 1 << 15
"""Slots of a map that stays in a core's own caches."""


@dataclass(frozen=True)
class _Access:
    """A probe that a row surely makes: source of the table's slots and mask, and the key."""

    map: str
    slots: str
    mask: str
    key: tuple[Variable, ...]
    unique: bool
    """Whether it is the index of whole keys."""


def prefetches(node: ir.Rows | ir.Scan, frame: Frame, *, chosen: bool = False) -> list[str]:
    """Lines for the head of the body of an outer loop: over a batch's rows, or over a buffer.

    Of rows that were chosen, `nth` is the position of the row among `count`.
    """
    ahead, end = _loads_ahead(node, frame)
    later, soon = ("later", "soon") if chosen else (f"row + {FAR}", f"row + {NEAR}")
    # By the mask of the whole map, whose size decides: a small group may lie anywhere in it.
    far: dict[str, list[str]] = {}
    for access in _accesses(node.body, frame, scanned=isinstance(node, ir.Scan)):
        slots, mask, map = access.slots, access.mask, access.map
        if any(v.slot.nullable or v.slot.physical is Physical.FLOAT for v in access.key):
            continue
        if any(v.name not in ahead for v in access.key):
            continue
        words = ", ".join(ahead[v.name] for v in access.key)
        code = f"hash_words(({words},))"
        first, second = code.replace("%s", later), code.replace("%s", soon)
        number = (
            f"likely({slots}, {mask}, {second})"
            if access.unique
            else f"load_half({slots}, {second} & {mask})"
        )
        record = f"records_{frame.called(map)} + {number} * {frame.stride(map)}"
        far.setdefault(f"mask_{frame.called(map)}", []).extend(
            [
                f"        prefetch({slots} + 4 * ({first} & {mask}))",
                f"        prefetch({record})",
            ]
        )
    if not far:
        return []
    if chosen:
        lines = [
            f"if nth + {FAR} < count:",
            f"    later = load_half(chosen, nth + {FAR})",
            f"    soon = load_half(chosen, nth + {NEAR})",
        ]
    else:
        lines = [f"if row + {FAR} < {end}:"]
    for size, fetches in far.items():
        lines += [f"    if {size} > {SMALL}:", *dict.fromkeys(fetches)]
    return lines


def reaches_far(rows: ir.Rows, frame: Frame) -> bool:
    """Whether rows go into maps that may be large: not only buffers, or groups named by texts."""
    return any(
        not frame.loops.maps[access.map].buffer
        and any(v.slot.physical is not Physical.STR for v in access.key)
        for access in _accesses(rows.body, frame)
    )


def later_slots(steps: list[ir.Step], frame: Frame) -> list[str]:
    """Lines for the head of a row whose steps run one after the other: what later ones look up."""
    lines: list[str] = []
    for step in steps[1:]:
        outer = step.block[0] if len(step.block) == 1 else None
        if not isinstance(outer, ir.Rows):
            continue
        columns = {variable.name: column for variable, column in outer.binds}
        for access in _accesses(outer.body, frame):
            if any(v.slot.nullable or v.name not in columns for v in access.key):
                continue
            words = [
                f"float_bits(load_float(column_{columns[v.name]}, row))"
                if v.slot.physical is Physical.FLOAT
                else f"load(column_{columns[v.name]}, row)"
                for v in access.key
            ]
            slots, mask, code = access.slots, access.mask, f"hash_words(({', '.join(words)},))"
            line = f"{slots} + 4 * ({code} & {mask})"
            if access.unique and frame.is_ordered(access.map):
                number = f"likely({slots}, {mask}, {code})"
                records = f"records_{frame.called(access.map)}"
                line = f"{records} + {number} * {frame.stride(access.map)}"
            lines += [f"if {mask} > {SMALL}:", f"    prefetch({line})"]
    return lines


def _loads_ahead(node: ir.Rows | ir.Scan, frame: Frame) -> tuple[dict[str, str], str]:
    """Source of the variables of row %s, ahead of the loop, and of the number of rows."""
    if isinstance(node, ir.Rows):
        return {v.name: f"load(column_{column}, %s)" for v, column in node.binds}, "high"
    layout, name = frame.layouts[node.map], frame.called(node.map)
    words = {
        bind.variable.name: layout.key_words[bind.position]
        for bind in _always(node.body, scanned=True)
        if isinstance(bind, ir.BindKey) and bind.record == node.record
    }
    record = f"records_{name} + (%s) * {8 * layout.width}"
    ahead = {variable: f"load({record}, {word})" for variable, word in words.items()}
    return ahead, f"load(map_{name}, {USED})"


def _always(block: Block, *, scanned: bool = False) -> Iterator[ir.Node]:
    """The nodes that every row runs.

    `scanned`: rows are records of a buffer. Hardly one of them is zero, and as each is a change, a
    test whether something exists is met by most.
    """
    through = (ir.Total, ir.Present, ir.Column, ir.IfTotal) if scanned else (ir.Total, ir.Present)
    for node in block:
        yield node
        if isinstance(node, through):
            for body in bodies(node):
                yield from _always(body, scanned=scanned)


def _accesses(block: Block, frame: Frame, *, scanned: bool = False) -> Iterator[_Access]:
    for node in _always(block, scanned=scanned):
        if not isinstance(node, ir.Update | ir.Get | ir.Run | ir.Slice):
            continue
        map, layout, name = node.map, frame.layouts[node.map], frame.called(node.map)
        if any(field.nullable for field in layout.keys):
            continue
        parts = node.parts if isinstance(node, ir.Run) else tuple(range(len(layout.keys)))
        chains = range(len(layout.indexes)) if isinstance(node, ir.Update) else []
        if isinstance(node, ir.Slice):
            parts, chains = layout.indexes[node.index].parts, [node.index]
        bound = dict(zip(parts, node.key, strict=True))
        if not isinstance(node, ir.Slice) and node.key:
            key = tuple(bound[part] for part in layout.hashed)
            yield _Access(map, f"slots_{name}", f"mask_{name}", key, unique=True)
        for number in chains:
            index = layout.indexes[number]
            if index.kind == CHAIN:
                block_at = f"map_{name}, {layout.block(number)}"
                key = tuple(bound[part] for part in sorted(index.parts))
                slots, mask = (f"load({block_at} + {word})" for word in (SLOTS, MASK))
                yield _Access(map, slots, mask, key, unique=False)
