"""The state array of a program, and the control words: what a kernel is given.

control    which steps of a trigger to run and where it stands, so that it can go on after Python
           has made room; steps that run at the same time have control words of their own, all
           others use the ones that begin the state array
batch      which rows, and where their weights are
columns    addresses of the running batch's columns and null masks
tables     addresses of the lookup tables over strings, and of their null masks
constants  the codes of the program's string constants
missing    the arguments for which a memo has no value yet
maps       one descriptor each (storage.columns)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.kernels.loop_nodes import Loops
from viewlet.kernels.scalar_source import Texts
from viewlet.program.ir import Map
from viewlet.schema import Physical
from viewlet.storage.columns import TREE, KeyField, Layout

FLOAT = Physical.FLOAT

STEP = 0  # the trigger's steps to run: STEP .. LAST - 1
ROW = 1  # the outer row to start from, -1 for the first
SKIP = 2  # updates of that row that are done already
LAST = 3
FULL = 4  # number of the map that had no room

LOW = 5  # the batch's rows: LOW .. HIGH - 1
HIGH = 6
WEIGHTS = 7  # address of the rows' weights
RANKS = 8  # address of the ranks of strings by code
COLUMNS = 9

_ALL_STEPS = 1 << 30


def control_words(first: int = 0, last: int = _ALL_STEPS) -> tuple[int, ...]:
    """STEP, ROW, SKIP, LAST and FULL, before some steps run."""
    return first, -1, 0, last, 0


@dataclass
class Frame:
    """Where everything is in the state array."""

    loops: Loops
    texts: Texts
    layouts: dict[str, Layout] = field(init=False)
    maps: list[str] = field(init=False)
    offsets: dict[str, int] = field(init=False)
    size: int = field(init=False)
    functions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layouts = {name: _layout(map, self.loops) for name, map in self.loops.maps.items()}
        for memo in self.texts.memos:
            keys = tuple(KeyField(slot.physical, slot.nullable) for _, slot in memo.arguments)
            value = FLOAT if memo.physical is FLOAT else Physical.INT
            self.layouts[memo.name] = Layout(memo.name, keys, (Physical.INT, value))
        at = self.missing + max((len(memo.arguments) for memo in self.texts.memos), default=0) * 2
        self.maps = list(self.layouts)
        self.offsets = {}
        for name, layout in self.layouts.items():
            self.offsets[name] = at
            at += layout.descriptor_words
        self.size = at

    def function(self, kind: str, text: str) -> str:
        """The name of the function with these parameters and this body."""
        if text not in self.functions:
            self.functions[text] = self.loops.names.descent(kind, len(self.functions))
        return self.functions[text]

    def called(self, map: str) -> str:
        """What the parts of a map are called after: M of map_M, records_M and so on."""
        return self.loops.names.map(map)

    def descriptor(self, map: str) -> str:
        """Source of the address of a map's descriptor."""
        return f"map_{self.called(map)}"

    def index_block(self, map: str, index: int) -> str:
        """Source of the address of the block that describes an index of a map."""
        return f"{self.descriptor(map)} + {8 * self.layouts[map].block(index)}"

    def number(self, map: str) -> int:
        """The map's number; a memo found while writing has none before the second time."""
        return self.maps.index(map) if map in self.layouts else -1

    def stride(self, map: str) -> int:
        """Bytes of a record of the map."""
        return 8 * self.layouts[map].width if map in self.layouts else 0

    def is_ordered(self, map: str) -> bool:
        """Whether the map has an ordered index."""
        return any(index.kind == TREE for index in self.layouts[map].indexes)

    @property
    def missing(self) -> int:
        """The first word of the arguments for which a kernel found no memo."""
        return self.constants + len(self.texts.constants)

    @property
    def tables(self) -> int:
        """The first word of the tables of string functions, after the batch's columns."""
        widest = max((len(r.columns) for r in self.loops.program.relations), default=0)
        return COLUMNS + 2 * widest

    @property
    def constants(self) -> int:
        """The first word of the codes of constant strings."""
        return self.tables + 2 * len(self.texts.lookups)


def _layout(map: Map, loops: Loops) -> Layout:
    return Layout(
        map.name,
        tuple(KeyField(key.slot.physical, key.slot.nullable) for key in map.keys),
        tuple(column.physical for column in map.columns),
        tuple(loops.indexes.get(map.name, ())),
        loops.hash_parts(map.name),
    )
