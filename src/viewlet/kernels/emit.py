"""Loops -> Python source, which Numba compiles and `explain --stage kernels` shows.

Each trigger gets two functions over the state array:

    on_R(state)      the batch shape: every step runs over all rows before the next one starts
    each_R(state)    the single-tuple shape: all steps run for one row before the next row

Both return 0 when done, or 1 when a map is full: the state array then says where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from viewlet.kernels import nodes as ir
from viewlet.kernels.frame import (
    COLUMNS,
    FULL,
    HIGH,
    LOW,
    RANKS,
    ROW,
    SKIP,
    STEP,
    WEIGHTS,
    Frame,
)
from viewlet.kernels.nodes import Block, Loops, Named, Node, Step
from viewlet.kernels.scalars import Texts, Variable
from viewlet.kernels.weights import WeightWriter, key_words, same_value
from viewlet.program.ir import Program
from viewlet.schema import Physical
from viewlet.storage.columns import HEADER, MASK, RECORDS, SLOTS, STAMP, TREE

INT, FLOAT, STR, BOOL = Physical.INT, Physical.FLOAT, Physical.STR, Physical.BOOL

_HEAD = '''"""Kernels of one programme; made by viewlet.kernels, not to be edited."""

from math import exp, inf, isfinite

import numpy as np
from numba import njit

from viewlet.kernels.natives import *
from viewlet.storage.arithmetic import minus, pair_of, pair_plus, pair_times, plus, times
from viewlet.storage.hashmap import find, find_group, only_group
from viewlet.storage.memory import (
    float_bits,
    load,
    load_byte,
    load_float,
    load_half,
    store,
)
from viewlet.storage.multimap import (
    add_float,
    add_int,
    clear_buffer,
    clear_column,
    refresh_trees,
    upsert,
)
from viewlet.storage.ordered import (
    first_counted,
    float_sum_all,
    float_sum_below,
    next_counted,
    sum_all,
    sum_below,
)

'''


class Module:
    """The source of a programme's kernels with the frame that they run in."""

    def __init__(self, program: Program, loops: Loops) -> None:
        self.program = program
        self.loops = loops
        self.texts = Texts()
        # Writing the bodies finds the strings that they need, which decides where maps lie; so
        # the source is written twice, and the second time every position is known.
        self.frame = Frame(loops, self.texts)
        self._write()
        self.frame = Frame(loops, self.texts)
        self.source = self._write()

    def _write(self) -> str:
        parts = [_HEAD]
        for relation, steps in self.loops.steps.items():
            parts.append(_Writer(self.frame, relation).batch_function(steps))
            parts.append(_Writer(self.frame, relation, single=True).single_function(steps))
        return "\n".join(parts)


def identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


