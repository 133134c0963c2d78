"""Two maps that hold the same under other names become one (thesis 3.1.1).

Auxiliary maps meet when they are allocated (maps.py); this finds the views that hold what another
view or an auxiliary map holds. It works before statements are put in order: afterwards, reading
another map at the same place could read it after its update.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from viewlet.calculus.expr import (
    Expr,
    MapRef,
    NestedValue,
    Rel,
    product_of,
    transform,
    with_fields,
)
from viewlet.calculus.rewrite import canonical
from viewlet.planner.assemble import Maintenance
from viewlet.planner.maps import Maps, PlannedMap
from viewlet.program.ir import View


def merge_duplicates(
    maps: Maps, maintenance: Maintenance, views: tuple[View, ...]
) -> tuple[View, ...]:
    """Drop every map that another one stands for; gives the views over the maps that are left."""
    replaced = _find(maps)
    if not replaced:
        return views

    def rule(node: Expr) -> Expr:
        if not isinstance(node, MapRef):
            return node
        map = maps.changed(node.name) if node.buffer else node.name
        if map not in replaced:
            return node
        twin = replaced[map]
        return replace(node, name=maps.change(twin) if node.buffer else twin)

    def redirect(let: NestedValue) -> NestedValue:
        return with_fields(let, part=lambda body: transform(body, rule))

    for name in replaced:
        del maps.by_name[name]
    for planned in maps:
        planned.columns = {c: transform(e, rule) for c, e in planned.columns.items()}
    for table in (maintenance.updates, maintenance.recomputed, maintenance.refreshed):
        for updates in table.values():
            for name in list(updates):
                if name in replaced:
                    del updates[name]
                else:
                    updates[name] = {c: transform(e, rule) for c, e in updates[name].items()}
    return tuple(
        replace(
            view,
            query=replace(view.query, lets=tuple(redirect(let) for let in view.query.lets)),
            sources=tuple((n, replaced.get(map, map), c) for n, map, c in view.sources),
        )
        for view in views
    )


def _find(maps: Maps) -> dict[str, str]:
    """Each duplicate with the map that stands for it."""
    alike = Counter(_outline(planned, maps) for planned in maps)
    originals: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for planned in maps:
        if planned.is_apart:
            continue
        if planned.refreshes is not None:
            continue  # what another map holds all the time it holds after a read
        if alike[_outline(planned, maps)] > 1:
            text = _contents(planned, maps)
            # The name of an inner view's map identifies its contents, in other programs too.
            if text in originals and not planned.is_inner:
                replaced[planned.name] = originals[text]
            else:
                originals.setdefault(text, planned.name)
    return replaced


def _outline(planned: PlannedMap, maps: Maps) -> tuple[object, ...]:
    """What two maps must have in common to be worth a closer look."""
    atoms = sorted(
        maps.relation_counts(*planned.columns.values()).items(),
    )
    # Under another plan a map needs other maps: each view brings its own, whoever is beside it.
    return (planned.plan, len(planned.keys), *sorted(planned.columns), *atoms)


def _contents(planned: PlannedMap, maps: Maps) -> str:
    """The columns with their definitions, the keys by their places."""
    marks = [Rel(f"place {i}", (key,)) for i, key in enumerate(planned.keys)]
    parts = [
        f"{name}: {canonical(product_of(maps.inline(definition), *marks)).text}"
        for name, definition in planned.columns.items()
    ]
    return f"{len(marks)} " + "; ".join(sorted(parts))
