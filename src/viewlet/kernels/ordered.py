"""Ordered indexes as source: range sums, borders, groups, walks from an end (storage.ordered).

Each descent is a function of its own, with the positions of keys, links and sums as constants and
all sums of one range in one descent. Equal descents are one function: they are many, in the terms
of a statement and in both shapes of a trigger, and compiling them takes most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from viewlet.calculus.typing import Slot
from viewlet.functions import free_variables
from viewlet.kernels import nodes as ir
from viewlet.kernels.access import AccessWriter, map_name
from viewlet.kernels.blocks import FLOAT, STR
from viewlet.kernels.nodes import Kept
from viewlet.kernels.prologue import prologue
from viewlet.kernels.ranges import Bound, KeyTest
from viewlet.kernels.scalars import Scope, Variable
from viewlet.storage.columns import GROUPS, Index, KeyField
from viewlet.storage.ordered import LEFT, NEXT, RIGHT


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
        if node.key:
            self.line(f"{root} = find_group({map_name(node.map)}, {self._block(node)}, {words})")
        else:
            self.line(f"{root} = only_group({self._block(node)})")
        return root

    def _parts(self, node: ir.Walk | ir.Range | ir.Border | ir.Monotone) -> list[int]:
        return list(self.frame.layouts[node.map].indexes[node.index].parts)

    def _walk(self, node: ir.Walk) -> None:
        number = self.temporary("r")
        common = f"{map_name(node.map)}, {self._block(node)}"
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
            self._record(node.record, node.map, node.root)
            self.block(node.body)
            self.line(f"{node.root} = {self._kin(node, node.record, NEXT)}")

    def _monotone(self, node: ir.Monotone) -> None:
        layout = self.frame.layouts[node.map]
        negatives = self.temporary("negatives")
        self.line(f"{negatives} = 0")
        with self._key(node.map, self._parts(node), node.key) as words:
            root = self._group(node, words)
            with self.nest(f"if {root} >= 0:"):
                at = self.temporary("at")
                self._record(at, node.map, root)
                counts = [f"load({at}, {layout.sum_word(node.index, p)})" for p in node.places]
                self.line(f"{negatives} = {' + '.join(counts)}")
        with self.nest(f"if {negatives} == 0:"):
            self.block(node.body)
        with self.nest("else:"):
            self.block(node.otherwise)

    # Functions.

    def _call(self, base: str, inputs: Inputs, write: Callable[[OrderedWriter], None]) -> str:
        """The call of a function of the root and the inputs, whose body is written by `write`."""
        inner = OrderedWriter(self.frame, self.relation)
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
        root = self.temporary("root")
        self.line(f"{root} = zero - 1")
        with self._key(node.map, self._parts(node), node.key) as words:
            self.line(f"{root} = {self._group(node, words)}")
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
                tests[bound.upper] = _key_test(node, bound, inputs.scope)
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
        call = self._call("range", inputs, lambda inner: inner._sum_between(node, tests))
        self.line(f"{', '.join(_locals(node.sums))} = {call}")
        self.depth = depth

    def _sum_between(self, node: ir.Range, tests: dict[bool, WrittenTest]) -> None:
        """From the root to the first key in the range, then along both of its borders."""
        sums = [Kept(f"sum{i}", k.physical, k.place) for i, k in enumerate(node.sums)]
        node = replace(node, sums=sums)
        for kept in sums:
            self._zero(kept)
        record, at = "root", self.temporary("at")
        if node.outside:
            with self.nest(f"if {record} >= 0:"):
                self._record(at, node.map, record)
                self._add_sums(node, sums, at)
        if len(tests) == 1:
            ((upper, test),) = tests.items()
            self._sum_along(node, record, test, upper)
        else:
            self._sum_inside(node, record, at, tests)
        self.line(f"return {', '.join(_locals(sums))}")

    def _sum_inside(
        self, node: ir.Range, record: str, at: str, tests: dict[bool, WrittenTest]
    ) -> None:
        self.line(f"{at} = zero")
        with self.nest(f"while {record} >= 0:"):
            self._record(at, node.map, record)
            with self.nest(f"if not ({tests[True](self, at)}):"):
                self.line(f"{record} = {self._kin(node, at, LEFT)}")
                self.line("continue")
            with self.nest(f"if not ({tests[False](self, at)}):"):
                self.line(f"{record} = {self._kin(node, at, RIGHT)}")
                self.line("continue")
            self.line("break")
        with self.nest(f"if {record} >= 0:"):
            self._add_own(node, at)
            other = self.temporary("r")
            self.line(f"{other} = {self._kin(node, at, RIGHT)}")
            self.line(f"{record} = {self._kin(node, at, LEFT)}")
            self._sum_along(node, record, tests[False], upper=False)
            self._sum_along(node, other, tests[True], upper=True)

    def _sum_along(self, node: ir.Range, record: str, test: WrittenTest, upper: bool) -> None:
        """Add all of a subtree up to a border, or from one on."""
        inner, outer = (LEFT, RIGHT) if upper else (RIGHT, LEFT)
        at, child, below = self.temporary("at"), self.temporary("r"), self.temporary("at")
        with self.nest(f"while {record} >= 0:"):
            self._record(at, node.map, record)
            with self.nest(f"if {test(self, at)}:"):
                self._add_own(node, at)
                self.line(f"{child} = {self._kin(node, at, inner)}")
                with self.nest(f"if {child} >= 0:"):
                    self._record(below, node.map, child)
                    self._add_sums(node, node.sums, below, minus=node.outside)
                self.line(f"{record} = {self._kin(node, at, outer)}")
            with self.nest("else:"):
                self.line(f"{record} = {self._kin(node, at, inner)}")

    def _add_own(self, node: ir.Range, at: str) -> None:
        for kept in node.sums:
            self._add(kept, at, self._own_word(node, kept), node.outside)

    def _add_sums(
        self, node: ir.Range | ir.Border, sums: list[Kept], at: str, *, minus: bool = False
    ) -> None:
        layout = self.frame.layouts[node.map]
        for kept in sums:
            self._add(kept, at, layout.sum_word(node.index, kept.place), minus)

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
        is_float = self._order_field(node).physical is FLOAT
        self.line(f"{name} = {'0.0' if is_float else 'zero'}")
        self.line(f"{name}_in = {node.rises != (len(node.operator) == 1)}")
        for kept in sums:
            self._zero(kept)
        at_none = self.local("large", self._is_large(node))
        with self.nest("if root >= 0:"):
            at = self.temporary("at")
            self._record(at, node.map, "root")
            self._add_sums(node, sums, at)
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

    def _descend_to_border(self, node: ir.Border, root: str, far: int) -> None:
        sums = [kept for _, kept in node.sums]
        record, at = self.temporary("r"), self.temporary("at")
        child, below = self.temporary("r"), self.temporary("at")
        before = [Kept(self.temporary("beyond"), kept.physical, kept.place) for kept in sums]
        for kept in before:
            self._zero(kept)
        self.line(f"{record} = {root}")
        with self.nest(f"while {record} >= 0:"):
            self._record(at, node.map, record)
            self.line(f"{child} = {self._kin(node, at, far)}")
            for kept, known in zip(sums, before, strict=True):
                self._copy(kept, known)
            with self.nest(f"if {child} >= 0:"):
                self._record(below, node.map, child)
                self._add_sums(node, sums, below)
            with self.nest(f"if {self._is_large(node)}:"):
                self.line(f"{record} = {child}")
            with self.nest("else:"):
                self.line(f"{node.name} = {self._order(node, at)}")
                for kept, known in zip(sums, before, strict=True):
                    self._add(kept, at, self._own_word(node, kept), False)
                    self._copy(known, kept)
                self.line(f"{record} = {self._kin(node, at, 1 - far)}")

    def _is_large(self, node: ir.Border) -> str:
        """Whether the sums are on the large side of where the condition turns."""
        for variable, kept in node.sums:
            self.line(f"{variable.name} = {kept.name}")
        met = " and ".join(self.scalars.truth(test, node.scope) for test in node.tests)
        return f"({met})" if node.rises else f"(not ({met}))"

    def _extreme_key(self, node: ir.Border, is_float: bool) -> str:
        if is_float:
            return "inf" if node.upper else "-inf"
        return f"np.int64({2**63 - 1 if node.upper else -(2**63)})"

    # Parts of records.

    def _index(self, node: ir.Range | ir.Border) -> Index:
        return self.frame.layouts[node.map].indexes[node.index]

    def _order_field(self, node: ir.Range | ir.Border) -> KeyField:
        return self.frame.layouts[node.map].keys[self._index(node).order]

    def _by_rank(self, node: ir.Range | ir.Border) -> bool:
        return self._order_field(node).physical is STR

    def _order(self, node: ir.Range | ir.Border, at: str) -> str:
        """The key that orders a record; the rank of a string."""
        word = self.frame.layouts[node.map].key_words[self._index(node).order]
        if self._by_rank(node):
            self.frame.texts.ranks = True
            return f"load(ranks, load({at}, {word}))"
        load = "load_float" if self._order_field(node).physical is FLOAT else "load"
        return f"{load}({at}, {word})"

    def _kin(self, node: ir.Range | ir.Border | ir.Groups, at: str, which: int) -> str:
        link = self.frame.layouts[node.map].link_words[node.index]
        return f"load_half({at}, {2 * link + which})"

    def _own_word(self, node: ir.Range | ir.Border, kept: Kept) -> int:
        column, _ = self._index(node).sums[kept.place]
        return self.frame.layouts[node.map].value_words[column]

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

    def _add(self, kept: Kept, at: str, word: int, minus: bool) -> None:
        name = kept.name
        if kept.physical is FLOAT:
            sign = "-" if minus else ""
            found = f"{sign}load_float({at}, {word}), {sign}load_float({at}, {word + 1})"
            self.line(f"{name}, {name}_low = pair_plus({name}, {name}_low, {found})")
        else:
            self.line(f"{name} = {'minus' if minus else 'plus'}({name}, load({at}, {word}))")


WrittenTest = Callable[[OrderedWriter, str], str]
"""Source of a test of a record's key, given the local with the record's address."""


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
