"""What of a DataFrame becomes a batch: its columns by name, and the weight of every row.

    frame -> selected(frame)      what Spark selects, and checks where nobody reads it
          -> FrameReading.batch   what Python makes of the Arrow rows that come of it

Names match as in Spark, whatever their case. A weight is one number for all rows, a column of
numbers, or a column that says what was done: insert, update_preimage, update_postimage and delete
as Delta and others write them, or Debezium's c, r, u and d. In Debezium's own form, with structs
`before` and `after`, one row is a delete, an insert or both.

Columns that no view reads do not travel. Spark says where one of them breaks its declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.engine.values.batching import Batch, make_batch
from viewlet.errors import DataError, RangeError
from viewlet.schema import Column, Kind, Relation, shown_value, signed_range
from viewlet.storage.columns import Array

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_FITTING: dict[Kind, set[str]] = {
    Kind.BOOLEAN: {"boolean"},
    Kind.INTEGER: _INTEGERS,
    Kind.BIGINT: _INTEGERS,
    Kind.DOUBLE: _INTEGERS | {"float", "double"},
    Kind.DECIMAL: _INTEGERS | {"decimal"},
    Kind.DATE: {"date"},
    Kind.TIMESTAMP: {"timestamp", "timestamp_ntz"},
    Kind.VARCHAR: {"string", "varchar", "char"},
}
"""The Spark types that a column takes; values are checked when they come."""

CHANGES = {
    "insert": 1,
    "update_postimage": 1,
    "update_preimage": -1,
    "delete": -1,
    "c": 1,
    "r": 1,
    "d": -1,
}
"""What was done to a row -> its weight."""

_SIDES = {"before": -1, "after": 1}
"""The parts of Debezium's own form."""

_DONE = {"before": ("u", "d"), "after": ("c", "r", "u")}
"""Which changes a part is there for."""


@dataclass(frozen=True)
class RowWeights:
    """The weights of a DataFrame's rows: `each` for all, or in a column, or by a change column."""

    each: int = 1
    column: str | None = None
    change: str | None = None

    def __str__(self) -> str:
        if self.column is not None:
            return f"weight {self.column}"
        return f"op {self.change}" if self.change is not None else str(self.each)


def row_weights(weight: Any, op: Any = None) -> RowWeights:
    """The arguments of `sink`: a whole number or a column's name; a change column's name."""
    if op is not None:
        if not isinstance(op, str) or not op:
            raise DataError(f"{shown_value(op)} is not a column", hint='say op="_change_type"')
        if weight != 1:
            raise DataError(
                "a change column says the weights", hint="give either weight= or op=, not both"
            )
        return RowWeights(change=op)
    if isinstance(weight, str) and weight:
        return RowWeights(column=weight)
    if not isinstance(weight, int) or isinstance(weight, bool):
        raise DataError(
            f"{shown_value(weight)} is not a weight",
            hint="weights are whole numbers, or the name of a column with such",
        )
    return RowWeights(weight)


@dataclass(frozen=True)
class FrameReading:
    """Arrow rows of a selection -> a batch: the used columns, then a column for each extra.

    gap      the number of a column that nobody reads and that breaks its declaration, else NULL
    weight   the row's weight
    change   what was done to the row, and with it in Debezium's own form
    side     the part that it is from, 0 where that is NULL
    """

    relation: Relation
    used: tuple[int, ...]
    weights: RowWeights
    extras: tuple[str, ...]

    def batch(self, rows: pa.Table) -> Batch:
        """The used columns encoded; the others stay empty, for nobody reads them."""
        extras = {name: rows.column(len(self.used) + i) for i, name in enumerate(self.extras)}
        if "gap" in extras:
            self._check_gaps(extras["gap"])
        weights = self._weights(extras, rows.num_rows)
        columns: list[Any] = [None] * len(self.relation.columns)
        nulls: list[Any] = [None] * len(self.relation.columns)
        if self.used:
            chosen = tuple(self.relation.columns[i] for i in self.used)
            values = rows.select(list(range(len(chosen))))
            values = values.rename_columns([column.name for column in chosen])
            part = make_batch(Relation(self.relation.name, chosen), values, weights)
            for i, data, gaps in zip(self.used, part.columns, part.nulls, strict=True):
                columns[i], nulls[i] = data, gaps
        return Batch(columns, nulls, weights)

    def _check_gaps(self, numbers: Any) -> None:
        broken = numbers.drop_null()
        if not len(broken):
            return
        column = self.relation.columns[abs(broken[0].as_py()) - 1]
        where = f"a row for {self.relation.name}"
        if broken[0].as_py() > 0:
            raise DataError(f"{where}: NULL in column {column.name}, which is NOT NULL")
        raise RangeError(
            f"{where}: column {column.name}: a value is out of range for {column.type}"
        )

    def _weights(self, extras: Mapping[str, Any], count: int) -> Array:
        if "weight" in extras:
            if extras["weight"].null_count:
                raise DataError(
                    f"a row for {self.relation.name}: NULL in column {self.weights.column}, which "
                    "has the weights"
                )
            return np.ascontiguousarray(extras["weight"].to_numpy(), np.int64)
        if "change" not in extras:
            return np.full(count, self.weights.each, np.int64)
        changes = extras["change"].combine_chunks().dictionary_encode()
        if changes.null_count:
            raise self._no_change(None)
        is_enveloped = "side" in extras
        for value in changes.dictionary.to_pylist():
            if value not in CHANGES and not (is_enveloped and value == "u"):
                raise self._no_change(value)
        if not is_enveloped:
            by_code = np.asarray([CHANGES[v] for v in changes.dictionary.to_pylist()], np.int64)
            return np.ascontiguousarray(by_code[changes.indices.to_numpy()])
        sides = np.ascontiguousarray(extras["side"].to_numpy(), np.int64)
        if len(missing := np.flatnonzero(sides == 0)):
            value = changes[int(missing[0])].as_py()
            part = {"d": "before", "u": "before or after"}.get(value, "after")
            raise DataError(
                f"a row for {self.relation.name} with {self.weights.change} {value!r} has NULL for "
                f"{part}",
                hint="an update or a delete needs the whole row as it was: in PostgreSQL, "
                "ALTER TABLE ... REPLICA IDENTITY FULL",
            )
        return sides

    def _no_change(self, value: Any) -> DataError:
        known = ", ".join(CHANGES)
        hint = f"a change is one of {known}"
        if value == "u":
            hint = (
                "an update needs the row as it was too: give Debezium's columns before and after, "
                "or two rows, update_preimage and update_postimage"
            )
        return DataError(
            f"a row for {self.relation.name} with {shown_value(value)} in column "
            f"{self.weights.change}, which is no change",
            hint=hint,
        )


