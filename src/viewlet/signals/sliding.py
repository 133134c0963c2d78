"""Pipeline operators that update their output by the deltas of a window (thesis 7.4.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from viewlet.errors import TypingError


@dataclass(frozen=True)
class PipelineOperator:
    """Figure 7.7: the output size, recompute(window, out) and update(old, new, out).

    Both change `out` in place and are compiled by Numba. `old` are the `hop` samples that left the
    window, `new` the ones that entered. Every `renew`-th window is recomputed, which bounds the
    rounding error of a long chain of updates.

    >>> sg.sliding_dft(8, 4, bins=[0, 1]).output
    2
    """

    output: int
    recompute: Callable[[Any, Any], None]
    update: Callable[[Any, Any, Any], None]
    dtype: str = "float64"
    renew: int = 256
    label: str = "operator"


def sliding_dft(size: int, hop: int, bins: Any = None) -> PipelineOperator:
    """X'[k] = w^{-k hop} (X[k] + sum_j (new[j] - old[j]) w^{k j}),  w = exp(-2 pi i / size).

    O(bins hop) per hop where a transform costs O(size log size): it pays for few bins or short
    hops.

    >>> sg.sliding_dft(8, 4).output
    8
    """
    chosen = tuple(range(size)) if bins is None else tuple(int(b) for b in bins)
    if not chosen or not all(-size <= b < size for b in chosen):
        raise TypingError(f"bins {list(chosen)} of a DFT of {size}", hint="use 0 to size - 1")
    recompute, update = _dft(size, hop, chosen)
    label = f"sliding_dft(bins={list(chosen) if bins is not None else size})"
    return PipelineOperator(len(chosen), recompute, update, "complex128", 256, label)


@lru_cache(maxsize=32)
def _dft(size: int, hop: int, bins: tuple[int, ...]) -> tuple[Any, Any]:
    """Cached, so that equal operators share one compiled kernel."""
    k = np.array(bins)
    # [sample, bin], real and imaginary parts side by side: the inner loop is then a plain sum over
    # floats that vectorizes; exponents are reduced modulo size before they meet floating point
    twiddle = np.exp(-2j * np.pi * (np.outer(np.arange(size), k) % size) / size)
    real = np.ascontiguousarray(twiddle).view(np.float64)
    imaginary = np.ascontiguousarray(1j * twiddle).view(np.float64)
    turn = np.exp(2j * np.pi * (k * hop % size) / size)
    count = len(bins)

    def recompute(window: Any, out: Any) -> None:
        out[:] = 0
        parts = out.view(np.float64)
        for j in range(size):
            x, y = window[j].real, window[j].imag
            a, b = real[j], imaginary[j]
            for i in range(2 * count):
                parts[i] += x * a[i] + y * b[i]

    def update(old: Any, new: Any, out: Any) -> None:
        parts = out.view(np.float64)
        for j in range(hop):
            x = (new[j] - old[j]).real
            y = (new[j] - old[j]).imag
            a, b = real[j], imaginary[j]
            for i in range(2 * count):
                parts[i] += x * a[i] + y * b[i]
        for i in range(count):
            out[i] *= turn[i]

    return recompute, update