class _Writer(WeightWriter):
    """Writes one function."""

    def __init__(self, frame: Frame, relation: str, single: bool = False) -> None:
        super().__init__(frame.texts)
        self.frame = frame
        self.relation = relation
        self.single = single
        self.targets: tuple[str, ...] = ()
        self.counted = False
        self.written: frozenset[str] = frozenset()
        self.row = "row"
        self.step = 0

    @contextmanager
    def nest(self, header: str) -> Iterator[None]:
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1

    # Functions.

    def batch_function(self, steps: list[Step]) -> str:
        """All steps in one function: Numba optimises what a function calls along with it."""
        name = identifier(self.relation)
        self.line(f"step = load(state, {STEP})")
        self.line(f"start = load(state, {ROW})")
        self.line(f"skip = load(state, {SKIP})")
        for number, step in enumerate(steps):
            self.step = number
            self._begin_step(step)
            for text in _quoted(step.text).splitlines():
                self.line(f"# {text.strip()}")
            with self.nest(f"if step <= {number}:"):
                self._batch_step(step)
                if number + 1 < len(steps):
                    self.line("start = -1")
                    self.line("skip = 0")
        body = self.lines
        head = ["@njit(cache=True, nogil=True)", f"def on_{name}(state):"]
        return "\n".join([*head, *self._prologue(body), *body, "    return 0", "", ""])

    def _batch_step(self, step: Step) -> None:
        outer = step.block[0] if len(step.block) == 1 else None
        if isinstance(outer, ir.Rows):
            with self.nest("for row in range(low if start < 0 else start, high):"):
                self._reset_done()
                self._row_body(outer)
                self._end_row()
        elif isinstance(outer, ir.Scan):
            self._scan(outer, resume=True)
        else:
            self.line("row = 0")
            self._reset_done()
            self.block(step.block)

    def single_function(self, steps: list[Step]) -> str:
        name = identifier(self.relation)
        self.line(f"row = max(load(state, {ROW}), low)")
        self.line(f"step = load(state, {STEP})")
        self.line(f"skip = load(state, {SKIP})")
        with self.nest("while row < high:"):
            for number, step in enumerate(steps):
                self.step = number
                self._begin_step(step)
                for text in _quoted(step.text).splitlines():
                    self.line(f"# {text.strip()}")
                with self.nest(f"if step <= {number}:"):
                    self._reset_done()
                    self.block(step.block)
                    self._end_row()
            self.line("step = 0")
            self.line("row += 1")
        body = self.lines
        head = ["@njit(cache=True, nogil=True)", f"def each_{name}(state):"]
        return "\n".join([*head, *self._prologue(body), *body, "    return 0", ""])

    def _begin_step(self, step: Step) -> None:
        self.targets = step.targets
        self.written = frozenset(_written(step.block))
        self.found = {}
        # With one update for each outer row, the row alone says where to go on.
        self.counted = self.single or _updates(step) > 1
        self.row = "row"

    def _reset_done(self) -> None:
        if self.counted:
            self.line("done = 0")

    def _end_row(self) -> None:
        if self.counted:
            self.line("skip = 0")

    def _prologue(self, body: list[str]) -> list[str]:
        """Definitions of the names that the body uses, and of no others."""
        text = "\n".join(body)
        used = set(re.findall(r"\b[a-z]+_?\w*\b", text))
        found = [f"    {name} = {code}" for name, code in self._definitions() if name in used]
        # `records_M` needs `map_M`, which may stand in no other place.
        needed = set(re.findall(r"map_\w+", "\n".join(found))) - used
        extra = [f"    {n} = {c}" for n, c in self._definitions() if n in needed]
        return extra + found

    def _definitions(self) -> Iterator[tuple[str, str]]:
        frame = self.frame
        yield "low", f"load(state, {LOW})"
        yield "high", f"load(state, {HIGH})"
        yield "weights", f"load(state, {WEIGHTS})"
        yield "ranks", f"load(state, {RANKS})"
        yield "zero", "np.int64(0)"
        relation = frame.loops.program.relation(self.relation)
        for i in range(len(relation.columns)):
            yield f"column_{i}", f"load(state, {COLUMNS + 2 * i})"
            yield f"nulls_{i}", f"load(state, {COLUMNS + 2 * i + 1})"
        for i in range(len(frame.texts.lookups)):
            yield f"table_{i}", f"load(state, {frame.tables + 2 * i})"
            yield f"gaps_{i}", f"load(state, {frame.tables + 2 * i + 1})"
        for i in range(len(frame.texts.constants)):
            yield f"text_{i}", f"load(state, {frame.constants + i})"
        for name, offset in frame.offsets.items():
            yield f"map_{identifier(name)}", f"state + {8 * offset}"
            plain = identifier(name)
            yield f"records_{plain}", f"load(map_{plain}, {RECORDS})"
            yield f"stamp_{plain}", f"load(map_{plain}, {STAMP})"
            yield f"slots_{plain}", f"load(map_{plain}, {HEADER + SLOTS})"
            yield f"mask_{plain}", f"load(map_{plain}, {HEADER + MASK})"

    # Nodes.

    def block(self, block: Block) -> None:
        """Nodes in order; neighbours under the same condition share one `if`."""
        if not block:
            self.line("pass")
        at = 0
        while at < len(block):
            node = block[at]
            at += 1
            if not isinstance(node, ir.If):
                self.node(node)
                continue
            condition = _bare(self.scalars.truth(node.scalar, node.scope))
            body = list(node.body)
            while at < len(block):
                other = block[at]
                if not isinstance(other, ir.If):
                    break
                if _bare(self.scalars.truth(other.scalar, other.scope)) != condition:
                    break
                body += other.body
                at += 1
            with self.nest(f"if {condition}:"):
                self.block(body)

    def node(self, node: Node) -> None:
        getattr(self, "_" + _snake(type(node).__name__))(node)

    def _rows(self, node: ir.Rows) -> None:
        if self.single:
            self._row_body(node)
            return
        row = self.temporary("row")
        with self.nest(f"for {row} in range(low, high):"):
            outer, self.row = self.row, row
            self._row_body(node)
            self.row = outer

    def _row_body(self, node: ir.Rows) -> None:
        self.line(f"{node.weight} = load(weights, {self.row})")
        for variable, column in node.binds:
            load = "load_float" if variable.slot.physical is FLOAT else "load"
            self.line(f"{variable.name} = {load}(column_{column}, {self.row})")
            if variable.slot.nullable:
                self.line(f"{variable.null} = load_byte(nulls_{column}, {self.row})")
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

    def _get(self, node: ir.Get) -> None:
        layout = self.frame.layouts[node.map]
        with self._key(node.map, list(range(len(layout.keys))), node.key) as words:
            known, depth = self.found.get((node.map, words), ("", 0))
            at_hand = known and depth <= self.depth
            self.line(f"{node.record} = {known if at_hand else self._find(node.map, words)}")
            if node.map not in self.written:
                self.found.setdefault((node.map, words), (node.record, self.depth))
            with self.nest(f"if {node.record} != 0:"):
                self.block(node.body)

    def _scan(self, node: ir.Scan, resume: bool = False) -> None:
        number = "row" if resume else self.temporary("r")
        first = "max(start, 0), " if resume else ""
        with self.nest(f"for {number} in range({first}load({_map(node.map)}, 0)):"):
            if resume:
                self._reset_done()
            self._record(node.record, node.map, number)
            self.block(node.body)
            if resume:
                self._end_row()

    def _record(self, record: str, map: str, number: str) -> None:
        stride = 8 * self.frame.layouts[map].width
        self.line(f"{record} = records_{identifier(map)} + {number} * {stride}")

    def _slice(self, node: ir.Slice) -> None:
        layout = self.frame.layouts[node.map]
        parts = list(layout.indexes[node.index].parts)
        number = self.temporary("r")
        with self._key(node.map, parts, node.key) as words:
            self.line(f"{number} = find_group({_map(node.map)}, {self._block(node)}, {words})")
            with self.nest(f"while {number} >= 0:"):
                self._record(node.record, node.map, number)
                # The link is read first: the body may not change it, and the load can be early.
                self.line(
                    f"{number} = load_half({node.record}, {2 * layout.link_words[node.index]})"
                )
                self.block(node.body)

    def _block(self, node: ir.Slice | ir.Walk | ir.Range) -> str:
        """The address of an index block."""
        return f"{_map(node.map)} + {8 * self.frame.layouts[node.map].block(node.index)}"

    def _group(self, node: ir.Walk | ir.Range, words: str) -> str:
        root = self.temporary("root")
        if node.key:
            self.line(f"{root} = find_group({_map(node.map)}, {self._block(node)}, {words})")
        else:
            self.line(f"{root} = only_group({self._block(node)})")
        return root

    def _walk(self, node: ir.Walk) -> None:
        parts = list(self.frame.layouts[node.map].indexes[node.index].parts)
        number = self.temporary("r")
        common = f"{_map(node.map)}, {self._block(node)}"
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
        common = f"{_map(node.map)}, {self._block(node)}, {root}, {node.place}"
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

    def _let(self, node: ir.Let) -> None:
        code = self.scalars.code(node.scalar, node.scope)
        physical = node.variable.slot.physical
        value = code.value
        if physical is BOOL:
            value = f"1 if {value} else 0"
        elif physical is FLOAT and code.physical is not FLOAT:
            value = f"float({value})"
        elif physical is INT and value.isdigit():
            value = f"np.int64({value})"
        if node.variable.slot.nullable:
            null = node.variable.null
            self.line(f"{null} = 1 if {code.null or 'False'} else 0")
            empty = "0.0" if physical is FLOAT else "0"
            value = f"{empty} if {null} != 0 else ({value})"
        self.line(f"{node.variable.name} = {value}")

    def _not_null(self, node: ir.NotNull) -> None:
        with self.nest(f"if {node.variable.null} == 0:"):
            self.block(node.body)

    def _total(self, node: ir.Total) -> None:
        self.line(f"{node.name} = {'0.0' if node.physical is FLOAT else '0'}")
        if node.physical is FLOAT:
            self.line(f"{node.name}_low = 0.0")
        self.block(node.body)

    def _add_to(self, node: ir.AddTo) -> None:
        if node.physical is FLOAT:
            high, low = self.pair(node.factors)
            both = f"{node.name}, {node.name}_low"
            self.line(f"{both} = pair_plus({both}, {high}, {low})")
        else:
            self.line(f"{node.name} = plus({node.name}, {self.whole(node.factors)})")

    def _let_total(self, node: ir.LetTotal) -> None:
        self.line(f"{node.variable.name} = {node.name}")

    def _if_total(self, node: ir.IfTotal) -> None:
        with self.nest(f"if {node.name} != 0:"):
            self.block(node.body)

    def _no_best(self, node: ir.NoBest) -> None:
        empty = "0.0" if node.variable.slot.physical is FLOAT else "np.int64(0)"
        self.line(f"{node.variable.name} = {empty}")
        self.line(f"{node.variable.null} = np.int64(1)")

    def _better(self, node: ir.Better) -> None:
        best, new = node.variable.name, node.candidate.name
        left, right = new, best
        if node.variable.slot.physical is STR:
            self.frame.texts.ranks = True
            left, right = f"load(ranks, {new})", f"load(ranks, {best})"
        nearer = f"{left} {'>' if node.greatest else '<'} {right}"
        with self.nest(f"if {node.variable.null} != 0 or {nearer}:"):
            self.line(f"{best} = {new}")
            self.line(f"{node.variable.null} = np.int64(0)")
        if node.stop is not None:
            self.line(f"{node.stop} = 1")

    def _clear_buffer(self, node: ir.ClearBuffer) -> None:
        self.line(f"clear_buffer({_map(node.map)})")

    def _clear_column(self, node: ir.ClearColumn) -> None:
        layout = self.frame.layouts[node.map]
        word = layout.value_words[node.column]
        width = 2 if layout.values[node.column] is FLOAT else 1
        with self.nest(f"if not clear_column({_map(node.map)}, {word}, {width}):"):
            self._return_full(node.map, "0")

    def _find(self, map: str, words: str) -> str:
        name, stride = identifier(map), 8 * self.frame.layouts[map].width
        return f"find(slots_{name}, mask_{name}, records_{name}, {stride}, {words})"

    def _update(self, node: ir.Update) -> None:
        layout = self.frame.layouts[node.map]
        counted = self.counted and node.map in self.targets
        depth = self.depth
        if counted:
            self.line("done += 1")
            self.line("if done > skip:")
            self.depth += 1
        weights = self._update_weights(node)
        if not _surely_not_zero(node):
            tests = [f"{weight[0]} != 0" for _, weight in weights]
            self.line(f"if {' or '.join(tests)}:")
            self.depth += 1
        words, tests = key_words(layout, list(range(len(layout.keys))), node.key)
        if tests:
            # What an earlier equality has made sure of, unless the programme is wrong.
            with self.nest(f"if not ({' and '.join(tests)}):"):
                self.line('raise ValueError("a key that cannot be NULL is NULL")')
        at, map = self.temporary("at"), _map(node.map)
        self.line(f"{at} = {self._find(node.map, words)}")
        # Only a record that this batch has not touched yet needs to be made or logged.
        stamp = f"load({at}, {layout.stamp_word}) != stamp_{identifier(node.map)}"
        with self.nest(f"if {at} == 0 or {stamp}:"):
            self.line(f"{at} = upsert({map}, {words})")
            with self.nest(f"if {at} == 0:"):
                done = "done - 1" if counted else "done"
                self._return_full(node.map, done if self.counted else "0")
        for word, weight in weights:
            if len(weight) == 2:
                self.line(f"add_float({map}, {at}, {word}, {weight[0]}, {weight[1]})")
            else:
                self.line(f"add_int({map}, {at}, {word}, {weight[0]})")
        if any(index.kind == TREE for index in layout.indexes):
            self.line(f"refresh_trees({map}, {at})")
        self.depth = depth

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

    def _return_full(self, map: str, skip: str) -> None:
        """Leave, and remember where to go on."""
        self.line(f"store(state, {STEP}, {self.step})")
        self.line(f"store(state, {ROW}, row)")
        self.line(f"store(state, {SKIP}, {skip})")
        self.line(f"store(state, {FULL}, {self.frame.maps.index(map)})")
        self.line("return 1")


