"""Ordered indexes as source: range sums, borders, groups, walks from an end (storage).

Each descent is a function of its own, with the positions of keys and sums as constants and all sums
of one range in one descent. Equal descents are one function: they are many, in the terms of a
statement and in both shapes of a trigger, and compiling them takes most of the time.

A descent goes from a node to the entry in which a border lies, and adds the entries on one side of
it. An entry above the leaves lies before a border if the key of the next one does: `ahead` is how
far the key that decides about an entry is away from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from viewlet.calculus.typing import Slot
from viewlet.functions import free_variables
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.access import AccessWriter
from viewlet.kernels.block_source import FLOAT, STR
from viewlet.kernels.loop_nodes import Kept
from viewlet.kernels.prologue import prologue
from viewlet.kernels.ranges import Bound, KeyTest
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.kernels.weights import key_words
from viewlet.storage.columns import FRONT, GROUPS, NODES, Index, KeyField
from viewlet.storage.tree_nodes import BELOW, ENTRIES, HEAD, KEY, LEFT, LEVEL, NEXT, RIGHT


@dataclass
class Inputs:
    """The root of a tree and what else a function over it gets, by parameter and argument."""

    root: str
    scope: dict[str, Variable] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def add(self, parameter: str, argument: str) -> None:
        self.parameters.append(parameter)
        self.arguments.append(argument)


class OrderedWriter(AccessWriter):
    """Writes what the order of keys and the sums of subtrees answer."""

    def _group(self, node: ir.Walk | ir.Range | ir.Border | ir.Monotone, words: str) -> str:
        root = self.temporary("root")
        common = f"{self.map_at(node.map)}, {self._block(node)}"
        found = f"find_root({common}, {words})" if node.key else f"only_root({common})"
        self.line(f"{root} = {found}")
        return root

    def _parts(self, node: ir.Walk | ir.Range | ir.Border | ir.Monotone) -> list[int]:
        return list(self.frame.layouts[node.map].indexes[node.index].parts)

    def _walk(self, node: ir.Walk) -> None:
        number = self.temporary("r")
        common = f"{self.map_at(node.map)}, {self._block(node)}"
        end = f"{node.place}, {1 if node.greatest else 0}"
        with self._key(node.map, self._parts(node), node.key) as words:
            self.line(f"{node.stop} = 0")
            root = self._group(node, words)
            self.line(f"{number} = first_counted({common}, {root}, {end})")
            with self.nest(f"while {number} >= 0 and {node.stop} == 0:"):
                self._record(node.record, node.map, number)
                self.block(node.body)
                self.line(f"{number} = next_counted({common}, {number}, {end})")

    def _groups(self, node: ir.Groups) -> None:
        self.line(f"{node.root} = load({self._block(node)}, {GROUPS})")
        with self.nest(f"while {node.root} >= 0:"):
            top = self.local("node", f"{self._nodes(node)} + 8 * {node.root}")
            self._record(node.record, node.map, f"load_half({top}, {HEAD})")
            self.block(node.body)
            self.line(f"{node.root} = load_half({top}, {NEXT})")

    def _monotone(self, node: ir.Monotone) -> None:
        layout = self.frame.layouts[node.map]
        negatives = self.temporary("negatives")
        self.line(f"{negatives} = 0")
        with self._key(node.map, self._parts(node), node.key) as words:
            root = self._group(node, words)
            with self.nest(f"if {root} >= 0:"):
                top = self.local("node", f"{self._nodes(node)} + 8 * {root}")
                counts = [
                    f"whole_total({self._block(node)}, {top}, {layout.sum_word(node.index, p)})"
                    for p in node.places
                ]
                self.line(f"{negatives} = {' + '.join(counts)}")
        with self.nest(f"if {negatives} == 0:"):
            self.block(node.body)
        with self.nest("else:"):
            self.block(node.otherwise)

    # Functions.

    def _call(self, base: str, inputs: Inputs, write: Callable[[OrderedWriter], None]) -> str:
        """The call of a function of the root and the inputs, whose body is written by `write`."""
        inner = OrderedWriter(self.frame, self.relation, self.frame.loops.names.scope())
        inner.names.reserve(inputs.parameters)
        write(inner)
        body = [*prologue(self.frame, self.relation, inner.lines), *inner.lines]
        head = f"({', '.join(('state', 'root', *inputs.parameters))}):"
        name = self.frame.function(base, "\n".join((head, *body)))
        return f"{name}({', '.join(('state', inputs.root, *inputs.arguments))})"

    def _inputs(self, root: str, names: Iterable[str], scope: Scope) -> Inputs:
        """What a function needs of a scope, under names that are the same in all of them."""
        inputs = Inputs(root)
        for i, name in enumerate(sorted(names)):
            outer, inner = scope[name], Variable(f"in{i}", scope[name].slot)
            inputs.scope[name] = inner
            inputs.add(inner.name, outer.name)
            if outer.slot.nullable:
                inputs.add(inner.null, outer.null)
        return inputs

    def _root(self, node: ir.Range | ir.Border) -> str:
        """A local with the root of a group's tree, -1 where there is none."""
        words, tests = key_words(self.frame.layouts[node.map], self._parts(node), node.key)
        place = (f"{node.map} {node.index}", words)
        known, depth = self.found.get(place, ("", 0))
        if known and depth <= self.depth:
            return known
        if tests:
            root = self.temporary("root")
            self.line(f"{root} = zero - 1")
            with self.nest(f"if {' and '.join(tests)}:"):
                self.line(f"{root} = {self._group(node, words)}")
        else:
            root = self._group(node, words)
        if node.map not in self.written:
            self.found[place] = (root, self.depth)
        return root

    # Range sums.

    def _range(self, node: ir.Range) -> None:
        for kept in node.sums:
            self._zero(kept)
        names: set[str] = set()
        for bound in node.bounds:
            if isinstance(bound, KeyTest):
                names |= free_variables(bound.scalar) - {bound.variable}
        inputs = self._inputs(node.root or self._root(node), names, node.scope)
        guards: list[str] = []
        tests: dict[bool, WrittenTest] = {}
        for i, bound in enumerate(node.bounds):
            if isinstance(bound, KeyTest):
                turned = replace(bound, holds=not bound.holds) if node.outside else bound
                tests[bound.upper] = _key_test(node, turned, inputs.scope)
            elif isinstance(bound, Bound):
                code = self.scalars.code(bound.scalar, node.scope)
                if code.null is not None:
                    guards.append(f"not {code.null}")
                value = f"load(ranks, {code.value})" if self._by_rank(node) else code.value
                inputs.add(f"bound{i}", value)
                tests[bound.upper] = _comparison(node, bound.operator, f"bound{i}")
            else:
                guards.append(f"{bound.name}_some")
                inputs.add(f"bound{i}", bound.name)
                inputs.add(f"bound{i}_in", f"{bound.name}_in")
                tests[bound.upper] = _border_test(node, bound.upper, f"bound{i}")
        depth = self.depth
        if guards:
            self.line(f"if {' and '.join(guards)}:")
            self.depth += 1
        once: dict[int, Kept] = {}
        for kept in node.sums:
            once.setdefault(kept.place, kept)
        asked = replace(node, sums=list(once.values()))
        call = self._call("range", inputs, lambda inner: inner._sum_between(asked, tests))
        self.line(f"{', '.join(_locals(asked.sums))} = {call}")
        for kept in node.sums:
            if kept is not once[kept.place]:
                self._copy(kept, once[kept.place])
        self.depth = depth

    def _sum_between(self, node: ir.Range, tests: dict[bool, WrittenTest]) -> None:
        """What lies before a border, behind one, between two, or outside them."""
        sums = [Kept(f"sum{i}", k.physical, k.place) for i, k in enumerate(node.sums)]
        self.names.reserve(_locals(sums))
        node = replace(node, sums=sums)
        for kept in sums:
            self._zero(kept)
        if len(tests) == 1:
            ((upper, test),) = tests.items()
            self._sum_along(node, "root", test, upper)
        elif node.outside:
            below, beyond = tests[False], tests[True]

            def above(writer: OrderedWriter, at: str) -> str:
                # Where nothing is left inside, what is below must not count twice.
                return f"({beyond(writer, at)}) and not ({below(writer, at)})"

            other = self.temporary("r")
            self.line(f"{other} = root")
            self._sum_along(node, "root", below, upper=True)
            self._sum_along(node, other, above, upper=False)
        else:
            self._sum_inside(node, "root", tests)
        for kept in sums:
            self._end_sum(kept)
        self.line(f"return {', '.join(_locals(sums))}")

    def _sum_inside(self, node: ir.Range, number: str, tests: dict[bool, WrittenTest]) -> None:
        """To the node in which both borders lie in different entries, then along both of them."""
        size = self._size(node)
        low, high = self.temporary("r"), self.temporary("r")
        self.line(f"{low} = {high} = zero - 1")
        with self.nest(f"while {number} >= 0:"):
            at, last, level, ahead = self._enter(node, number)
            with self.nest(f"while {at} + {ahead} <= {last}:"):
                with self.nest(f"if {tests[False](self, f'{at} + {ahead}')}:"):
                    self.line("break")
                self.line(f"{at} += {size}")
            with self.nest(f"if {level} > 0:"):
                self.line(f"{number} = load({at}, {BELOW})")
                with self.nest(f"if {at} == {last}:"):
                    self.line("continue")
                with self.nest(f"if not ({tests[True](self, f'{at} + {size}')}):"):
                    self.line("continue")
                self.line(f"{low} = {number}")
                self.line(f"{at} += {size}")
            self._add_up_to(node, (at, last, ahead), tests[True])
            with self.nest(f"if {level} > 0:"):
                self.line(f"{high} = load({at}, {BELOW})")
            self.line("break")
        self._sum_along(node, low, tests[False], upper=False)
        self._sum_along(node, high, tests[True], upper=True)

    def _sum_along(self, node: ir.Range, number: str, test: WrittenTest, upper: bool) -> None:
        """Add all of a tree up to a border, or from one on."""
        size = self._size(node)
        with self.nest(f"while {number} >= 0:"):
            at, last, level, ahead = self._enter(node, number)
            if upper:
                self._add_up_to(node, (at, last, ahead), test)
                end = at
            else:
                with self.nest(f"while {last} - {ahead} >= {at}:"):
                    with self.nest(f"if not ({test(self, last)}):"):
                        self.line("break")
                    self._add_sums(node, node.sums, last)
                    self.line(f"{last} -= {size}")
                end = last
            self.line(f"{number} = zero - 1")
            with self.nest(f"if {level} > 0:"):
                self.line(f"{number} = load({end}, {BELOW})")

    def _add_up_to(self, node: ir.Range, place: tuple[str, str, str], test: WrittenTest) -> None:
        """Add entries of a node from `at` on, as long as they lie before a border."""
        at, last, ahead = place
        with self.nest(f"while {at} + {ahead} <= {last}:"):
            with self.nest(f"if not ({test(self, f'{at} + {ahead}')}):"):
                self.line("break")
            self._add_sums(node, node.sums, at)
            self.line(f"{at} += {self._size(node)}")

    def _enter(self, node: ir.Range | ir.Border, number: str) -> tuple[str, str, str, str]:
        """Locals with the first and the last entry of a node, its level, and `ahead`."""
        at, last, level, ahead = (self.temporary(n) for n in ("at", "last", "level", "ahead"))
        size = self._size(node)
        top = self.local("node", f"{self._nodes(node)} + 8 * {number}")
        self.line(f"{at} = {top} + {8 * FRONT}")
        self.line(f"{last} = {at} + {size} * (load_half({top}, {ENTRIES}) - 1)")
        self.line(f"{level} = load_half({top}, {LEVEL})")
        self.line(f"{ahead} = {size} if {level} > 0 else 0")
        return at, last, level, ahead

    def _add_sums(self, node: ir.Range | ir.Border, sums: list[Kept], at: str) -> None:
        layout = self.frame.layouts[node.map]
        for kept in sums:
            name, word = kept.name, layout.sum_word(node.index, kept.place)
            if kept.physical is FLOAT:
                found = f"load_float({at}, {word}), load_float({at}, {word + 1})"
                self.line(f"{name}, {name}_low = gather({name}, {name}_low, {found})")
            else:
                self.line(f"{name} = plus({name}, load({at}, {word}))")

    # Borders.

    def _border(self, node: ir.Border) -> None:
        """Sums over the keys beyond the border, from the one end of the order where there are none.

        beyond(p) falls from the total to 0 while p goes to the far end; the condition turns once:
        at the key k that is the first with a small sum beyond it, and the last with a large sum
        from it on. Small sums then are at p >= k for `q > p` and at p > k for `q >= p`.
        """
        names = frozenset[str]().union(*map(free_variables, node.tests))
        own = {v.name for v, _ in node.sums}
        outer = {name for name in names if node.scope[name].name not in own}
        inputs = self._inputs(self._root(node), outer, node.scope)
        scope, sums = dict(inputs.scope), []
        for i, (variable, kept) in enumerate(node.sums):
            inner = Variable(f"beyond{i}", variable.slot)
            scope.update({n: inner for n, v in node.scope.items() if v.name == variable.name})
            sums.append((inner, Kept(f"sum{i}", kept.physical, kept.place)))
        plain = replace(node, name="border", sums=sums, scope=scope)
        call = self._call("border", inputs, lambda inner: inner._find_border(plain))
        self.line(f"{node.name}, {node.name}_in, {node.name}_some = {call}")

    def _find_border(self, node: ir.Border) -> None:
        name, sums = node.name, [kept for _, kept in node.sums]
        self.names.reserve([*_locals(sums), *(variable.name for variable, _ in node.sums)])
        is_float = self._order_field(node).physical is FLOAT
        self.line(f"{name} = {'0.0' if is_float else 'zero'}")
        self.line(f"{name}_in = {node.rises != (len(node.operator) == 1)}")
        for kept in sums:
            self._zero(kept)
        at_none = self.local("large", self._is_large(node))
        with self.nest("if root >= 0:"):
            at, last, _, _ = self._enter(node, "root")
            with self.nest(f"while {at} <= {last}:"):
                self._add_sums(node, sums, at)
                self.line(f"{at} += {self._size(node)}")
        at_all = self.local("large", self._is_large(node))
        # Where nothing turns, the condition is met by all keys or by none.
        self.line(f"{name}_some = True")
        with self.nest(f"if {at_none} == {at_all}:"):
            self.line(f"{name}_some = {at_all if node.rises else f'not {at_all}'}")
            self.line(f"{name} = {self._extreme_key(node, is_float)}")
            self.line(f"{name}_in = True")
        with self.nest("else:"):
            far = RIGHT if node.operator[0] == ">" else LEFT
            self._descend_to_border(node, "root", far)
        self.line(f"return {name}, {name}_in, {name}_some")

    def _descend_to_border(self, node: ir.Border, number: str, far: int) -> None:
        """In every node from the far end to the first entry with which the sums are large."""
        sums, size = [kept for _, kept in node.sums], self._size(node)
        before = [Kept(self.temporary("beyond"), kept.physical, kept.place) for kept in sums]
        for kept in before:
            self._zero(kept)
        with self.nest(f"while {number} >= 0:"):
            at, last, level, _ = self._enter(node, number)
            here, near, sign = (last, at, "-") if far == RIGHT else (at, last, "+")
            with self.nest("while True:"):
                for kept, known in zip(sums, before, strict=True):
                    self._copy(kept, known)
                self._add_sums(node, sums, here)
                with self.nest(f"if {here} == {near} or {self._is_large(node)}:"):
                    self.line("break")
                for kept, known in zip(sums, before, strict=True):
                    self._copy(known, kept)
                self.line(f"{here} {sign}= {size}")
            with self.nest(f"if {level} == 0:"):
                self.line(f"{node.name} = {self._order(node, here)}")
                self.line("break")
            self.line(f"{number} = load({here}, {BELOW})")

    def _is_large(self, node: ir.Border) -> str:
        """Whether the sums are on the large side of where the condition turns."""
        for variable, kept in node.sums:
            low = f"rounded({kept.name}, {kept.name}_low)"
            self.line(f"{variable.name} = {low if kept.physical is FLOAT else kept.name}")
        met = " and ".join(self.scalars.truth(test, node.scope) for test in node.tests)
        return f"({met})" if node.rises else f"(not ({met}))"

    def _extreme_key(self, node: ir.Border, is_float: bool) -> str:
        if is_float:
            return "inf" if node.upper else "-inf"
        return f"({2**63 - 1 if node.upper else -(2**63)})"

    # Parts of nodes.

    def _index(self, node: ir.Range | ir.Border) -> Index:
        return self.frame.layouts[node.map].indexes[node.index]

    def _order_field(self, node: ir.Range | ir.Border) -> KeyField:
        return self.frame.layouts[node.map].keys[self._index(node).order]

    def _by_rank(self, node: ir.Range | ir.Border) -> bool:
        return self._order_field(node).physical is STR

    def _order(self, node: ir.Range | ir.Border, at: str) -> str:
        """The key of an entry; the rank of a string."""
        if self._by_rank(node):
            self.frame.texts.ranks = True
            return f"load(ranks, load({at}, {KEY}))"
        load = "load_float" if self._order_field(node).physical is FLOAT else "load"
        return f"{load}({at}, {KEY})"

    def _nodes(self, node: ir.Range | ir.Border | ir.Groups | ir.Monotone) -> str:
        return f"load({self._block(node)}, {NODES})"

    def _size(self, node: ir.Range | ir.Border) -> int:
        """Bytes of an entry."""
        return 8 * self.frame.layouts[node.map].entry_words(node.index)

    # Sums in locals.

    def _zero(self, kept: Kept) -> None:
        if kept.physical is FLOAT:
            self.line(f"{kept.name} = {kept.name}_low = 0.0")
        else:
            self.line(f"{kept.name} = zero")

    def _copy(self, kept: Kept, other: Kept) -> None:
        self.line(f"{kept.name} = {other.name}")
        if kept.physical is FLOAT:
            self.line(f"{kept.name}_low = {other.name}_low")

    def _end_sum(self, kept: Kept) -> None:
        if kept.physical is FLOAT:
            both = f"{kept.name}, {kept.name}_low"
            self.line(f"{both} = gathered({both})")


