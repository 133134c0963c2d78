"""Fourier transforms of many short real windows at once.

SciPy transforms one window after the other, two numbers per instruction. Here `LANES` windows go
through the same butterflies side by side, one in each lane of a vector. A real window of N samples
is a complex one of N / 2 whose spectrum is then split (the usual packing). Rows are transformed in
place, decimation in frequency by four (by two at the end), and come out in digit-reversed order;
the split, which reads every row once, undoes it. Between windows in memory and rows of lanes lie
transpositions in registers, eight by eight numbers.

A group of fewer than `LANES` windows fills the other lanes with its last window, which is then
computed and written more than once. Every window takes the same steps in whichever lane it is, so
results do not depend on batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from viewlet.signals.kernels.vectors import WIDTH, Vector, VectorCode, emitted, transposed

LANES = WIDTH
_ROW = 2 * LANES  # a row: re of all lanes, im of all lanes
_LINE = 64
_jit = njit(cache=True, nogil=True, error_model="numpy")
# a call counts references to all of its arrays up and down: half of the time of short windows
_inlined = njit(inline="always", error_model="numpy")


class _Complex(NamedTuple):
    re: Vector
    im: Vector

    def plus(self, other: _Complex) -> _Complex:
        return _Complex(self.re + other.re, self.im + other.im)

    def minus(self, other: _Complex) -> _Complex:
        return _Complex(self.re - other.re, self.im - other.im)

    def times(self, other: _Complex) -> _Complex:
        re = self.re * other.re - self.im * other.im
        return _Complex(re, self.re * other.im + self.im * other.re)

    def turned(self) -> _Complex:
        """-i times this."""
        return _Complex(self.im, -self.re)

    def conjugate(self) -> _Complex:
        return _Complex(self.re, -self.im)


# --- pieces of vector code -----------------------------------------------------------------------


def _row(code: VectorCode, z: Any, row: Any) -> _Complex:
    at = code.index(row, 0, _ROW)
    return _Complex(code.load(z, at), code.load(z, code.index(at, LANES)))


def _put_row(code: VectorCode, value: _Complex, z: Any, row: Any) -> None:
    at = code.index(row, 0, _ROW)
    code.store(value.re, z, at)
    code.store(value.im, z, code.index(at, LANES))


def _factor(code: VectorCode, table: Any, index: Any) -> _Complex:
    """The complex number at an index of a table of numbers, for all lanes."""
    return _Complex(code.everywhere(table, index), code.everywhere(table, code.index(index, 1)))


def _lanes(code: VectorCode, starts: Any, shift: Any) -> list[Any]:
    """Where the lanes' windows lie, `shift` numbers after their begin."""
    return [code.index(code.number(starts, code.index(n)), shift) for n in range(LANES)]


def _read(code: VectorCode, flat: Any, starts: Any, shift: Any) -> list[Vector]:
    """Eight numbers of every window -> eight vectors over the lanes."""
    return transposed([code.load(flat, at) for at in _lanes(code, starts, shift)])


def _write(
    code: VectorCode, values: list[_Complex], flat: Any, starts: Any, shift: Any, count: int = 8
) -> None:
    """Four complex vectors over the lanes -> eight numbers of every window (the first `count`)."""
    vectors = transposed([part for value in values for part in value])
    for vector, at in zip(vectors, _lanes(code, starts, shift), strict=True):
        code.store(vector.mixed(vector, range(count)) if count < 8 else vector, flat, at)


def _by_four(code: VectorCode, z: Any, row: Any, distance: Any, table: Any, at: Any) -> None:
    """Rows row + (0, 1, 2, 3) distance, times the table's three factors from `at` on.

    Without a table all factors are 1.
    """
    rows = [row]
    for _ in range(3):
        rows.append(code.index(rows[-1], distance))
    a, b, c, d = (_row(code, z, target) for target in rows)
    e, f, g, h = a.plus(c), a.minus(c), b.plus(d), b.minus(d).turned()
    out = [e.plus(g), f.plus(h), e.minus(g), f.minus(h)]
    if table is not None:
        for n in range(1, 4):
            out[n] = out[n].times(_factor(code, table, code.index(at, 2 * n - 2)))
    for target, value in zip(rows, out, strict=True):
        _put_row(code, value, z, target)


