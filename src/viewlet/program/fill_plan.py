"""How a new program comes by its contents after an old one: a plan that every engine executes.

    moved     the old program kept the same sums, under whatever names: they are copied
    derived   put together from old maps, because the rows of a stream have passed
    filled    from the rows of tables: the triggers of `loader`, a part of the new program, run over
              them, from nothing
    empty     rows are still to come; what the definition says of nothing, and of static tables

Views of the old program that the new one maintains in another way must be current: refreshed, and
with nothing pending. What a view computes on read is no part of the plan: the first read fills it.

A stream is not kept, and a view sees only rows that arrive after it: `ended` are the epochs of
streams of which rows have come already, which live in maps of the old program and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from viewlet.calculus.expr import ZERO, Expr, MapRef, Rel, relations, transform, walk
from viewlet.errors import StateError
from viewlet.program.deferral import at_once, deferred_relations
from viewlet.program.ir import Map, Program
from viewlet.program.prune import part_of
from viewlet.program.stored_columns import StoredColumns

Ended = Mapping[str, str]
"""The epochs of streams that are over, as programs call them, each with its stream's name."""


class How(Enum):
    """Where the contents of a map come from."""

    MOVED = "moved"
    DERIVED = "derived"
    FILLED = "filled"
    EMPTY = "empty"


