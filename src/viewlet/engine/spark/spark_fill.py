"""A new program's partitions filled as a plan says, from those of the old one; no row of a table
or of a large map passes the driver.

    tables          old partitions -> new ones, in place
    moved maps      old partitions -> new ones, in place or by a shuffle
    filled maps     a cluster for the loader alone runs its triggers over the tables' rows, as
                    batches where they lie -> new partitions, in place or by a shuffle
    what definitions say of static tables and of nothing, and derived maps: from the driver

All of it is one version of the new partitions, the first. Until the definitions name the new
program, a restart knows only the old one. A change log begins with the rows that were put, so
that a partition lost later needs neither the old program nor the loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from typing import Any

from viewlet.calculus.database import Atoms
from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.ring import Gmr
from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.spark.chunks import Message
from viewlet.engine.spark.conductor import Conductor
from viewlet.engine.spark.shipment import MapShipment, Shipment, is_copartitioned, shipments
from viewlet.engine.values.batching import weighted_rows
from viewlet.program.fill_plan import FillPlan, MapFill
from viewlet.program.interpret import defined_contents, with_defined_maps
from viewlet.program.ir import Map, Program

LoaderOf = Callable[[Program], AbstractContextManager[Conductor]]
"""A conductor of partitions that last while a part of a program is loaded."""


def fill(new: Conductor, plan: FillPlan, old: Conductor | None, loader_of: LoaderOf) -> None:
    """Bring empty partitions to where the old ones are, as one version."""
    new.scatter(_contents(new.program, plan, old))
    if old is not None:
        with ExitStack() as stack:
            sources = [(old, _moves(plan, old, new))]
            tables = unchanged_tables(old, new)
            if plan.loads_all:
                _load(new, plan, old)
                tables = [name for name in tables if name not in plan.tables]
            elif plan.tables:
                loader = stack.enter_context(loader_of(plan.loader))
                _load(loader, plan, old)
                loaded = shipments(list(plan.loaded_columns()), loader.plan, new.plan)
                sources.append((loader, loaded))
            _put(new, tables, sources, stack)
    cluster_of(new).commit()


def cluster_of(conductor: Conductor) -> Cluster:
    """The partitions on Spark that a conductor runs."""
    assert isinstance(conductor.steps, Cluster)
    return conductor.steps


def _load(loader: Conductor, plan: FillPlan, old: Conductor) -> None:
    """Run triggers over the tables, each as one batch of the partitions' own rows.

    Partitions that keep the tables themselves take them in at the same time.
    """
    loader.scatter(_defined(loader.program, old))
    for name in plan.tables:
        loader.compile([name])
        request = Shipment(tables=((name, tuple(loader.columns_sent(name))),))
        with cluster_of(old).exported(request, is_copartitioned=True) as rows:
            loader.load(name, rows)


def _put(
    new: Conductor,
    tables: Sequence[str],
    sources: Sequence[tuple[Conductor, list[MapShipment]]],
    stack: ExitStack,
) -> None:
    """Tables of the first source and maps of all -> the new partitions, in one step.

    What the driver has goes in another.
    """
    scattered = [Message() for _ in range(new.steps.partitions)]
    new.node.begin(logged=False)
    exports: list[Any] = []
    if tables:
        request = Shipment(tables=tuple((name, None) for name in tables))
        first, _ = sources[0]
        exports.append(
            stack.enter_context(cluster_of(first).exported(request, is_copartitioned=True))
        )
    for source, maps in sources:
        for map in maps:
            if map.route.source in source.plan.driver.homes:
                new.deliver(map.sent(source.node, DRIVER, len(scattered)), scattered)
        remote = [map for map in maps if map.route.source in source.plan.workers.homes]
        copartitioned = [map for map in remote if is_copartitioned(map, source.plan)]
        cluster = cluster_of(source)
        if copartitioned:
            request = Shipment(tuple(copartitioned))
            exports.append(stack.enter_context(cluster.exported(request, is_copartitioned=True)))
        if shuffled := [map for map in remote if map not in copartitioned]:
            request = Shipment(tuple(shuffled))
            exports.append(stack.enter_context(cluster.exported(request, is_copartitioned=False)))
    new.put_scattered(scattered)
    if exports:
        new.put(cluster_of(new).joined(exports))


def unchanged_tables(old: Conductor, new: Conductor) -> list[str]:
    """The tables that both programs declare alike: their rows stay."""
    return [name for name, table in new.tables.items() if old.tables.get(name) == table]


def _moves(plan: FillPlan, old: Conductor, new: Conductor) -> list[MapShipment]:
    copies = [(fill.map, column, source) for fill in plan.maps for column, source in fill.copies()]
    return shipments(copies, old.plan, new.plan)


# --- what the driver evaluates --------------------------------------------------------------------


def _contents(
    program: Program, plan: FillPlan, old: Conductor | None
) -> Iterator[tuple[Map, str, Gmr]]:
    """What definitions say before the first row, and columns that several old ones make up."""
    initial = {map.name for map in plan.initial()}
    for map, column, contents in _defined(program, old):
        if map.name in initial:
            yield map, column, contents
    for fill in plan.maps:
        yield from _derived(fill, program, old)


def _defined(program: Program, old: Conductor | None) -> Iterator[tuple[Map, str, Gmr]]:
    static = [relation.name for relation in program.relations if relation.static]
    return defined_contents(program, _sources(old, static))


def _derived(
    fill: MapFill, program: Program, old: Conductor | None
) -> Iterator[tuple[Map, str, Gmr]]:
    columns = list(fill.evaluated())
    if columns and old is not None:
        old_names = {map.name for map in old.program.maps}
        database = with_defined_maps(program, _sources(old, old.tables), old_names)
        for column, source in columns:
            yield fill.map, column, evaluate(source, fill.map.key_names, database)


def _sources(old: Conductor | None, tables: Iterable[str]) -> Atoms:
    """Some tables and all maps of the program before, each read when it is asked for."""

    @cache
    def rows(name: str) -> Gmr:
        if old is None or name not in tables or name not in old.tables:
            return Gmr()
        return Gmr(weighted_rows(old.tables[name], old.table(name)))

    @cache
    def column(map: str, column: str) -> Gmr:
        assert old is not None
        return old.contents([map])[map].weights(column)

    return Atoms(
        relations=rows,
        maps=column,
        columns=lambda map: [c.name for c in old.program.map(map).columns] if old else [],
    )
