"""Parts of ordered indexes as source: roots, nodes, entries, and sums of subtrees (storage).

Each descent is a function of its own, with the positions of keys and sums as constants and all sums
of one range in one descent. Equal descents are one function: they are many, in the terms of a
statement and in both shapes of a trigger, and compiling them takes most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import FLOAT, STR
from viewlet.kernels.loop_nodes import SubtreeSum
from viewlet.kernels.prologue import prologue
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.kernels.weights import key_words, load_function
from viewlet.kernels.writer import Writer
from viewlet.schema import Physical
from viewlet.storage.columns import FRONT, NODES, WIDE
from viewlet.storage.tree_layout import ENTRIES, KEY, LEVEL

Descent = ir.Range | ir.Border
EntryWriter = Callable[[str], None]
"""Writes the addition of an entry, given source of its address."""

Grouped = ir.Walk | ir.IfMonotone | Descent


@dataclass
class Inputs:
    """The root of a tree and what else a function over it gets, by parameter and argument."""

    root: str
    scope: dict[str, Variable] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def add(self, parameter: str, argument: str) -> None:
        """One more parameter."""
        self.parameters.append(parameter)
        self.arguments.append(argument)


@dataclass(frozen=True)
class Entries:
    """Locals for a tree's node and its entries: the current one, the last one, and the level.

    An entry above the leaves lies before a border if the key of the next one does: `ahead` is how
    far the key that decides about an entry is away from it.
    """

    node: str
    at: str
    last: str
    level: str
    ahead: str


def call_descent(writer: Writer, base: str, inputs: Inputs, write: Callable[[Writer], None]) -> str:
    """The call of a function of the root and the inputs, whose body is written by `write`."""
    inner = Writer(writer.frame, writer.relation, writer.frame.loops.names.scope())
    inner.names.reserve(inputs.parameters)
    write(inner)
    body = [*prologue(writer.frame, writer.relation, inner.lines), *inner.lines]
    head = f"({', '.join(('state', 'root', *inputs.parameters))}):"
    name = writer.frame.function(base, "\n".join((head, *body)))
    return f"{name}({', '.join(('state', inputs.root, *inputs.arguments))})"


def inputs_of(root: str, names: Iterable[str], scope: Scope) -> Inputs:
    """What a function needs of a scope, under names that are the same in all of them."""
    inputs = Inputs(root)
    for i, name in enumerate(sorted(names)):
        outer, inner = scope[name], Variable(f"in{i}", scope[name].slot)
        inputs.scope[name] = inner
        inputs.add(inner.name, outer.name)
        if outer.slot.nullable:
            inputs.add(inner.null, outer.null)
    return inputs


def group_root(writer: Writer, node: Descent) -> str:
    """A local with the root of a group's tree, -1 where there is none."""
    words, tests = key_words(
        writer.frame.layouts[node.map], group_positions(writer, node), node.key
    )
    table = f"{node.map} {node.index}"
    earlier = writer.earlier_probe(table, words)
    if earlier is not None:
        return earlier
    if tests:
        root = writer.temporary("root")
        writer.line(f"{root} = zero - 1")
        with writer.nest(f"if {' and '.join(tests)}:"):
            writer.line(f"{root} = {find_root(writer, node, words)}")
    else:
        root = find_root(writer, node, words)
    writer.remember_probe(node.map, table, words, root)
    return root


def find_root(writer: Writer, node: Grouped, words: str) -> str:
    """A local with the result of a search for the root of a group's tree."""
    root, index = writer.temporary("root"), index_arguments(writer, node)
    writer.line(
        f"{root} = find_root({index}, {words})" if node.key else f"{root} = only_root({index})"
    )
    return root


def index_arguments(writer: Writer, node: Grouped) -> str:
    """Source of the arguments that name an index: its map and its block."""
    frame = writer.frame
    return f"{frame.descriptor(node.map)}, {frame.index_block(node.map, node.index)}"


def group_positions(writer: Writer, node: Grouped) -> list[int]:
    """The positions of the key columns by which records are grouped."""
    return list(writer.frame.layouts[node.map].indexes[node.index].parts)


def local_node(writer: Writer, node: Grouped | ir.Groups, number: str) -> str:
    """A local with the address of a tree's node."""
    nodes = f"load({writer.frame.index_block(node.map, node.index)}, {NODES})"
    return writer.local("node", f"{nodes} + 8 * {number}")


def enter_node(writer: Writer, node: Descent, number: str) -> Entries:
    """The entries of the node of a number, from the first one on."""
    at, last, level, ahead = (writer.temporary(n) for n in ("at", "last", "level", "ahead"))
    size = entry_size(writer, node)
    top = local_node(writer, node, number)
    writer.line(f"{at} = {top} + {8 * FRONT}")
    writer.line(f"{last} = {at} + {size} * (load_half({top}, {ENTRIES}) - 1)")
    writer.line(f"{level} = load_half({top}, {LEVEL})")
    writer.line(f"{ahead} = {size} if {level} > 0 else 0")
    return Entries(top, at, last, level, ahead)


