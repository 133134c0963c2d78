"""Runs a plan over the state of one lane: a share of the keys, in one thread or one partition."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from viewlet.errors import TypingError
from viewlet.signals.batches import NEVER, Array, Columns, Deferred, Events, as_array
from viewlet.signals.clock import TICKS, common_unit, tick_of
from viewlet.signals.kernels import segments as kernel
from viewlet.signals.keys import KeyDictionary
from viewlet.signals.operators.base import Node, Schema, times
from viewlet.signals.operators.grouping import Group
from viewlet.signals.operators.streams import Source
from viewlet.signals.state import ArrayStore, OperatorState, StepJournal


class OperatorPlan:
    """The nodes of a query, inputs before users."""

    def __init__(self, root: Node) -> None:
        self.nodes: list[Node] = []
        self._positions: dict[int, int] = {}
        self._visit(root)
        self.sources = [node for node in self.nodes if isinstance(node, Source)]
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise TypingError(
                f"two sources have the name {max(names, key=names.count)!r}",
                hint="give every source its own name=, or use the same source object twice",
            )
        if len(names) > 1 and any(source.values is None for source in self.sources):
            raise TypingError(
                "a query with several sources must know their columns",
                hint="give every source its value= columns",
            )
        if len({len(source.schema.keys) for source in self.sources}) > 1:
            raise TypingError(
                "the sources of a query have different numbers of key columns",
                hint="give all sources the same keys, or none",
            )
        self.keywise = all(node.keywise for node in self.nodes)
        self.unit, self.is_unit_declared = common_unit(node.schema.unit for node in self.nodes)

    def _visit(self, node: Node) -> None:
        if id(node) in self._positions:
            return
        for source in node.inputs:
            self._visit(source)
        self._positions[id(node)] = len(self.nodes)
        self.nodes.append(node)

    @property
    def root(self) -> Node:
        """The operator whose output is the query's."""
        return self.nodes[-1]

    def position(self, node: Node) -> int:
        """The position of an operator in the plan, by which its state is named."""
        return self._positions[id(node)]

    def domain(self, node: Node) -> int:
        """The place of the regrouping whose keys a node works on, or -1 for the sources' keys."""
        while not isinstance(node, Group):
            if not node.inputs:
                return -1
            node = node.inputs[0]
        return self.position(node)

    def text(self) -> str:
        """The plan, one operator per line, with form and grid of what each delivers."""
        lines = []
        for position, node in enumerate(self.nodes):
            inputs = ", ".join(f"#{self.position(source)}" for source in node.inputs)
            lines.append(f"#{position} {node.describe()}" + (f" <- {inputs}" if inputs else ""))
            lines[-1] += f"  : {describe(node.schema)}"
        return "\n".join(lines)

    @property
    def fingerprint(self) -> str:
        """A digest of the plan's text: state of another plan is refused."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]


def describe(schema: Schema) -> str:
    """A stream's form, keys and grid in a line."""
    keys = f" by {', '.join(schema.keys)}" if schema.keys else ""
    grid = f" every {schema.period} from {schema.offset}" if schema.form == "uniform" else ""
    if schema.form == "frames":
        grid = f" of {schema.size or '?'} samples every {schema.hop * schema.period}"
    how = f", {schema.interpolate}" if schema.interpolate is not None else ""
    unit = f", ticks of {tick_of(schema.unit)}" if schema.unit not in (None, TICKS) else ""
    return f"{schema.form}{grid}{keys}{how}{unit}"