def _by_two(code: VectorCode, z: Any, row: Any) -> None:
    other = code.index(row, 1)
    a, b = _row(code, z, row), _row(code, z, other)
    _put_row(code, a.plus(b), z, row)
    _put_row(code, a.minus(b), z, other)


def _enter(code: VectorCode, flat: Any, starts: Any, shift: Any, z: Any) -> None:
    """z[n] = number n of every window, for the eight n from `shift` on."""
    for n, vector in enumerate(_read(code, flat, starts, shift)):
        code.store(vector, z, code.index(shift, n * LANES, LANES))


def _leave(code: VectorCode, z: Any, where: Any, row: Any, flat: Any, starts: Any) -> None:
    """The conjugates of rows where[row], where[row + 1], ... as eight numbers of every window."""
    rows = [code.number(where, code.index(row, n)) for n in range(4)]
    values = [_row(code, z, each).conjugate() for each in rows]
    _write(code, values, flat, starts, code.index(row, 0, 2))


def _separate(
    code: VectorCode,
    z: Any,
    where: Any,
    roots: Any,
    k: Any,
    half: Any,
    flat: Any,
    starts: Any,
    full: int,
) -> None:
    """Frequencies k to k + 3 and half - k - 3 to half - k of every window.

    X[k] = (Z[k] + conj Z[M - k]) / 2 + w[k] (Z[k] - conj Z[M - k]) / 2i,  X[M - k] the same with
    the second term taken away, conjugated; roots[k] = w[k] / 2. full = 1 also writes the negative
    frequencies, 2 does so for k = 0, where the negative of the first is itself.
    """
    direct, mirror = [], []
    one_half = code.constant(0.5)
    for n in range(4):
        here = code.index(k, n)
        there = code.minus(half, here)
        a = _row(code, z, code.number(where, here))
        b = _row(code, z, code.number(where, there)).conjugate()
        mean = _Complex((a.re + b.re) * one_half, (a.im + b.im) * one_half)
        turn = a.minus(b).turned().times(_factor(code, roots, code.index(here, 0, 2)))
        direct.append(mean.plus(turn))
        mirror.append(mean.minus(turn).conjugate())
    low = code.index(k, 0, 2)
    high = code.minus(code.index(half, -6, 2), low)
    if full:
        size = code.index(half, 0, 4)
        negative = [value.conjugate() for value in reversed(direct)]
        mirrored = code.minus(code.index(size, -6), low)
        _write(code, negative, flat, starts, mirrored, 6 if full == 2 else 8)
        mirrored = code.index(low, code.index(half, 0, 2))
        _write(code, [value.conjugate() for value in mirror], flat, starts, mirrored)
    _write(code, direct, flat, starts, low)
    _write(code, mirror[::-1], flat, starts, high)


def _unite(
    code: VectorCode, flat: Any, starts: Any, k: Any, half: Any, scales: Any, z: Any, begin: bool
) -> None:
    """`_separate` undone and conjugated: rows k to k + 3 and half - k - 3 to half - k.

    scales[k] = w[k] / N, scales[0] = 1 / N. The imaginary parts of the first and the last frequency
    (`begin`) count as zero.
    """
    low = code.index(k, 0, 2)
    direct = _read(code, flat, starts, low)
    mirror = _read(code, flat, starts, code.minus(code.index(half, -6, 2), low))
    scale = code.everywhere(scales, code.index(0))
    for n in range(4):
        here = code.index(k, n)
        a = _Complex(direct[2 * n], direct[2 * n + 1])
        b = _Complex(mirror[6 - 2 * n], mirror[7 - 2 * n])
        if begin and n == 0:
            a, b = _Complex(a.re, code.constant(0.0)), _Complex(b.re, code.constant(0.0))
        b = b.conjugate()
        mean = _Complex((a.re + b.re) * scale, (a.im + b.im) * scale)
        factor = _factor(code, scales, code.index(here, 0, 2))
        turn = a.minus(b).conjugate().times(factor).turned()
        _put_row(code, mean.conjugate().plus(turn), z, here)
        if not (begin and n == 0):
            _put_row(code, mean.minus(turn.conjugate()), z, code.minus(half, here))