def _updates(step: Step) -> int:
    """How many updates one outer row can make: 2 stands for any number."""
    outer = step.block[0] if len(step.block) == 1 else None
    block = outer.body if isinstance(outer, ir.Rows | ir.Scan) else step.block
    return _count(block, step.targets)


def _count(block: Block, targets: tuple[str, ...]) -> int:
    found = 0
    for node in block:
        if isinstance(node, ir.Update):
            found += node.map in targets
        elif hasattr(node, "body"):
            inside = _count(node.body, targets)
            loops = isinstance(node, ir.Rows | ir.Scan | ir.Slice | ir.Walk)
            found += 2 * inside if loops else inside
    return found


def _written(block: Block) -> Iterator[str]:
    """The maps that a block changes, in which a second probe may find more than the first."""
    for node in block:
        if isinstance(node, ir.Update):
            yield node.map
        elif hasattr(node, "body"):
            yield from _written(node.body)


def _surely_not_zero(node: ir.Update) -> bool:
    """Whether some column gets a weight that is a product of weights found not to be zero."""
    return any(
        all(isinstance(f, Named) and f.name.startswith(("weight", "w_")) for f in factors)
        for _, _, factors in node.columns
    )


def _map(name: str) -> str:
    return f"map_{identifier(name)}"


def _bare(code: str) -> str:
    """Without a pair of parentheses around the whole."""
    if not (code.startswith("(") and code.endswith(")")):
        return code
    depth = 0
    for i, character in enumerate(code):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(code) - 1:
            return code
    return code[1:-1]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")
