"""Ordered indexes as source: range sums and walks from an end (storage.ordered)."""

from __future__ import annotations

from viewlet.kernels import nodes as ir
from viewlet.kernels.access import AccessWriter, map_name
from viewlet.kernels.blocks import FLOAT, STR


class OrderedWriter(AccessWriter):
    """Writes what the order of keys and the sums of subtrees answer."""

    def _group(self, node: ir.Walk | ir.Range, words: str) -> str:
        root = self.temporary("root")
        if node.key:
            self.line(f"{root} = find_group({map_name(node.map)}, {self._block(node)}, {words})")
        else:
            self.line(f"{root} = only_group({self._block(node)})")
        return root

    def _walk(self, node: ir.Walk) -> None:
        parts = list(self.frame.layouts[node.map].indexes[node.index].parts)
        number = self.temporary("r")
        common = f"{map_name(node.map)}, {self._block(node)}"
        end = f"{node.place}, {1 if node.greatest else 0}"
        with self._key(node.map, parts, node.key) as words:
            self.line(f"{node.stop} = 0")
            root = self._group(node, words)
            self.line(f"{number} = first_counted({common}, {root}, {end})")
            with self.nest(f"while {number} >= 0 and {node.stop} == 0:"):
                self._record(node.record, node.map, number)
                self.block(node.body)
                self.line(f"{number} = next_counted({common}, {number}, {end})")

    def _range(self, node: ir.Range) -> None:
        layout = self.frame.layouts[node.map]
        index = layout.indexes[node.index]
        pair = node.physical is FLOAT
        self.line(f"{node.name} = {'0.0' if pair else '0'}")
        if pair:
            self.line(f"{node.name}_low = 0.0")
        by_rank = layout.keys[index.order].physical is STR
        bounds: dict[str, tuple[str, str]] = {}
        tests = []
        for operator, scalar in node.bounds:
            code = self.scalars.code(scalar, node.scope)
            if code.null is not None:
                tests.append(f"not {code.null}")
            value = f"load(ranks, {code.value})" if by_rank else code.value
            bounds[operator[0]] = (operator, self.local("bound", value))
        if len(bounds) == 2:
            (low_operator, low), (high_operator, high) = bounds[">"], bounds["<"]
            both = low_operator == ">=" and high_operator == "<="
            tests.append(f"{low} {'<=' if both else '<'} {high}")
        depth = self.depth
        if tests:
            self.line(f"if {' and '.join(tests)}:")
            self.depth += 1
        with self._key(node.map, list(index.parts), node.key) as words:
            root = self._group(node, words)
            self._range_sum(node, root, bounds, pair)
        self.depth = depth

    def _range_sum(
        self, node: ir.Range, root: str, bounds: dict[str, tuple[str, str]], pair: bool
    ) -> None:
        """sum(all or below the upper bound) - sum(not above the lower bound)"""
        prefix = "float_" if pair else ""
        common = f"{map_name(node.map)}, {self._block(node)}, {root}, {node.place}"
        upper = f"{prefix}sum_all({common})"
        if "<" in bounds:
            operator, bound = bounds["<"]
            upper = f"{prefix}sum_below({common}, {bound}, {operator == '<='})"
        targets = f"{node.name}, {node.name}_low" if pair else node.name
        self.line(f"{targets} = {upper}")
        if ">" in bounds:
            operator, bound = bounds[">"]
            lower = f"{prefix}sum_below({common}, {bound}, {operator == '>'})"
            if pair:
                high, low = self.temporary("p"), self.temporary("p")
                self.line(f"{high}, {low} = {lower}")
                self.line(f"{targets} = pair_plus({targets}, -{high}, -{low})")
            else:
                self.line(f"{targets} = minus({targets}, {lower})")
