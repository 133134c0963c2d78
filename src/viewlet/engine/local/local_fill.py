"""A new program's maps in one process, as a fill plan says: copied, loaded or computed."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache

from viewlet.calculus.database import Atoms, RelationReader
from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import MapRef
from viewlet.calculus.ring import Gmr
from viewlet.engine.host.map_words import words_of_map
from viewlet.engine.host.stored_tables import TableSource, text_columns
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.local.view_reader import database_of
from viewlet.engine.values.batching import Batch, weighted_rows
from viewlet.engine.values.strings import Translation
from viewlet.kernels.jit import check_kernels
from viewlet.program.check import check
from viewlet.program.fill_plan import FillPlan
from viewlet.program.interpret import defined_contents, with_defined_maps
from viewlet.program.ir import Map, Program
from viewlet.program.static_maps import StaticPlanner
from viewlet.schema import Physical, Relation
from viewlet.storage.columns import MemoryArrays

_FEW_ROWS = 2_000
"""Of tables, from which definitions are evaluated as they stand: some 50 microseconds each."""


def filled(
    program: Program,
    plan: FillPlan,
    old: LocalEngine,
    tables: Mapping[str, TableSource],
    plan_static: StaticPlanner | None = None,
) -> LocalEngine:
    """An engine of the program with the contents that the plan says.

    `old` and `tables` are what it is filled from; they stay as they are. `plan_static` says how
    large static tables are loaded by triggers: without it definitions are evaluated.
    """
    new = LocalEngine(program, dictionary=old.dictionary if _moves_strings(plan) else None)
    check_kernels(new.module)
    is_worth_compiling = sum(len(tables[name]) for name in plan.tables) > _FEW_ROWS
    if plan.loads_all and is_worth_compiling and plan.program is program:
        load(new, tables, plan_static)
        return new
    new.host.begin(logged=False)
    adopted = _adoptable(new, plan, old)
    _move(new, plan, old, tables, adopted)
    fill_initial(new, plan.whole, list(plan.initial()), tables, plan_static)
    if is_worth_compiling:
        # In an engine of its own: beside full maps its triggers would count what is there already.
        loader = LocalEngine(check(plan.loader))
        load(loader, tables, plan_static)
        translate = Translation(loader.dictionary, new.dictionary)
        for map, column, source in plan.loaded_columns():
            _copy(new, map, column, loader, source, translate)
    else:
        all_rows = Atoms(relations=_rows_of(tables, tables))
        loaded = {map.name for map, _, _ in plan.loaded_columns()}
        for map, column, contents in defined_contents(plan.loader, all_rows):
            if map.name in loaded:
                new.add(map.name, column, contents)
    new.host.commit()
    # Last, when nothing can fail any more: the old engine is of no use without them.
    old.host.commit()
    for name in adopted:
        new.host.pools[name].adopt(old.host.pools[name])
    return new


def _moves_strings(plan: FillPlan) -> bool:
    """Whether whole maps go over that have strings in their keys: their codes must stay."""
    return any(
        key.slot.physical is Physical.STR
        for fill in plan.maps
        if fill.is_whole
        for key in fill.map.keys
    )


def _adoptable(new: LocalEngine, plan: FillPlan, old: LocalEngine) -> frozenset[str]:
    """The maps whose arrays go over as they are, instead of record by record."""
    if not isinstance(old.arrays, MemoryArrays):
        return frozenset()
    return frozenset(
        fill.map.name
        for fill in plan.maps
        if fill.is_whole and _lies_alike(new, old, fill.map.name)
    )


def _lies_alike(new: LocalEngine, old: LocalEngine, map: str) -> bool:
    is_same_layout = old.host.pools[map].layout == new.host.pools[map].layout
    return is_same_layout and old.reader.columns(map) == new.reader.columns(map)


def _move(
    new: LocalEngine,
    plan: FillPlan,
    old: LocalEngine,
    tables: Mapping[str, TableSource],
    adopted: Container[str],
) -> None:
    """Fill maps from those of the program before, but for those that are adopted as they are."""
    translate = Translation(old.dictionary, new.dictionary)
    old_maps = {map.name for map in old.program.maps}
    sources = database_of(old.reader, relations=_rows_of(tables, tables))
    database = with_defined_maps(plan.whole, sources, old_maps)
    for fill in plan.maps:
        if fill.map.name in adopted:
            continue
        for column, source in fill.copies():
            _copy(new, fill.map, column, old, source, translate)
        for column, expr in fill.evaluated():
            new.add(fill.map.name, column, evaluate(expr, fill.map.key_names, database))


def load(
    engine: LocalEngine,
    tables: Mapping[str, TableSource],
    plan_static: StaticPlanner | None = None,
) -> None:
    """Fill all maps of an empty engine from the tables' rows, as if these had just come."""
    batches = {}
    for relation in engine.program.relations:
        table = tables.get(relation.name)
        if table is not None and not relation.static:
            used = engine.reads(relation.name)
            translate = Translation(table.dictionary, engine.dictionary)
            batches[relation.name] = translated(relation, table.coded(used), translate, used)
    program = engine.program
    maps = [map for map in program.maps if not map.buffer]
    engine.load(batches, lambda: fill_initial(engine, program, maps, tables, plan_static))


