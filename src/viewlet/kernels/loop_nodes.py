"""The loop language: what a trigger iterates, looks up and adds, before it is written as source.

A block is a list of nodes that run in order; a node with a body runs it for each record, or where
its condition holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from viewlet.calculus.expr import Expr
from viewlet.functions import ScalarExpr
from viewlet.kernels.identifiers import KernelNames
from viewlet.kernels.ranges import Bound, KeyTest
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.names import FreshNames
from viewlet.program.ir import Map, Program
from viewlet.program.keys import Keys
from viewlet.schema import Physical
from viewlet.storage.columns import Index


@dataclass(frozen=True)
class Named:
    """A weight in a local; a float is an element (storage.doubles).

    `nonzero`: it was tested before, or comes from a record that hardly ever is zero.
    """

    name: str
    physical: Physical
    nonzero: bool = False


@dataclass(frozen=True)
class Pure:
    """A weight computed from bound variables alone."""

    expr: Expr
    scope: Scope
    physical: Physical


Factor = Named | Pure
Factors = tuple[Factor, ...]


@dataclass
class Rows:
    """for each row of the batch: bind columns, require others to be equal, take the weight"""

    binds: list[tuple[Variable, int]]
    equal: list[tuple[Variable, int]]
    weight: str
    body: Block


@dataclass
class Get:
    """the record under a whole key, if there is one"""

    map: str
    record: str
    key: list[Variable]
    body: Block


@dataclass
class Scan:
    """for record in map: body"""

    map: str
    record: str
    body: Block


@dataclass
class Slice:
    """for record in the records of map that an index has under key: body"""

    map: str
    index: int
    record: str
    key: list[Variable]
    body: Block


@dataclass
class Run:
    """records whose bound keys determine the others: neighbors in the unique index, mostly one"""

    map: str
    parts: tuple[int, ...]
    record: str
    key: list[Variable]
    body: Block


@dataclass
class Walk:
    """counted records of a group from one end of the order, until `stop` is set

    `count_position`: of the count among the sums of the ordered index.
    """

    map: str
    index: int
    count_position: int
    record: str
    key: list[Variable]
    greatest: bool
    stop: str
    body: Block


@dataclass(frozen=True)
class SubtreeSum:
    """A local for a sum of an ordered index, and its position there."""

    name: str
    physical: Physical
    position: int


@dataclass
class IfMonotone:
    """body where no weight of a group is negative, otherwise `otherwise`

    `count_positions`: of the counts of negative weights among the sums of the ordered index.
    `of_finite_keys`: body where all keys that order the index are finite.
    """

    map: str
    index: int
    key: list[Variable]
    count_positions: list[int]
    body: Block
    otherwise: Block
    of_finite_keys: bool = False


@dataclass
class Border:
    """name = the key of a group where the sums over all keys beyond it make a condition turn

    The condition is true of large sums if `rises`, else of small ones. `upper`: it is met up to
    the border, else from there on. Beside the name it defines NAME_some, whether any key meets it,
    and NAME_in, whether the border itself does.
    """

    name: str
    map: str
    index: int
    key: list[Variable]
    sums: list[tuple[Variable, SubtreeSum]]
    operator: str
    tests: tuple[ScalarExpr, ...]
    rises: bool
    upper: bool
    scope: Scope


@dataclass(frozen=True)
class AtBorder:
    """key <= border, or key >= border: as the Border of this name has found"""

    name: str
    upper: bool


@dataclass
class Range:
    """sums over the keys that satisfy all bounds; of all others, if `outside`

    The group is that of `key`, or the one whose tree has its root at the node `root`.
    """

    sums: list[SubtreeSum]
    map: str
    index: int
    key: list[Variable]
    root: str | None
    bounds: list[Bound | KeyTest | AtBorder]
    outside: bool
    scope: Scope


@dataclass
class Groups:
    """the root of each group of an ordered index, one after the other"""

    map: str
    index: int
    root: str
    record: str
    body: Block


@dataclass
class BindKey:
    """variable = a key column of a record"""

    variable: Variable
    map: str
    position: int
    record: str


@dataclass
class MatchKey:
    """only where a key column of a record is the same as a variable"""

    variable: Variable
    map: str
    position: int
    record: str
    body: Block


@dataclass
class Column:
    """name = a value column of a record; `body` only where it is not zero"""

    name: str
    map: str
    column: int
    record: str
    body: Block


@dataclass
class Present:
    """only where a record is there: some value is not zero"""

    map: str
    record: str
    body: Block


@dataclass
class Let:
    """variable = scalar"""

    variable: Variable
    scalar: ScalarExpr
    scope: Scope


@dataclass
class Repeat:
    """for variable in 1, 2, ... up to scalar: body"""

    variable: Variable
    scalar: ScalarExpr
    scope: Scope
    body: Block


@dataclass
class TakeBorder:
    """variable = the key of a border; NULL where no key is beyond it, `body` where all are"""

    variable: Variable
    border: str
    body: Block


@dataclass
class StopUnless:
    """if scalar: body, else the end of the Walk that looks at `stop`"""

    scalar: ScalarExpr
    scope: Scope
    stop: str
    body: Block


@dataclass
class If:
    """if scalar: body"""

    scalar: ScalarExpr
    scope: Scope
    body: Block


@dataclass
class NotNull:
    """if variable is not NULL: body"""

    variable: Variable
    body: Block


@dataclass
class Total:
    """name = 0, then whatever the body adds to it"""

    name: str
    physical: Physical
    body: Block


@dataclass
class AddTo:
    """name += the product of the factors"""

    name: str
    physical: Physical
    factors: Factors


@dataclass
class LetTotal:
    """variable = the weight that was added up, rounded once"""

    variable: Variable
    name: str
    physical: Physical


@dataclass
class IfTotal:
    """where the weight that was added up is not zero"""

    name: str
    physical: Physical
    body: Block


@dataclass
class StartExtreme:
    """variable = NULL, before an extreme is looked for"""

    variable: Variable


@dataclass
class TakeNearer:
    """variable = candidate where that is nearer to the wanted end; `stop` ends a Walk"""

    variable: Variable
    candidate: Variable
    greatest: bool
    stop: str | None


@dataclass
class ValueChange:
    """variable = new with weight 1, then variable = old with weight -1; nothing where they agree"""

    variable: Variable
    weight: str
    new: Variable
    old: Variable
    body: Block


@dataclass
class TestChange:
    """weight = 1 where `old` is zero and `new` is not, -1 the other way round; else nothing

    Both are weights that were added up.
    """

    weight: str
    new: Named
    old: Named
    body: Block


@dataclass
class ClearBuffer:
    """Every record of a buffer is removed."""

    map: str


@dataclass
class ClearColumn:
    """a value column becomes zero in all records"""

    map: str
    column: int


@dataclass
class Update:
    """map[key].column += product of factors, for each column"""

    map: str
    key: list[Variable]
    columns: list[tuple[int, Physical, Factors]]


_Access = Rows | Get | Scan | Slice | Run | Walk | IfMonotone | Border | Range | Groups | BindKey
_Row = MatchKey | Column | Present | Let | Repeat | StopUnless | TakeBorder | If | NotNull
_Value = Total | AddTo | LetTotal | IfTotal | StartExtreme | TakeNearer | ValueChange
_More = TestChange | ClearBuffer | ClearColumn | Update
Node = _Access | _Row | _Value | _More
Block = list[Node]


@dataclass(frozen=True)
class Step:
    """A part of a trigger that runs to its end before the next one starts.

    `reads` are the maps that it looks into. Updates of its targets are counted, to go on after
    Python has made room. `statements` are the positions of those of the trigger that it is for.
    """

    text: str
    targets: tuple[str, ...]
    block: Block
    reads: frozenset[str] = frozenset()
    statements: frozenset[int] = frozenset()


@dataclass
class Loops:
    """All triggers of a program as steps, and the indexes that their accesses ask for.

    `phases` has the same steps for the batch shape: lanes of a phase may run at the same time
    (kernels.lanes).
    """

    program: Program
    maps: dict[str, Map]
    keys: Keys
    steps: dict[str, list[Step]] = field(default_factory=dict)
    by_row: set[str] = field(default_factory=set)
    """Relations whose batches are taken row by row (kernels.alone)."""
    phases: dict[str, list[list[list[Step]]]] = field(default_factory=dict)
    indexes: dict[str, list[Index]] = field(default_factory=dict)
    columns: dict[str, set[int]] = field(default_factory=dict)
    hashed: dict[str, frozenset[str]] = field(default_factory=dict)
    probed: set[str] = field(default_factory=set)
    """Maps that are looked into by whole keys."""
    small: dict[str, set[frozenset[int]]] = field(default_factory=dict)
    """Positions of keys whose groups have few records, for each map (Keys.small_groups)."""
    names: KernelNames = field(default_factory=KernelNames)
    map_names: FreshNames = field(default_factory=FreshNames)
    """Of the program's maps, of buffers that loops need, and of memos."""
    batch_locals: dict[str, FreshNames] = field(default_factory=dict)
    single_locals: dict[str, FreshNames] = field(default_factory=dict)
    """The locals that the steps of each relation's trigger use, in both shapes."""

    def __post_init__(self) -> None:
        """All names of the program are given before any other."""
        for map in self.maps:
            self.names.map(map)
        for trigger in self.program.triggers:
            self.names.trigger(trigger.relation)
        self.map_names.reserve(self.maps)

    def ordered(self, relation: str) -> list[Step]:
        """The steps of the batch shape in the order in which one core runs them."""
        return [step for phase in self.phases[relation] for lane in phase for step in lane]

    def lanes(self, relation: str) -> list[list[tuple[int, int]]]:
        """For each phase its lanes, as ranges of `ordered` steps."""
        ranges: list[list[tuple[int, int]]] = []
        first = 0
        for phase in self.phases[relation]:
            ranges.append([])
            for lane in phase:
                ranges[-1].append((first, first + len(lane)))
                first += len(lane)
        return ranges

    def determines(self, map: str, bound: frozenset[str]) -> bool:
        """Whether the unique index of a map can be hashed by some of the bound keys alone."""
        if self.keys.knows(map) and map not in self.hashed and self.keys.determine(map, bound):
            self.hashed[map] = self.keys.determinant(map, bound)
        return self.hashed.get(map, frozenset(self.maps[map].key_names)) <= bound

    def hash_parts(self, map: str) -> tuple[int, ...]:
        """The positions of the key columns that the unique index of a map hashes.

        A Run ends at an empty slot, and so does the search for a key of which only the hashed part
        is there. Keys of one word fall side by side (memory.spread), so dense ones would make it
        a run of some blocks of them; hashed twice they are scattered.
        """
        names = self.maps[map].key_names
        chosen = self.hashed.get(map)
        if chosen is None:
            chosen = self.keys.determinant(map) if self.keys.knows(map) else frozenset(names)
        parts = tuple(i for i, name in enumerate(names) if name in chosen)
        searched = map in self.hashed or (map in self.probed and len(names) > 1)
        return parts * 2 if searched and len(parts) == 1 else parts