@dataclass(frozen=True)
class _FrameColumn:
    """A column of a frame: how Spark SQL writes it, its type, and whether it may be NULL."""

    text: str
    type: str
    nullable: bool


def check_frame(frame: DataFrame, relation: Relation, weights: RowWeights) -> None:
    """One error for a column that is missing or of another type; further columns do not matter."""
    _columns(frame, relation, weights)


def selected(
    frame: DataFrame, relation: Relation, used: Sequence[int], weights: RowWeights
) -> tuple[DataFrame, FrameReading]:
    """The columns that travel, checked, and how they are read.

    As text: each Column object is several calls to the JVM.
    """
    frame, columns, extras = _columns(frame, relation, weights)
    values = []
    for i in used:
        source = columns[i].text
        if relation.columns[i].type.kind is Kind.TIMESTAMP:
            source = f"CAST({source} AS timestamp_ntz)"  # as the session shows it
        values.append(f"{source} AS c{i}")
    unread = [i for i in range(len(columns)) if i not in used]
    tests = [test for i in unread for test in _tests(i + 1, relation.columns[i], columns[i])]
    if tests:
        extras = {"gap": f"CASE {' '.join(tests)} END", **extras}
    values += [f"{text} AS {name}" for name, text in extras.items()]
    reading = FrameReading(relation, tuple(used), weights, tuple(extras))
    # Without any column the number of rows is left.
    return frame.selectExpr(*(values or ["1 AS one"])), reading


def _tests(number: int, column: Column, source: _FrameColumn) -> list[str]:
    """WHEN ... THEN ... for what a column that is not read must not be."""
    tests = []
    if not column.nullable and source.nullable:
        tests.append(f"WHEN {source.text} IS NULL THEN {number}")
    kind = column.type.kind
    beyond = None
    if kind is Kind.VARCHAR and column.limit is not None:
        beyond = f"char_length(rtrim({source.text})) > {column.limit}"
    elif kind is Kind.INTEGER and source.type in ("bigint", "int", "smallint"):
        low, high = signed_range(column.limit or 32)
        beyond = f"{source.text} NOT BETWEEN {low} AND {high}"
    elif kind is Kind.DECIMAL:
        whole = column.type.precision - column.type.scale
        beyond = (
            f"abs(CAST({source.text} AS decimal(38, 0))) >= 1{'0' * whole}BD"
            if whole < 38
            else None
        )
    if beyond is not None:
        tests.append(f"WHEN {beyond} THEN {-number}")
    return tests


