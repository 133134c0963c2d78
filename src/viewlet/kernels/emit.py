"""Loops -> Python source, which Numba compiles and `explain --stage kernels` shows.

Each trigger gets two functions over the state array and control words (kernels.frame):

    on_R(state, control)     the batch shape: a step runs over all rows before the next one starts
    each_R(state, control)   the single-tuple shape: all steps run for one row before the next row

Both return 0 when done, or 1 when a map is full: the control words then say where to go on. A long
batch shape is divided into on_R, on_R_from_5, ..., each with some of the steps: Numba's time grows
faster than a function's length, and one more call costs nothing beside a batch.
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

_LONGEST = 150
"""Lines of a function from which on its steps are divided."""


class Module:
    """The source of a programme's kernels with the frame that they run in.

    `batch` and `single` name the functions of each trigger, which run one after the other.
    """

    def __init__(self, program: Program, loops: Loops) -> None:
        self.program = program
        self.loops = loops
        self.texts = Texts()
        self.batch: dict[str, list[str]] = {}
        self.single: dict[str, list[str]] = {}
        # Writing the bodies finds the strings that they need, which decides where maps lie; so
        # the source is written twice, and the second time every position is known.
        self.frame = Frame(loops, self.texts)
        self._write()
        self.frame = Frame(loops, self.texts)
        self.source = self._write()

    def _write(self) -> str:
        parts: list[str] = []
        for relation, steps in self.loops.steps.items():
            self.single[relation] = [f"each_{identifier(relation)}"]
            if relation in self.loops.by_row:
                self.batch[relation] = self.single[relation]
                parts.append(_BY_ROW)
            else:
                functions = _batch_functions(self.frame, relation, self.loops.ordered(relation))
                self.batch[relation] = list(functions)
                parts += functions.values()
            parts.append(_TriggerWriter(self.frame, relation, single=True).single_function(steps))
        shared = [
            f"{_COMPILED}\ndef {name}{text}\n\n" for text, name in self.frame.functions.items()
        ]
        return "\n".join((_HEAD, *shared, *parts))


def _batch_functions(frame: Frame, relation: str, steps: list[Step]) -> dict[str, str]:
    """The functions of the batch shape by their names, in the order in which they run."""
    parts: list[list[tuple[int, Step]]] = [[]]
    length = 0
    for number, step in enumerate(steps):
        writer = _TriggerWriter(frame, relation)
        writer.write_step(number, step)
        if parts[-1] and length + len(writer.lines) > _LONGEST:
            parts.append([])
            length = 0
        parts[-1].append((number, step))
        length += len(writer.lines)
    name = f"on_{identifier(relation)}"
    names = [name, *(f"{name}_from_{part[0][0]}" for part in parts[1:])]
    return {
        own: _TriggerWriter(frame, relation).part(own, part)
        for own, part in zip(names, parts, strict=True)
    }


class _TriggerWriter(UpdateWriter):
    """Writes one function."""

    def part(self, name: str, steps: list[tuple[int, Step]]) -> str:
        """A function for some steps of the batch shape; where it goes on says the control words."""
        first = steps[0][0]
        self.line(f"step = load(control, {STEP})")
        self.line(f"last = load(control, {LAST})")
        self.line(f"start = load(control, {ROW}) if step >= {first} else -1")
        self.line(f"skip = load(control, {SKIP}) if step >= {first} else 0")
        for number, step in steps:
            self.write_step(number, step)
            if number < steps[-1][0]:
                with self.nest(f"if step <= {number}:"):
                    self.line("start = -1")
                    self.line("skip = 0")
        head = [_COMPILED, f"def {name}(state, control):"]
        before = prologue(self.frame, self.relation, self.lines)
        return "\n".join([*head, *before, *self.lines, "    return 0", "", ""])

    def write_step(self, number: int, step: Step) -> None:
        self.step = number
        self._begin_step(step)
        for text in _quoted(step.text).splitlines():
            self.line(f"# {text.strip()}")
        with self.nest(f"if step <= {number} < last:"):
            self._batch_step(step)

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
        name = identifier(self.relation)
        self.line(f"row = max(load(control, {ROW}), low)")
        self.line(f"step = load(control, {STEP})")
        self.line(f"skip = load(control, {SKIP})")
        with self.nest("while row < high:"):
            for text in later_slots(steps, self.frame):
                self.line(text)
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
        head = [_COMPILED, f"def each_{name}(state, control):"]
        return "\n".join(
            [*head, *prologue(self.frame, self.relation, body), *body, "    return 0", ""]
        )

    def _begin_step(self, step: Step) -> None:
        self.targets = step.targets
        self.written = frozenset(_written(step.block))
        self.found = {}
        # With one update for each outer row, the row alone says where to go on.
        self.counted = self.single or _updates(step) > 1
        self.row = "row"


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
