"""Blocks of nodes as source: order, conditions, and everything that only locals take part in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.frame import Frame
from viewlet.kernels.loop_nodes import Block, Node
from viewlet.kernels.weights import WeightWriter, same_value
from viewlet.names import FreshNames
from viewlet.schema import Physical

INT, FLOAT, STR, BOOL = Physical.INT, Physical.FLOAT, Physical.STR, Physical.BOOL


class BlockWriter(WeightWriter):
    """Writes blocks; a node's method has the name of its class."""

    def __init__(
        self, frame: Frame, relation: str, around: FreshNames, single: bool = False
    ) -> None:
        super().__init__(frame.texts, around.inner())
        self.frame = frame
        self.relation = relation
        self.single = single
        self.targets: tuple[str, ...] = ()
        self.counted = False
        self.begun = False
        self.written: frozenset[str] = frozenset()
        self.row = "row"
        self.step = 0

    def outline(self, base: str, text: str) -> str:
        return self.frame.function(base, text)

    @contextmanager
    def nest(self, header: str) -> Iterator[None]:
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1

    def block(self, block: Block) -> None:
        """Nodes in order; neighbors under the same condition share one `if`."""
        if not block:
            self.line("pass")
        at = 0
        while at < len(block):
            node = block[at]
            at += 1
            if not isinstance(node, ir.If):
                self.node(node)
                continue
            condition = bare(self.scalars.truth(node.scalar, node.scope))
            body = list(node.body)
            while at < len(block):
                other = block[at]
                if not isinstance(other, ir.If):
                    break
                if bare(self.scalars.truth(other.scalar, other.scope)) != condition:
                    break
                body += other.body
                at += 1
            with self.nest(f"if {condition}:"):
                self.block(body)

    def node(self, node: Node) -> None:
        getattr(self, "_" + _snake(type(node).__name__))(node)

    # Where a step stands, to go on after Python has made room.

    def _reset_done(self) -> None:
        if self.counted:
            self.line("done = 0")

    def _end_row(self) -> None:
        if self.counted:
            self.line("skip = 0")

    # Nodes.

    def _let(self, node: ir.Let) -> None:
        code = self.scalars.code(node.scalar, node.scope)
        physical = node.variable.slot.physical
        value = code.value
        if physical is BOOL:
            value = f"1 if {value} else 0"
        elif physical is FLOAT and code.physical is not FLOAT:
            value = f"float({value})"
        if node.variable.slot.nullable:
            null = node.variable.null
            self.line(f"{null} = 1 if {code.null or 'False'} else 0")
            empty = "0.0" if physical is FLOAT else "0"
            value = f"{empty} if {null} != 0 else ({value})"
        self.line(f"{node.variable.name} = {value}")

    def _not_null(self, node: ir.NotNull) -> None:
        with self.nest(f"if {node.variable.null} == 0:"):
            self.block(node.body)

    def _total(self, node: ir.Total) -> None:
        before, last = node.body[:-1], node.body[-1] if node.body else None
        if (
            isinstance(last, ir.AddTo)
            and last.name == node.name
            and node.physical is FLOAT
            and not _adds(before, node.name)
        ):
            # A pair that is added to nothing; the compiler does not see that it is the sum.
            if before:
                self.block(before)
            high, low = self.pair(last.factors)
            self.line(f"{node.name}, {node.name}_low = {high}, {low}")
            return
        self.line(f"{node.name} = {'0.0' if node.physical is FLOAT else '0'}")
        if node.physical is FLOAT:
            self.line(f"{node.name}_low = 0.0")
        self.block(node.body)

    def _add_to(self, node: ir.AddTo) -> None:
        if node.physical is FLOAT:
            high, low = self.pair(node.factors)
            both = f"{node.name}, {node.name}_low"
            self.line(f"{both} = pair_plus({both}, {high}, {low})")
        else:
            self.line(f"{node.name} = plus({node.name}, {self.whole(node.factors)})")

    def _let_total(self, node: ir.LetTotal) -> None:
        self.line(f"{node.variable.name} = {node.name}")

    def _if_total(self, node: ir.IfTotal) -> None:
        with self.nest(f"if {node.name} != 0:"):
            self.block(node.body)

    def _no_best(self, node: ir.NoBest) -> None:
        empty = "0.0" if node.variable.slot.physical is FLOAT else "0"
        self.line(f"{node.variable.name} = {empty}")
        self.line(f"{node.variable.null} = 1")

    def _better(self, node: ir.Better) -> None:
        best, new = node.variable.name, node.candidate.name
        left, right = new, best
        if node.variable.slot.physical is STR:
            self.frame.texts.ranks = True
            left, right = f"load(ranks, {new})", f"load(ranks, {best})"
        nearer = f"{left} {'>' if node.greatest else '<'} {right}"
        with self.nest(f"if {node.variable.null} != 0 or {nearer}:"):
            self.line(f"{best} = {new}")
            self.line(f"{node.variable.null} = 0")
        if node.stop is not None:
            self.line(f"{node.stop} = 1")

    def _change(self, node: ir.Change) -> None:
        """Both values go through one body: two would cost the compiler twice as much."""
        new, old = node.new, node.old
        same = same_value(new, old.name, old.null if old.slot.nullable else None)
        turn = self.temporary("turn")
        with self.nest(f"if not {same}:"), self.nest(f"for {turn} in range(2):"):
            self.line(f"{node.variable.name} = {new.name} if {turn} == 0 else {old.name}")
            if node.variable.slot.nullable:
                self.line(f"{node.variable.null} = {new.null} if {turn} == 0 else {old.null}")
            self.line(f"{node.weight} = 1 - 2 * {turn}")
            self.block(node.body)

    def _turn(self, node: ir.Turn) -> None:
        some = [f"(1 if {total} != 0 else 0)" for total in (node.new, node.old)]
        self.line(f"{node.weight} = {' - '.join(some)}")
        with self.nest(f"if {node.weight} != 0:"):
            self.block(node.body)


def _adds(block: Block, total: str) -> bool:
    """Whether something in a block adds to a total."""
    return any(
        (isinstance(node, ir.AddTo) and node.name == total)
        or any(_adds(body, total) for body in ir.bodies(node))
        for node in block
    )


def bare(code: str) -> str:
    """Without a pair of parentheses around the whole."""
    if not (code.startswith("(") and code.endswith(")")):
        return code
    depth = 0
    for i, character in enumerate(code):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(code) - 1:
            return code
    return code[1:-1]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