def _unite_middle(code: VectorCode, flat: Any, starts: Any, k: Any, scales: Any, z: Any) -> None:
    """Row k = half / 2, whose mirror it is itself."""
    scale = code.everywhere(scales, code.index(0))
    at = code.index(k, 0, 2)
    re, im = (code.gathered(flat, _lanes(code, starts, code.index(at, n))) for n in range(2))
    _put_row(code, _Complex((re + re) * scale, (im + im) * scale), z, k)


def _move(code: VectorCode, a: Any, at: Any, b: Any, target: Any, add: bool) -> None:
    """Eight numbers of a to b, or added to what b has."""
    numbers = code.load(a, at)
    code.store(code.load(b, target) + numbers if add else numbers, b, target)


_take_samples: Any = emitted(_enter)
_butterfly: Any = emitted(_by_four)
_plain_butterfly: Any = emitted(_by_four, table=None, at=None)
_last_butterfly: Any = emitted(_by_two)
_give_half: Any = emitted(_separate, full=0)
_give_full: Any = emitted(_separate, full=1)
_give_full_begin: Any = emitted(_separate, full=2)
_take_begin: Any = emitted(_unite, begin=True)
_take_half: Any = emitted(_unite, begin=False)
_take_middle: Any = emitted(_unite_middle)
_give_samples: Any = emitted(_leave)
_add_eight: Any = emitted(_move, add=True)
_copy_eight: Any = emitted(_move, add=False)


# --- kernels -------------------------------------------------------------------------------------


