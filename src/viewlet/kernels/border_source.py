"""Borders as source: the key of a group at which a condition on the sums beyond it turns."""

from __future__ import annotations

from dataclasses import replace

from viewlet.functions import free_variables
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import FLOAT, NodeWriters, write_block
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.tree_source import (
    EntryWriter,
    call_descent,
    copy_sums,
    enter_node,
    entry_size,
    group_root,
    inputs_of,
    order_key,
    order_type,
    scan_entries,
    sum_locals,
    zero_sums,
)
from viewlet.kernels.writer import Writer
from viewlet.storage.tree_layout import BELOW, LEFT, RIGHT


def write_border(writer: Writer, node: ir.Border) -> None:
    """The key at which the condition turns, with one descent.

    The sum beyond p falls from the total to 0 while p goes to the far end of the order, so that the
    condition turns once: at the key k that is the first with a small sum beyond it, and the last
    with a large sum from it on. Small sums are then at p >= k for `q > p`, at p > k for `q >= p`.
    """
    names = frozenset[str]().union(*map(free_variables, node.tests))
    own = {v.name for v, _ in node.sums}
    outer = {name for name in names if node.scope[name].name not in own}
    inputs = inputs_of(group_root(writer, node), outer, node.scope)
    scope, sums = dict(inputs.scope), []
    for i, (variable, sum) in enumerate(node.sums):
        inner = Variable(f"beyond{i}", variable.slot)
        scope.update({n: inner for n, v in node.scope.items() if v.name == variable.name})
        sums.append((inner, replace(sum, name=f"sum{i}")))
    plain = replace(node, name="border", sums=sums, scope=scope)
    call = call_descent(writer, "border", inputs, lambda inner: _find_border(inner, plain))
    writer.line(f"{node.name}, {node.name}_in, {node.name}_some = {call}")


def _find_border(writer: Writer, node: ir.Border) -> None:
    """Compare no sum with all of them, and go down where that makes a difference."""
    name, sums = node.name, [sum for _, sum in node.sums]
    writer.names.reserve([*sum_locals(sums), *(variable.name for variable, _ in node.sums)])
    is_float = order_type(writer, node) is FLOAT
    writer.line(f"{name} = {'0.0' if is_float else 'zero'}")
    writer.line(f"{name}_in = {node.rises != (len(node.operator) == 1)}")
    zero_sums(writer, sums)
    at_none = writer.local("large", _is_large(writer, node))
    with writer.nest("if root >= 0:"):
        entries = enter_node(writer, node, "root")

        def scan(add: EntryWriter) -> None:
            with writer.nest(f"while {entries.at} <= {entries.last}:"):
                add(entries.at)
                writer.line(f"{entries.at} += {entry_size(writer, node)}")

        scan_entries(writer, node, sums, entries, entries.at, scan)
    at_all = writer.local("large", _is_large(writer, node))
    # Where nothing turns, the condition is met by all keys or by none.
    writer.line(f"{name}_some = True")
    with writer.nest(f"if {at_none} == {at_all}:"):
        writer.line(f"{name}_some = {at_all if node.rises else f'not {at_all}'}")
        writer.line(f"{name} = {_extreme_key(node, is_float)}")
        writer.line(f"{name}_in = True")
    with writer.nest("else:"):
        far = RIGHT if node.operator[0] == ">" else LEFT
        _descend_to_border(writer, node, "root", far)
    writer.line(f"return {name}, {name}_in, {name}_some")


def _descend_to_border(writer: Writer, node: ir.Border, number: str, far: int) -> None:
    """In every node from the far end to the first entry with which the sums are large."""
    sums, size = [sum for _, sum in node.sums], entry_size(writer, node)
    before = [replace(sum, name=writer.temporary("beyond")) for sum in sums]
    zero_sums(writer, before)
    with writer.nest(f"while {number} >= 0:"):
        entries = enter_node(writer, node, number)
        at, near, sign = entries.last, entries.at, "-"
        if far == LEFT:
            at, near, sign = entries.at, entries.last, "+"

        def scan(add: EntryWriter, at: str = at, near: str = near, sign: str = sign) -> None:
            with writer.nest("while True:"):
                copy_sums(writer, sums, before)
                add(at)
                with writer.nest(f"if {at} == {near} or {_is_large(writer, node)}:"):
                    writer.line("break")
                copy_sums(writer, before, sums)
                writer.line(f"{at} {sign}= {size}")

        scan_entries(writer, node, sums, entries, at, scan, totals=before)
        with writer.nest(f"if {entries.level} == 0:"):
            writer.line(f"{node.name} = {order_key(writer, node, at)}")
            writer.line("break")
        writer.line(f"{number} = load({at}, {BELOW})")


def _is_large(writer: Writer, node: ir.Border) -> str:
    """Source of whether the sums are on the large side of where the condition turns."""
    for variable, sum in node.sums:
        value = f"gathered_value({sum.name})" if sum.physical is FLOAT else sum.name
        writer.line(f"{variable.name} = {value}")
    all_hold = " and ".join(writer.scalars.truth(test, node.scope) for test in node.tests)
    return f"({all_hold})" if node.rises else f"(not ({all_hold}))"


def _extreme_key(node: ir.Border, is_float: bool) -> str:
    """The border of a condition that all keys meet."""
    if is_float:
        return "nan" if node.upper else "-inf"
    return f"({2**63 - 1 if node.upper else -(2**63)})"


def write_take_border(writer: Writer, node: ir.TakeBorder) -> None:
    """Take the key of a border."""
    name, variable = node.border, node.variable
    is_float = variable.slot.physical is FLOAT
    least = "(-inf)" if is_float else f"({-(2**63)})"
    with writer.nest(f"if {name}_some:"):
        with writer.nest(f"if {name} == {least}:"):
            write_block(writer, node.body)
        with writer.nest("else:"):
            writer.line(f"{variable.name} = {name}")
            writer.line(f"{variable.null} = 0")


WRITERS: NodeWriters = {ir.Border: write_border, ir.TakeBorder: write_take_border}