def fill_initial(
    engine: LocalEngine,
    program: Program,
    maps: Sequence[Map],
    tables: Mapping[str, TableSource],
    plan_static: StaticPlanner | None,
) -> None:
    """Put into some maps what their definitions say of static tables and nothing else.

    Of large tables by triggers, in an engine of their own; of small ones from the definitions.
    """
    static = {r.name for r in program.relations if r.static and r.name in tables}
    names = {map.name for map in maps}
    chosen = {(map.name, column.name) for map in maps for column in map.columns}
    if plan_static is not None and sum(len(tables[name]) for name in static) > _FEW_ROWS:
        plan = plan_static(program, maps)
        if plan is not None:
            loader = LocalEngine(check(plan.program))
            load(loader, {name: tables[name] for name in static})
            translate = Translation(loader.dictionary, engine.dictionary)
            for map, column, source in plan.sources:
                _copy(engine, map, column, loader, source, translate)
            chosen = set(plan.others)
            names = {name for name, _ in chosen}
    if not chosen:
        return
    before_rows = Atoms(relations=_rows_of(tables, static))
    for map, column, contents in defined_contents(program, before_rows):
        if map.name in names and (map.name, column) in chosen:
            engine.add(map.name, column, contents)


def translated(
    relation: Relation, coded: Batch, translate: Translation, used: Container[int]
) -> Batch:
    """A batch in codes of the engine's strings -> in those of a program, where it reads them."""
    columns = list(coded.columns)
    for i in text_columns(relation):
        if i in used:
            columns[i] = translate(columns[i])
    return Batch(columns, coded.nulls, coded.weights, coded=True)


def _rows_of(tables: Mapping[str, TableSource], chosen: Container[str]) -> RelationReader:
    """The rows of some tables, each read when it is asked for; other relations are empty."""

    @cache
    def rows(name: str) -> Gmr:
        table = tables.get(name) if name in chosen else None
        return Gmr(weighted_rows(table.relation, table.batch()) if table is not None else ())

    return rows


def _copy(
    new: LocalEngine,
    map: Map,
    column: str,
    old: LocalEngine,
    source: MapRef,
    translate: Translation,
) -> None:
    """map[k].column += source[k], words as they are but for the codes of strings."""
    order: Sequence[int] = [source.keys.index(name) for name in map.key_names]
    words = words_of_map(
        new.host.pools[map.name].layout,
        [new.reader.position(map.name, column)],
        old.host.pools[source.name],
        [old.reader.position(source.name, source.column)],
        order,
        translate,
    )
    new.host.add(map.name, words)
