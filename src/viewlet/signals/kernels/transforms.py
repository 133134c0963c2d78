"""Fourier transforms of many short real windows at once.

SciPy transforms one window after the other, two numbers per instruction. Here `LANES` windows go
through the same butterflies side by side, so every instruction works on as many numbers as the
processor has room for; windows of 64 take a third of the time. A real window of N samples is a
complex one of N / 2 whose spectrum is then split (the usual packing). Rows are transformed in
place, decimation in frequency by four (by two at the end): the four rows of a butterfly are the
only pointers of its loop, few enough for the compiler to prove them apart and use the vector unit.
Spectra come out in digit-reversed rows; the copy to the caller's layout, needed anyway, undoes it.

Every window takes the same steps in whichever lane it is, so results do not depend on batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

LANES = 32
_WIDTH = 2 * LANES
_jit = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")


@_jit
def _row(z: Any, row: int) -> Any:
    """A row as a slice: within it im lies at a distance from re that the compiler knows."""
    return z[row * _WIDTH : row * _WIDTH + _WIDTH]


@_jit
def _rows(z: Any, twiddles: Any) -> None:
    """The complex transform over rows of (re of all lanes, im of all lanes), in place.

    The rows are left in digit-reversed order.
    """
    rows = len(z) // _WIDTH
    n = rows
    at = 0
    while n >= 4:
        m = n >> 2
        for p in range(m):
            w1r, w1i = twiddles[at, 0], twiddles[at, 1]
            w2r, w2i = twiddles[at, 2], twiddles[at, 3]
            w3r, w3i = twiddles[at, 4], twiddles[at, 5]
            at += 1
            for b in range(p, rows, n):
                za, zb, zc, zd = _row(z, b), _row(z, b + m), _row(z, b + 2 * m), _row(z, b + 3 * m)
                for lane in range(LANES):
                    ar, ai, br, bi = za[lane], za[lane + LANES], zb[lane], zb[lane + LANES]
                    cr, ci, dr, di = zc[lane], zc[lane + LANES], zd[lane], zd[lane + LANES]
                    er, ei, fr, fi = ar + cr, ai + ci, ar - cr, ai - ci
                    gr, gi, hr, hi = br + dr, bi + di, br - dr, bi - di
                    za[lane] = er + gr
                    za[lane + LANES] = ei + gi
                    ur, ui = fr + hi, fi - hr
                    zb[lane] = ur * w1r - ui * w1i
                    zb[lane + LANES] = ur * w1i + ui * w1r
                    ur, ui = er - gr, ei - gi
                    zc[lane] = ur * w2r - ui * w2i
                    zc[lane + LANES] = ur * w2i + ui * w2r
                    ur, ui = fr - hi, fi + hr
                    zd[lane] = ur * w3r - ui * w3i
                    zd[lane + LANES] = ur * w3i + ui * w3r
        n = m
    if n == 2:
        for b in range(0, rows, 2):
            za, zb = _row(z, b), _row(z, b + 1)
            for lane in range(LANES):
                ar, ai, br, bi = za[lane], za[lane + LANES], zb[lane], zb[lane + LANES]
                za[lane] = ar + br
                za[lane + LANES] = ai + bi
                zb[lane] = ar - br
                zb[lane + LANES] = ai - bi


@_jit
def forward(
    flat: Any, starts: Any, twiddles: Any, where: Any, roots: Any, full: bool, out: Any
) -> None:
    """out[w] = spectrum of flat[starts[w] : starts[w] + N] as re, im, re, im, ...

    N / 2 + 1 frequencies, or with `full` all N. where[k] is the row of frequency k after `_rows`,
    roots[k] = exp(-2 pi i k / N). With Z the spectrum of x[2k] + i x[2k + 1]:
    X[k] = (Z[k] + conj Z[M - k]) / 2 + roots[k] (Z[k] - conj Z[M - k]) / 2i,  M = N / 2.
    """
    half = len(where)
    size = 2 * half
    z = np.zeros(half * _WIDTH)
    for begin in range(0, len(starts), LANES):
        width = min(LANES, len(starts) - begin)
        # four rows at a time: a line of the cache is then read and written whole
        for tile in range(0, half, 4):
            rows = z[tile * _WIDTH : (tile + 4) * _WIDTH]
            for lane in range(width):
                at = starts[begin + lane] + 2 * tile
                x = flat[at : at + 8]
                for k in range(4):
                    rows[k * _WIDTH + lane] = x[2 * k]
                    rows[k * _WIDTH + LANES + lane] = x[2 * k + 1]
        _rows(z, twiddles)
        for k in range(1, half // 2):
            za, zb = _row(z, where[k]), _row(z, where[half - k])
            wr, wi = 0.5 * roots[k].real, 0.5 * roots[k].imag
            for lane in range(LANES):
                ar, ai, br, bi = za[lane], za[lane + LANES], zb[lane], zb[lane + LANES]
                er, ei = 0.5 * (ar + br), 0.5 * (ai - bi)
                dr, di = ai + bi, br - ar
                tr, ti = dr * wr - di * wi, dr * wi + di * wr
                za[lane] = er + tr
                za[lane + LANES] = ei + ti
                zb[lane] = er - tr
                zb[lane + LANES] = ti - ei
        for tile in range(0, half, 4):
            z0, z1 = _row(z, where[tile]), _row(z, where[tile + 1])
            z2, z3 = _row(z, where[tile + 2]), _row(z, where[tile + 3])
            for lane in range(width):
                y = out[begin + lane, 2 * tile : 2 * tile + 8]
                y[0], y[1] = z0[lane], z0[lane + LANES]
                y[2], y[3] = z1[lane], z1[lane + LANES]
                y[4], y[5] = z2[lane], z2[lane + LANES]
                y[6], y[7] = z3[lane], z3[lane + LANES]
        for lane in range(width):
            y = out[begin + lane]
            even, odd = y[0], y[1]
            y[0], y[1] = even + odd, 0.0
            y[size], y[size + 1] = even - odd, 0.0
            y[half + 1] = -y[half + 1]
            if full:
                for k in range(1, half):
                    y[2 * (size - k)] = y[2 * k]
                    y[2 * (size - k) + 1] = -y[2 * k + 1]


@_jit
def backward(spectra: Any, twiddles: Any, where: Any, roots: Any, out: Any) -> None:
    """out[w] = the real window of the half spectrum spectra[w] (re, im, re, im, ...).

    `forward` undone step by step; the inverse transform is the conjugate of the forward one of the
    conjugate, and takes the scale 1 / N along.
    """
    half = len(where)
    size = 2 * half
    scale = 1.0 / size
    z = np.zeros(half * _WIDTH)
    for begin in range(0, len(spectra), LANES):
        width = min(LANES, len(spectra) - begin)
        for tile in range(0, half, 4):
            rows = z[tile * _WIDTH : (tile + 4) * _WIDTH]
            for lane in range(width):
                y = spectra[begin + lane, 2 * tile : 2 * tile + 8]
                for k in range(4):
                    rows[k * _WIDTH + lane] = y[2 * k]
                    rows[k * _WIDTH + LANES + lane] = y[2 * k + 1]
        for lane in range(width):
            first, last = spectra[begin + lane, 0], spectra[begin + lane, size]
            za, zb = _row(z, 0), _row(z, half // 2)
            za[lane] = (first + last) * scale
            za[lane + LANES] = (last - first) * scale
            zb[lane] *= 2 * scale
            zb[lane + LANES] *= 2 * scale
        for k in range(1, half // 2):
            za, zb = _row(z, k), _row(z, half - k)
            wr, wi = roots[k].real * scale, -roots[k].imag * scale
            for lane in range(LANES):
                ar, ai, br, bi = za[lane], za[lane + LANES], zb[lane], zb[lane + LANES]
                er, ei = (ar + br) * scale, (ai - bi) * scale
                dr, di = ar - br, ai + bi
                tr, ti = dr * wr - di * wi, dr * wi + di * wr
                za[lane] = er - ti
                za[lane + LANES] = -ei - tr
                zb[lane] = er + ti
                zb[lane + LANES] = ei - tr
        _rows(z, twiddles)
        for tile in range(0, half, 4):
            z0, z1 = _row(z, where[tile]), _row(z, where[tile + 1])
            z2, z3 = _row(z, where[tile + 2]), _row(z, where[tile + 3])
            for lane in range(width):
                x = out[begin + lane, 2 * tile : 2 * tile + 8]
                x[0], x[1] = z0[lane], -z0[lane + LANES]
                x[2], x[3] = z1[lane], -z1[lane + LANES]
                x[4], x[5] = z2[lane], -z2[lane + LANES]
                x[6], x[7] = z3[lane], -z3[lane + LANES]
