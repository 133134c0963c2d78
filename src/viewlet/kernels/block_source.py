"""Blocks of nodes as source: order, conditions, and everything that only locals take part in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from viewlet.functions.comparison import compared
from viewlet.functions.kernel_forms import Code
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_walk import bodies
from viewlet.kernels.loop_nodes import Block
from viewlet.kernels.weights import bare, element_product, int_product, is_not_zero, same_value
from viewlet.kernels.writer import Writer
from viewlet.schema import Physical

FLOAT, STR, BOOL = Physical.FLOAT, Physical.STR, Physical.BOOL

NodeWriters = Mapping[type, Callable[[Writer, Any], None]]
"""node class -> the function that writes such a node"""

_WRITERS: dict[type, Callable[[Writer, Any], None]] = {}


def register_writers(*tables: NodeWriters) -> None:
    """Say what writes each node; TypeError for a class of nodes that no table has, or two.

    All but `If`, which is written together with its neighbors.
    """
    writers = dict(_WRITERS)
    for table in tables:
        _refuse(table.keys() & writers.keys(), "two writers")
        writers.update(table)
    _refuse(set(get_args(ir.Node)) - writers.keys() - {ir.If}, "no writer")
    _WRITERS.update(writers)


def _refuse(classes: set[type], reason: str) -> None:
    if classes:
        names = ", ".join(sorted(node_class.__name__ for node_class in classes))
        raise TypeError(f"{reason} for nodes of the loop language: {names}")


def write_block(writer: Writer, block: Block) -> None:
    """Nodes in order; neighbors under the same condition share one `if`."""
    if not block:
        writer.line("pass")
    position = 0
    while position < len(block):
        node = block[position]
        position += 1
        if not isinstance(node, ir.If):
            _WRITERS[type(node)](writer, node)
            continue
        condition = _condition(writer, node)
        body = list(node.body)
        while position < len(block):
            other = block[position]
            if not isinstance(other, ir.If) or _condition(writer, other) != condition:
                break
            body += other.body
            position += 1
        with writer.nest(f"if {condition}:"):
            write_block(writer, body)


def _condition(writer: Writer, node: ir.If) -> str:
    return bare(writer.scalars.truth(node.scalar, node.scope))


def write_let(writer: Writer, node: ir.Let) -> None:
    """Compute a scalar into a variable and its NULL flag."""
    code = writer.scalars.code(node.scalar, node.scope)
    physical = node.variable.slot.physical
    value = code.value
    if physical is BOOL:
        value = f"1 if {value} else 0"
    elif physical is FLOAT and code.physical is not FLOAT:
        value = f"float({value})"
    if node.variable.slot.nullable:
        null = node.variable.null
        writer.line(f"{null} = 1 if {code.null or 'False'} else 0")
        empty = "0.0" if physical is FLOAT else "0"
        value = f"{empty} if {null} != 0 else ({value})"
    writer.line(f"{node.variable.name} = {value}")


def write_repeat(writer: Writer, node: ir.Repeat) -> None:
    """The body for each whole number up to a scalar."""
    code = writer.scalars.code(node.scalar, node.scope)
    value = code.value if code.null is None else f"0 if {code.null} else {code.value}"
    last, name = writer.local("last", value), node.variable.name
    writer.line(f"{name} = zero + 1")
    with writer.nest(f"while {name} <= {last}:"):
        write_block(writer, node.body)
        writer.line(f"{name} += 1")


def write_stop_unless(writer: Writer, node: ir.StopUnless) -> None:
    """The body where a test is met; else the walk ends."""
    with writer.nest(f"if {bare(writer.scalars.truth(node.scalar, node.scope))}:"):
        write_block(writer, node.body)
    with writer.nest("else:"):
        writer.line(f"{node.stop} = 1")


def write_not_null(writer: Writer, node: ir.NotNull) -> None:
    """The body where a variable is not NULL."""
    with writer.nest(f"if {node.variable.null} == 0:"):
        write_block(writer, node.body)


def write_total(writer: Writer, node: ir.Total) -> None:
    """Start a total at zero, and run what adds to it."""
    before, last = node.body[:-1], node.body[-1] if node.body else None
    if (
        isinstance(last, ir.AddTo)
        and last.name == node.name
        and node.physical is FLOAT
        and not _adds(before, node.name)
    ):
        # Added to nothing; the compiler does not see that it is the sum.
        if before:
            write_block(writer, before)
        writer.line(f"{node.name} = {element_product(writer, last.factors)}")
        return
    writer.line(f"{node.name} = {'no_element()' if node.physical is FLOAT else '0'}")
    write_block(writer, node.body)


def write_add_to(writer: Writer, node: ir.AddTo) -> None:
    """Add a product to a total."""
    if node.physical is FLOAT:
        product = element_product(writer, node.factors)
        writer.line(f"{node.name} = element_plus({node.name}, {product})")
    else:
        writer.line(f"{node.name} = plus({node.name}, {int_product(writer, node.factors)})")


def write_let_total(writer: Writer, node: ir.LetTotal) -> None:
    """Bind a variable to a total."""
    value = f"element_value({node.name})" if node.physical is FLOAT else node.name
    writer.line(f"{node.variable.name} = {value}")


def write_if_total(writer: Writer, node: ir.IfTotal) -> None:
    """The body where a total is not zero."""
    with writer.nest(f"if {is_not_zero(node.name, node.physical)}:"):
        write_block(writer, node.body)


def write_start_extreme(writer: Writer, node: ir.StartExtreme) -> None:
    """Start the search of an extreme with NULL."""
    empty = "0.0" if node.variable.slot.physical is FLOAT else "0"
    writer.line(f"{node.variable.name} = {empty}")
    writer.line(f"{node.variable.null} = 1")


def write_take_nearer(writer: Writer, node: ir.TakeNearer) -> None:
    """Take a candidate that is nearer to the end."""
    best, new = node.variable.name, node.candidate.name
    left, right = new, best
    if node.variable.slot.physical is STR:
        writer.frame.texts.ranks = True
        left, right = f"load(ranks, {new})", f"load(ranks, {best})"
    physical = node.variable.slot.physical
    codes = (Code(text, None, physical) for text in (left, right))
    nearer = bare(compared(">" if node.greatest else "<", *codes))
    with writer.nest(f"if {node.variable.null} != 0 or {nearer}:"):
        writer.line(f"{best} = {new}")
        writer.line(f"{node.variable.null} = 0")
    if node.stop is not None:
        writer.line(f"{node.stop} = 1")


def write_value_change(writer: Writer, node: ir.ValueChange) -> None:
    """Both values go through one body: two would cost the compiler twice as much."""
    new, old = node.new, node.old
    null = old.null if old.slot.nullable else None
    same = same_value(new, old.name, old.slot.physical, null)
    turn = writer.temporary("turn")
    with writer.nest(f"if not ({same}):"), writer.nest(f"for {turn} in range(2):"):
        writer.line(f"{node.variable.name} = {new.name} if {turn} == 0 else {old.name}")
        if node.variable.slot.nullable:
            writer.line(f"{node.variable.null} = {new.null} if {turn} == 0 else {old.null}")
        writer.line(f"{node.weight} = 1 - 2 * {turn}")
        write_block(writer, node.body)


def write_test_change(writer: Writer, node: ir.TestChange) -> None:
    """The body where one of two tests is met and the other is not."""
    tests = [is_not_zero(total.name, total.physical) for total in (node.new, node.old)]
    some = [f"(1 if {test} else 0)" for test in tests]
    writer.line(f"{node.weight} = {' - '.join(some)}")
    with writer.nest(f"if {node.weight} != 0:"):
        write_block(writer, node.body)


def _adds(block: Block, total: str) -> bool:
    """Whether something in a block adds to a total."""
    return any(
        (isinstance(node, ir.AddTo) and node.name == total)
        or any(_adds(body, total) for body in bodies(node))
        for node in block
    )


WRITERS: NodeWriters = {
    ir.Let: write_let,
    ir.Repeat: write_repeat,
    ir.StopUnless: write_stop_unless,
    ir.NotNull: write_not_null,
    ir.Total: write_total,
    ir.AddTo: write_add_to,
    ir.LetTotal: write_let_total,
    ir.IfTotal: write_if_total,
    ir.StartExtreme: write_start_extreme,
    ir.TakeNearer: write_take_nearer,
    ir.ValueChange: write_value_change,
    ir.TestChange: write_test_change,
}
