"""Loops -> Python source, which is compiled and which `explain --stage kernels` shows.

Each trigger gets two functions over the state array and control words (kernels.frame):

    on_R(state, control)     the batch shape: a step runs over all rows before the next one starts
    each_R(state, control)   the single-tuple shape: all steps run for one row before the next row

Both return 0 when done, or 1 when a map is full: the control words then say where to go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.kernels import nodes as ir
from viewlet.kernels.blocks import identifier
from viewlet.kernels.frame import LAST, ROW, SKIP, STEP, Frame
from viewlet.kernels.nodes import Block, Loops, Step, bodies
from viewlet.kernels.prefetch import later_slots, prefetches, reaches_far
from viewlet.kernels.prologue import prologue
from viewlet.kernels.scalars import Texts
from viewlet.kernels.selection import Selection, selection
from viewlet.kernels.updates import UpdateWriter
from viewlet.program.ir import Program

_HEAD = '''"""Kernels of one programme; made by viewlet.kernels, not to be edited."""

from math import exp, inf, isfinite

import numpy as np

from viewlet.kernels.natives import *
from viewlet.storage.arithmetic import (
    gather,
    gathered,
    minus,
    pair_of,
    pair_plus,
    pair_times,
    plus,
    rounded,
    times,
)
from viewlet.storage.compiled import compiled
from viewlet.storage.hashmap import (
    find,
    find_group,
    hash_words,
    likely,
    numbers_in,
    tag_bits,
)
from viewlet.storage.memory import (
    float_bits,
    load,
    load_byte,
    load_float,
    load_half,
    prefetch,
    store,
    store_half,
    workspace,
)
from viewlet.storage.multimap import (
    add_float,
    add_int,
    clear_buffer,
    clear_column,
    mark_of,
    refresh_trees,
    upsert,
)
from viewlet.storage.nodes import whole_total
from viewlet.storage.ordered import find_root, first_counted, next_counted, only_root

'''


_COMPILED = "@compiled"

_BY_ROW = """
# Batches are taken row by row: in one loop over all of them, every row could meet every other.
"""


class Module:
    """The source of a programme's kernels with the frame that they run in.

    `batch` and `single` name the function of each trigger.
    """

    def __init__(self, program: Program, loops: Loops) -> None:
        self.program = program
        self.loops = loops
        self.texts = Texts()
        self.batch: dict[str, str] = {}
        self.single: dict[str, str] = {}
        # Writing the bodies finds the strings that they need, which decides where maps lie; so
        # the source is written twice, and the second time every position is known.
        self.frame = Frame(loops, self.texts)
        self._write()
        self.frame = Frame(loops, self.texts)
        self.source = self._write()

    def _write(self) -> str:
        parts: list[str] = []
        for relation, steps in self.loops.steps.items():
            self.single[relation] = f"each_{identifier(relation)}"
            if relation in self.loops.by_row:
                self.batch[relation] = self.single[relation]
                parts.append(_BY_ROW)
            else:
                self.batch[relation] = f"on_{identifier(relation)}"
                ordered = self.loops.ordered(relation)
                parts.append(_TriggerWriter(self.frame, relation).batch_function(ordered))
            parts.append(_TriggerWriter(self.frame, relation, single=True).single_function(steps))
        shared = [
            f"{_COMPILED}\ndef {name}{text}\n\n" for text, name in self.frame.functions.items()
        ]
        return "\n".join((_HEAD, *shared, *parts))


class _TriggerWriter(UpdateWriter):
    """Writes one function."""

    def batch_function(self, steps: list[Step]) -> str:
        """Runs the steps that the control words name."""
        self.line(f"step = load(control, {STEP})")
        self.line(f"last = load(control, {LAST})")
        self.line(f"start = load(control, {ROW})")
        self.line(f"skip = load(control, {SKIP})")
        for number, step in enumerate(steps):
            self._open_step(number, step)
            with self.nest(f"if step <= {number} < last:"):
                self._batch_step(step)
            if step is not steps[-1]:
                with self.nest(f"if step <= {number}:"):
                    self.line("start = -1")
                    self.line("skip = 0")
        return self._function(f"on_{identifier(self.relation)}")

    def _batch_step(self, step: Step) -> None:
        outer = step.block[0] if len(step.block) == 1 else None
        found = self._worth_choosing(outer) if isinstance(outer, ir.Rows) else None
        if found is not None:
            self._chosen_rows(found)
        elif isinstance(outer, ir.Rows):
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

    def _worth_choosing(self, rows: ir.Rows) -> Selection | None:
        """The rows to work on, where some lines should be asked for before their turn."""
        found = None if rows.equal else selection(rows, self.scalars)
        if found is None or not reaches_far(found.rows, self.frame):
            return None
        return found if prefetches(found.rows, self.frame, chosen=True) else None

    def single_function(self, steps: list[Step]) -> str:
        """Runs all steps for one row after the other."""
        self.line(f"row = max(load(control, {ROW}), low)")
        self.line(f"step = load(control, {STEP})")
        self.line(f"skip = load(control, {SKIP})")
        with self.nest("while row < high:"):
            for text in later_slots(steps, self.frame):
                self.line(text)
            for number, step in enumerate(steps):
                self._open_step(number, step)
                with self.nest(f"if step <= {number}:"):
                    self._reset_done()
                    self.block(step.block)
                    self._end_row()
            self.line("step = 0")
            self.line("row += 1")
        return self._function(f"each_{identifier(self.relation)}")

    def _open_step(self, number: int, step: Step) -> None:
        """The statements of a step as a comment; what is written next belongs to it."""
        self.step = number
        self.targets = step.targets
        self.written = frozenset(_written(step.block))
        self.found = {}
        # With one update for each outer row, the row alone says where to go on.
        self.counted = self.single or _updates(step) > 1
        self.row = "row"
        for text in _quoted(step.text).splitlines():
            self.line(f"# {text.strip()}")

    def _function(self, name: str) -> str:
        head = [_COMPILED, f"def {name}(state, control):"]
        before = prologue(self.frame, self.relation, self.lines)
        return "\n".join([*head, *before, *self.lines, "    return 0", "", ""])


_REPEATED = ir.Rows | ir.Scan | ir.Slice | ir.Run | ir.Walk | ir.Groups | ir.Change


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
        found += 2 * inside if isinstance(node, _REPEATED) else inside
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
