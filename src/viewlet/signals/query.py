"""The query language: streams, signals, uniform signals and windowed pipelines.

A query is immutable; every method returns a new one. The classes are those of thesis chapter 7: a
signal is a stream whose events never overlap (thesis 7.3), a uniform signal has samples on a grid
(thesis 7.4), and frames are arrays cut out of a uniform signal (thesis 7.4.6). An operator exists
where it makes sense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from viewlet.errors import TypingError
from viewlet.signals.clock import Duration, TimeUnit, ticks_of, unit_of
from viewlet.signals.functional import combine_functions, table_of_functions
from viewlet.signals.interpolation import Interpolation
from viewlet.signals.operators import streams
from viewlet.signals.operators.aggregates import (
    NAMES,
    Aggregate,
    HoppingAggregate,
    SessionAggregate,
    UserAggregate,
)
from viewlet.signals.operators.base import Function, Schema, require
from viewlet.signals.operators.filters import Fir, Iir, UserFilter
from viewlet.signals.operators.grouping import Group
from viewlet.signals.operators.relations import Align, AsOf, Join, Union
from viewlet.signals.operators.sampling import Downsample, Reindex, Sample
from viewlet.signals.runnable import Query, Self


class Stream(Query):
    """Events with lifetimes, grouped by key.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.where(lambda e: e.v > 1).run(readings)["v"]
    array([2., 4.])
    """

    def where(self: Self, condition: Function) -> Self:
        """Keep the events for which condition(e) holds; e has the whole columns."""
        return self._same(streams.Where(self.schema, (self.node,), condition))

    def select(self: Self, function: Function | None = None, /, **functions: Function) -> Self:
        """A new payload: select(lambda e: ...) or select(a=lambda e: ..., b=...)."""
        require(
            (function is None) != (not functions),
            "select needs one function, or functions by column name",
            "write select(lambda e: ...) or select(name=lambda e: ...)",
        )
        schema = self.schema.with_(function=None)
        return self._same(streams.Select(schema, (self.node,), functions or None, function))

    def group(self, by: Function | str, *names: str) -> Stream:
        """The same events under another key: a column's name, or a function of the events."""
        if isinstance(by, str):
            columns = (by, *names)

            def function(e: Any) -> Any:
                return {name: e[name] for name in columns}

            keys: tuple[str, ...] = columns
        else:
            function = by
            keys = names or ("key",)
        schema = self._events().schema.with_(form="stream", keys=keys)
        return Stream(Group(schema, (self._events().node,), function))

    def shift(self, by: Duration) -> Any:
        """The same events later, by ticks or a duration."""
        unit, (ticks,) = ticks_of(self.schema.unit, by)
        schema = self.schema.with_(unit=unit)
        return self._same(streams.Lifetime(schema, (self.node,), ticks, None))

    def lifetime(self, duration: Duration) -> Stream:
        """The same events with lifetimes [start, start + duration)."""
        unit, (ticks,) = ticks_of(self.schema.unit, duration)
        require(ticks > 0, f"a lifetime of {duration}", "use a positive duration")
        schema = self.schema.with_(form="stream", end=self.schema.end or "end", unit=unit)
        return Stream(streams.Lifetime(schema, (self._events().node,), 0, ticks))

    def join(
        self, other: Stream, on: Sequence[str] | str = (), combine: Function | None = None
    ) -> Stream:
        """Pairs of events of the same key whose lifetimes overlap, and whose `on` columns agree.

        combine(left, right) makes the payload; without it the columns are left.x and right.x.
        """
        columns = (on,) if isinstance(on, str) else tuple(on)
        left, right = self._events(), other._events()
        schema = left.schema.with_(form="stream", end=left.schema.end or "end", function=None)
        return Stream(Join(schema, (left.node, right.node), columns, combine))

    def asof_join(
        self,
        other: Stream,
        within: Duration | None = None,
        how: str = "inner",
        combine: Function | None = None,
    ) -> Stream:
        """Each event with the last event of the other stream at or before its start."""
        require(how in ("inner", "left"), f"how={how!r}", "use 'inner' or 'left'")
        left, right = self._events(), other._events()
        unit, (ticks,) = ticks_of(left.schema.unit, within)
        schema = left.schema.with_(form="stream", function=None, unit=unit)
        return Stream(AsOf(schema, (left.node, right.node), ticks, how, combine))

    def union(self, other: Stream) -> Stream:
        """The events of both streams."""
        left, right = self._events(), other._events()
        schema = left.schema.with_(form="stream", end=left.schema.end or right.schema.end)
        return Stream(Union(schema, (left.node, right.node)))

    def tumbling(self, size: Duration, offset: Duration = 0) -> Windowed:
        """Windows [k size + offset, (k + 1) size + offset), in ticks or durations."""
        return self.hopping(size, size, offset)

    def hopping(self, size: Duration, hop: Duration, offset: Duration = 0) -> Windowed:
        """Windows of `size` every `hop`, in ticks or durations."""
        unit, (size_ticks, hop_ticks, at) = ticks_of(self.schema.unit, size, hop, offset)
        _check_window(size_ticks, hop_ticks)
        require(
            size_ticks % hop_ticks == 0,
            f"a window of {size} that hops by {hop}",
            "make the size a multiple of the hop",
        )
        return Windowed(self._events(), size_ticks, hop_ticks, at, unit)

    def session(self, gap: Duration) -> Windowed:
        """Windows around events at most `gap` apart, in ticks or a duration."""
        unit, (ticks,) = ticks_of(self.schema.unit, gap)
        require(ticks > 0, f"a session gap of {gap}", "use a positive time")
        return Windowed(self._events(), 0, ticks, 0, unit)

    def signal(self) -> Signal:
        """Assert that events of a key never overlap; a run fails where they do."""
        return Signal(streams.Signal(self.schema.with_(form="signal"), (self.node,)))

    def sample(
        self, period: Duration, offset: Duration = 0, interpolate: Interpolation | None = None
    ) -> Uniform:
        """Samples at k period + offset, of the signal that these events must be."""
        return self.signal().sample(period, offset, interpolate)

    def _events(self) -> Stream:
        """This query as a stream of events (samples become point events)."""
        return self