WrittenTest = Callable[[OrderedWriter, str], str]
"""Source of a test of an entry's key, given source of the entry's address."""


def _comparison(node: ir.Range, operator: str, limit: str) -> WrittenTest:
    return lambda writer, at: f"{writer._order(node, at)} {operator} {limit}"


def _border_test(node: ir.Range, upper: bool, limit: str) -> WrittenTest:
    operator = "<" if upper else ">"

    def test(writer: OrderedWriter, at: str) -> str:
        key = writer.local("key", writer._order(node, at))
        return f"{key} {operator} {limit} or ({limit}_in and {key} == {limit})"

    return test


def _key_test(node: ir.Range, bound: KeyTest, scope: Scope) -> WrittenTest:
    def test(writer: OrderedWriter, at: str) -> str:
        slot = Slot(writer._order_field(node).physical)
        key = Variable(writer.local("key", writer._order(node, at)), slot)
        truth = writer.scalars.truth(bound.scalar, {**scope, bound.variable: key})
        return truth if bound.holds else f"not {truth}"

    return test


def _locals(sums: list[Kept]) -> list[str]:
    """The locals of some sums; a float has two."""
    found = []
    for kept in sums:
        found += [kept.name, f"{kept.name}_low"] if kept.physical is FLOAT else [kept.name]
    return found
