"""The beginning of every function: its names for what the state array says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from viewlet.kernels.blocks import identifier
from viewlet.kernels.frame import COLUMNS, HIGH, LOW, RANKS, WEIGHTS, Frame
from viewlet.storage.columns import HEADER, LOGGING, MARKS, MASK, RECORDS, SLOTS


def prologue(frame: Frame, relation: str, body: list[str]) -> list[str]:
    """Definitions of the names that the body uses, and of no others."""
    text = "\n".join(body)
    used = set(re.findall(r"\b[a-z]+_?\w*\b", text))
    found = [f"    {name} = {code}" for name, code in _definitions(frame, relation) if name in used]
    # `records_M` needs `map_M`, which may stand in no other place.
    needed = set(re.findall(r"map_\w+", "\n".join(found))) - used
    extra = [f"    {n} = {c}" for n, c in _definitions(frame, relation) if n in needed]
    return extra + found


def _definitions(frame: Frame, relation: str) -> Iterator[tuple[str, str]]:
    yield "low", f"load(state, {LOW})"
    yield "high", f"load(state, {HIGH})"
    yield "weights", f"load(state, {WEIGHTS})"
    yield "ranks", f"load(state, {RANKS})"
    yield "zero", "np.int64(0)"
    yield "chosen", "workspace()"
    columns = frame.loops.program.relation(relation).columns
    for i in range(len(columns)):
        yield f"column_{i}", f"load(state, {COLUMNS + 2 * i})"
        yield f"nulls_{i}", f"load(state, {COLUMNS + 2 * i + 1})"
    for i in range(len(frame.texts.lookups)):
        yield f"table_{i}", f"load(state, {frame.tables + 2 * i})"
        yield f"gaps_{i}", f"load(state, {frame.tables + 2 * i + 1})"
    for i in range(len(frame.texts.constants)):
        yield f"text_{i}", f"load(state, {frame.constants + i})"
    for name, offset in frame.offsets.items():
        yield f"map_{identifier(name)}", f"state + {8 * offset}"
        plain = identifier(name)
        yield f"records_{plain}", f"load(map_{plain}, {RECORDS})"
        yield f"marks_{plain}", f"load(map_{plain}, {MARKS})"
        yield f"logging_{plain}", f"load(map_{plain}, {LOGGING})"
        yield f"slots_{plain}", f"load(map_{plain}, {HEADER + SLOTS})"
        yield f"mask_{plain}", f"load(map_{plain}, {HEADER + MASK})"
        yield f"tags_{plain}", f"tag_bits(mask_{plain})"
