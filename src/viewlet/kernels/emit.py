"""Loops -> Python source, which is compiled and which `explain --stage kernels` shows.

Each trigger gets two functions over the state array and control words (kernels.frame):

    on_R(state, control)     the batch shape: a step runs over all rows before the next one starts
    each_R(state, control)   the single-tuple shape: all steps run for one row before the next row

Both return 0 when done, or 1 when a map is full: the control words then say where to go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.frame import LAST, ROW, SKIP, STEP, Frame
from viewlet.kernels.identifiers import HEAD
from viewlet.kernels.loop_nodes import Block, Loops, Step, bodies
from viewlet.kernels.prefetch import later_slots, prefetches, reaches_far
from viewlet.kernels.prologue import prologue
from viewlet.kernels.scalar_source import Texts
from viewlet.kernels.selection import Selection, selection
from viewlet.kernels.updates import UpdateWriter
from viewlet.program.ir import Program

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
        # the source is written twice, and the second time every position is known.
        self.frame = Frame(loops, self.texts)
        self._write()
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
                writer = _TriggerWriter(self.frame, relation, self.loops.batch_locals[relation])
                ordered = self.loops.ordered(relation)
                parts.append(writer.batch_function(self.batch[relation], ordered))
            own = self.loops.single_locals[relation]
            writer = _TriggerWriter(self.frame, relation, own, single=True)
            parts.append(writer.single_function(self.single[relation], steps))
        shared = [
            f"{_COMPILED}\ndef {name}{text}\n\n" for text, name in self.frame.functions.items()
        ]
        return "\n".join((HEAD, *shared, *parts))


class _TriggerWriter(UpdateWriter):
    """Writes one function."""

    def batch_function(self, name: str, steps: list[Step]) -> str:
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
        return self._function(name)

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

    def single_function(self, name: str, steps: list[Step]) -> str:
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
        return self._function(name)

    def _open_step(self, number: int, step: Step) -> None:
        """The statements of a step as a comment; what is written next belongs to it."""
        self.step = number
        self.targets = step.targets
        self.written = frozenset(_written(step.block))
        self.found = {}
        # With one update for each outer row, the row alone says where to go on.
        self.counted = self.single or _updates(step) > 1
        self.row = "row"
        for text in step.text.splitlines():
            self.line(f"# {_printable(text.strip())}")

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


def _printable(text: str) -> str:
    """A line as a comment: names of users may hold what no source file can."""
    return "".join(c if c.isprintable() else "?" for c in text)
