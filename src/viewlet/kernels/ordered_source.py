"""Walks over ordered indexes as source: along the records of a group, and from group to group."""

from __future__ import annotations

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.access import nest_key, write_record
from viewlet.kernels.block_source import NodeWriters, write_block
from viewlet.kernels.tree_source import find_root, group_positions, index_arguments, local_node
from viewlet.kernels.writer import Writer
from viewlet.storage.columns import GROUPS, ODD_KEYS
from viewlet.storage.tree_layout import HEAD, NEXT


def write_walk(writer: Writer, node: ir.Walk) -> None:
    """Counted records from one end of a group's order, until `stop` is set."""
    number = writer.temporary("r")
    index = index_arguments(writer, node)
    end = f"{node.count_position}, {1 if node.greatest else 0}"
    with nest_key(writer, node.map, group_positions(writer, node), node.key) as words:
        writer.line(f"{node.stop} = 0")
        root = find_root(writer, node, words)
        writer.line(f"{number} = first_counted({index}, {root}, {end})")
        with writer.nest(f"while {number} >= 0 and {node.stop} == 0:"):
            write_record(writer, node.record, node.map, number)
            write_block(writer, node.body)
            writer.line(f"{number} = next_counted({index}, {number}, {end})")


def write_groups(writer: Writer, node: ir.Groups) -> None:
    """The trees of all groups, which are chained."""
    writer.line(f"{node.root} = load({writer.frame.index_block(node.map, node.index)}, {GROUPS})")
    with writer.nest(f"while {node.root} >= 0:"):
        top = local_node(writer, node, node.root)
        write_record(writer, node.record, node.map, f"load_half({top}, {HEAD})")
        write_block(writer, node.body)
        writer.line(f"{node.root} = load_half({top}, {NEXT})")


def write_if_monotone(writer: Writer, node: ir.IfMonotone) -> None:
    """Choose between two blocks by what makes conditions turn more than once."""
    if node.of_finite_keys:
        block = writer.frame.index_block(node.map, node.index)
        _write_choice(writer, node, f"load({block}, {ODD_KEYS}) == 0")
    else:
        _write_choice(writer, node, f"{_count_negatives(writer, node)} == 0")


def _count_negatives(writer: Writer, node: ir.IfMonotone) -> str:
    """A local with the number of negative weights in a group."""
    layout = writer.frame.layouts[node.map]
    block = writer.frame.index_block(node.map, node.index)
    negatives = writer.temporary("negatives")
    writer.line(f"{negatives} = 0")
    with nest_key(writer, node.map, group_positions(writer, node), node.key) as words:
        root = find_root(writer, node, words)
        with writer.nest(f"if {root} >= 0:"):
            top = local_node(writer, node, root)
            counts = [
                f"int_total({block}, {top}, {layout.sum_word(node.index, position)})"
                for position in node.count_positions
            ]
            writer.line(f"{negatives} = {' + '.join(counts)}")
    return negatives


def _write_choice(writer: Writer, node: ir.IfMonotone, test: str) -> None:
    with writer.nest(f"if {test}:"):
        write_block(writer, node.body)
    with writer.nest("else:"):
        write_block(writer, node.otherwise)


WRITERS: NodeWriters = {
    ir.Walk: write_walk,
    ir.Groups: write_groups,
    ir.IfMonotone: write_if_monotone,
}
