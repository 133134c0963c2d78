"""Changes of maps as source."""

from __future__ import annotations

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.access import find_record, hashed_words
from viewlet.kernels.block_source import FLOAT, NodeWriters
from viewlet.kernels.loop_nodes import Named
from viewlet.kernels.weights import int_product, key_words, pair_product
from viewlet.kernels.writer import Writer
from viewlet.storage.columns import TREE

ColumnWeight = tuple[int, tuple[str, ...]]
"""The word of a column, and the weight to add: one local, or two for a pair."""


def write_clear_buffer(writer: Writer, node: ir.ClearBuffer) -> None:
    """Forget all records of a buffer."""
    writer.line(f"clear_buffer({writer.frame.descriptor(node.map)})")


def write_clear_column(writer: Writer, node: ir.ClearColumn) -> None:
    """Set a column to zero in all records, which needs room in the undo log."""
    layout = writer.frame.layouts[node.map]
    word = layout.value_words[node.column]
    width = 2 if layout.values[node.column] is FLOAT else 1
    with writer.nest(f"if not clear_column({writer.frame.descriptor(node.map)}, {word}, {width}):"):
        writer.leave_full(node.map)


def write_update(writer: Writer, node: ir.Update) -> None:
    """Add to the columns of a record, which is made where it is not there."""
    counted = writer.counts(node.map)
    if counted:
        writer.line("done += 1")
    with writer.nest_if(["done > skip"] if counted else []):
        writer.inside_update = counted
        weights = _update_weights(writer, node)
        tests = [f"{weight[0]} != 0" for _, weight in weights]
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
    pairs: dict[int, list[tuple[str, ...]]] = {}
    for word, weight in weights:
        if len(weight) == 2:
            pairs.setdefault(word, []).append(weight)
        else:
            writer.line(f"add_int({map}, {record}, {word}, {weight[0]})")
    for word, parts in pairs.items():
        _add_pairs(writer, f"{map}, {record}, {word}", parts)
    if any(index.kind == TREE for index in layout.indexes):
        writer.line(f"refresh_trees({map}, {record})")


def _add_pairs(writer: Writer, column: str, parts: list[tuple[str, ...]]) -> None:
    """Several terms for one sum are added up first: each addition to a map takes long."""
    by, low = parts[0]
    if len(parts) > 1:
        for other, other_low in parts[1:]:
            last, last_low = by, low
            by = writer.temporary("p")
            low = f"{by}_low"
            writer.line(f"{by}, {low} = gather({last}, {last_low}, {other}, {other_low})")
        writer.line(f"{by}, {low} = gathered({by}, {low})")
    largest = ", ".join(f"abs({part[0]})" for part in parts)
    largest = f"max({largest})" if len(parts) > 1 else largest
    writer.line(f"add_float({column}, {by}, {low}, {largest})")


def _update_weights(writer: Writer, node: ir.Update) -> list[ColumnWeight]:
    layout = writer.frame.layouts[node.map]
    weights: list[ColumnWeight] = []
    for column, physical, factors in node.columns:
        word = layout.value_words[column]
        if physical is FLOAT:
            weights.append((word, pair_product(writer, factors)))
        else:
            weights.append((word, (writer.local("by", int_product(writer, factors)),)))
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