def _columns(
    frame: DataFrame, relation: Relation, weights: RowWeights
) -> tuple[DataFrame, list[_FrameColumn], dict[str, str]]:
    """The frame, in Debezium's form taken apart; its column for each of the relation's; extras."""
    if not isinstance(getattr(frame, "dtypes", None), list):
        raise DataError(
            f"{shown_value(frame)} is not a DataFrame of Spark", hint="give other rows to insert()"
        )
    _check_names(frame, relation)
    known = _fields(frame.schema, "")
    if weights.column is not None:
        source = _field(known, weights.column, relation, "the weights")
        if source.type not in _INTEGERS:
            raise DataError(
                f"column {weights.column} of the DataFrame for {relation.name} is {source.type}, "
                "and has the weights",
                hint=f'cast it: frame.withColumn("{weights.column}", '
                f'col("{weights.column}").cast("bigint"))',
            )
        return frame, _fitting(known, relation), {"weight": f"CAST({source.text} AS bigint)"}
    if weights.change is None:
        return frame, _fitting(known, relation), {}
    change = _field(known, weights.change, relation, "what was done")
    if change.type not in _FITTING[Kind.VARCHAR]:
        raise DataError(
            f"column {weights.change} of the DataFrame for {relation.name} is {change.type}, and "
            "says what was done",
            hint=f"it is a text: {', '.join(CHANGES)}",
        )
    parts = {side: _part(frame.schema, side) for side in _SIDES}
    if any(part is None for part in parts.values()):
        return frame, _fitting(known, relation), {"change": change.text}
    return _taken_apart(frame, relation, change, parts)


def _taken_apart(
    frame: DataFrame, relation: Relation, change: _FrameColumn, parts: Mapping[str, Any]
) -> tuple[DataFrame, list[_FrameColumn], dict[str, str]]:
    """Debezium's form: a row for each of `before` and `after` that the change has."""
    structs, columns = [], []
    for side, (text, fields) in parts.items():
        columns = _fitting(fields, relation)
        here = f"IF({text} IS NULL, 0L, {_SIDES[side]}L) AS side"
        values = [f"{source.text} AS v{i}" for i, source in enumerate(columns)]
        done = ", ".join(f"'{name}'" for name in _DONE[side])
        others = ", ".join(f"'{name}'" for name in ("u", "c", "r", "d"))
        # What is no change at all stays, to be refused.
        is_there = f"{change.text} IN ({done}) OR coalesce({change.text} NOT IN ({others}), true)"
        structs.append(
            f"struct({is_there} AS is_there, {change.text} AS change, {here}, {', '.join(values)})"
        )
    rows = frame.selectExpr(f"inline(filter(array({', '.join(structs)}), x -> x.is_there))")
    source = [_FrameColumn(f"v{i}", column.type, True) for i, column in enumerate(columns)]
    return rows, source, {"change": "change", "side": "side"}


def _fields(schema: Any, prefix: str) -> dict[str, _FrameColumn]:
    fields = schema.fields
    return {
        field.name: _FrameColumn(
            f"{prefix}{_quoted(field.name)}", field.dataType.simpleString(), bool(field.nullable)
        )
        for field in fields
    }


def _part(schema: Any, name: str) -> tuple[str, dict[str, _FrameColumn]] | None:
    """A struct of a frame with its fields."""
    for field in schema.fields:
        if field.name.lower() == name and hasattr(field.dataType, "fields"):
            text = _quoted(field.name)
            return text, _fields(field.dataType, f"{text}.")
    return None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _field(
    known: Mapping[str, _FrameColumn], name: str, relation: Relation, what: str
) -> _FrameColumn:
    """A column by its name: as it is written, else whatever the case."""
    if name in known:
        return known[name]
    alike = [source for other, source in known.items() if other.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise _several(relation, name, [source.text for source in alike])
    said = f", which has {what}" if what else ""
    raise DataError(
        f"the DataFrame for {relation.name} has no column {name}{said}",
        hint=f"its columns are ({', '.join(known)}), and {relation.name} has "
        f"({', '.join(relation.names)})",
    )


def _several(relation: Relation, name: str, texts: Sequence[str]) -> DataError:
    return DataError(
        f"the DataFrame for {relation.name} has several columns {name}: {', '.join(texts)}",
        hint="rename the others: withColumnRenamed, or drop them",
    )


def _check_names(frame: DataFrame, relation: Relation) -> None:
    """What differs in case alone, or not at all, Spark finds by no name, unless it is told to."""
    names: dict[str, list[str]] = {}
    for name in frame.columns:
        names.setdefault(name.lower(), []).append(name)
    for column in relation.columns:
        alike = names.get(column.name.lower(), [])
        if len(alike) < 2:
            continue
        is_sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
        if not is_sensitive or alike.count(column.name) > 1:
            raise _several(relation, column.name, [_quoted(name) for name in alike])


def _fitting(known: Mapping[str, _FrameColumn], relation: Relation) -> list[_FrameColumn]:
    """The columns of a frame, or of a struct, that are the relation's, each of a fitting type."""
    columns = []
    for column in relation.columns:
        source = _field(known, column.name, relation, "")
        if source.type.partition("(")[0] not in _FITTING[column.type.kind]:
            raise DataError(
                f"column {column.name} of the DataFrame for {relation.name} is {source.type}, "
                f"not {column.type}",
                hint=f'cast it: frame.withColumn("{column.name}", '
                f'col("{column.name}").cast("{spark_type(column)}"))',
            )
        columns.append(source)
    return columns


def spark_type(column: Column) -> str:
    """What Spark SQL calls a column's type."""
    names = {Kind.VARCHAR: "string", Kind.INTEGER: "int", Kind.TIMESTAMP: "timestamp_ntz"}
    return names.get(column.type.kind, str(column.type).lower())
