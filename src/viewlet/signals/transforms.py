"""Fourier transforms of windows: our own kernel for short real ones, SciPy for all others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


class Tables(NamedTuple):
    """What the kernel needs to know about a size (see kernels/transforms.py)."""

    twiddles: Array
    where: Ints
    roots: Array


@lru_cache(maxsize=16)
def tables(size: int) -> Tables:
    half = size // 2
    parts, n = [], half
    while n >= 4:
        powers = np.arange(n // 4)[:, None] * np.array([1, 2, 3])
        parts.append(np.exp(-2j * np.pi * powers / n))
        n //= 4
    twiddles = np.concatenate(parts).view(np.float64).reshape(-1, 6)
    where = np.empty(half, np.int64)
    where[_frequencies(half)] = np.arange(half)
    return Tables(twiddles, where, np.exp(-2j * np.pi * np.arange(half) / size))


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
        found = windows.flat, windows.starts, windows.size
    elif windows.ndim == 2 and windows.flags.c_contiguous:
        count, size = windows.shape
        found = windows.reshape(-1), np.arange(count) * size, size
    else:
        return None
    flat, _, size = found
    return found if flat.dtype == np.float64 and _short(size) else None


def _array(windows: Array | WindowView) -> Array:
    return windows.array() if isinstance(windows, WindowView) else windows


def fft(windows: Array | WindowView) -> Array:
    """The spectrum of every window (scipy.fft.fft)."""
    found = _windows(windows)
    if found is None:
        return np.asarray(spectra.fft(_array(windows), axis=1))
    return _forward(*found, full=True)


def rfft(windows: Array | WindowView) -> Array:
    """The half spectrum of every window of real samples (scipy.fft.rfft)."""
    found = _windows(windows)
    if found is None:
        return np.asarray(spectra.rfft(_array(windows), axis=1))
    return _forward(*found, full=False)


def irfft(spectrum: Array | WindowView, size: int) -> Array:
    """Real windows of `size` samples from half spectra (scipy.fft.irfft)."""
    values = _array(spectrum)
    fits = values.ndim == 2 and values.shape[1] == size // 2 + 1 and _short(size)
    if not fits or values.dtype != np.complex128 or not values.flags.c_contiguous:
        return np.asarray(spectra.irfft(values, size, axis=1))
    known = tables(size)
    parts = values.view(np.float64)
    out = buffers.empty((len(values), size), np.float64)
    _each(len(values), size, lambda rows: kernel.backward(parts[rows], *known, out[rows]))
    return out


def _forward(flat: Array, starts: Ints, size: int, full: bool) -> Array:
    known = tables(size)
    out = buffers.empty((len(starts), size if full else size // 2 + 1), np.complex128)
    parts = out.view(np.float64)
    _each(
        len(starts),
        size,
        lambda rows: kernel.forward(flat, starts[rows], *known, full, parts[rows]),
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
