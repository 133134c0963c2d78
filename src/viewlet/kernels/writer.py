"""The function that is being written: its lines, its locals, and where it goes on when it left.

Modules that write nodes (block_source, access, ordered_source, updates) are functions of a Writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from viewlet.kernels.block_walk import changed_maps
from viewlet.kernels.frame import FULL, ROW, SKIP, STEP, Frame
from viewlet.kernels.identifiers import LOCAL
from viewlet.kernels.loop_nodes import Step
from viewlet.kernels.scalar_source import Memo, ScalarWriter, Variable
from viewlet.names import FreshNames
from viewlet.schema import Physical
from viewlet.storage.columns import MOST_HASHED

FLOAT = Physical.FLOAT


class Writer:
    """The state of one function while it is written.

    `names` are those of the scope around it. `single`: its steps run for one row after the other.
    """

    def __init__(
        self, frame: Frame, relation: str, names: FreshNames, *, single: bool = False
    ) -> None:
        self.frame = frame
        self.relation = relation
        self.single = single
        self.names = names.inner()
        self.scalars = ScalarWriter(frame.texts, self._recall, frame.function)
        self.lines: list[str] = []
        self.depth = 1
        self.row = "row"
        """The local with the number of the current row."""
        self.counts_updates = False
        """Whether `done` counts the updates of a row, to go on behind those that are made."""
        self.inside_update = False
        """Whether the update that was counted last is not made yet."""
        self._step = 0
        self._targets: tuple[str, ...] = ()
        self._changed: frozenset[str] = frozenset()
        self._temporaries = 0
        # The local with the result of each probe, and the depth of the block that made it.
        self._probes: dict[tuple[str, str], tuple[str, int]] = {}

    # Lines.

    def line(self, text: str) -> None:
        """Write a line at the current depth."""
        self.lines.append("    " * self.depth + text)
        # The block that made a deeper probe has ended: its local need not be set here.
        self._probes = {k: p for k, p in self._probes.items() if p[1] <= self.depth}

    @contextmanager
    def nest(self, header: str) -> Iterator[None]:
        """Write a header; what is written inside stands under it."""
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def nest_if(self, tests: list[str], operator: str = "and") -> Iterator[None]:
        """`if` all of the tests (with `or`, any of them), and no `if` without tests."""
        if not tests:
            yield
            return
        with self.nest(f"if {f' {operator} '.join(tests)}:"):
            yield

    # Locals.

    def temporary(self, base: str) -> str:
        """A new local of this function; numbers go on, whatever the base."""
        while True:
            self._temporaries += 1
            name = f"{base}{self._temporaries}"
            if self.names.take(name, LOCAL):
                return name

    def local(self, base: str, code: str) -> str:
        """A local with the value of some code, which may be a local already."""
        if re.fullmatch(r"[a-z]\w*", code):
            return code
        name = self.temporary(base)
        self.line(f"{name} = {code}")
        return name

    def earlier_probe(self, table: str, words: str) -> str | None:
        """The local with the result of the same probe, made earlier on every path to here."""
        local, depth = self._probes.get((table, words), (None, 0))
        return local if depth <= self.depth else None

    def remember_probe(self, map: str, table: str, words: str, local: str) -> None:
        """Keep the result of a probe, unless this step changes the map: more may be found then."""
        if map not in self._changed:
            self._probes.setdefault((table, words), (local, self.depth))

    # Steps.

    def open_step(self, number: int, step: Step, *, counts_updates: bool) -> None:
        """What is written from now on belongs to a step."""
        self._step = number
        self._targets = step.targets
        self._changed = changed_maps(step.block)
        self._probes = {}
        self.counts_updates = counts_updates
        self.row = "row"

    def counts(self, map: str) -> bool:
        """Whether updates of a map are counted."""
        return self.counts_updates and map in self._targets

    def open_row(self) -> None:
        """At the head of an outer row: no update of it is made yet."""
        if self.counts_updates:
            self.line("done = 0")

    def close_row(self) -> None:
        """At the end of an outer row: the next one has no updates to skip."""
        if self.counts_updates:
            self.line("skip = 0")

    def leave_full(self, map: str) -> None:
        """Leave, and say where to go on: updates of this row that are made stay made."""
        done = "done - 1" if self.inside_update else "done"
        self.line(f"store(control, {STEP}, {self._step})")
        self.line(f"store(control, {ROW}, row)")
        skip = f"max({done}, skip)" if self.counts_updates else "0"
        self.line(f"store(control, {SKIP}, {skip})")
        self.line(f"store(control, {FULL}, {self.frame.number(map)})")
        self.line("return 1")

    def _recall(self, memo: Memo, arguments: list[Variable]) -> str:
        """Search in a memo, and leave the kernel where the value is not known yet."""
        at, words, hashed = self.temporary("at"), [], 0
        for i, variable in enumerate(arguments):
            is_float = variable.slot.physical is FLOAT
            words.append(f"float_bits({variable.name})" if is_float else variable.name)
            if variable.slot.nullable:
                words.append(variable.null)
            hashed = len(words) if i < MOST_HASHED else hashed
        stride, name = self.frame.stride(memo.name), self.frame.called(memo.name)
        table = f"slots_{name}, mask_{name}, records_{name}, {stride}"
        by = ", ".join(words[:hashed])
        self.line(f"{at} = find({table}, ({by},), ({', '.join(words)},))")
        with self.nest(f"if {at} == 0:"):
            for i, word in enumerate(words):
                self.line(f"store(state, {self.frame.missing + i}, {word})")
            self.leave_full(memo.name)
        return at
