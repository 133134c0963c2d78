"""From a view's records to the rows that a user reads, column by column.

records -> HAVING -> the select list -> one row per unit of `count` (BAG) -> ORDER BY -> LIMIT
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from viewlet.calculus.evaluate import Database, rows
from viewlet.calculus.expr import product_of
from viewlet.calculus.query import COUNT, OrderItem, Query, ViewKind, check_copies, make_rows
from viewlet.calculus.ring import Key, Weight, to_weight
from viewlet.calculus.scope import inputs
from viewlet.engine.contract import Row, Weighted
from viewlet.engine.values.batching import Batch, normalized_doubles, plain_values
from viewlet.engine.values.vectors import NotColumnar, Vector, evaluate_vector, truths
from viewlet.functions import Const, ScalarExpr, evaluate, free_variables
from viewlet.schema import Kind, Physical, Scalar, Type
from viewlet.storage.columns import Array


def weighted_vectors(
    query: Query,
    keys: list[Vector],
    components: Mapping[str, Array],
    database: Database,
) -> tuple[list[Vector], Array]:
    """The select list and the multiplicity of each row, before ORDER BY and LIMIT."""
    columns, counts, _ = located_vectors(query, keys, components, database)
    return columns, counts


def located_vectors(
    query: Query,
    keys: list[Vector],
    components: Mapping[str, Array],
    database: Database,
) -> tuple[list[Vector], Array, Array]:
    """The same with the record that each row is of."""
    length = len(components[COUNT])
    if query.kind is ViewKind.TOTAL or np.count_nonzero(components[COUNT]) == length:
        records = np.arange(length)
    else:
        records = np.flatnonzero(components[COUNT])
        keys = [key.take(records) for key in keys]
        components = {name: values[records] for name, values in components.items()}
        length = len(records)
    if not length:
        # A condition that is never true may have left the select list without its variables.
        return _as_vectors(query, []), _counts([]), records
    lets = _common_lets(query, database, length)
    if lets is None:
        located = [
            (row, number, record)
            for record, made in zip(records.tolist(), _records(keys, components), strict=True)
            for row, number in make_rows(query, iter([made]), database)
        ]
        columns = _as_vectors(query, [row for row, _, _ in located])
        return columns, _counts([n for _, n, _ in located]), _counts([at for _, _, at in located])
    environment = dict(zip(query.keys, keys, strict=True)) | lets
    environment |= {name: Vector(values) for name, values in components.items()}
    counts = components[COUNT] if query.kind is ViewKind.BAG else np.ones(length, np.int64)
    if query.having is not None:
        selected = np.flatnonzero(_condition(query.having, environment, length))
        environment = {name: vector.take(selected) for name, vector in environment.items()}
        counts, length, records = counts[selected], len(selected), records[selected]
    columns = [_column(c.scalar, c.type, environment, length) for c in query.row_columns]
    return columns, counts, records


def _common_lets(query: Query, database: Database, length: int) -> dict[str, Vector] | None:
    """Subqueries of HAVING and the select list that are the same for all rows, computed once.

    None where one of them depends on the row.
    """
    if not query.lets:
        return {}
    lets = product_of(*query.lets)
    if inputs(lets):
        return None
    ((values, _),) = rows(lets, database, {})
    try:
        return {
            let.variable: evaluate_vector(Const(values[let.variable]), {}, length)
            for let in query.lets
        }
    except NotColumnar:
        return None


def _condition(scalar: ScalarExpr, environment: Mapping[str, Vector], length: int) -> Array:
    try:
        return truths(scalar, environment, length)
    except NotColumnar:
        values = _row_by_row(scalar, environment, length)
        return np.fromiter((value is True for value in values), bool, length)


def _column(
    scalar: ScalarExpr, type: Type, environment: Mapping[str, Vector], length: int
) -> Vector:
    try:
        vector = evaluate_vector(scalar, environment, length)
    except NotColumnar:
        vector = vector_of(_row_by_row(scalar, environment, length), type)
    if type.kind is Kind.BOOLEAN and vector.values.dtype.kind != "b":
        return Vector(vector.values.astype(bool), vector.nulls)
    if type.physical is Physical.STR and vector.values.dtype != object:
        return vector_of([None] * length, type)  # a bare NULL, which has no values of any kind
    if vector.values.dtype.kind == "f":
        return Vector(normalized_doubles(vector.values), vector.nulls)
    return vector


def _row_by_row(scalar: ScalarExpr, environment: Mapping[str, Vector], length: int) -> list[Scalar]:
    names = sorted(free_variables(scalar))
    columns = [plain_values(environment[n].values, environment[n].nulls) for n in names]
    rows = zip(*columns, strict=True) if columns else iter([()] * length)
    return [evaluate(scalar, dict(zip(names, row, strict=True)), is_wide=True) for row in rows]


def _records(
    keys: list[Vector], components: Mapping[str, Array]
) -> Iterator[tuple[Key, Mapping[str, Weight]]]:
    names = list(components)
    weights = list(zip(*(components[name].tolist() for name in names), strict=True))
    columns = [plain_values(key.values, key.nulls) for key in keys]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(weights))
    for key, record in zip(rows, weights, strict=True):
        yield key, {n: to_weight(w) for n, w in zip(names, record, strict=True)}


def _counts(counts: list[int]) -> Array:
    return np.fromiter(counts, np.int64, len(counts))


def _as_vectors(query: Query, rows: list[Row]) -> list[Vector]:
    return [vector_of([row[i] for row in rows], c.type) for i, c in enumerate(query.row_columns)]


def vector_of(values: list[Scalar], type: Type) -> Vector:
    """Encoded values as a vector; integers beyond int64 as objects."""
    gaps = np.fromiter((value is None for value in values), bool, len(values))
    nulls = gaps if gaps.any() else None
    dtype = {Physical.FLOAT: np.float64, Physical.BOOL: np.bool_}.get(type.physical, np.int64)
    if type.physical is not Physical.STR:
        try:
            return Vector(np.array([value or 0 for value in values], dtype), nulls)
        except OverflowError:
            pass
    objects = np.empty(len(values), object)
    objects[:] = values
    return Vector(objects, nulls)


def visible(query: Query, columns: list[Vector], counts: Array) -> Batch:
    """Rows with multiplicities -> what the user reads: repeated, ordered and cut."""
    if query.limit is not None:
        near = foremost(query, columns, query.offset + query.limit)
        columns, counts = [column.take(near) for column in columns], counts[near]
    order = ordered(query, columns)
    repeats = counts[order]
    end = None if query.limit is None else query.offset + query.limit
    if (repeats != 1).any():
        if end is not None:
            repeats = np.minimum(repeats, end)
        order = repeated_positions(order, repeats)
    order = order[query.offset : end]
    vectors = [column.take(order) for column in columns[: len(query.columns)]]
    return Batch(
        [v.values for v in vectors], [v.nulls for v in vectors], np.ones(len(order), np.int64)
    )


def repeated_positions(positions: Array, counts: Array) -> Array:
    """Each position as often as its count says."""
    check_copies(float(counts.sum(dtype=np.float64)) - len(counts))
    return np.repeat(positions, counts)


def ordered(query: Query, columns: list[Vector]) -> Array:
    """The positions of the rows in the view's order, the first ORDER BY column deciding first.

    Where LIMIT cuts, the other columns decide between rows that ORDER BY leaves equal: which of
    them is seen must not depend on where they lie in memory.
    """
    items = list(query.order)
    if query.limit is not None or query.offset:
        named = {item.column for item in items}
        items += [OrderItem(i) for i in range(len(columns)) if i not in named]
    if not items:
        return np.arange(len(columns[0].values) if columns else 0)
    # lexsort lets its last key decide first.
    return np.lexsort([_ranks(item, columns) for item in items[::-1]])


def _ranks(item: OrderItem, columns: list[Vector]) -> Array:
    """Numbers in the order of a column; its NULLs stand apart from its values."""
    vector = columns[item.column]
    gaps = vector.gaps()
    ranks = np.zeros(len(gaps), np.int64)
    _, ranks[~gaps] = np.unique(vector.values[~gaps], return_inverse=True)
    if item.descending:
        ranks = -ranks
    ranks[gaps] = -len(gaps) if item.nulls_first else len(gaps)
    return ranks


def foremost(query: Query, columns: list[Vector], row_limit: int) -> Array:
    """Positions that contain the first rows, so many, by the first column of ORDER BY alone.

    So that not all rows are put in order, by all columns, to show a few of them.
    """
    length = len(columns[0].values) if columns else 0
    if not query.order or not 0 < row_limit < length:
        return np.arange(length)
    ranks = _quick_ranks(query.order[0], columns)
    return np.flatnonzero(ranks <= np.partition(ranks, row_limit - 1)[row_limit - 1])


def _quick_ranks(item: OrderItem, columns: list[Vector]) -> Array:
    """Numbers in the order of a column; the values themselves, where they are such numbers."""
    values = columns[item.column].values
    is_plain = columns[item.column].nulls is None and values.dtype == np.int64
    if not is_plain:
        return _ranks(item, columns)
    return np.asarray(~values if item.descending else values)


def rows_of(batch: Batch) -> list[Row]:
    """Columns -> encoded rows."""
    columns = [plain_values(v, n) for v, n in zip(batch.columns, batch.nulls, strict=True)]
    return list(zip(*columns, strict=True))


def weighted_rows(columns: list[Vector], counts: Array) -> Weighted:
    """Columns and counts -> (row, count) with Python values."""
    plain = [plain_values(column.values, column.nulls) for column in columns]
    return list(zip(zip(*plain, strict=True), counts.tolist(), strict=True))