@_jit
def _scratch(numbers: int) -> Any:
    """Memory that begins at a line of the cache: no vector of it then lies across two lines."""
    memory = np.empty(numbers + _LINE // 8)
    skip = (-memory.ctypes.data % _LINE) // 8
    return memory[skip : skip + numbers]


@_inlined
def _rows(z: Any, rows: int, twiddles: Any) -> None:
    """The complex transform over all rows, in place; the rows are left in digit-reversed order."""
    n = rows
    at = 0
    while n >= 4:
        m = n >> 2
        for row in range(0, rows, n):
            _plain_butterfly(z, row, m)
        at += 6
        for p in range(1, m):
            for row in range(p, rows, n):
                _butterfly(z, row, m, twiddles, at)
            at += 6
        n = m
    if n == 2:
        for row in range(0, rows, 2):
            _last_butterfly(z, row)


@_jit
def forward(
    flat: Any, starts: Any, twiddles: Any, where: Any, roots: Any, full: bool, out: Any
) -> None:
    """out[w] = spectrum of flat[starts[w] : starts[w] + N] as re, im, re, im, ...

    N / 2 + 1 frequencies, or with `full` all N. where[k] is the row of frequency k after `_rows`
    (where[N / 2] = where[0]), roots[k] = exp(-2 pi i k / N) / 2 as re, im, re, im, ...
    """
    half = len(where) - 1
    size = 2 * half
    z = _scratch(half * _ROW)
    sources, targets = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    width = out.shape[1]
    numbers = out.reshape(-1)
    for begin in range(0, len(starts), LANES):
        count = min(LANES, len(starts) - begin)
        for lane in range(LANES):
            window = begin + min(lane, count - 1)
            sources[lane] = starts[window]
            targets[lane] = window * width
        for shift in range(0, size, LANES):
            _take_samples(flat, sources, shift, z)
        _rows(z, half, twiddles)
        if full:
            _give_full_begin(z, where, roots, 0, half, numbers, targets)
            for k in range(4, half // 2, 4):
                _give_full(z, where, roots, k, half, numbers, targets)
        else:
            for k in range(0, max(1, half // 2), 4):
                _give_half(z, where, roots, k, half, numbers, targets)
        middle = where[half // 2] * _ROW
        for lane in range(LANES):
            at, re, im = targets[lane] + half, z[middle + lane], z[middle + LANES + lane]
            numbers[at], numbers[at + 1] = re, -im
            if full:
                numbers[at + size], numbers[at + size + 1] = re, im


@_inlined
def _inverse(
    numbers: Any,
    sources: Any,
    twiddles: Any,
    where: Any,
    scales: Any,
    z: Any,
    out: Any,
    starts: Any,
) -> None:
    """The windows of eight half spectra, which begin at `sources`, to `starts` in out."""
    half = len(where) - 1
    _take_begin(numbers, sources, 0, half, scales, z)
    for k in range(4, half // 2, 4):
        _take_half(numbers, sources, k, half, scales, z)
    _take_middle(numbers, sources, half // 2, scales, z)
    _rows(z, half, twiddles)
    for row in range(0, half, 4):
        _give_samples(z, where, row, out, starts)


@_jit
def backward(spectra: Any, twiddles: Any, where: Any, scales: Any, out: Any) -> None:
    """out[w] = the real window of the half spectrum spectra[w] (re, im, re, im, ...).

    `forward` undone step by step; the inverse transform is the conjugate of the forward one of the
    conjugate, and takes the scale along: scales[k] = exp(-2 pi i k / N) / N as re, im, re, im, ...
    """
    z = _scratch((len(where) - 1) * _ROW)
    sources, targets = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    numbers, windows = spectra.reshape(-1), out.reshape(-1)
    for begin in range(0, len(spectra), LANES):
        for lane in range(LANES):
            window = min(begin + lane, len(spectra) - 1)
            sources[lane] = window * spectra.shape[1]
            targets[lane] = window * out.shape[1]
        _inverse(numbers, sources, twiddles, where, scales, z, windows, targets)


@_inlined
def _lay(windows: Any, at: int, size: int, shared: int, out: Any, target: int) -> None:
    """A window to its target: the first `shared` numbers are added to what is there."""
    k = 0
    while k + LANES <= shared:
        _add_eight(windows, at + k, out, target + k)
        k += LANES
    while k < shared:
        out[target + k] += windows[at + k]
        k += 1
    while k + LANES <= size:
        _copy_eight(windows, at + k, out, target + k)
        k += LANES
    while k < size:
        out[target + k] = windows[at + k]
        k += 1


@_jit
def backward_sum(
    spectra: Any,
    twiddles: Any,
    where: Any,
    scales: Any,
    offsets: Any,
    segment: int,
    first: int,
    hop: int,
    rows: Any,
    out: Any,
) -> None:
    """`backward`, and its windows summed (as filtering.overlap_sum does) while they are hot."""
    size = 2 * (len(where) - 1)
    z = _scratch((len(where) - 1) * _ROW)
    windows = _scratch(LANES * size)
    sources, targets = np.empty(LANES, np.int64), np.arange(LANES) * size
    numbers = spectra.reshape(-1)
    for begin in range(0, len(spectra), LANES):
        for lane in range(LANES):
            sources[lane] = min(begin + lane, len(spectra) - 1) * spectra.shape[1]
        _inverse(numbers, sources, twiddles, where, scales, z, windows, targets)
        for lane in range(min(LANES, len(spectra) - begin)):
            window = first + begin + lane
            while window >= offsets[segment + 1]:
                segment += 1
            number = window - offsets[segment]
            shared = size - hop if number > 0 else 0
            _lay(windows, lane * size, size, shared, out, rows[segment] + number * hop)
