"""Nodes of a query plan and what is known about a query before any data is seen."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import DataError, TypingError
from viewlet.signals.batches import Array, Columns, Ints, as_array
from viewlet.signals.interpolation import Interpolation
from viewlet.signals.state import OperatorState

Function = Callable[..., Any]


@dataclass(frozen=True)
class Schema:
    """What a node delivers: its form (stream, signal, uniform, frames) and the form's constants.

    For frames, times are still counted in samples of `period`; `size` is the length of the arrays
    and `hop` the distance of their ends. `unit` is what ticks are, as clock.py has it.
    """

    form: str
    keys: tuple[str, ...]
    time: str
    end: str | None = None
    period: int = 1
    offset: int = 0
    size: int = 0
    hop: int = 0
    interpolate: Interpolation | None = None
    function: Function | None = None
    unit: str | None = None

    def with_(self, **changes: Any) -> Schema:
        """The same schema with some fields changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator: `run` turns the batches of its inputs into its own and keeps what it must in
    its state. It is stateless itself and can be pickled."""

    schema: Schema
    inputs: tuple[Node, ...]

    def run(self, state: OperatorState, *batches: Any) -> Any:
        """Batches of its inputs -> the batch of its output; what must wait is left in the state."""
        raise NotImplementedError

    def describe(self) -> str:
        """One line of `explain`."""
        skip = {"schema", "inputs"}
        shown = [
            f"{field.name}={_show(getattr(self, field.name))}"
            for field in dataclasses.fields(self)
            if field.name not in skip and getattr(self, field.name) is not None
        ]
        return f"{type(self).__name__.lower()}({', '.join(shown)})"

    @property
    def keywise(self) -> bool:
        """Whether each key's output depends on that key's input alone."""
        return True


def _show(value: Any) -> str:
    if callable(value) and not isinstance(value, Interpolation):
        return f"<{getattr(value, '__name__', type(value).__name__)} {code_hash(value)}>"
    if isinstance(value, np.ndarray):
        return f"<{len(value)} values {array_hash(value)}>"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    return str(value) if not isinstance(value, str) else repr(value)


def array_hash(array: Array) -> str:
    """A short name for an array's contents."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:8]


def code_hash(function: Any) -> str:
    """A short hash of what a function does, stable between processes: code and closed-over values.

    A plan's fingerprint is made of these, so that a checkpoint is only restored by its own query.
    """
    digest = hashlib.sha256()
    _digest(function, digest, 0)
    return digest.hexdigest()[:8]


def _digest(value: Any, digest: Any, depth: int) -> None:
    code = getattr(value, "__code__", None)
    if code is not None and depth < 8:
        digest.update(code.co_code)
        digest.update(repr(code.co_names).encode())
        for constant in code.co_consts:
            if hasattr(constant, "co_code"):
                digest.update(constant.co_code)
            else:
                digest.update(repr(constant).encode())
        for cell in value.__closure__ or ():
            _digest(cell.cell_contents, digest, depth + 1)
    elif isinstance(value, np.ndarray):
        digest.update(array_hash(value).encode())
    elif isinstance(value, int | float | complex | str | bytes | tuple):
        digest.update(repr(value).encode())
    else:
        # no code and no plain value: its name must do, for an address differs between processes
        name = getattr(value, "__qualname__", type(value).__qualname__)
        digest.update(name.encode())


class View:
    """What a user's function sees of a batch: its columns as attributes or items.

    Columns of the two sides of a join are `e.left.v` and `e.right.v`.
    """

    def __init__(self, columns: Columns, extra: Mapping[str, Callable[[], Array]] | None = None):
        self._columns = columns
        self._extra = extra or {}

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name in self._columns:
            return as_array(self._columns[name])
        if name in self._extra:
            return self._extra[name]()
        head = name + "."
        inner = {
            key.removeprefix(head): column
            for key, column in self._columns.items()
            if key.startswith(head)
        }
        if inner:
            return View(inner, self._extra)
        if name.startswith("__"):
            raise AttributeError(name)
        raise DataError(f"the events have no column {name}", hint=f"they have {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter([*self._columns, *self._extra])


def view(state: OperatorState, schema: Schema, batch: Any) -> View:
    """The view of a batch, with time and key columns made when they are asked for."""

    def keys(position: int) -> Array:
        decoded: Array = state.decode(batch.slots)[position]
        return np.repeat(decoded, batch.counts)

    extra: dict[str, Callable[[], Array]] = {schema.time: lambda: times(schema, batch)}
    if schema.end is not None:
        extra[schema.end] = lambda: batch.ends()
    for position, name in enumerate(schema.keys):
        extra[name] = lambda position=position: keys(position)  # type: ignore[misc]
    return View(batch.columns, extra)


def times(schema: Schema, batch: Any) -> Ints:
    """The time of every row in ticks."""
    if schema.form == "uniform":
        return np.asarray(batch.indices() * schema.period + schema.offset)
    if schema.form == "frames":
        return np.asarray(batch.at * schema.period + schema.offset)
    return np.asarray(batch.start)


def results(value: Any, batch: Any, what: str) -> Columns:
    """The columns that a user's function returned: an array, or a mapping of names to arrays."""
    if isinstance(value, View):
        return dict(value._columns)
    columns = dict(value) if isinstance(value, Mapping) else {sole_name(batch.columns): value}
    out: Columns = {}
    for name, column in columns.items():
        array = np.asarray(as_array(column))
        if array.ndim == 0:
            array = np.full(batch.rows, array)
        if len(array) != batch.rows:
            raise TypingError(
                f"{what} returned {len(array)} values of {name} for {batch.rows} rows",
                hint="return one value per row: functions get whole columns",
            )
        out[name] = array
    return out


def sole_name(columns: Columns) -> str:
    """The name of a computed payload: that of the only channel, else `value`."""
    return next(iter(columns)) if len(columns) == 1 else "value"


def numeric(column: Any) -> Array:
    """A payload as float64 or complex128; signals carry nothing else."""
    array = as_array(column)
    if array.dtype in (np.float64, np.complex128):
        return np.asarray(array)
    if array.dtype.kind == "c":
        return np.asarray(array.astype(np.complex128))
    if array.dtype.kind in "fiub":
        return np.asarray(array.astype(np.float64))
    raise TypingError(
        f"a signal cannot carry {array.dtype} values", hint="select numeric columns first"
    )


def require(condition: bool, message: str, hint: str) -> None:
    """TypingError unless a condition holds."""
    if not condition:
        raise TypingError(message, hint=hint)