@dataclass(frozen=True)
class MapFill:
    """One map of the new program.

    `columns`: of a moved or derived map, each column with what it is in terms of old maps and
    tables; a MapRef whose keys are the new map's is an old column as it stands.
    """

    map: Map
    how: How
    reason: str
    columns: tuple[tuple[str, Expr], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it is a map of the old program as it stands, under the same name."""
        return self.how is How.MOVED and all(
            source == MapRef(self.map.name, column, self.map.key_names)
            for column, source in self.columns
        )

    def copies(self) -> Iterator[tuple[str, MapRef]]:
        """The columns that are an old map's as they stand, in another order of keys maybe."""
        for column, source in self.columns:
            if isinstance(source, MapRef) and sorted(source.keys) == sorted(self.map.key_names):
                yield column, source

    def evaluated(self) -> Iterator[tuple[str, Expr]]:
        """The columns that are computed from several old ones."""
        copied = {column for column, _ in self.copies()}
        return ((column, source) for column, source in self.columns if column not in copied)


@dataclass(frozen=True)
class FillPlan:
    """What an engine does to fill a new program; `loader` has no maps where no rows are needed."""

    maps: tuple[MapFill, ...]
    program: Program
    """The new one, with the names of tables in the place of relations that come to be deferred."""
    whole: Program
    """The same with all maps and triggers, where the new one does without some."""
    loader: Program
    tables: tuple[str, ...]
    """Whose rows the loader is given, one after the other."""

    @cached_property
    def loaded(self) -> frozenset[str]:
        """The maps whose contents come from the loader."""
        return frozenset(map.name for map in self.loader.maps if not map.buffer)

    @property
    def loads_all(self) -> bool:
        """Whether the loader is the new program itself: nothing is moved into it."""
        is_whole = self.program == self.whole and bool(self.tables)
        return is_whole and all(fill.map.name in self.loaded for fill in self.maps)

    @property
    def static(self) -> frozenset[str]:
        """The tables that are all that definitions see before the first row."""
        return frozenset(r.name for r in self.loader.relations if r.static)

    def loaded_columns(self) -> Iterator[tuple[Map, str, MapRef]]:
        """Each column of the loader's lasting maps as the source of the same in the new program."""
        filled = {fill.map.name for fill in self.maps}
        for map in self.loader.maps:
            if map.name in filled:
                for column in map.columns:
                    yield map, column.name, MapRef(map.name, column.name, map.key_names)

    def initial(self) -> Iterator[Map]:
        """The maps that have what their definitions say of static tables and nothing else."""
        for fill in self.maps:
            if fill.how in (How.FILLED, How.EMPTY) and fill.map.name not in self.loaded:
                yield fill.map


def fill_plan(
    old: Program,
    new: Program,
    stored_tables: Collection[str],
    ended: Ended,
    whole: Program | None = None,
) -> FillPlan:
    """Where each map of `new` comes from; `stored_tables` keep their rows.

    `whole` has all maps and triggers, where `new` does without some: what fills a map may be among
    these. StateError if a map needs rows of a stream that came earlier and were not stored.
    """
    later = deferred_relations(old).keys() & deferred_relations(new).keys()
    whole = at_once(whole, later) if whole is not None and whole != new else None
    planner = _FillPlanner(at_once(old, later), at_once(new, later), stored_tables, ended, whole)
    return planner.plan()


def stored_relations(program: Program, tables: Collection[str]) -> dict[str, str]:
    """r@v -> r for what deferred views read of the tables."""
    originals = deferred_relations(program)
    return {name: original for name, original in originals.items() if original in tables}


def relations_behind(program: Program) -> Callable[[Map], frozenset[str]]:
    """The relations that a map is made of, those of inner views included."""
    return _Reads(program).of


def fill_text(plan: FillPlan) -> str:
    """One line for each map, and what the loader runs over."""
    lines = [
        f"{fill.how.value:8}{fill.map.name}[{', '.join(fill.map.key_names)}]: {fill.reason}"
        for fill in plan.maps
    ]
    if plan.tables:
        lines.append(f"load    {', '.join(plan.tables)} into {', '.join(sorted(plan.loaded))}")
    return "\n".join(lines) + "\n"


def check_rebuildable(program: Program, ended: Ended, directory: str) -> None:
    """StateError if saved maps cannot be read and rows of streams, which nobody kept, are needed.

    Maps over tables alone follow from the tables' rows, which every version reads.
    """
    reads = _Reads(program)
    lost = {ended[name] for map in program.maps for name in reads.of(map) if name in ended}
    if lost:
        raise StateError(
            f"the maps in {directory} are of another version of viewlet, and only they have what "
            f"came of the streams {', '.join(sorted(lost))}",
            hint="restore with the version that wrote it, or drop the views over these streams "
            "there and save again; tables can always be read",
        )


class _Reads:
    """The relations behind definitions, through the maps of inner views that these name."""

    def __init__(self, program: Program) -> None:
        self._maps = {map.name: map for map in program.maps}
        self._relations_of: dict[str, frozenset[str]] = {}

    def of(self, map: Map) -> frozenset[str]:
        if map.name not in self._relations_of:
            definitions = (c.definition for c in map.columns if c.definition is not None)
            behind = (self.behind(definition) for definition in definitions)
            self._relations_of[map.name] = frozenset[str]().union(*behind)
        return self._relations_of[map.name]

    def behind(self, expr: Expr) -> frozenset[str]:
        inner = {node.name for node in walk(expr) if isinstance(node, MapRef)}
        inner_relations = (self.of(self._maps[name]) for name in inner if name in self._maps)
        return relations(expr).union(*inner_relations)


class _FillPlanner:
    """Decides map by map; see the module's head."""

    def __init__(
        self,
        old: Program,
        new: Program,
        stored_tables: Collection[str],
        ended: Ended,
        whole: Program | None = None,
    ) -> None:
        self._new = new
        self._whole = new if whole is None else whole
        self._stored_tables = stored_tables
        # A deferred view's own relation of a stream has got rows where the stream has.
        later = deferred_relations(new)
        self._ended = {**ended, **{n: ended[o] for n, o in later.items() if o in ended}}
        self._old_maps = {map.name for map in old.maps}
        self._reads = _Reads(self._whole)
        # A table that lost its rows takes along what was made of them.
        emptied = {
            r.name
            for r in old.relations
            if not r.is_stream and (r.original or r.name) not in stored_tables
        }
        before = _Reads(old)
        stale = {map.name for map in old.maps if before.of(map) & emptied}
        stale |= old.on_read & new.on_read  # nobody has asked for what they would be now
        self._stored_columns = StoredColumns(old, stale)
        self._streams = {r.name for r in new.relations if r.is_stream} - self._ended.keys()
        self._static = {r.name for r in new.relations if r.static}

    def plan(self) -> FillPlan:
        lasting = [m for m in self._new.maps if not m.buffer and m.name not in self._new.on_read]
        sources = {map.name: self._sources(map) for map in lasting}
        new = {m.name for m in lasting if None in sources[m.name].values()}
        over_ended = {m.name for m in lasting if self._reads.of(m) & self._ended.keys()}
        rows = {m.name for m in lasting if m.name in new and self._has_rows(m)}
        loader = self._part(rows - over_ended)
        by_definition: set[str] = set()
        if self._touches(loader, over_ended):
            # What is maintained from a map over an ended stream is computed by definition.
            by_definition = {name for name in rows if self._touches(self._part({name}), over_ended)}
            loader = self._part(rows - over_ended - by_definition)
        tables = tuple(
            relation.name
            for relation in loader.relations
            if relation.name in self._stored_tables and loader.trigger(relation.name) is not None
        )
        if not tables:
            loader = self._part(())
        loaded = {map.name for map in loader.maps}
        fills = [
            self._fill(
                map, sources[map.name], loaded, map.name in (new & over_ended) | by_definition
            )
            for map in lasting
        ]
        return FillPlan(tuple(fills), self._new, self._whole, loader, tables)

    @staticmethod
    def _touches(part: Program, maps: Collection[str]) -> bool:
        return any(map.name in maps for map in part.maps)

    def _part(self, maps: Collection[str]) -> Program:
        return part_of(self._whole, maps=maps)

    def _sources(self, map: Map) -> dict[str, Expr | None]:
        """Each column in terms of old maps; None where they do not say it and tables may."""
        sources: dict[str, Expr | None] = {}
        for column in map.columns:
            if column.definition is not None:
                source: Expr | None = self._stored_columns.find(column.definition, map.key_names)
                if source is None and self._reads.behind(column.definition) & self._ended.keys():
                    source = self._rewritten(column.definition)
                sources[column.name] = source
        return sources

    def _rewritten(self, definition: Expr) -> Expr:
        """The definition over old maps, in which alone the rows of streams are left."""
        rewritten = self._stored_columns.rewrite(definition)
        inner = {node.name for node in walk(rewritten) if isinstance(node, MapRef)} - self._old_maps
        behind = (self._reads.of(self._whole.map(name)) for name in inner)
        lost = relations(rewritten).union(*behind) & self._ended.keys()
        if lost:
            shown = ", ".join(sorted({self._ended[name] for name in lost}))
            raise StateError(
                f"rows of stream {shown} have passed and were not kept",
                hint="create the view before the stream's first rows, or declare a TABLE",
            )
        return rewritten

    def _has_rows(self, map: Map) -> bool:
        """Whether rows of tables are in it before the first row of a stream comes.

        Sum[k](r(k, x) * s(x)) -> 0  where s is a stream of which nothing has come.
        """
        return any(
            self._reads.behind(without) & set(self._stored_tables) - self._static
            for column in map.columns
            if column.definition is not None
            for without in [transform(column.definition, self._before_rows)]
            if without != ZERO
        )

    def _before_rows(self, node: Expr) -> Expr:
        return ZERO if isinstance(node, Rel) and node.name in self._streams else node

    def _fill(
        self,
        map: Map,
        sources: dict[str, Expr | None],
        loaded: Collection[str],
        by_definition: bool,
    ) -> MapFill:
        behind = self._reads.of(map)
        streams = sorted(behind & self._streams)
        tables = sorted(behind & set(self._stored_tables))
        if map.name in loaded and tables:
            new = [column for column, source in sources.items() if source is None]
            why = f"new: {', '.join(new)}" if new else "what is new is maintained from it"
            return MapFill(map, How.FILLED, f"from rows of {', '.join(tables)}; {why}")
        if map.name not in loaded and (by_definition or None not in sources.values()):
            definitions = {c.name: c.definition for c in map.columns if c.definition is not None}
            columns = [
                (column, definitions[column] if source is None else source)
                for column, source in sources.items()
            ]
            return _from_old_maps(map, tuple(columns))
        if streams:
            return MapFill(map, How.EMPTY, f"no row of {', '.join(streams)} has come")
        static = sorted(behind & self._static)
        if static:
            return MapFill(map, How.FILLED, f"by its definition over static {', '.join(static)}")
        return MapFill(map, How.EMPTY, f"{', '.join(sorted(behind))} had no rows")


def _from_old_maps(map: Map, columns: tuple[tuple[str, Expr], ...]) -> MapFill:
    moved = MapFill(map, How.MOVED, "", columns)
    same = [source.name for column, source in moved.copies() if source.column == column]
    if len(same) == len(columns) and len(set(same)) == 1:
        reason = f"from {same[0]}"
    else:
        reason = "; ".join(f"{column} from {_shown(source)}" for column, source in columns)
    how = How.DERIVED if any(moved.evaluated()) else How.MOVED
    return replace(moved, how=how, reason=reason)


def _shown(source: Expr) -> str:
    """The old columns and tables that an expression reads, in words of the reason."""
    read = {f"{n.name}.{n.column}" for n in walk(source) if isinstance(n, MapRef)}
    return " and ".join(sorted(read | relations(source)))
