"""Pipelines over windows (thesis 7.4.6): arrays in, arrays out, back to a signal at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import fft as spectra
from scipy import signal as scipy_signal

from viewlet.signals import transforms
from viewlet.signals.operators.base import Function, Node, array_hash, code_hash, require
from viewlet.signals.operators.streams import Points
from viewlet.signals.operators.windows import (
    Incremental,
    OverlapAdd,
    Pairs,
    SelectFrames,
    Transform,
    Window,
)
from viewlet.signals.query import Signal, Uniform
from viewlet.signals.runnable import Query
from viewlet.signals.sliding import PipelineOperator, sliding_dft


class Framed(Query):
    """Arrays at hop points. As a result: one row per hop, stamped with the window's last sample.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(2).window(2).map(lambda w: w).run(readings)
    {'sensor': array([1]), 't': array([2]), 'v': array([[0., 2.]])}
    """

    def _step(self, label: str, function: Function, size: int = 0, views: bool = False) -> Framed:
        schema = self.schema.with_(size=size)
        return Framed(Transform(schema, (self.node,), label, function, views))

    def fft(self) -> Framed:
        """The discrete Fourier transform of every window (scipy.fft.fft)."""
        return self._step("fft", transforms.fft, self.schema.size, views=True)

    def ifft(self) -> Framed:
        """The inverse discrete Fourier transform of each frame."""
        return self._step("ifft", lambda a: spectra.ifft(a, axis=1), self.schema.size)

    def rfft(self) -> Framed:
        """The half spectrum of real windows."""
        return self._step("rfft", transforms.rfft, self.schema.size, views=True)

    def irfft(self, size: int | None = None) -> Framed:
        """Real windows of `size` (the window's own size if left out) from half spectra."""
        size = size or self.schema.size
        require(size > 0, "irfft cannot know the size of its windows", "write irfft(size)")
        return self._step("irfft", transforms.InverseReal(size), size)

    def taper(self, window: Any) -> Framed:
        """Multiply by a windowing function: an array, or a name for scipy.signal.get_window."""
        size = self.schema.size
        if isinstance(window, str | tuple):
            window = scipy_signal.get_window(window, size)
        return self.multiply(window)

    def multiply(self, other: Any) -> Framed:
        """Element-wise product with an array, or with the windows of another pipeline."""
        if isinstance(other, Framed):
            return self._pairs(other, "multiply", lambda a, b: a * b, self.schema.size)
        array = np.asarray(other)
        require(
            array.ndim == 1 and self.schema.size in (0, len(array)),
            f"a product of windows of {self.schema.size} with an array of {list(array.shape)}",
            "give one factor per sample of the window",
        )
        return self._step(
            f"multiply(<{len(array)} values {array_hash(array)}>)", lambda a: a * array, len(array)
        )

    def autocorrelate(self) -> Framed:
        """np.correlate(x, x, "full") of every window: 2 size - 1 values."""
        size = self.schema.size
        return self._step("autocorrelate", lambda a: _correlate(a, a), max(0, 2 * size - 1))

    def crosscorrelate(self, other: Any) -> Framed:
        """np.correlate(x, y, "full") with an array, or with the windows of another pipeline."""
        if isinstance(other, Framed):
            out = max(0, self.schema.size + other.schema.size - 1)
            return self._pairs(other, "crosscorrelate", _correlate, out)
        array = np.asarray(other)
        require(array.ndim == 1 and len(array) > 0, "crosscorrelate with no array", "give numbers")
        size = self.schema.size + len(array) - 1 if self.schema.size else 0
        label = f"crosscorrelate(<{len(array)} values {array_hash(array)}>)"
        return self._step(label, lambda a: _correlate(a, array[None, :]), size)

    def map(self, function: Callable[[Any], Any], size: int | None = None) -> Framed:
        """function(windows [n, size]) -> [n, any size], or one number per window [n].

        `size` declares the length of the result where it differs from the input's.
        """
        name = getattr(function, "__name__", "function")
        label = f"map(<{name} {code_hash(function)}>)"
        return self._step(label, function, self.schema.size if size is None else size)

    def select(self, function: Function) -> Framed:
        """function(e) with all channels' windows: an array, or a mapping of them."""
        return Framed(SelectFrames(self.schema.with_(size=0), (self.node,), function))

    def apply(self, operator: PipelineOperator) -> Framed:
        """A pipeline operator with `recompute` and `update`; it must follow `window` directly."""
        node = self.node
        require(
            isinstance(node, Window) and node.hop <= node.size,
            "an operator with deltas that does not directly follow overlapping windows",
            "put it right after window(size, hop) with hop <= size",
        )
        schema = self.schema.with_(size=operator.output)
        dtype = str(np.dtype(operator.dtype))
        return Framed(
            Incremental(
                schema,
                (node,),
                operator.label,
                operator.recompute,
                operator.update,
                operator.output,
                dtype,
                self.schema.hop,
                operator.renew,
            )
        )

    def sliding_dft(self, bins: Any = None) -> Framed:
        """The DFT (or chosen bins of it) kept up to date from the deltas of each hop."""
        return self.apply(sliding_dft(self.schema.size, self.schema.hop, bins))

    def overlap_add(self, merge: str = "sum") -> Uniform:
        """Back to a uniform signal: overlapping values merged by sum, mean, min, max or last."""
        require(
            merge in ("sum", "mean", "min", "max", "last"),
            f"overlap_add by {merge!r}",
            "use sum, mean, min, max or last",
        )
        schema = self.schema.with_(form="uniform", size=0, hop=0)
        return Uniform(OverlapAdd(schema, (self.node,), merge))

    def signal(self) -> Signal:
        """The hops as point events; for pipelines that end in one number per window."""
        schema = self.schema.with_(form="signal", size=0, hop=0)
        return Signal(Points(schema, (self.node,)))

    def _pairs(self, other: Framed, label: str, function: Function, size: int) -> Framed:
        a, b = self.schema, other.schema
        require(
            (a.period, a.offset, a.hop) == (b.period, b.offset, b.hop),
            f"{label} of windows on different grids",
            "window both signals with the same hop, after bringing them to the same period",
        )
        nodes: tuple[Node, ...] = (self.node, other.node)
        return Framed(Pairs(a.with_(size=size), nodes, label, function))


def _correlate(a: Any, b: Any) -> Any:
    """c[k] = sum_n a[n + k] conj(b[n]) for all lags, by transform, for every row."""
    size = a.shape[1] + b.shape[1] - 1
    real = a.dtype.kind != "c" and b.dtype.kind != "c"
    width = spectra.next_fast_len(size, real)
    flipped = np.conj(b[:, ::-1])
    if real:
        return spectra.irfft(
            spectra.rfft(a, width, axis=1) * spectra.rfft(flipped, width, axis=1), width, axis=1
        )[:, :size]
    product = spectra.fft(a, width, axis=1) * spectra.fft(flipped, width, axis=1)
    return spectra.ifft(product, axis=1)[:, :size]
