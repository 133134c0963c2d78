"""Records as source: the rows of the batch, and what a map has under a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import NodeWriters, write_block
from viewlet.kernels.prefetch import prefetches
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.selection import Selection
from viewlet.kernels.weights import (
    is_not_zero,
    key_words,
    load_function,
    load_weight,
    same_value,
)
from viewlet.kernels.writer import Writer
from viewlet.storage.memory import CHUNK


def write_rows(writer: Writer, node: ir.Rows) -> None:
    """A loop over the batch inside another one; where rows come one by one, the row itself."""
    if writer.single:
        write_row_body(writer, node)
        return
    row = writer.temporary("row")
    with writer.nest(f"for {row} in range(low, high):"):
        outer, writer.row = writer.row, row
        write_row_body(writer, node)
        writer.row = outer


def write_chosen_rows(writer: Writer, chosen: Selection) -> None:
    """All rows of the batch that pass a filter, some of them at a time."""
    writer.line("following = low if start < 0 else start")
    with writer.nest("while following < high:"):
        writer.line("count = 0")
        with writer.nest(f"while following < high and count < {CHUNK}:"):
            writer.line("row = following")
            writer.line("store_half(chosen, count, row)")
            writer.line(f"count += {chosen.test}")
            writer.line("following += 1")
        with writer.nest("for nth in range(count):"):
            writer.line("row = load_half(chosen, nth)")
            writer.open_row()
            write_row_body(writer, chosen.rows, chosen=True)
            writer.close_row()


def write_row_body(writer: Writer, node: ir.Rows, *, chosen: bool = False) -> None:
    """Bind the columns of a row, then the body where the others are equal."""
    writer.line(f"{node.weight} = load(weights, {writer.row})")
    for variable, column in node.binds:
        load = load_function(variable.slot.physical)
        writer.line(f"{variable.name} = {load}(column_{column}, {writer.row})")
        if variable.slot.nullable:
            writer.line(f"{variable.null} = load_byte(nulls_{column}, {writer.row})")
    if writer.row == "row" and not writer.single and not node.equal:
        for text in prefetches(node, writer.frame, chosen=chosen):
            writer.line(text)
    if not node.equal:
        write_block(writer, node.body)
        return
    relation = writer.frame.loops.program.relation(writer.relation)
    tests = []
    for variable, column in node.equal:
        field = relation.columns[column]
        load = load_function(field.type.physical)
        null = f"load_byte(nulls_{column}, {writer.row})" if field.nullable else None
        tests.append(
            same_value(
                variable, f"{load}(column_{column}, {writer.row})", field.type.physical, null
            )
        )
    with writer.nest(f"if {' and '.join(tests)}:"):
        write_block(writer, node.body)


@contextmanager
def nest_key(writer: Writer, map: str, positions: list[int], key: list[Variable]) -> Iterator[str]:
    """The key as a tuple of words, under the tests without which it cannot match."""
    words, tests = key_words(writer.frame.layouts[map], positions, key)
    with writer.nest_if(tests):
        yield words


def find_record(writer: Writer, map: str, key: list[Variable]) -> str:
    """Source of the address of the record under a whole key, 0 where there is none."""
    name, layout = writer.frame.called(map), writer.frame.layouts[map]
    words, _ = key_words(layout, list(range(len(layout.keys))), key)
    table = f"slots_{name}, mask_{name}, records_{name}, {8 * layout.width}"
    return f"find({table}, {hashed_words(writer, map, key)}, {words})"


def hashed_words(writer: Writer, map: str, key: list[Variable]) -> str:
    """The words of a whole key that the unique index hashes."""
    layout = writer.frame.layouts[map]
    return key_words(layout, list(layout.hashed), [key[i] for i in layout.hashed])[0]


def write_get(writer: Writer, node: ir.Get) -> None:
    """Probe the unique index, unless the same probe was made before."""
    layout = writer.frame.layouts[node.map]
    with nest_key(writer, node.map, list(range(len(layout.keys))), node.key) as words:
        earlier = writer.earlier_probe(node.map, words)
        writer.line(f"{node.record} = {earlier or find_record(writer, node.map, node.key)}")
        writer.remember_probe(node.map, node.map, words, node.record)
        with writer.nest(f"if {node.record} != 0:"):
            write_block(writer, node.body)


def write_scan(writer: Writer, node: ir.Scan, resume: bool = False) -> None:
    """All records. `resume`: the outermost loop of a step, which resumes at row `start`."""
    number = "row" if resume else writer.temporary("r")
    first = "max(start, 0), " if resume else ""
    with writer.nest(
        f"for {number} in range({first}load({writer.frame.descriptor(node.map)}, 0)):"
    ):
        if resume:
            writer.open_row()
            for text in prefetches(node, writer.frame):
                writer.line(text)
        write_record(writer, node.record, node.map, number)
        write_block(writer, node.body)
        if resume:
            writer.close_row()


def write_record(writer: Writer, record: str, map: str, number: str) -> None:
    """Set a local to the address of the record of a number."""
    stride = 8 * writer.frame.layouts[map].width
    writer.line(f"{record} = records_{writer.frame.called(map)} + {number} * {stride}")


def write_slice(writer: Writer, node: ir.Slice) -> None:
    """Follow the chain of the records of a group."""
    layout = writer.frame.layouts[node.map]
    parts = list(layout.indexes[node.index].parts)
    number = writer.temporary("r")
    with nest_key(writer, node.map, parts, node.key) as words:
        block = writer.frame.index_block(node.map, node.index)
        writer.line(f"{number} = find_group({writer.frame.descriptor(node.map)}, {block}, {words})")
        with writer.nest(f"while {number} >= 0:"):
            write_record(writer, node.record, node.map, number)
            # The link is read first: the body may not change it, and the load can be early.
            writer.line(f"{number} = load_half({node.record}, {2 * layout.link_words[node.index]})")
            write_block(writer, node.body)


def write_run(writer: Writer, node: ir.Run) -> None:
    """The slots from where the key belongs up to the next empty one."""
    layout, name = writer.frame.layouts[node.map], writer.frame.called(node.map)
    slot, content, tag, number = (writer.temporary(n) for n in ("slot", "held", "tag", "r"))
    bound = dict(zip(node.parts, node.key, strict=True))
    key = [bound[part] for part in layout.hashed]
    with nest_key(writer, node.map, list(layout.hashed), key) as words:
        writer.line(f"{slot} = hash_words({words})")
        writer.line(f"{tag} = {slot} & tags_{name}")
        writer.line(f"{slot} &= mask_{name}")
        writer.line(f"{content} = load_half(slots_{name}, {slot})")
        with writer.nest(f"while {content} >= 0:"):
            writer.line(f"{number} = {content}")
            writer.line(f"{slot} = ({slot} + 1) & mask_{name}")
            writer.line(f"{content} = load_half(slots_{name}, {slot})")
            with writer.nest(f"if {number} & tags_{name} == {tag}:"):
                write_record(writer, node.record, node.map, f"({number} & numbers_in(mask_{name}))")
                body = node.body
                for position, variable in reversed(bound.items()):
                    body = [ir.MatchKey(variable, node.map, position, node.record, body)]
                write_block(writer, body)


def write_bind_key(writer: Writer, node: ir.BindKey) -> None:
    """Load a key column into a variable."""
    layout = writer.frame.layouts[node.map]
    word = layout.key_words[node.position]
    load = load_function(layout.keys[node.position].physical)
    writer.line(f"{node.variable.name} = {load}({node.record}, {word})")
    if node.variable.slot.nullable:
        writer.line(f"{node.variable.null} = load({node.record}, {word + 1})")


def write_match_key(writer: Writer, node: ir.MatchKey) -> None:
    """Compare a key column with a variable."""
    layout = writer.frame.layouts[node.map]
    word, field = layout.key_words[node.position], layout.keys[node.position]
    load = load_function(field.physical)
    null = f"load({node.record}, {word + 1})" if field.nullable else None
    value = f"{load}({node.record}, {word})"
    with writer.nest(f"if {same_value(node.variable, value, field.physical, null)}:"):
        write_block(writer, node.body)


def write_column(writer: Writer, node: ir.Column) -> None:
    """Load a value column."""
    layout = writer.frame.layouts[node.map]
    word, physical = layout.value_words[node.column], layout.values[node.column]
    writer.line(f"{node.name} = {load_weight(physical, node.record, word)}")
    if node.body:
        with writer.nest(f"if {is_not_zero(node.name, physical)}:"):
            write_block(writer, node.body)


def write_present(writer: Writer, node: ir.Present) -> None:
    """Test that some value column is not zero."""
    layout = writer.frame.layouts[node.map]
    tests = [
        is_not_zero(load_weight(physical, node.record, word), physical)
        for word, physical in zip(layout.value_words, layout.values, strict=True)
    ]
    with writer.nest(f"if {' or '.join(tests)}:"):
        write_block(writer, node.body)


WRITERS: NodeWriters = {
    ir.Rows: write_rows,
    ir.Get: write_get,
    ir.Scan: write_scan,
    ir.Slice: write_slice,
    ir.Run: write_run,
    ir.BindKey: write_bind_key,
    ir.MatchKey: write_match_key,
    ir.Column: write_column,
    ir.Present: write_present,
}
