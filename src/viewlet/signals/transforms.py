"""Fourier transforms of windows: our own kernel for short real ones, SciPy for all others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import fft as spectra

from viewlet.signals import buffers
from viewlet.signals.batches import Array, Ints, WindowView
from viewlet.signals.kernels import transforms as kernel

# Longer windows no longer fit the cache with all lanes, and one of them keeps SciPy busy enough.
_SHORTEST, _LONGEST = 8, 2048
_THREADS_FROM = 1 << 17  # samples in all windows from which a second thread pays


class TransformTables(NamedTuple):
    """What the kernel needs to know about a size (see kernels/transforms.py)."""

    twiddles: Array
    where: Ints
    roots: Array
    scales: Array


@lru_cache(maxsize=16)
def tables(size: int) -> TransformTables:
    """Roots of unity and the order of frequencies for transforms of this size."""
    half = size // 2
    parts, n = [], half
    while n >= 4:
        powers = np.arange(n // 4)[:, None] * np.array([1, 2, 3])
        parts.append(np.exp(-2j * np.pi * powers / n))
        n //= 4
    where = np.empty(half + 1, np.int64)
    where[_frequencies(half)] = np.arange(half)
    where[half] = where[0]
    roots = np.exp(-2j * np.pi * np.arange(half) / size)
    twiddles = np.concatenate(parts).reshape(-1)
    numbers = (table.view(np.float64) for table in (roots / 2, roots / size))
    return TransformTables(twiddles.view(np.float64), where, *numbers)


def _frequencies(rows: int) -> Ints:
    """The frequency that each row holds after the passes by four and a last one by two."""
    if rows == 1:
        return np.zeros(1, np.int64)
    radix = 4 if rows >= 4 else 2
    inner = _frequencies(rows // radix)
    return np.concatenate([radix * inner + c for c in range(radix)])


def _short(size: int) -> bool:
    return _SHORTEST <= size <= _LONGEST and size & (size - 1) == 0


def _windows(windows: Array | WindowView) -> tuple[Array, Ints, int] | None:
    """Flat samples, where each window begins, and the size; None when SciPy has to do it."""
    if isinstance(windows, WindowView):
        parts = windows.flat, windows.starts, windows.size
    elif windows.ndim == 2 and windows.flags.c_contiguous:
        count, size = windows.shape
        parts = windows.reshape(-1), np.arange(count) * size, size
    else:
        return None
    flat, _, size = parts
    fits = flat.dtype == np.float64 and flat.flags.c_contiguous and _short(size)
    return parts if fits else None


def _array(windows: Array | WindowView) -> Array:
    return windows.array() if isinstance(windows, WindowView) else windows


def fft(windows: Array | WindowView) -> Array:
    """The spectrum of every window (scipy.fft.fft)."""
    parts = _windows(windows)
    if parts is None:
        return np.asarray(spectra.fft(_array(windows), axis=1))
    return _forward(*parts, full=True)


def rfft(windows: Array | WindowView) -> Array:
    """The half spectrum of every window of real samples (scipy.fft.rfft)."""
    parts = _windows(windows)
    if parts is None:
        return np.asarray(spectra.rfft(_array(windows), axis=1))
    return _forward(*parts, full=False)


def irfft(spectrum: Array | WindowView, size: int) -> Array:
    """Real windows of `size` samples from half spectra (scipy.fft.irfft)."""
    values = _array(spectrum)
    if not _half_spectra(values, size):
        return np.asarray(spectra.irfft(values, size, axis=1))
    twiddles, where, _, scales = tables(size)
    parts = values.view(np.float64)
    out = buffers.empty((len(values), size), np.float64)
    _each(
        len(values),
        size,
        lambda rows: kernel.backward(parts[rows], twiddles, where, scales, out[rows]),
    )
    return out


def _half_spectra(values: Array, size: int) -> bool:
    """Whether our kernel takes them."""
    return (
        _short(size)
        and values.ndim == 2
        and values.shape[1] == size // 2 + 1
        and values.dtype == np.complex128
        and values.flags.c_contiguous
    )


@dataclass(frozen=True)
class InverseReal:
    """`irfft` as a step: the last one before windows are summed can do so by itself."""

    size: int

    def __call__(self, spectrum: Array) -> Array:
        return irfft(spectrum, self.size)

    def add(
        self,
        spectrum: Array,
        offsets: Ints,
        segment: int,
        at: int,
        hop: int,
        rows: Ints,
        out: Array,
    ) -> bool:
        """Sum the windows of these spectra into out (`overlap_sum`), or say that it cannot."""
        if not _half_spectra(spectrum, self.size) or out.dtype != np.float64:
            return False
        twiddles, where, _, scales = tables(self.size)
        transform = (spectrum.view(np.float64), twiddles, where, scales)
        kernel.backward_sum(*transform, offsets, segment, at, hop, rows, out)
        return True


def _forward(flat: Array, starts: Ints, size: int, full: bool) -> Array:
    twiddles, where, roots, _ = tables(size)
    out = buffers.empty((len(starts), size if full else size // 2 + 1), np.complex128)
    parts = out.view(np.float64)
    _each(
        len(starts),
        size,
        lambda rows: kernel.forward(flat, starts[rows], twiddles, where, roots, full, parts[rows]),
    )
    return out


def _each(count: int, size: int, work: Any) -> None:
    """work(rows) over all windows, by as many threads as SciPy's transforms may use now."""
    workers = spectra.get_workers()
    if workers == 1 or count * size < _THREADS_FROM:
        work(slice(0, count))
        return
    # whole groups of lanes, so that no thread has half a group at its end
    groups = -(-count // kernel.LANES)
    cuts = [min(count, groups * n // workers * kernel.LANES) for n in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, (slice(a, b) for a, b in pairwise(cuts))))
