"""What maps hold before the first row comes: their definitions over static tables alone.

Maps that read static tables only are so computed once and for all. Others are mostly empty then,
but not where a definition says something of nothing: SELECT COUNT(*) has a row over empty tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import Delta, MapRef, Rel
from viewlet.calculus.ring import Gmr, to_value
from viewlet.errors import ProgramError
from viewlet.program.ir import Program
from viewlet.runtime.batching import Batch, weighted_rows
from viewlet.runtime.strings import Dictionary, Translation
from viewlet.schema import Physical, Relation, Scalar
from viewlet.storage.absorb import absorb
from viewlet.storage.columns import LOGGING, Array, KeyField
from viewlet.storage.memory import float_bits
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
    layout = pool.layout
    rows = np.zeros((len(contents), layout.key_width + layout.value_width), np.int64)
    word = layout.value_words[place]
    for row, (key, weight) in zip(rows, contents.items(), strict=True):
        row[: layout.key_width] = list(_words(key, layout.keys, texts)) or 0
        value = to_value(weight)
        is_float = layout.values[place] is Physical.FLOAT
        row[word] = float_bits(float(value or 0.0)) if is_float else int(value or 0)
    _absorb(pool, rows)


def copy_column(
    pool: Pool, place: int, old: Pool, old_place: int, order: Sequence[int], translate: Translation
) -> None:
    """Add a column of another map, whose key column order[i] is the i-th here; floats keep pairs.

    `translate` gives the codes of strings here for those there.
    """
    layout = pool.layout
    records = old.live(old_place)
    full = old.full_keys(records)
    rows = np.zeros((len(records), layout.key_width + layout.value_width), np.int64)
    for i, (key, word) in enumerate(zip(layout.keys, layout.key_words, strict=True)):
        words = np.ascontiguousarray(full[:, 2 * order[i]])
        rows[:, word] = translate(words) if key.physical is Physical.STR else words
        if key.nullable:
            rows[:, word + 1] = full[:, 2 * order[i] + 1]
    width = 2 if layout.values[place] is Physical.FLOAT else 1
    here, there = layout.value_words[place], old.layout.value_words[old_place]
    rows[:, here : here + width] = old.table()[records, there : there + width]
    _absorb(pool, rows)


def _absorb(pool: Pool, rows: Array) -> None:
    pool.descriptor[LOGGING] = 0
    absorb(pool, rows)


def _words(
    key: tuple[Scalar, ...], fields: tuple[KeyField, ...], texts: Dictionary
) -> Iterator[int]:
    for value, field in zip(key, fields, strict=True):
        if field.physical is Physical.STR:
            yield texts.code(value)  # type: ignore[arg-type]
        elif field.physical is Physical.FLOAT:
            yield float_bits(float(value or 0.0))
        else:
            yield int(value or 0)
        if field.nullable:
            yield int(value is None)