class Signal(Stream):
    """Events of a key never overlap. Payloads may be functions of time.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> (sensors.signal() + sensors.signal()).sample(2).run(readings)["v"]
    array([0., 4., 8.])
    """

    def signal(self) -> Signal:
        return self

    def function(self, function: Callable[[Any, Any], Any]) -> Signal:
        """One function for the whole signal: its value at time t is function(t, e), the payload
        being the arguments (homogeneous functional payloads, 7.3.2)."""
        return Signal(
            streams.Select(self.schema.with_(function=function), (self.node,), None, _all)
        )

    def functions(self, table: Mapping[str, Callable[[Any], Any]], column: str) -> Signal:
        """A function per event: `column` names the entry of the table (heterogeneous, 7.3.2)."""
        return self.function(table_of_functions(dict(table), column))

    def scale(self, factor: complex) -> Any:
        """Every channel times a number; a functional payload stays a function."""
        inner = self.schema.function
        if inner is not None:
            return self.function(lambda t, e: factor * inner(t, e))
        return self._same(
            streams.Channels(
                self.schema, (self.node,), f"scale({factor})", lambda column: column * factor
            )
        )

    def __add__(self, other: Any) -> Any:
        return self._binary(other, "+", lambda a, b: a + b)

    def __sub__(self, other: Any) -> Any:
        return self._binary(other, "-", lambda a, b: a - b)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | float | complex):
            return self.scale(other)
        return self._binary(other, "*", lambda a, b: a * b)

    __rmul__ = __mul__

    def _binary(self, other: Any, label: str, operate: Callable[[Any, Any], Any]) -> Any:
        """Two signals where both are active. Uniform operands decide the grid (thesis 7.4.3)."""
        require(
            isinstance(other, Signal),
            f"signal {label} {type(other).__name__}",
            "call .signal() on the other operand first",
        )
        left: Any = self
        if isinstance(left, Uniform) or isinstance(other, Uniform):
            return _aligned(left, other, label, operate)
        function = combine_functions(left.schema.function, other.schema.function, operate)
        schema = left.schema.with_(end=left.schema.end or "end", function=function)
        if function is not None:
            return Signal(Join(schema, (left.node, other.node), (), None))

        def combine(a: Any, b: Any) -> Any:
            names = list(a)
            others = list(b)
            if names == others:
                return {name: operate(a[name], b[name]) for name in names}
            return {name: operate(a[name], b[others[0]]) for name in names}

        return Signal(Join(schema, (left.node, other.node), (), combine))

    def sample(
        self, period: Duration, offset: Duration = 0, interpolate: Interpolation | None = None
    ) -> Uniform:
        unit, (ticks, at) = ticks_of(self.schema.unit, period, offset)
        require(ticks > 0, f"a sampling period of {period}", "use a positive number of ticks")
        return self._sampled(ticks, at, interpolate, unit)

    def _sampled(
        self, period: int, offset: int, interpolate: Interpolation | None, unit: str | None
    ) -> Uniform:
        """Samples on a grid of ticks."""
        if interpolate is not None:
            unit, interpolate = interpolate.in_ticks(unit)
        grid = {"period": period, "offset": offset, "interpolate": interpolate, "unit": unit}
        schema = self.schema.with_(form="uniform", end=None, function=None, **grid)
        return Uniform(Sample(schema, (self.node,)))


