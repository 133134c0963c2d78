"""Batches as bytes, and back: what a log record holds of a change.

A few rows are JSON, which costs microseconds; many are Arrow streams of the encoded columns, which
cost little for each row. Both keep values exactly: NaN, infinities, every bit of a float.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewlet.engine.values.batching import Batch, plain_values
from viewlet.schema import Physical, Relation, Scalar
from viewlet.storage.columns import Array

_FEW_ROWS = 64
_LENGTH = struct.Struct("<I")
JSON_ROWS, ARROW_COLUMNS = b"J", b"A"


def row_to_bytes(relation: str, row: Sequence[Scalar], weight: int) -> bytes:
    """One encoded row."""
    return JSON_ROWS + json.dumps([[relation, [row], [weight]]]).encode()


def changes_to_bytes(changes: Sequence[tuple[str, Batch]]) -> bytes:
    """Batches whose strings are no codes, by relation."""
    if sum(len(batch) for _, batch in changes) <= _FEW_ROWS:
        few = [[name, _rows(batch), batch.weights.tolist()] for name, batch in changes]
        return JSON_ROWS + json.dumps(few).encode()
    parts = [_arrow_stream(batch) for _, batch in changes]
    sizes = zip(changes, parts, strict=True)
    index = json.dumps([[name, len(part)] for (name, _), part in sizes]).encode()
    return b"".join((ARROW_COLUMNS, _LENGTH.pack(len(index)), index, *parts))


def changes_from_bytes(
    payload: bytes, relation_of: Callable[[str], Relation]
) -> list[tuple[str, Batch]]:
    """The inverse of both; `relation_of` names the relation's columns by its name."""
    if payload[:1] == JSON_ROWS:
        return [
            (name, _batch_of_rows(relation_of(name), rows, weights))
            for name, rows, weights in json.loads(payload[1:])
        ]
    (length,) = _LENGTH.unpack_from(payload, 1)
    at = 1 + _LENGTH.size + length
    changes = []
    for name, size in json.loads(payload[1 + _LENGTH.size : at]):
        part = memoryview(payload)[at : at + size]
        changes.append((name, _batch_of_stream(relation_of(name), part)))
        at += size
    return changes


def _rows(batch: Batch) -> list[tuple[Scalar, ...]]:
    columns = map(plain_values, batch.columns, batch.nulls)
    return list(zip(*columns, strict=True)) if batch.columns else [()] * len(batch)


def _batch_of_rows(relation: Relation, rows: list[list[Scalar]], weights: list[int]) -> Batch:
    columns: list[Array] = []
    nulls: list[Array | None] = []
    for i, column in enumerate(relation.columns):
        values = [row[i] for row in rows]
        gaps = np.array([value is None for value in values], bool)
        columns.append(_array(values, column.type.physical))
        nulls.append(gaps if gaps.any() else None)
    return Batch(columns, nulls, np.array(weights, np.int64))


def _array(values: list[Scalar], physical: Physical) -> Array:
    if physical is Physical.STR:
        texts = np.empty(len(values), object)
        texts[:] = values
        return texts
    dtype: Any = np.float64 if physical is Physical.FLOAT else np.int64
    return np.array([0 if value is None else value for value in values], dtype)


def _arrow_stream(batch: Batch) -> bytes:
    import pyarrow as pa

    arrays = [
        pa.array(values, mask=None if nulls is None else np.asarray(nulls, bool))
        if values.dtype != object
        else pa.array(values, pa.large_string(), from_pandas=False)
        for values, nulls in zip(batch.columns, batch.nulls, strict=True)
    ]
    arrays.append(pa.array(batch.weights))
    table = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def _batch_of_stream(relation: Relation, part: memoryview) -> Batch:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(part)) as reader:
        table = reader.read_all().combine_chunks()
    columns: list[Array] = []
    nulls: list[Array | None] = []
    for column, stored in zip(relation.columns, table.columns, strict=False):
        chunk = stored.combine_chunks() if stored.num_chunks != 1 else stored.chunk(0)
        gaps = np.asarray(chunk.is_null()) if chunk.null_count else None
        if column.type.physical is Physical.STR:
            columns.append(np.asarray(chunk.to_numpy(zero_copy_only=False), object))
        else:
            filled = chunk.fill_null(0) if gaps is not None else chunk
            columns.append(np.array(filled.to_numpy(zero_copy_only=False)))
        nulls.append(gaps)
    weights = np.array(table.column(len(relation.columns)).to_numpy())
    return Batch(columns, nulls, weights)
