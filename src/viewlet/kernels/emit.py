"""Loops -> Python source, which is compiled and which `explain --stage kernels` shows.

Each trigger gets two functions over the state array and control words (kernels.frame):

    on_R(state, control)     the batch shape: a step runs over all rows before the next one starts
    each_R(state, control)   the single-tuple shape: all steps run for one row before the next row

Both return 0 when done, or 1 when a map is full: the control words then say where to go on.
"""

from __future__ import annotations

from viewlet.kernels import (
    access,
    block_source,
    border_source,
    ordered_source,
    range_source,
    updates,
)
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.access import write_chosen_rows, write_row_body, write_scan
from viewlet.kernels.block_source import register_writers, write_block
from viewlet.kernels.block_walk import bodies
from viewlet.kernels.frame import LAST, ROW, SKIP, STEP, Frame
from viewlet.kernels.identifiers import HEAD
from viewlet.kernels.loop_nodes import Block, Loops, Step
from viewlet.kernels.prefetch import later_slots, prefetches, reaches_far
from viewlet.kernels.prologue import prologue
from viewlet.kernels.scalar_source import Texts
from viewlet.kernels.selection import Selection, selection
from viewlet.kernels.writer import Writer
from viewlet.program.ir import Program

register_writers(
    access.WRITERS,
    block_source.WRITERS,
    border_source.WRITERS,
    ordered_source.WRITERS,
    range_source.WRITERS,
    updates.WRITERS,
)

_COMPILED = "@compiled"

_BY_ROW = """
# Batches are taken row by row: in one loop over all of them, every row could meet every other.
"""


class Module:
    """The source of a program's kernels with the frame that they run in.

    `batch` and `single` name the function of each trigger.
    """

    def __init__(self, program: Program, loops: Loops) -> None:
        self.program = program
        self.loops = loops
        self.texts = Texts(names=loops.map_names)
        self.batch: dict[str, str] = {}
        self.single: dict[str, str] = {}
        # Writing the bodies finds the strings that they need, which decides where maps lie; so
        # source with strings is written twice, and the second time every position is known.
        self.frame = Frame(loops, self.texts)
        self.source = self._write()
        if not self.texts.is_empty:
            self.frame = Frame(loops, self.texts)
            self.source = self._write()

    def _write(self) -> str:
        parts: list[str] = []
        for relation, steps in self.loops.steps.items():
            called = self.loops.names.trigger(relation)
            self.single[relation] = f"each_{called}"
            if relation in self.loops.by_row:
                self.batch[relation] = self.single[relation]
                parts.append(_BY_ROW)
            else:
                self.batch[relation] = f"on_{called}"
                writer = Writer(self.frame, relation, self.loops.batch_locals[relation])
                ordered = self.loops.ordered(relation)
                parts.append(_batch_function(writer, self.batch[relation], ordered))
            names = self.loops.single_locals[relation]
            writer = Writer(self.frame, relation, names, single=True)
            parts.append(_single_function(writer, self.single[relation], steps))
        shared = [
            f"{_COMPILED}\ndef {name}{text}\n\n" for text, name in self.frame.functions.items()
        ]
        return "\n".join((HEAD, *shared, *parts))


def _batch_function(writer: Writer, name: str, steps: list[Step]) -> str:
    """Runs the steps that the control words name."""
    writer.line(f"step = load(control, {STEP})")
    writer.line(f"last = load(control, {LAST})")
    writer.line(f"start = load(control, {ROW})")
    writer.line(f"skip = load(control, {SKIP})")
    for number, step in enumerate(steps):
        _open_step(writer, number, step)
        with writer.nest(f"if step <= {number} < last:"):
            _write_batch_step(writer, step)
        if step is not steps[-1]:
            with writer.nest(f"if step <= {number}:"):
                writer.line("start = -1")
                writer.line("skip = 0")
    return _function(writer, name)


def _write_batch_step(writer: Writer, step: Step) -> None:
    outer = step.block[0] if len(step.block) == 1 else None
    chosen = _chosen(writer, outer) if isinstance(outer, ir.Rows) else None
    if chosen is not None:
        write_chosen_rows(writer, chosen)
    elif isinstance(outer, ir.Rows):
        with writer.nest("for row in range(low if start < 0 else start, high):"):
            writer.open_row()
            write_row_body(writer, outer)
            writer.close_row()
    elif isinstance(outer, ir.Scan):
        write_scan(writer, outer, resume=True)
    else:
        writer.line("row = 0")
        writer.open_row()
        write_block(writer, step.block)


def _chosen(writer: Writer, rows: ir.Rows) -> Selection | None:
    """The rows that pass the filter, where choosing them first lets lines be fetched ahead."""
    chosen = None if rows.equal else selection(rows, writer.scalars)
    if chosen is None or not reaches_far(chosen.rows, writer.frame):
        return None
    return chosen if prefetches(chosen.rows, writer.frame, chosen=True) else None


def _single_function(writer: Writer, name: str, steps: list[Step]) -> str:
    """Runs all steps for one row after the other."""
    writer.line(f"row = max(load(control, {ROW}), low)")
    writer.line(f"step = load(control, {STEP})")
    writer.line(f"skip = load(control, {SKIP})")
    with writer.nest("while row < high:"):
        for text in later_slots(steps, writer.frame):
            writer.line(text)
        for number, step in enumerate(steps):
            _open_step(writer, number, step)
            with writer.nest(f"if step <= {number}:"):
                writer.open_row()
                write_block(writer, step.block)
                writer.close_row()
        writer.line("step = 0")
        writer.line("row += 1")
    return _function(writer, name)


def _open_step(writer: Writer, number: int, step: Step) -> None:
    """The statements of a step as a comment; what is written next belongs to it."""
    # With one update for each outer row, the row alone says where to go on.
    writer.open_step(number, step, counts_updates=writer.single or _updates(step) > 1)
    for text in step.text.splitlines():
        writer.line(f"# {_printable(text.strip())}")


def _function(writer: Writer, name: str) -> str:
    head = [_COMPILED, f"def {name}(state, control):"]
    before = prologue(writer.frame, writer.relation, writer.lines)
    return "\n".join([*head, *before, *writer.lines, "    return 0", "", ""])


_REPEATED = ir.Rows | ir.Scan | ir.Slice | ir.Run | ir.Walk | ir.Groups | ir.Repeat | ir.ValueChange


def _updates(step: Step) -> int:
    """How many updates one outer row can make: 2 stands for any number."""
    outer = step.block[0] if len(step.block) == 1 else None
    block = outer.body if isinstance(outer, ir.Rows | ir.Scan) else step.block
    return _count(block, step.targets)


def _count(block: Block, targets: tuple[str, ...]) -> int:
    count = 0
    for node in block:
        if isinstance(node, ir.Update):
            count += node.map in targets
            continue
        inside = sum(_count(body, targets) for body in bodies(node))
        count += 2 * inside if isinstance(node, _REPEATED) else inside
    return count


def _printable(text: str) -> str:
    """A line as a comment: names of users may hold what no source file can."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)
