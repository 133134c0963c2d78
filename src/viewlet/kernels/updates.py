"""Changes of maps as source."""

from __future__ import annotations

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.access import find_record, hashed_words
from viewlet.kernels.block_source import FLOAT, NodeWriters
from viewlet.kernels.loop_nodes import Named
from viewlet.kernels.weights import element_product, int_product, is_not_zero, key_words
from viewlet.kernels.writer import Writer
from viewlet.schema import Physical
from viewlet.storage.columns import TREE

ColumnWeight = tuple[int, Physical, str]
"""The word of a column, its type, and the local with the weight to add."""


def write_clear_buffer(writer: Writer, node: ir.ClearBuffer) -> None:
    """Forget all records of a buffer."""
    writer.line(f"clear_buffer({writer.frame.descriptor(node.map)})")


def write_clear_column(writer: Writer, node: ir.ClearColumn) -> None:
    """Set a column to zero in all records, which needs room in the undo log."""
    layout = writer.frame.layouts[node.map]
    words, map = layout.value_slice(node.column), writer.frame.descriptor(node.map)
    with writer.nest(f"if not clear_column({map}, {words.start}, {words.stop - words.start}):"):
        writer.leave_full(node.map)


def write_update(writer: Writer, node: ir.Update) -> None:
    """Add to the columns of a record, which is made where it is not there."""
    counted = writer.counts(node.map)
    if counted:
        writer.line("done += 1")
    with writer.nest_if(["done > skip"] if counted else []):
        writer.inside_update = counted
        weights = _update_weights(writer, node)
        tests = [is_not_zero(weight, physical) for _, physical, weight in weights]
        with writer.nest_if([] if _surely_not_zero(node) else tests, "or"):
            _write_additions(writer, node, weights)


def _write_additions(writer: Writer, node: ir.Update, weights: list[ColumnWeight]) -> None:
    layout, map = writer.frame.layouts[node.map], writer.frame.descriptor(node.map)
    words, tests = key_words(layout, list(range(len(layout.keys))), node.key)
    if tests:
        with writer.nest(f"if not ({' and '.join(tests)}):"):
            writer.line("refuse_null_key()")
    record = writer.temporary("at")
    writer.line(f"{record} = {find_record(writer, node.map, node.key)}")
    # Only a record that this batch has not touched yet needs to be made or logged.
    name = writer.frame.called(node.map)
    number = f"({record} - records_{name}) // {8 * layout.width}"
    mark = f"mark_of(marks_{name}, {number})"
    with writer.nest(f"if {record} == 0 or {mark} != logging_{name}:"):
        hashed = hashed_words(writer, node.map, node.key)
        writer.line(f"{record} = upsert({map}, {hashed}, {words})")
        with writer.nest(f"if {record} == 0:"):
            writer.leave_full(node.map)
    writer.inside_update = False
    elements: dict[int, str] = {}
    for word, physical, weight in weights:
        if physical is not FLOAT:
            writer.line(f"add_int({map}, {record}, {word}, {weight})")
        elif word in elements:
            # Several terms for one sum are added up first: each addition to a map takes long.
            elements[word] = f"element_plus({elements[word]}, {weight})"
        else:
            elements[word] = weight
    for word, element in elements.items():
        writer.line(f"add_element({map}, {record}, {word}, {element})")
    if any(index.kind == TREE for index in layout.indexes):
        writer.line(f"refresh_trees({map}, {record})")


def _update_weights(writer: Writer, node: ir.Update) -> list[ColumnWeight]:
    layout = writer.frame.layouts[node.map]
    weights: list[ColumnWeight] = []
    for column, physical, factors in node.columns:
        word = layout.value_words[column]
        product = element_product if physical is FLOAT else int_product
        weights.append((word, physical, writer.local("by", product(writer, factors))))
    return weights


def _surely_not_zero(node: ir.Update) -> bool:
    """Whether some column gets a product of weights that were tested before."""
    return any(
        all(isinstance(factor, Named) and factor.nonzero for factor in factors)
        for _, _, factors in node.columns
    )


WRITERS: NodeWriters = {
    ir.ClearBuffer: write_clear_buffer,
    ir.ClearColumn: write_clear_column,
    ir.Update: write_update,
}
