"""Loops -> Python source, which Numba compiles and `explain --stage kernels` shows.

Each trigger gets two functions over the state array:

    on_R(state)      the batch shape: every step runs over all rows before the next one starts
    each_R(state)    the single-tuple shape: all steps run for one row before the next row

Both return 0 when done, or 1 when a map is full: the state array then says where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from viewlet.kernels import nodes as ir
from viewlet.kernels.blocks import identifier
from viewlet.kernels.frame import (
    COLUMNS,
    HIGH,
    LOW,
    RANKS,
    ROW,
    SKIP,
    STEP,
    WEIGHTS,
    Frame,
)
from viewlet.kernels.nodes import Block, Loops, Step, bodies
from viewlet.kernels.scalars import Texts
from viewlet.kernels.updates import UpdateWriter
from viewlet.program.ir import Program
from viewlet.storage.columns import HEADER, MASK, RECORDS, SLOTS, STAMP

_HEAD = '''"""Kernels of one programme; made by viewlet.kernels, not to be edited."""

from math import exp, inf, isfinite

import numpy as np
from numba import njit

from viewlet.kernels.natives import *
from viewlet.storage.arithmetic import minus, pair_of, pair_plus, pair_times, plus, times
from viewlet.storage.hashmap import find, find_group, hash_words, only_group
from viewlet.storage.memory import (
    float_bits,
    load,
    load_byte,
    load_float,
    load_half,
    store,
)
from viewlet.storage.multimap import (
    add_float,
    add_int,
    clear_buffer,
    clear_column,
    refresh_trees,
    upsert,
)
from viewlet.storage.ordered import first_counted, next_counted

'''


class Module:
    """The source of a programme's kernels with the frame that they run in."""

    def __init__(self, program: Program, loops: Loops) -> None:
        self.program = program
        self.loops = loops
        self.texts = Texts()
        # Writing the bodies finds the strings that they need, which decides where maps lie; so
        # the source is written twice, and the second time every position is known.
        self.frame = Frame(loops, self.texts)
        self._write()
        self.frame = Frame(loops, self.texts)
        self.source = self._write()

    def _write(self) -> str:
        parts = [_HEAD]
        for relation, steps in self.loops.steps.items():
            parts.append(_TriggerWriter(self.frame, relation).batch_function(steps))
            parts.append(_TriggerWriter(self.frame, relation, single=True).single_function(steps))
        return "\n".join(parts)


class _TriggerWriter(UpdateWriter):
    """Writes one function."""

    def batch_function(self, steps: list[Step]) -> str:
        """All steps in one function: Numba optimises what a function calls along with it."""
        name = identifier(self.relation)
        self.line(f"step = load(state, {STEP})")
        self.line(f"start = load(state, {ROW})")
        self.line(f"skip = load(state, {SKIP})")
        for number, step in enumerate(steps):
            self.step = number
            self._begin_step(step)
            for text in _quoted(step.text).splitlines():
                self.line(f"# {text.strip()}")
            with self.nest(f"if step <= {number}:"):
                self._batch_step(step)
                if number + 1 < len(steps):
                    self.line("start = -1")
                    self.line("skip = 0")
        body = self.lines
        head = ["@njit(cache=True, nogil=True)", f"def on_{name}(state):"]
        return "\n".join([*head, *self._prologue(body), *body, "    return 0", "", ""])

    def _batch_step(self, step: Step) -> None:
        outer = step.block[0] if len(step.block) == 1 else None
        if isinstance(outer, ir.Rows):
            with self.nest("for row in range(low if start < 0 else start, high):"):
                self._reset_done()
                self._row_body(outer)
                self._end_row()
        elif isinstance(outer, ir.Scan):
            self._scan(outer, resume=True)
        else:
            self.line("row = 0")
            self._reset_done()
            self.block(step.block)

    def single_function(self, steps: list[Step]) -> str:
        name = identifier(self.relation)
        self.line(f"row = max(load(state, {ROW}), low)")
        self.line(f"step = load(state, {STEP})")
        self.line(f"skip = load(state, {SKIP})")
        with self.nest("while row < high:"):
            for number, step in enumerate(steps):
                self.step = number
                self._begin_step(step)
                for text in _quoted(step.text).splitlines():
                    self.line(f"# {text.strip()}")
                with self.nest(f"if step <= {number}:"):
                    self._reset_done()
                    self.block(step.block)
                    self._end_row()
            self.line("step = 0")
            self.line("row += 1")
        body = self.lines
        head = ["@njit(cache=True, nogil=True)", f"def each_{name}(state):"]
        return "\n".join([*head, *self._prologue(body), *body, "    return 0", ""])

    def _begin_step(self, step: Step) -> None:
        self.targets = step.targets
        self.written = frozenset(_written(step.block))
        self.found = {}
        # With one update for each outer row, the row alone says where to go on.
        self.counted = self.single or _updates(step) > 1
        self.row = "row"

    def _prologue(self, body: list[str]) -> list[str]:
        """Definitions of the names that the body uses, and of no others."""
        text = "\n".join(body)
        used = set(re.findall(r"\b[a-z]+_?\w*\b", text))
        found = [f"    {name} = {code}" for name, code in self._definitions() if name in used]
        # `records_M` needs `map_M`, which may stand in no other place.
        needed = set(re.findall(r"map_\w+", "\n".join(found))) - used
        extra = [f"    {n} = {c}" for n, c in self._definitions() if n in needed]
        return extra + found

    def _definitions(self) -> Iterator[tuple[str, str]]:
        frame = self.frame
        yield "low", f"load(state, {LOW})"
        yield "high", f"load(state, {HIGH})"
        yield "weights", f"load(state, {WEIGHTS})"
        yield "ranks", f"load(state, {RANKS})"
        yield "zero", "np.int64(0)"
        relation = frame.loops.program.relation(self.relation)
        for i in range(len(relation.columns)):
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
            yield f"stamp_{plain}", f"load(map_{plain}, {STAMP})"
            yield f"slots_{plain}", f"load(map_{plain}, {HEADER + SLOTS})"
            yield f"mask_{plain}", f"load(map_{plain}, {HEADER + MASK})"


def _updates(step: Step) -> int:
    """How many updates one outer row can make: 2 stands for any number."""
    outer = step.block[0] if len(step.block) == 1 else None
    block = outer.body if isinstance(outer, ir.Rows | ir.Scan) else step.block
    return _count(block, step.targets)


def _count(block: Block, targets: tuple[str, ...]) -> int:
    found = 0
    for node in block:
        if isinstance(node, ir.Update):
            found += node.map in targets
            continue
        inside = sum(_count(body, targets) for body in bodies(node))
        loops = isinstance(node, ir.Rows | ir.Scan | ir.Slice | ir.Run | ir.Walk | ir.Groups)
        found += 2 * inside if loops else inside
    return found


def _written(block: Block) -> Iterator[str]:
    """The maps that a block changes, in which a second probe may find more than the first."""
    for node in block:
        if isinstance(node, ir.Update):
            yield node.map
        for body in bodies(node):
            yield from _written(body)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")
