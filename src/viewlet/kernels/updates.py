"""Changes of maps as source, and the way out when a map is full."""

from __future__ import annotations

from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.block_source import FLOAT
from viewlet.kernels.frame import FULL, ROW, SKIP, STEP
from viewlet.kernels.loop_nodes import Named
from viewlet.kernels.ordered_source import OrderedWriter
from viewlet.kernels.scalar_source import Memo, Variable
from viewlet.kernels.weights import key_words
from viewlet.storage.columns import MOST_HASHED, TREE


class UpdateWriter(OrderedWriter):
    """Writes updates; together with its bases, every node of the loop language."""

    def _clear_buffer(self, node: ir.ClearBuffer) -> None:
        self.line(f"clear_buffer({self.map_at(node.map)})")

    def _clear_column(self, node: ir.ClearColumn) -> None:
        layout = self.frame.layouts[node.map]
        word = layout.value_words[node.column]
        width = 2 if layout.values[node.column] is FLOAT else 1
        with self.nest(f"if not clear_column({self.map_at(node.map)}, {word}, {width}):"):
            self._return_full(node.map)

    def _update(self, node: ir.Update) -> None:
        layout = self.frame.layouts[node.map]
        counted = self.counted and node.map in self.targets
        depth = self.depth
        if counted:
            self.line("done += 1")
            self.line("if done > skip:")
            self.depth += 1
        self.begun = counted
        weights = self._update_weights(node)
        if not _surely_not_zero(node):
            tests = [f"{weight[0]} != 0" for _, weight in weights]
            self.line(f"if {' or '.join(tests)}:")
            self.depth += 1
        words, tests = key_words(layout, list(range(len(layout.keys))), node.key)
        if tests:
            with self.nest(f"if not ({' and '.join(tests)}):"):
                self.line("refuse_null_key()")
        at, map = self.temporary("at"), self.map_at(node.map)
        self.line(f"{at} = {self._find(node.map, node.key)}")
        # Only a record that this batch has not touched yet needs to be made or logged.
        name = self.frame.called(node.map)
        number = f"({at} - records_{name}) // {8 * layout.width}"
        mark = f"mark_of(marks_{name}, {number})"
        with self.nest(f"if {at} == 0 or {mark} != logging_{name}:"):
            self.line(f"{at} = upsert({map}, {self._hashed(node.map, node.key)}, {words})")
            with self.nest(f"if {at} == 0:"):
                self._return_full(node.map)
        self.begun = False
        pairs: dict[int, list[tuple[str, ...]]] = {}
        for word, weight in weights:
            if len(weight) == 2:
                pairs.setdefault(word, []).append(weight)
            else:
                self.line(f"add_int({map}, {at}, {word}, {weight[0]})")
        for word, parts in pairs.items():
            self._add_pairs(f"{map}, {at}, {word}", parts)
        if any(index.kind == TREE for index in layout.indexes):
            self.line(f"refresh_trees({map}, {at})")
        self.depth = depth

    def _add_pairs(self, place: str, parts: list[tuple[str, ...]]) -> None:
        """Several terms for one sum are added up first: each addition to a kept sum takes long."""
        by, low = parts[0]
        if len(parts) > 1:
            for other, other_low in parts[1:]:
                last, last_low = by, low
                by = self.temporary("p")
                low = f"{by}_low"
                self.line(f"{by}, {low} = gather({last}, {last_low}, {other}, {other_low})")
            self.line(f"{by}, {low} = gathered({by}, {low})")
        largest = ", ".join(f"abs({part[0]})" for part in parts)
        largest = f"max({largest})" if len(parts) > 1 else largest
        self.line(f"add_float({place}, {by}, {low}, {largest})")

    def _update_weights(self, node: ir.Update) -> list[tuple[int, tuple[str, ...]]]:
        """The word of each column with its weight: one local, or two for a pair."""
        layout = self.frame.layouts[node.map]
        found: list[tuple[int, tuple[str, ...]]] = []
        for column, physical, factors in node.columns:
            word = layout.value_words[column]
            if physical is FLOAT:
                found.append((word, self.pair(factors)))
            else:
                found.append((word, (self.local("by", self.whole(factors)),)))
        return found

    def _return_full(self, map: str) -> None:
        """Leave, and remember where to go on: updates of this row that are done stay done."""
        done = "done - 1" if self.begun else "done"
        self.line(f"store(control, {STEP}, {self.step})")
        self.line(f"store(control, {ROW}, row)")
        self.line(f"store(control, {SKIP}, {f'max({done}, skip)' if self.counted else '0'})")
        self.line(f"store(control, {FULL}, {self.frame.number(map)})")
        self.line("return 1")

    def recall(self, memo: Memo, arguments: list[Variable]) -> str:
        at, words, hashed = self.temporary("at"), [], 0
        for i, variable in enumerate(arguments):
            real = variable.slot.physical is FLOAT
            words.append(f"float_bits({variable.name})" if real else variable.name)
            if variable.slot.nullable:
                words.append(variable.null)
            hashed = len(words) if i < MOST_HASHED else hashed
        stride, name = self.frame.stride(memo.name), self.frame.called(memo.name)
        place = f"slots_{name}, mask_{name}, records_{name}, {stride}"
        by = ", ".join(words[:hashed])
        self.line(f"{at} = find({place}, ({by},), ({', '.join(words)},))")
        with self.nest(f"if {at} == 0:"):
            for i, word in enumerate(words):
                self.line(f"store(state, {self.frame.missing + i}, {word})")
            self._return_full(memo.name)
        return at


def _surely_not_zero(node: ir.Update) -> bool:
    """Whether some column gets a weight that is a product of weights found not to be zero."""
    return any(
        all(isinstance(f, Named) and f.name.startswith(("weight", "w_")) for f in factors)
        for _, _, factors in node.columns
    )