class PlanExecutor:
    """One lane: the operators' states in one store. Its slot s is key (s << bits) + lane.

    With `block`, a run over a finished table: its slot s is key block[s].
    """

    def __init__(
        self,
        plan: OperatorPlan,
        store: ArrayStore,
        keys: KeyDictionary,
        lane: int = 0,
        bits: int = 0,
        block: range | None = None,
    ) -> None:
        self.plan = plan
        self.store = store
        self.lane = lane
        self.bits = bits
        self.block = block
        self._keys = keys
        self.states = [OperatorState(store, str(position)) for position in range(len(plan.nodes))]
        self._domains = [plan.domain(node) for node in plan.nodes]
        for position, node in enumerate(plan.nodes):
            if isinstance(node, Group):
                self.states[position].dictionary = KeyDictionary()
        for position in range(len(plan.nodes)):
            self.states[position].decode = self._decoder(position)

    def _decoder(self, position: int) -> Any:
        inner = self._domains[position]
        if inner == position:
            inner = self._domains[self.plan.position(self.plan.nodes[position].inputs[0])]

        def decode(slots: Array) -> list[Array]:
            if inner >= 0:
                dictionary = self.states[inner].dictionary
                assert dictionary is not None
                return dictionary.decode(slots)
            if self.block is not None:
                return self._keys.decode(slots + self.block.start)
            return self._keys.decode((slots << self.bits) | self.lane)

        return decode

    def slots(self) -> int:
        """How many slots of this lane are in use."""
        if self.block is not None:
            return len(self.block)
        return (len(self._keys) - self.lane + (1 << self.bits) - 1) >> self.bits

    def _capacity(self, position: int) -> int:
        inner = self._domains[position]
        if inner >= 0:
            dictionary = self.states[inner].dictionary
            assert dictionary is not None
            return _room(len(dictionary))
        return _room(self.slots())

    def step(self, raw: dict[str, Events], floor: int, journal: StepJournal | None) -> Any:
        """One batch per source through the plan; the root's batch comes out."""
        outputs: dict[int, Any] = {}
        for position, node in enumerate(self.plan.nodes):
            if isinstance(node, Source):
                inputs = [raw[node.name]]
            else:
                inputs = [outputs[self.plan.position(source)] for source in node.inputs]
            outputs[position] = self._run(node, inputs, floor, journal)
        return outputs[len(self.plan.nodes) - 1]

    def _run(self, node: Node, inputs: list[Any], floor: int, journal: StepJournal | None) -> Any:
        position = self.plan.position(node)
        state = self.states[position]
        state.journal = journal
        state.floor = floor
        state.last = position == len(self.plan.nodes) - 1
        state.capacity = self._capacity(position)
        return node.run(state, *inputs)

    def counters(self) -> dict[str, int]:
        """Counts of all operators together, such as rows that came too late."""
        total: dict[str, int] = {}
        for state in self.states:
            for name, count in state.counters().items():
                total[name] = total.get(name, 0) + count
        return total

    def sync(self) -> None:
        """What operators remember is written through to their stores."""
        for state in self.states:
            state.sync()

    def output(self, batch: Any) -> Columns:
        """The rows of the root's batch as columns: keys, time, payload."""
        schema = self.plan.root.schema
        decode = self.states[-1].decode
        if self._domains[-1] == len(self.plan.nodes) - 1:
            dictionary = self.states[-1].dictionary
            assert dictionary is not None
            decode = dictionary.decode
        columns: Columns = {}
        decoded = decode(batch.slots) or [np.empty(0, np.int64) for _ in schema.keys]
        for name, values in zip(schema.keys, decoded, strict=True):
            columns[name] = repeated(values, batch)
        if schema.form == "uniform" and batch.index is None:
            grid = (batch.first, batch.offsets, schema.period, schema.offset)
            columns[schema.time] = Deferred(batch.rows, lambda out: kernel.fill_times(*grid, out))
        else:
            columns[schema.time] = times(schema, batch)
        if schema.form in ("stream", "signal") and (schema.end or batch.end is not None):
            columns[schema.end or "end"] = batch.ends()
        for name, column in batch.columns.items():
            columns[name if name not in columns else f"{name}_value"] = as_array(column)
        return columns


def repeated(values: Array, batch: Any) -> Any:
    """The key of every row; integers are written where they are wanted."""
    if values.dtype != np.int64:
        return np.repeat(values, batch.counts)
    return Deferred(batch.rows, lambda out: kernel.fill_repeat(values, batch.counts, out))


def _room(slots: int) -> int:
    """State grows by doubling, so that a new key costs O(1) amortized."""
    return 0 if slots == 0 else max(16, 1 << (slots - 1).bit_length())


def empty_events(columns: Columns, interval: bool) -> Events:
    """No rows and no keys, with the columns' types."""
    none = np.empty(0, np.int64)
    return Events(
        none,
        np.zeros(1, np.int64),
        none,
        {name: column[:0] for name, column in columns.items()},
        none,
        none if interval else None,
    )


__all__ = ["NEVER", "OperatorPlan", "PlanExecutor", "empty_events"]
