"""Transforms of short real windows give what SciPy gives, whatever the batch they come in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import fft as spectra

import viewlet.signals as sg
from viewlet.errors import TypingError
from viewlet.signals import transforms
from viewlet.signals.batches import WindowPipeline, WindowStep, WindowView
from viewlet.signals.kernels.transforms import LANES

SIZES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 12, 100]


def windows(size: int, count: int, hop: int) -> WindowView:
    flat = np.random.default_rng(size + count).standard_normal(size + hop * count)
    return WindowView(flat, np.arange(count) * hop, size)


@pytest.mark.parametrize("count", [0, 1, LANES - 1, LANES, 2 * LANES + 3])
@pytest.mark.parametrize("size", SIZES)
def test_transforms_equal_scipy(size, count):
    view = windows(size, count, max(1, size // 3))
    array = np.array([view.flat[at : at + size] for at in view.starts]).reshape(count, size)
    close = {"rtol": 0, "atol": 1e-12 * size}
    if count:
        full, half = spectra.fft(array, axis=1), spectra.rfft(array, axis=1)
        np.testing.assert_allclose(transforms.fft(view), full, **close)
        np.testing.assert_allclose(transforms.fft(array), full, **close)
        np.testing.assert_allclose(transforms.rfft(view), half, **close)
        np.testing.assert_allclose(transforms.irfft(half, size), array, **close)
    elif size >= 8 and size & (size - 1) == 0:
        assert transforms.fft(view).shape == (0, size)
        assert transforms.rfft(view).shape == (0, size // 2 + 1)


def test_other_inputs_go_to_scipy():
    rng = np.random.default_rng(0)
    array = rng.standard_normal((5, 64))
    np.testing.assert_allclose(transforms.fft(array + 1j), spectra.fft(array + 1j, axis=1))
    np.testing.assert_allclose(transforms.rfft(array[:, ::2]), spectra.rfft(array[:, ::2], axis=1))
    half = spectra.rfft(array, axis=1)
    np.testing.assert_allclose(transforms.irfft(half, 32), spectra.irfft(half, 32, axis=1))
    np.testing.assert_allclose(
        transforms.irfft(half.real, 64), spectra.irfft(half.real, 64, axis=1)
    )


def test_the_imaginary_part_of_the_ends_is_ignored_as_in_scipy():
    half = np.random.default_rng(1).standard_normal((3, 33, 2)).view(np.complex128)[..., 0].copy()
    expected = spectra.irfft(half, 64, axis=1)
    np.testing.assert_allclose(transforms.irfft(half, 64), expected, atol=1e-13)


def test_a_window_has_the_same_spectrum_in_every_lane_and_thread():
    view = windows(64, 5_000, 16)
    alone = np.concatenate([transforms.rfft(view[n : n + 1]) for n in range(0, 5_000, 97)])
    with spectra.set_workers(3):
        together = transforms.rfft(view)
    assert np.array_equal(alone, together[::97])


def test_a_pipeline_gives_the_same_in_parts(monkeypatch):
    view = windows(32, 700, 8)
    steps = (
        WindowStep("rfft", transforms.rfft, True),
        WindowStep("square", lambda a: np.abs(a) ** 2, False),
    )
    whole = steps[1](steps[0](view))
    monkeypatch.setattr("viewlet.signals.batches._PART_SAMPLES", 64 * 32)
    assert len(list(WindowPipeline(view, steps).parts())) == 11
    assert np.array_equal(WindowPipeline(view, steps).array(), whole)


def test_a_step_that_changes_the_size_unsaid_is_refused():
    query = sg.source(time="t", value="v").sample(1).window(8, 4)
    table = {"t": np.arange(100), "v": np.arange(100.0)}
    with pytest.raises(TypingError, match=r"arrays of \[4\] where the pipeline says 8"):
        query.map(lambda a: a[:, :4]).overlap_add().run(table)


@pytest.mark.parametrize("change", [lambda a: a, np.asfortranarray, lambda a: a.astype("c8")])
@pytest.mark.parametrize(
    ("size", "hop"),
    [(8, 1), (8, 8), (16, 5), (64, 32), (64, 13), (128, 100), (2048, 512), (60, 30)],
)
def test_windows_of_inverse_transforms_are_summed(size, hop, change, monkeypatch):
    """By the kernel itself, or after SciPy where the spectra are not for it; in several parts."""
    monkeypatch.setattr("viewlet.signals.batches._PART_SAMPLES", 16 * size)
    rng = np.random.default_rng(size + hop)
    counts = [size + hop * windows for windows in (0, 40, 3, 17)]
    keys = np.repeat(np.arange(len(counts)), counts)
    table = {
        "k": np.append(keys, 99),  # too short for a window
        "t": np.append(np.concatenate([np.arange(n) for n in counts]), 0),
        "v": rng.standard_normal(len(keys) + 1),
    }
    frames = sg.source(key="k", time="t", value="v").sample(1).window(size, hop)
    out = frames.rfft().map(change).irfft().overlap_add().run(table)
    assert out["v"].dtype == np.float64
    single = change(np.zeros((1, 1), complex)).dtype == np.complex64
    for key, count in enumerate(counts):
        values = table["v"][table["k"] == key]
        expected = np.zeros(count)
        for at in range(0, count - size + 1, hop):
            expected[at : at + size] += values[at : at + size]
        assert list(out["t"][out["k"] == key]) == list(range(count))
        found = out["v"][out["k"] == key]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if single else 1e-12)
    assert 99 not in out["k"]
