"""Range sums as source.

A descent goes from a node to the entry in which a border lies, and adds the entries on one side of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewlet.calculus.typing import Slot
from viewlet.functions import free_variables
from viewlet.functions.comparison import compared
from viewlet.functions.kernel_forms import Code
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import FLOAT, STR, NodeWriters
from viewlet.kernels.loop_nodes import SubtreeSum
from viewlet.kernels.ranges import Bound, KeyTest
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.kernels.tree_source import (
    Entries,
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
from viewlet.kernels.weights import bare
from viewlet.kernels.writer import Writer
from viewlet.storage.tree_layout import BELOW, KEY

EntryTest = Callable[[Writer, str], str]
"""Source of a test of an entry's key, given source of the entry's address."""


def write_range(writer: Writer, node: ir.Range) -> None:
    """The sums over a range of keys, by one descent for all of them."""
    zero_sums(writer, node.sums)
    names: set[str] = set()
    for bound in node.bounds:
        if isinstance(bound, KeyTest):
            names |= free_variables(bound.scalar) - {bound.variable}
    inputs = inputs_of(node.root or group_root(writer, node), names, node.scope)
    guards: list[str] = []
    tests: dict[bool, EntryTest] = {}
    for i, bound in enumerate(node.bounds):
        if isinstance(bound, KeyTest):
            turned = replace(bound, holds=not bound.holds) if node.outside else bound
            tests[bound.upper] = _key_test(node, turned, inputs.scope)
        elif isinstance(bound, Bound):
            code = writer.scalars.code(bound.scalar, node.scope)
            if code.null is not None:
                guards.append(f"not {code.null}")
            physical = order_type(writer, node)
            if physical is FLOAT:
                is_in = "1" if bound.operator.endswith("=") else "0"
                inputs.add(f"bound{i}", _strict_bound(code.value, is_in, bound.upper))
                tests[bound.upper] = _strict_test(bound.upper, f"bound{i}")
                continue
            by_rank = physical is STR
            inputs.add(f"bound{i}", f"load(ranks, {code.value})" if by_rank else code.value)
            tests[bound.upper] = _comparison(node, bound.operator, f"bound{i}")
        else:
            guards.append(f"{bound.name}_some")
            if order_type(writer, node) is FLOAT:
                is_in = f"(1 if {bound.name}_in else 0)"
                inputs.add(f"bound{i}", _strict_bound(bound.name, is_in, bound.upper))
                tests[bound.upper] = _strict_test(bound.upper, f"bound{i}")
                continue
            inputs.add(f"bound{i}", bound.name)
            inputs.add(f"bound{i}_in", f"{bound.name}_in")
            tests[bound.upper] = _border_test(node, bound.upper, f"bound{i}")
    by_position: dict[int, SubtreeSum] = {}
    for sum in node.sums:
        by_position.setdefault(sum.position, sum)
    different = replace(node, sums=list(by_position.values()))
    with writer.nest_if(guards):
        call = call_descent(
            writer, "range", inputs, lambda inner: _sum_between(inner, different, tests)
        )
        writer.line(f"{', '.join(sum_locals(different.sums))} = {call}")
        for sum in node.sums:
            if sum is not by_position[sum.position]:
                copy_sums(writer, [sum], [by_position[sum.position]])


def _sum_between(writer: Writer, node: ir.Range, tests: dict[bool, EntryTest]) -> None:
    """What lies before a border, behind one, between two, or outside them."""
    sums = [replace(sum, name=f"sum{i}") for i, sum in enumerate(node.sums)]
    writer.names.reserve(sum_locals(sums))
    node = replace(node, sums=sums)
    zero_sums(writer, sums)
    if len(tests) == 1:
        ((upper, test),) = tests.items()
        _sum_along(writer, node, "root", test, upper)
    elif node.outside:
        below, beyond = tests[False], tests[True]

        def above(writer: Writer, entry: str) -> str:
            # Where nothing is left inside, what is below must not count twice.
            return f"({beyond(writer, entry)}) and not ({below(writer, entry)})"

        other = writer.temporary("r")
        writer.line(f"{other} = root")
        _sum_along(writer, node, "root", below, upper=True)
        _sum_along(writer, node, other, above, upper=False)
    else:
        _sum_inside(writer, node, "root", tests)
    for sum in sums:
        if sum.physical is FLOAT:
            writer.line(f"{sum.name} = gathered({sum.name})")
    writer.line(f"return {', '.join(sum_locals(sums))}")


def _sum_inside(writer: Writer, node: ir.Range, number: str, tests: dict[bool, EntryTest]) -> None:
    """To the node in which both borders lie in different entries, then along both of them."""
    size = entry_size(writer, node)
    low, high = writer.temporary("r"), writer.temporary("r")
    writer.line(f"{low} = {high} = zero - 1")
    with writer.nest(f"while {number} >= 0:"):
        entries = enter_node(writer, node, number)
        at, last, level, ahead = entries.at, entries.last, entries.level, entries.ahead
        with writer.nest(f"while {at} + {ahead} <= {last}:"):
            with writer.nest(f"if {tests[False](writer, f'{at} + {ahead}')}:"):
                writer.line("break")
            writer.line(f"{at} += {size}")
        with writer.nest(f"if {level} > 0:"):
            writer.line(f"{number} = load({at}, {BELOW})")
            with writer.nest(f"if {at} == {last}:"):
                writer.line("continue")
            with writer.nest(f"if not ({tests[True](writer, f'{at} + {size}')}):"):
                writer.line("continue")
            writer.line(f"{low} = {number}")
            writer.line(f"{at} += {size}")
        _add_up_to(writer, node, entries, tests[True])
        with writer.nest(f"if {level} > 0:"):
            writer.line(f"{high} = load({at}, {BELOW})")
        writer.line("break")
    _sum_along(writer, node, low, tests[False], upper=False)
    _sum_along(writer, node, high, tests[True], upper=True)


def _sum_along(writer: Writer, node: ir.Range, number: str, test: EntryTest, upper: bool) -> None:
    """Add all of a tree up to a border, or from one on."""
    with writer.nest(f"while {number} >= 0:"):
        entries = enter_node(writer, node, number)
        at, last, level = entries.at, entries.last, entries.level
        if upper:
            _add_up_to(writer, node, entries, test)
            end = at
        else:
            _add_down_to(writer, node, entries, test)
            end = last
        writer.line(f"{number} = zero - 1")
        with writer.nest(f"if {level} > 0:"):
            writer.line(f"{number} = load({end}, {BELOW})")


def _add_up_to(writer: Writer, node: ir.Range, entries: Entries, test: EntryTest) -> None:
    """Add entries of a node from the current one on, as long as they lie before a border."""
    at, last, ahead = entries.at, entries.last, entries.ahead

    def scan(add: EntryWriter) -> None:
        with writer.nest(f"while {at} + {ahead} <= {last}:"):
            with writer.nest(f"if not ({test(writer, f'{at} + {ahead}')}):"):
                writer.line("break")
            add(at)
            writer.line(f"{at} += {entry_size(writer, node)}")

    scan_entries(writer, node, node.sums, entries, at, scan)


def _add_down_to(writer: Writer, node: ir.Range, entries: Entries, test: EntryTest) -> None:
    """Add entries of a node from its last one on downwards, as long as they lie behind a border."""
    at, last, ahead = entries.at, entries.last, entries.ahead

    def scan(add: EntryWriter) -> None:
        with writer.nest(f"while {last} - {ahead} >= {at}:"):
            with writer.nest(f"if not ({test(writer, last)}):"):
                writer.line("break")
            add(last)
            writer.line(f"{last} -= {entry_size(writer, node)}")

    scan_entries(writer, node, node.sums, entries, last, scan)


def _strict_bound(value: str, is_in: str, upper: bool) -> str:
    """Source of the integer below or above which lie the keys of doubles that a bound lets in.

    key <= x  ->  order_of(key) < order_of(x) + 1: one comparison, and none for NaN.
    """
    return f"order_of(float_bits(float({value}))) {'+' if upper else '-'} {is_in}"


def _strict_test(upper: bool, limit: str) -> EntryTest:
    def test(writer: Writer, entry: str) -> str:
        return f"order_of(load({entry}, {KEY})) {'<' if upper else '>'} {limit}"

    return test


def _comparison(node: ir.Range, operator: str, limit: str) -> EntryTest:
    def test(writer: Writer, entry: str) -> str:
        return _order_test(writer, node, order_key(writer, node, entry), operator, limit)

    return test


def _order_test(writer: Writer, node: ir.Range, key: str, operator: str, limit: str) -> str:
    """Source of a comparison of keys; those of strings are ranks."""
    physical = order_type(writer, node)
    return bare(compared(operator, Code(key, None, physical), Code(limit, None, physical)))


def _border_test(node: ir.Range, upper: bool, limit: str) -> EntryTest:
    operator = "<" if upper else ">"

    def test(writer: Writer, entry: str) -> str:
        key = writer.local("key", order_key(writer, node, entry))
        beyond = _order_test(writer, node, key, operator, limit)
        return f"{beyond} or ({limit}_in and {_order_test(writer, node, key, '==', limit)})"

    return test


def _key_test(node: ir.Range, bound: KeyTest, scope: Scope) -> EntryTest:
    def test(writer: Writer, entry: str) -> str:
        slot = Slot(order_type(writer, node))
        key = Variable(writer.local("key", order_key(writer, node, entry)), slot)
        truth = writer.scalars.truth(bound.scalar, {**scope, bound.variable: key})
        return truth if bound.holds else f"not {truth}"

    return test


WRITERS: NodeWriters = {ir.Range: write_range}