class Uniform(Signal):
    """Samples at k period + offset.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(2).fir([0.5, 0.5]).run(readings)["v"]
    array([0., 1., 3.])
    """

    def _events(self) -> Stream:
        schema = self.schema.with_(form="signal", interpolate=None)
        return Signal(streams.Points(schema, (self.node,)))

    def events(self) -> Signal:
        """The samples as point events of a (non-uniform) signal."""
        return Signal(self._events().node)

    def function(self, function: Callable[[Any, Any], Any]) -> Signal:
        return self.events().function(function)

    def shift(self, by: Duration) -> Uniform:
        unit, (ticks,) = ticks_of(self.schema.unit, by)
        return self._shifted(ticks, unit)

    def _shifted(self, ticks: int, unit: str | None) -> Uniform:
        steps, offset = divmod(self.schema.offset + ticks, self.schema.period)
        schema = self.schema.with_(offset=offset, unit=unit)
        return Uniform(Reindex(schema, (self.node,), steps))

    def sample(
        self, period: Duration, offset: Duration = 0, interpolate: Interpolation | None = None
    ) -> Uniform:
        return self.resample(period, offset, interpolate)

    def resample(
        self,
        period: Duration | None = None,
        offset: Duration | None = None,
        interpolate: Interpolation | None = None,
    ) -> Uniform:
        """Another period, offset or interpolation; what is not given stays."""
        unit, (ticks, at) = ticks_of(self.schema.unit, period, offset)
        ticks = self.schema.period if ticks is None else ticks
        require(ticks > 0, f"a sampling period of {period}", "use a positive number of ticks")
        at = self.schema.offset if at is None else at
        return self._sampled(ticks, at, interpolate or self.schema.interpolate, unit)

    def upsample(self, factor: int, interpolate: Interpolation | None = None) -> Uniform:
        """`factor` times as many samples; new ones by interpolation."""
        require(
            factor > 0 and self.schema.period % factor == 0,
            f"a period of {self.schema.period} upsampled by {factor}",
            "use a factor that divides the period (or count time in finer ticks)",
        )
        schema = self.schema
        interpolate = interpolate or schema.interpolate
        return self._sampled(schema.period // factor, schema.offset, interpolate, schema.unit)

    def downsample(self, factor: int) -> Uniform:
        """Every `factor`-th sample."""
        require(factor > 0, f"downsampling by {factor}", "use a positive factor")
        schema = self.schema.with_(period=self.schema.period * int(factor))
        return Uniform(Downsample(schema, (self.node,), int(factor)))

    def aggregate(self, size: int, hop: int | None = None, **what: str) -> Uniform:
        """Aggregates over windows of samples: aggregate(8, 4, total="sum", top="max:v").

        The result at hop k covers the samples with indices up to (k + 1) hop - 1.
        """
        hop = size if hop is None else hop
        _check_window(size, hop)
        require(size % hop == 0, f"a window of {size} that hops by {hop}", "use a multiple")
        schema = self.schema.with_(period=self.schema.period * hop)
        return Uniform(HoppingAggregate(schema, (self.node,), int(size), int(hop), 0, _what(what)))

    def sum(self, size: int, hop: int | None = None) -> Uniform:
        """The sum of each window of `size` samples, every `hop` of them."""
        return self.aggregate(size, hop, sum="sum")

    def mean(self, size: int, hop: int | None = None) -> Uniform:
        """The mean of each window of `size` samples, every `hop` of them."""
        return self.aggregate(size, hop, mean="mean")

    def energy(self, size: int, hop: int | None = None) -> Uniform:
        """Sum of |x|^2."""
        return self.aggregate(size, hop, energy="energy")

    def power(self, size: int, hop: int | None = None) -> Uniform:
        """Mean of |x|^2."""
        return self.aggregate(size, hop, power="power")

    def fir(self, taps: Any, missing: str = "zero") -> Uniform:
        """y[n] = sum_i taps[i] x[n - i], as scipy.signal.lfilter(taps, 1, x)."""
        return self._fir("fir", np.asarray(taps), missing)

    def convolve(self, taps: Any, missing: str = "zero") -> Uniform:
        """The causal part of np.convolve(x, taps): the same as `fir`."""
        return self._fir("convolve", np.asarray(taps), missing)

    def correlate(self, pattern: Any, missing: str = "invalid") -> Uniform:
        """np.correlate(x, pattern, "valid"), stamped with the last sample of each window."""
        return self._fir("correlate", np.conj(np.asarray(pattern))[::-1], missing)

    def _fir(self, label: str, taps: Any, missing: str) -> Uniform:
        _check_missing(missing)
        require(
            taps.ndim == 1 and len(taps) > 0 and taps.dtype.kind in "fciub",
            f"{label} with coefficients of shape {list(taps.shape)}",
            "give a non-empty list of numbers",
        )
        dtype = np.complex128 if taps.dtype.kind == "c" else np.float64
        return Uniform(Fir(self.schema, (self.node,), label, taps.astype(dtype), missing))

    def iir(self, b: Any, a: Any, missing: str = "zero") -> Uniform:
        """scipy.signal.lfilter(b, a, x): feed-forward b, feed-backward a."""
        _check_missing(missing)
        b, a = (np.atleast_1d(np.asarray(c)).astype(_float(np.asarray(c))) for c in (b, a))
        require(
            len(b) > 0 and len(a) > 0 and a[0] != 0,
            "iir with a[0] = 0 or without coefficients",
            "design the filter with scipy.signal, for example butter(4, 0.1)",
        )
        return Uniform(Iir(self.schema, (self.node,), b, a, missing))

    def filter(
        self,
        compute: Callable[[Any, Any], Any],
        forward: int,
        backward: int = 0,
        missing: str = "zero",
    ) -> Uniform:
        """A filter of your own: y[n] = compute(fw, bw), compiled by Numba.

        fw holds the last `forward` inputs and bw the last `backward` outputs, oldest first.
        """
        _check_missing(missing)
        require(forward > 0, f"a feed-forward window of {forward}", "use at least 1 sample")
        require(backward >= 0, f"a feed-backward window of {backward}", "use 0 or more")
        node = UserFilter(self.schema, (self.node,), compute, forward, backward, missing)
        return Uniform(node)

    def window(
        self,
        size: int,
        hop: int | None = None,
        missing: str = "zero",
        align: str = "first",
        pad: bool = False,
    ) -> Any:
        """Arrays of `size` samples every `hop` samples: the start of a pipeline (thesis 7.4.6)."""
        from viewlet.signals.frames import Framed
        from viewlet.signals.operators.windows import Window

        hop = size if hop is None else hop
        _check_window(size, hop)
        _check_missing(missing)
        require(align in ("first", "time"), f"align={align!r}", "use 'first' or 'time'")
        schema = self.schema.with_(form="frames", size=int(size), hop=int(hop), interpolate=None)
        return Framed(Window(schema, (self.node,), int(size), int(hop), missing, align, bool(pad)))


class Windowed:
    """A stream cut into time windows, waiting for its aggregates."""

    def __init__(self, stream: Stream, size: int, hop: int, offset: int, unit: str | None) -> None:
        self._stream = stream
        self._unit = unit
        self._size = size
        self._hop = hop
        self._offset = offset

    def aggregate(self, **what: str | Aggregate) -> Signal:
        """Named aggregates: aggregate(total="sum", top="max:v", mine=sg.Aggregate(...)).

        "max" is over every channel, "max:v" over channel v. The result is a signal.
        """
        users = {name: item for name, item in what.items() if isinstance(item, Aggregate)}
        schema = self._stream.schema.with_(
            form="signal",
            end=self._stream.schema.end or "end",
            function=None,
            unit=self._unit,
        )
        inputs = (self._stream.node,)
        if users:
            require(
                len(what) == 1 and self._size > 0,
                "a user-defined aggregate beside others, or over sessions",
                "give it a tumbling or hopping window of its own",
            )
            ((name, mine),) = users.items()
            return Signal(
                UserAggregate(schema, inputs, self._size, self._hop, self._offset, name, mine)
            )
        named = _what({name: str(item) for name, item in what.items()})
        if self._size == 0:
            return Signal(SessionAggregate(schema, inputs, self._hop, named))
        return Signal(HoppingAggregate(schema, inputs, self._size, self._hop, self._offset, named))

    def sum(self) -> Signal:
        """The sum of each window."""
        return self.aggregate(sum="sum")

    def count(self) -> Signal:
        """The number of events of each window."""
        return self.aggregate(count="count")

    def mean(self) -> Signal:
        """The mean of each window."""
        return self.aggregate(mean="mean")

    def avg(self) -> Signal:
        """The mean of each window, in a column avg."""
        return self.aggregate(avg="mean")

    def min(self) -> Signal:
        """The least value of each window."""
        return self.aggregate(min="min")

    def max(self) -> Signal:
        """The greatest value of each window."""
        return self.aggregate(max="max")


def source(
    key: str | Sequence[str] | None = None,
    time: str = "t",
    value: str | Sequence[str] | None = None,
    *,
    start: str | None = None,
    end: str | None = None,
    name: str = "input",
    reorder: Duration = 0,
    late: Literal["fail", "drop"] = "fail",
    clock: Literal["key", "stream"] = "key",
    unit: TimeUnit | None = None,
) -> Stream:
    """Where events come from: point events at `time`, or intervals from `start` to `end`.

    `value` names the payload columns (all others when left out). `reorder`, `late` and `clock`
    are the order policy: see operators/streams.py and docs/signals.md. `unit` is what a tick is:
    of times that are whole numbers, and of whole numbers beside times that are datetimes.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.where(lambda e: e.v > 1).run(readings)["t"]
    array([2, 4])
    """
    counted, (lateness,) = ticks_of(unit_of(unit), reorder)
    require(lateness >= 0, f"reorder={reorder}", "use a number of ticks, 0 or more")
    require(late in ("fail", "drop"), f"late={late!r}", "use 'fail' or 'drop'")
    require(clock in ("key", "stream"), f"clock={clock!r}", "use 'key' or 'stream'")
    require(
        start is None or end is not None, "a source with start but no end", "give both, or time="
    )
    keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    values = None if value is None else (value,) if isinstance(value, str) else tuple(value)
    schema = Schema("stream", keys, start or time, end, unit=counted)
    return Stream(streams.Source(schema, (), name, values, lateness, late, clock))


def _all(e: Any) -> Any:
    return e


def _aligned(left: Any, right: Any, label: str, operate: Callable[[Any, Any], Any]) -> Uniform:
    """Bring two signals on one grid, then combine sample by sample.

    Not uniform: sampled on the other's grid. Periods differ: the larger is resampled on the
    smaller's grid with its own interpolation. Offsets differ: the right one is shifted.
    """
    if not isinstance(left, Uniform):
        left = _on_grid_of(left, right.schema)
    if not isinstance(right, Uniform):
        right = _on_grid_of(right, left.schema)
    a, b = left.schema, right.schema
    if a.period > b.period:
        left = _on_grid_of(left, b, a.interpolate)
    elif b.period > a.period:
        right = _on_grid_of(right, a, b.interpolate)
    elif a.offset != b.offset:
        right = right._shifted(a.offset - b.offset, b.unit)
        if right.schema.offset != a.offset:
            steps = (right.schema.offset - a.offset) // a.period
            right = Uniform(Reindex(a, (right.node,), steps))
    return Uniform(Align(left.schema, (left.node, right.node), f"signal {label} signal", operate))


def _on_grid_of(signal: Any, grid: Schema, interpolate: Interpolation | None = None) -> Uniform:
    """Samples on another signal's grid; which counts time as this one does, or neither says how."""
    sampled: Uniform = signal._sampled(grid.period, grid.offset, interpolate, signal.schema.unit)
    return sampled


def _what(what: Mapping[str, str]) -> dict[str, str]:
    require(bool(what), "no aggregate was asked for", 'write aggregate(total="sum")')
    for name, request in what.items():
        function = request.partition(":")[0]
        if function == "avg":
            request = "mean" + request.removeprefix("avg")
            function = "mean"
        if function not in NAMES:
            raise TypingError(
                f"no aggregate is called {function!r}", hint=f"use one of {', '.join(NAMES)}"
            )
        what = {**what, name: request}
    return dict(what)


def _check_window(size: int, hop: int) -> None:
    require(size > 0, f"a window of size {size}", "use at least 1")
    require(hop > 0, f"a hop of {hop}", "use at least 1")


def _check_missing(missing: str) -> None:
    require(missing in ("zero", "invalid"), f"missing={missing!r}", "use 'zero' or 'invalid'")


def _float(array: Any) -> Any:
    return np.complex128 if array.dtype.kind == "c" else np.float64
