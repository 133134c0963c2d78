"""A regression that stays current while sensors report, drift and are corrected.

A process has many inputs and one measured yield. Observations arrive one by one, the oldest leave
a sliding window, and now and then a faulty one is corrected. The coefficients and the residual sum
are maintained: each event is a rank-1 update instead of a new fit. After a third of the events the
process changes, and the coefficients follow within one window.

    python examples/live_regression.py [--plot docs/images/linalg/live_regression.png]
"""

from __future__ import annotations

import argparse
import time
from collections import deque

import numpy as np

import viewlet.linalg as la

FEATURES, WINDOW, EVENTS = 150, 1500, 3000


def main(plot: str | None = None) -> None:
    rng = np.random.default_rng(2024)
    before, after = rng.standard_normal((2, FEATURES))
    x = rng.standard_normal((WINDOW, FEATURES))
    y = x @ before + 0.1 * rng.standard_normal(WINDOW)

    fit = la.LeastSquares(x, y, strategy="incremental")
    window = deque(range(WINDOW))
    followed, fresh = [], []
    maintained = refitted = 0.0

    for event in range(EVENTS):
        truth = before if event < EVENTS // 3 else after
        row = rng.standard_normal(FEATURES)
        answer = float(row @ truth + 0.1 * rng.standard_normal())

        start = time.perf_counter()
        window.extend(fit.add(row, answer))
        fit.remove([window.popleft()])
        maintained += time.perf_counter() - start

        if event % 10 == 0:  # a correction: the same observation, measured again
            faulty = window[int(rng.integers(len(window)))]
            fit.correct(responses={faulty: fit.live["Y"][faulty] + 0.01})
        followed.append(float(fit.coefficients[0]))
        if event % 100 == 0:
            start = time.perf_counter()
            current = list(window)
            want = np.linalg.lstsq(fit.live["X"][current], fit.live["Y"][current], rcond=None)[0]
            refitted += time.perf_counter() - start
            fresh.append(float(np.linalg.norm(fit.coefficients - want) / np.linalg.norm(want)))

    print(f"{EVENTS} arrivals and departures over a window of {WINDOW} observations")
    print(f"  maintained  {1e3 * maintained / EVENTS:8.3f} ms per event")
    print(f"  refitted    {1e3 * refitted / len(fresh):8.3f} ms per event (numpy.linalg.lstsq)")
    print(f"  distance from the refit: {max(fresh):.1e} at most; estimated now: {fit.error():.1e}")
    print(
        f"  first coefficient: {before[0]:.3f} before, {after[0]:.3f} after, now {followed[-1]:.3f}"
    )
    print(f"  residual sum of squares now: {fit.residual_sums[0]:.3f}")
    if plot is not None:
        draw(plot, followed, float(before[0]), float(after[0]))


def draw(path: str, followed: list[float], before: float, after: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(figsize=(6.4, 3.2), layout="constrained")
    axes.plot(followed, color="#2f6f9f", label="maintained coefficient")
    third = EVENTS // 3
    axes.hlines([before], 0, third, colors="#8a8a8a", linestyles="--", label="truth")
    axes.hlines([after], third, EVENTS, colors="#8a8a8a", linestyles="--")
    axes.axvline(third, color="#b5483a", linewidth=1, label="the process changes")
    axes.set_xlabel("event")
    axes.set_ylabel("coefficient of the first input")
    axes.legend(fontsize=8)
    canvas.savefig(path, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot")
    main(parser.parse_args().plot)