def _add_ints(writer: Writer, node: Descent, sums: list[SubtreeSum], entry: str) -> None:
    layout = writer.frame.layouts[node.map]
    for sum in sums:
        if sum.physical is not FLOAT:
            word = layout.sum_word(node.index, sum.position)
            writer.line(f"{sum.name} = plus({sum.name}, load({entry}, {word}))")


def _add_floats(
    writer: Writer, node: Descent, floats: list[SubtreeSum], entries: Entries, entry: str
) -> None:
    """Add all words of some sums of DOUBLE."""
    layout, block = writer.frame.layouts[node.map], writer.frame.index_block(node.map, node.index)
    size = entry_size(writer, node)
    lower = writer.local("lower", f"lower_of({block}, {entries.node}, {entry}, {size})")
    for sum in floats:
        high = f"load_float({entry}, {layout.sum_word(node.index, sum.position)})"
        rest = f"load_lower({high}, {lower}, {layout.lower_word(node.index, sum.position)})"
        writer.line(f"{sum.name} = gather({sum.name}, {rest})")


def _add_first_words(
    writer: Writer, node: Descent, floats: list[SubtreeSum], wide: str, entry: str
) -> None:
    """Add the first words of some sums of DOUBLE; `wide` is not 0 where that loses something."""
    layout = writer.frame.layouts[node.map]
    for sum in floats:
        value = f"load_float({entry}, {layout.sum_word(node.index, sum.position)})"
        writer.line(f"{wide} |= gathering_loss({sum.name}, {value})")
        writer.line(f"{sum.name} = plainly_gathered({sum.name}, {value})")


def scan_entries(
    writer: Writer,
    node: Descent,
    sums: list[SubtreeSum],
    entries: Entries,
    at: str,
    scan: Callable[[EntryWriter], None],
    totals: list[SubtreeSum] | None = None,
) -> None:
    """A loop that adds entries of one node to sums, from `at` on.

    While no sum of DOUBLE in the tree has needed more than its first word, only that is looked at.
    Where an addition loses bits the node is scanned again, with all words. `totals` are what the
    loop takes from one entry to the next, if that is not the sums.
    """
    totals = totals or sums
    floats = [sum for sum in sums if sum.physical is FLOAT]
    if not floats:
        scan(lambda entry: _add_ints(writer, node, sums, entry))
        return
    wide = writer.temporary("wide")

    def add_plainly(entry: str) -> None:
        _add_ints(writer, node, sums, entry)
        _add_first_words(writer, node, floats, wide, entry)

    def add(entry: str) -> None:
        _add_ints(writer, node, sums, entry)
        _add_floats(writer, node, floats, entries, entry)

    writer.line(f"{wide} = load({writer.frame.index_block(node.map, node.index)}, {WIDE})")
    with writer.nest(f"if {wide} == 0:"):
        first = writer.temporary("first")
        writer.line(f"{first} = {at}")
        before = [replace(total, name=writer.temporary("before")) for total in totals]
        copy_sums(writer, before, totals)
        scan(add_plainly)
        for sum in floats:
            writer.line(f"{wide} |= beyond_limit({sum.name})")
        with writer.nest(f"if {wide} != 0:"):
            writer.line(f"{at} = {first}")
            copy_sums(writer, totals, before)
    with writer.nest(f"if {wide} != 0:"):
        scan(add)


def order_key(writer: Writer, node: Descent, entry: str) -> str:
    """Source of the key of an entry; of the rank of a string."""
    physical = order_type(writer, node)
    if physical is STR:
        writer.frame.texts.ranks = True
        return f"load(ranks, load({entry}, {KEY}))"
    return f"{load_function(physical)}({entry}, {KEY})"


def order_type(writer: Writer, node: Descent) -> Physical:
    """The type of the key that orders the records of a group."""
    layout = writer.frame.layouts[node.map]
    return layout.keys[layout.indexes[node.index].order].physical


def entry_size(writer: Writer, node: Descent) -> int:
    """Bytes of an entry."""
    return 8 * writer.frame.layouts[node.map].entry_words(node.index)


def zero_sums(writer: Writer, sums: list[SubtreeSum]) -> None:
    """sums = 0"""
    for sum in sums:
        writer.line(f"{sum.name} = {'no_element()' if sum.physical is FLOAT else 'zero'}")


def copy_sums(writer: Writer, targets: list[SubtreeSum], sources: list[SubtreeSum]) -> None:
    """targets = sources"""
    for target, source in zip(targets, sources, strict=True):
        writer.line(f"{target.name} = {source.name}")


def sum_locals(sums: list[SubtreeSum]) -> list[str]:
    """The locals of some sums."""
    return [sum.name for sum in sums]
