"""Records as source: the rows of the batch, and what a map has under a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import FLOAT, BlockWriter
from viewlet.kernels.prefetch import prefetches
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.selection import Selection
from viewlet.kernels.weights import key_words, same_value
from viewlet.storage.memory import CHUNK


class AccessWriter(BlockWriter):
    """Writes loops over records and the values read from them."""

    def _rows(self, node: ir.Rows) -> None:
        if self.single:
            self._row_body(node)
            return
        row = self.temporary("row")
        with self.nest(f"for {row} in range(low, high):"):
            outer, self.row = self.row, row
            self._row_body(node)
            self.row = outer

    def _chosen_rows(self, found: Selection) -> None:
        """All rows of the batch that pass a filter, some of them at a time."""
        self.line("following = low if start < 0 else start")
        with self.nest("while following < high:"):
            self.line("count = 0")
            with self.nest(f"while following < high and count < {CHUNK}:"):
                self.line("row = following")
                self.line("store_half(chosen, count, row)")
                self.line(f"count += {found.test}")
                self.line("following += 1")
            with self.nest("for nth in range(count):"):
                self.line("row = load_half(chosen, nth)")
                self._reset_done()
                self._row_body(found.rows, chosen=True)
                self._end_row()

    def _row_body(self, node: ir.Rows, *, chosen: bool = False) -> None:
        self.line(f"{node.weight} = load(weights, {self.row})")
        for variable, column in node.binds:
            load = "load_float" if variable.slot.physical is FLOAT else "load"
            self.line(f"{variable.name} = {load}(column_{column}, {self.row})")
            if variable.slot.nullable:
                self.line(f"{variable.null} = load_byte(nulls_{column}, {self.row})")
        if self.row == "row" and not self.single and not node.equal:
            for text in prefetches(node, self.frame, chosen=chosen):
                self.line(text)
        if not node.equal:
            self.block(node.body)
            return
        relation = self.frame.loops.program.relation(self.relation)
        tests = []
        for variable, column in node.equal:
            field = relation.columns[column]
            load = "load_float" if field.type.physical is FLOAT else "load"
            null = f"load_byte(nulls_{column}, {self.row})" if field.nullable else None
            tests.append(same_value(variable, f"{load}(column_{column}, {self.row})", null))
        with self.nest(f"if {' and '.join(tests)}:"):
            self.block(node.body)

    @contextmanager
    def _key(self, map: str, positions: list[int], key: list[Variable]) -> Iterator[str]:
        """The key as a tuple of words, under the tests without which it cannot match."""
        layout = self.frame.layouts[map]
        words, tests = key_words(layout, positions, key)
        depth = self.depth
        if tests:
            self.line(f"if {' and '.join(tests)}:")
            self.depth += 1
        yield words
        self.depth = depth

    def map_at(self, map: str) -> str:
        """The address of a map's descriptor."""
        return f"map_{self.frame.called(map)}"

    def _find(self, map: str, key: list[Variable]) -> str:
        name, layout = self.frame.called(map), self.frame.layouts[map]
        words, _ = key_words(layout, list(range(len(layout.keys))), key)
        table = f"slots_{name}, mask_{name}, records_{name}, {8 * layout.width}"
        return f"find({table}, {self._hashed(map, key)}, {words})"

    def _hashed(self, map: str, key: list[Variable]) -> str:
        """The words of a whole key that the unique index hashes."""
        layout = self.frame.layouts[map]
        return key_words(layout, list(layout.hashed), [key[i] for i in layout.hashed])[0]

    def _get(self, node: ir.Get) -> None:
        layout = self.frame.layouts[node.map]
        with self._key(node.map, list(range(len(layout.keys))), node.key) as words:
            known, depth = self.found.get((node.map, words), ("", 0))
            at_hand = known and depth <= self.depth
            self.line(f"{node.record} = {known if at_hand else self._find(node.map, node.key)}")
            if node.map not in self.written:
                self.found.setdefault((node.map, words), (node.record, self.depth))
            with self.nest(f"if {node.record} != 0:"):
                self.block(node.body)

    def _scan(self, node: ir.Scan, resume: bool = False) -> None:
        number = "row" if resume else self.temporary("r")
        first = "max(start, 0), " if resume else ""
        with self.nest(f"for {number} in range({first}load({self.map_at(node.map)}, 0)):"):
            if resume:
                self._reset_done()
                for text in prefetches(node, self.frame):
                    self.line(text)
            self._record(node.record, node.map, number)
            self.block(node.body)
            if resume:
                self._end_row()

    def _record(self, record: str, map: str, number: str) -> None:
        stride = 8 * self.frame.layouts[map].width
        self.line(f"{record} = records_{self.frame.called(map)} + {number} * {stride}")

    def _slice(self, node: ir.Slice) -> None:
        layout = self.frame.layouts[node.map]
        parts = list(layout.indexes[node.index].parts)
        number = self.temporary("r")
        with self._key(node.map, parts, node.key) as words:
            self.line(
                f"{number} = find_group({self.map_at(node.map)}, {self._block(node)}, {words})"
            )
            with self.nest(f"while {number} >= 0:"):
                self._record(node.record, node.map, number)
                # The link is read first: the body may not change it, and the load can be early.
                self.line(
                    f"{number} = load_half({node.record}, {2 * layout.link_words[node.index]})"
                )
                self.block(node.body)

    def _run(self, node: ir.Run) -> None:
        """The slots from where the key belongs up to the next empty one."""
        layout, name = self.frame.layouts[node.map], self.frame.called(node.map)
        slot, held, tag, number = (self.temporary(n) for n in ("slot", "held", "tag", "r"))
        bound = dict(zip(node.parts, node.key, strict=True))
        key = [bound[part] for part in layout.hashed]
        with self._key(node.map, list(layout.hashed), key) as words:
            self.line(f"{slot} = hash_words({words})")
            self.line(f"{tag} = {slot} & tags_{name}")
            self.line(f"{slot} &= mask_{name}")
            self.line(f"{held} = load_half(slots_{name}, {slot})")
            with self.nest(f"while {held} >= 0:"):
                self.line(f"{number} = {held}")
                self.line(f"{slot} = ({slot} + 1) & mask_{name}")
                self.line(f"{held} = load_half(slots_{name}, {slot})")
                with self.nest(f"if {number} & tags_{name} == {tag}:"):
                    self._record(node.record, node.map, f"({number} & numbers_in(mask_{name}))")
                    self._matching(node.record, node.map, list(bound.items()), node.body)

    def _matching(
        self, record: str, map: str, bound: list[tuple[int, Variable]], body: ir.Block
    ) -> None:
        for part, variable in reversed(bound):
            body = [ir.MatchKey(variable, map, part, record, body)]
        self.block(body)

    def _block(
        self, node: ir.Slice | ir.Walk | ir.Range | ir.Border | ir.Monotone | ir.Groups
    ) -> str:
        """The address of an index block."""
        return f"{self.map_at(node.map)} + {8 * self.frame.layouts[node.map].block(node.index)}"

    def _bind_key(self, node: ir.BindKey) -> None:
        layout = self.frame.layouts[node.map]
        word = layout.key_words[node.position]
        load = "load_float" if layout.keys[node.position].physical is FLOAT else "load"
        self.line(f"{node.variable.name} = {load}({node.record}, {word})")
        if node.variable.slot.nullable:
            self.line(f"{node.variable.null} = load({node.record}, {word + 1})")

    def _match_key(self, node: ir.MatchKey) -> None:
        layout = self.frame.layouts[node.map]
        word, field = layout.key_words[node.position], layout.keys[node.position]
        load = "load_float" if field.physical is FLOAT else "load"
        null = f"load({node.record}, {word + 1})" if field.nullable else None
        with self.nest(f"if {same_value(node.variable, f'{load}({node.record}, {word})', null)}:"):
            self.block(node.body)

    def _column(self, node: ir.Column) -> None:
        layout = self.frame.layouts[node.map]
        word = layout.value_words[node.column]
        if layout.values[node.column] is FLOAT:
            self.line(f"{node.name} = load_float({node.record}, {word})")
            self.line(f"{node.name}_low = load_float({node.record}, {word + 1})")
        else:
            self.line(f"{node.name} = load({node.record}, {word})")
        if node.body:
            with self.nest(f"if {node.name} != 0:"):
                self.block(node.body)

    def _present(self, node: ir.Present) -> None:
        layout = self.frame.layouts[node.map]
        tests = [
            f"load_float({node.record}, {word}) != 0.0"
            if physical is FLOAT
            else f"load({node.record}, {word}) != 0"
            for word, physical in zip(layout.value_words, layout.values, strict=True)
        ]
        with self.nest(f"if {' or '.join(tests)}:"):
            self.block(node.body)
