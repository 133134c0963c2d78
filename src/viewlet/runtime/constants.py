"""What maps hold before the first row comes: their definitions over static tables alone.

Maps that read static tables only are so computed once and for all. Others are mostly empty then,
but not where a definition says something of nothing: SELECT COUNT(*) has a row over empty tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import Delta, MapRef, Rel
from viewlet.calculus.ring import Gmr, to_value
from viewlet.errors import ProgramError
from viewlet.program.ir import Program
from viewlet.runtime.batching import Batch, weighted_rows
from viewlet.runtime.strings import Dictionary
from viewlet.schema import Physical, Relation, Scalar
from viewlet.storage.columns import STAMP, KeyField
from viewlet.storage.memory import float_bits
from viewlet.storage.multimap import add_float, add_int, refresh_trees, upsert
from viewlet.storage.pool import Pool


class _Tables:
    """Static tables as relations for the evaluator."""

    def __init__(self, relations: Iterable[Relation], tables: Mapping[str, Batch]) -> None:
        self._relations = {relation.name: relation for relation in relations}
        self._tables = tables
        self._known: dict[str, Gmr] = {}

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        if not isinstance(atom, Rel):
            raise ProgramError(f"a definition reads {atom.name}")
        if atom.name not in self._known:
            batch = self._tables.get(atom.name)
            relation = self._relations[atom.name]
            rows = weighted_rows(relation, batch) if batch is not None else ()
            self._known[atom.name] = Gmr(rows)
        return self._known[atom.name]


def load_constants(
    program: Program, tables: Mapping[str, Batch], pools: Mapping[str, Pool], texts: Dictionary
) -> None:
    """Fill the programme's maps from the rows of static tables, not yet coded."""
    static = {r.name for r in program.relations if r.static}
    source = _Tables(
        program.relations, {name: batch for name, batch in tables.items() if name in static}
    )
    for map in program.maps:
        pool = pools[map.name]
        for place, column in enumerate(map.columns):
            if column.definition is None:
                continue
            found = evaluate(column.definition, map.key_names, source)
            fill_column(pool, place, found, texts)


def fill_column(pool: Pool, place: int, contents: Gmr, texts: Dictionary) -> None:
    """Add a weighted relation to one value column of a map, without a log."""
    pool.descriptor[STAMP] = 0
    for key, weight in contents.items():
        words = tuple(_words(key, pool.layout.keys, texts)) or (np.int64(0),)
        _put(pool, words, place, to_value(weight))


def _words(
    key: tuple[Scalar, ...], fields: tuple[KeyField, ...], texts: Dictionary
) -> Iterator[np.int64]:
    for value, field in zip(key, fields, strict=True):
        if field.physical is Physical.STR:
            yield np.int64(texts.code(value))  # type: ignore[arg-type]
        elif field.physical is Physical.FLOAT:
            yield np.int64(float_bits(float(value or 0.0)))
        else:
            yield np.int64(value or 0)
        if field.nullable:
            yield np.int64(value is None)


def _put(pool: Pool, key: tuple[Any, ...], place: int, value: Scalar) -> None:
    by = tuple(key[word] for word in pool.layout.part_words(pool.layout.hashed)) or key
    at = upsert(pool.address, by, key)
    while at == 0:
        pool.make_room()
        at = upsert(pool.address, by, key)
    word = pool.layout.value_words[place]
    if pool.layout.values[place] is Physical.FLOAT:
        add_float(pool.address, at, word, float(value or 0.0), 0.0)
    else:
        add_int(pool.address, at, word, int(value or 0))
    refresh_trees(pool.address, at)
