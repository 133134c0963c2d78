"""Noisy, irregular sensors -> resampled, filtered and denoised signals, offline and live.

usage: python examples/sensor_filter.py [OUTPUT_DIRECTORY]

Three sensors report a slow oscillation with noise at irregular times, lose messages, and now and
then send a broken value. One query cleans all of them; it is run over the whole table, then again
over the same events as a stream, stopped in the middle and restored. The plots go to the output
directory (docs/images/signals in the documentation).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy import signal

import viewlet.signals as sg

PERIOD = 100  # ticks (milliseconds) between two samples


def readings(seed: int = 4) -> pa.Table:
    """A table sensor, t, v in time order: irregular, with gaps and outliers."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, name in enumerate(["boiler", "pump", "roof"]):
        t = np.cumsum(rng.integers(40, 160, 6_000))
        lost = (rng.random(len(t)) < 0.05) | ((t > 200_000) & (t < 206_000))
        t = t[~lost]
        slow = (1 + 0.3 * number) * np.sin(2 * np.pi * t / 20_000)
        v = 20 + 5 * slow + rng.normal(0, 1.2, len(t))
        v[rng.random(len(t)) < 0.003] = 999.0  # a broken reading
        parts.append(pa.table({"sensor": [name] * len(t), "t": t, "v": v}))
    return pa.concat_tables(parts).sort_by([("t", "ascending")])


def keep_top(count: int):
    """Zero all but the `count` largest values of every spectrum."""

    def keep(spectrum: np.ndarray) -> np.ndarray:
        magnitude = np.abs(spectrum)
        limit = np.partition(magnitude, -count, axis=1)[:, -count:].min(axis=1, keepdims=True)
        return np.where(magnitude >= limit, spectrum, 0)

    return keep


source = sg.source(key="sensor", time="t", value="v")
good = source.where(lambda e: e.v < 100)
resampled = good.sample(PERIOD, 0, sg.linear(within=600))
smooth = resampled.fir(signal.firwin(41, 0.05))
spectral = (
    resampled.window(512, hop=256, missing="zero")
    .taper("hann")
    .fft()
    .map(keep_top(16))
    .ifft()
    .map(np.real)
    .overlap_add()
)


def live(query: sg.Query, table: pa.Table, batch: int, directory: Path) -> pa.Table:
    """The query over a stream in batches, saved and restored half way."""
    run = query.start()
    out = []
    for at in range(0, len(table), batch):
        if at >= len(table) // 2 and not (directory / "state").exists():
            run.save(directory / "state")
            run = query.restore(directory / "state")
        out.append(run.push(table.slice(at, batch)))
    out.append(run.flush())
    print("stream:", run.stats())
    return pa.concat_tables([part for part in out if len(part)])


def plot(table: pa.Table, sensor: str, directory: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    def of(result: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        mine = result.filter(pa.compute.equal(result["sensor"], sensor)).sort_by("t")
        t = mine["t"].to_numpy() / 1000
        inside = (t > 150) & (t < 260)
        return t[inside], mine["v"].to_numpy()[inside]

    steps = [
        ("input", good.run(table), "."),
        ("resampled", resampled.run(table), "."),
        ("filtered", smooth.run(table), "-"),
        ("spectral", spectral.run(table), "-"),
    ]
    for name, result, style in steps:
        figure, axes = pyplot.subplots(figsize=(9, 2.8), layout="constrained")
        if name != "input":
            axes.plot(*of(steps[0][1]), ".", color="0.7", markersize=3, label="input")
        axes.plot(*of(result), style, markersize=3, color="C0", label=name)
        axes.set(xlabel="seconds", ylabel="value", title=f"{sensor}: {name}")
        figure.legend(loc="outside right upper", markerscale=3)
        figure.savefig(directory / f"{name}.png", dpi=90)
        pyplot.close(figure)
        print("wrote", directory / f"{name}.png")


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/signals")
    directory.mkdir(parents=True, exist_ok=True)
    table = readings()
    print(spectral.explain())
    offline = spectral.run(table)
    with tempfile.TemporaryDirectory() as state:
        online = live(spectral, table, 700, Path(state))
    keys = [("sensor", "ascending"), ("t", "ascending")]
    a, b = offline.sort_by(keys), online.sort_by(keys)
    assert a["t"].equals(b["t"])
    difference = np.abs(a["v"].to_numpy() - b["v"].to_numpy()).max()
    print(f"{len(a)} samples; offline and live differ by at most {difference:.1e}")
    plot(table, "pump", directory)


if __name__ == "__main__":
    main()
