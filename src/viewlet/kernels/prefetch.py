"""Cache lines asked for ahead of need: what a batch's rows will touch, some rows before they do.

A probe of a large map waits for memory twice, for the slot and for the record. The keys of later
rows are known, so both loads can be on their way while earlier rows are worked on:

    row + FAR      the slot
    row + NEAR     the record whose number is in the slot, which has come by then, unless the tag
                   says that it has another key

Only accesses that every row makes, with keys that are columns of the batch or of the buffer that
is gone through: behind a filter most lines would come for nothing, and maps that fit into a cache
need none. Where rows come one by one only the row itself is known, but its steps are several.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.kernels import nodes as ir
from viewlet.kernels.blocks import identifier
from viewlet.kernels.frame import Frame
from viewlet.kernels.nodes import Block
from viewlet.kernels.scalars import Variable
from viewlet.schema import Physical
from viewlet.storage.columns import CHAIN, MASK, SLOTS, USED

FAR, NEAR = 32, 12
SMALL = 1 << 15
"""Slots of a map that stays in a core's own caches."""


def prefetches(node: ir.Rows | ir.Scan, frame: Frame) -> list[str]:
    """Lines for the head of the body of an outer loop: over a batch's rows, or over a buffer."""
    ahead, end = _known(node, frame)
    far: dict[str, list[str]] = {}
    for slots, mask, records, stride, key in _tables(node.body, frame):
        if any(v.slot.nullable or v.slot.physical is Physical.FLOAT for v in key):
            continue
        if any(v.name not in ahead for v in key):
            continue
        at = [ahead[v.name] for v in key]
        code = f"hash_words(({', '.join(at)},))"
        later = code.replace("%s", f"row + {FAR}")
        soon = code.replace("%s", f"row + {NEAR}")
        number = (
            f"likely({slots}, {mask}, {soon})"
            if slots.startswith("slots_")
            else f"load_half({slots}, {soon} & {mask})"
        )
        far.setdefault(mask, []).extend(
            [
                f"        prefetch({slots} + 4 * ({later} & {mask}))",
                f"        prefetch({records} + {number} * {stride})",
            ]
        )
    if not far:
        return []
    lines = [f"if row + {FAR} < {end}:"]
    for mask, found in far.items():
        lines += [f"    if {mask} > {SMALL}:", *dict.fromkeys(found)]
    return lines


def later_slots(steps: list[ir.Step], frame: Frame) -> list[str]:
    """Lines for the head of a row whose steps run one after the other: what later ones look up."""
    lines: list[str] = []
    for step in steps[1:]:
        outer = step.block[0] if len(step.block) == 1 else None
        if not isinstance(outer, ir.Rows):
            continue
        columns = {variable.name: column for variable, column in outer.binds}
        for slots, mask, _, _, key in _tables(outer.body, frame):
            if any(v.slot.nullable or v.name not in columns for v in key):
                continue
            words = [
                f"float_bits(load_float(column_{columns[v.name]}, row))"
                if v.slot.physical is Physical.FLOAT
                else f"load(column_{columns[v.name]}, row)"
                for v in key
            ]
            place = f"{slots} + 4 * (hash_words(({', '.join(words)},)) & {mask})"
            lines += [f"if {mask} > {SMALL}:", f"    prefetch({place})"]
    return lines


def _known(node: ir.Rows | ir.Scan, frame: Frame) -> tuple[dict[str, str], str]:
    """Where the variables of row %s are found before their turn, and how many rows there are."""
    if isinstance(node, ir.Rows):
        return {v.name: f"load(column_{column}, %s)" for v, column in node.binds}, "high"
    layout, name = frame.layouts[node.map], identifier(node.map)
    words = {
        bind.variable.name: layout.key_words[bind.position]
        for bind in _always(node.body)
        if isinstance(bind, ir.BindKey) and bind.record == node.record
    }
    record = f"records_{name} + (%s) * {8 * layout.width}"
    ahead = {variable: f"load({record}, {word})" for variable, word in words.items()}
    return ahead, f"load(map_{name}, {USED})"


def _always(block: Block) -> Iterator[ir.Node]:
    """The nodes that every row runs; hardly a record of a buffer is not there."""
    for node in block:
        yield node
        if isinstance(node, ir.Total | ir.Present):
            yield from _always(node.body)


def _tables(block: Block, frame: Frame) -> Iterator[tuple[str, str, str, int, list[Variable]]]:
    """Slots, mask, records, stride and key of every access that a row surely makes."""
    for node in _always(block):
        if not isinstance(node, ir.Update | ir.Get | ir.Run | ir.Slice):
            continue
        layout, name = frame.layouts[node.map], identifier(node.map)
        if any(field.nullable for field in layout.keys):
            continue
        parts = node.parts if isinstance(node, ir.Run) else tuple(range(len(layout.keys)))
        chains = range(len(layout.indexes)) if isinstance(node, ir.Update) else []
        if isinstance(node, ir.Slice):
            parts, chains = layout.indexes[node.index].parts, [node.index]
        bound = dict(zip(parts, node.key, strict=True))
        stride = 8 * layout.width
        if not isinstance(node, ir.Slice) and node.key:
            key = [bound[part] for part in layout.hashed]
            yield f"slots_{name}", f"mask_{name}", f"records_{name}", stride, key
        for number in chains:
            index = layout.indexes[number]
            if index.kind == CHAIN:
                block_at = f"map_{name}, {layout.block(number)}"
                key = [bound[part] for part in sorted(index.parts)]
                slots, mask = (f"load({block_at} + {word})" for word in (SLOTS, MASK))
                yield slots, mask, f"records_{name}", stride, key
