"""The beginning of every function: its names for what the state array says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from viewlet.kernels.frame import COLUMNS, HIGH, LOW, RANKS, WEIGHTS, Frame
from viewlet.storage.columns import HEADER, LOGGING, MARKS, MASK, RECORDS, SLOTS


@dataclass(frozen=True)
class _Definition:
    name: str
    code: str
    needs: str | None = None
    """The definition without which this one cannot be."""


def prologue(frame: Frame, relation: str, body: list[str]) -> list[str]:
    """Definitions of the names that the body uses, and of no others."""
    used = set(re.findall(r"\b[a-z]+_?\w*\b", "\n".join(body)))
    possible = list(_definitions(frame, relation))
    definitions = [each for each in possible if each.name in used]
    # The records of a map need its descriptor, which the body itself may not use.
    needed = {each.needs for each in definitions} - used
    extra = [each for each in possible if each.name in needed]
    return [f"    {each.name} = {each.code}" for each in (*extra, *definitions)]


def _definitions(frame: Frame, relation: str) -> Iterator[_Definition]:
    yield _Definition("low", f"load(state, {LOW})")
    yield _Definition("high", f"load(state, {HIGH})")
    yield _Definition("weights", f"load(state, {WEIGHTS})")
    yield _Definition("ranks", f"load(state, {RANKS})")
    yield _Definition("zero", "0")
    yield _Definition("chosen", "workspace()")
    columns = frame.loops.program.relation(relation).columns
    for i in range(len(columns)):
        yield _Definition(f"column_{i}", f"load(state, {COLUMNS + 2 * i})")
        yield _Definition(f"nulls_{i}", f"load(state, {COLUMNS + 2 * i + 1})")
    for i in range(len(frame.texts.lookups)):
        yield _Definition(f"table_{i}", f"load(state, {frame.tables + 2 * i})")
        yield _Definition(f"gaps_{i}", f"load(state, {frame.tables + 2 * i + 1})")
    for i in range(len(frame.texts.constants)):
        yield _Definition(f"text_{i}", f"load(state, {frame.constants + i})")
    for name, offset in frame.offsets.items():
        yield from _map_definitions(frame.called(name), offset)


def _map_definitions(name: str, offset: int) -> Iterator[_Definition]:
    map = f"map_{name}"
    yield _Definition(map, f"state + {8 * offset}")
    yield _Definition(f"records_{name}", f"load({map}, {RECORDS})", map)
    yield _Definition(f"marks_{name}", f"load({map}, {MARKS})", map)
    yield _Definition(f"logging_{name}", f"load({map}, {LOGGING})", map)
    yield _Definition(f"slots_{name}", f"load({map}, {HEADER + SLOTS})", map)
    yield _Definition(f"mask_{name}", f"load({map}, {HEADER + MASK})", map)
    yield _Definition(f"tags_{name}", f"tag_bits(mask_{name})")
