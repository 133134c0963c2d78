"""Times as users write them: datetimes stay datetimes, and spans may be "1s" or a timedelta."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewlet.signals as sg
from viewlet.errors import DataError, TypingError
from viewlet.signals.clock import _nanoseconds

BEGIN = np.datetime64("2026-03-01T12:00:00", "ms")


def readings(unit: str = "ms") -> dict[str, np.ndarray]:
    """A reading every 250 ms for 5 s, of two sensors."""
    t = BEGIN + np.arange(20) * np.timedelta64(250, "ms")
    return {
        "sensor": np.repeat([1, 2], 20),
        "t": np.tile(t, 2).astype(f"M8[{unit}]"),
        "v": np.arange(40.0),
    }


def smooth(period: Any, within: Any, **options: Any) -> sg.Uniform:
    source = sg.source(key="sensor", time="t", value="v", **options)
    return source.sample(period, 0, sg.linear(within)).fir([0.5, 0.5])


SECONDS = [
    ("1s", "2s"),
    (timedelta(seconds=1), timedelta(seconds=2)),
    (np.timedelta64(1, "s"), np.timedelta64(2000, "ms")),
    (pd.Timedelta("1s"), pd.Timedelta(2, "s")),
    ("1000ms", "0.5s 1500 ms"),
]


@pytest.mark.parametrize(("period", "within"), SECONDS, ids=str)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_spans_are_what_ticks_would_be(period: Any, within: Any, unit: str) -> None:
    """The same query in ticks of milliseconds, over whole numbers, decides."""
    data = readings()
    if unit == "s":
        data = {name: column[::4] for name, column in data.items()}
    ticks = data | {"t": data["t"].astype(np.int64)}
    wanted = smooth(1000, 2000).run(ticks)
    found = smooth(period, within).run(data | {"t": data["t"].astype(f"M8[{unit}]")})
    np.testing.assert_array_equal(found["v"], wanted["v"])
    np.testing.assert_array_equal(found["t"], wanted["t"].view("M8[ms]"))
    assert len(found["v"]) >= 6


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_tables_keep_their_type_of_time(unit: str) -> None:
    data = readings(unit)
    arrow = pa.table({**data, "t": pa.array(data["t"]).cast(pa.timestamp(unit, "Europe/Zurich"))})
    query = smooth("1s", "2s")
    wanted = query.run(data)["t"]
    found = query.run(arrow)
    assert found.schema.field("t").type == pa.timestamp(
        "us" if unit == "ms" else unit, "Europe/Zurich"
    )
    assert found["t"].cast(pa.timestamp("us")).to_numpy().astype("M8[ms]").tolist() == (
        wanted.astype("M8[ms]").tolist()
    )
    frame = arrow.to_pandas()
    got = query.run(frame)
    assert str(got["t"].dtype).endswith("Europe/Zurich]")
    assert (got["t"].dt.tz_convert("UTC").dt.tz_localize(None).to_numpy() == wanted).all()
    if unit != "ms":
        assert query.run(pl.from_arrow(arrow))["t"].dtype.time_zone == "Europe/Zurich"
    plain = smooth(1000, 2000).run(pa.table(readings("ms")))
    assert plain.schema.field("t").type == pa.timestamp("ms")


def test_python_datetimes_and_dates() -> None:
    moments = [datetime(2026, 1, 1, 0, 0, s, tzinfo=UTC) for s in range(4)]
    found = sg.source(time="t", value="v").sample("1s").run({"t": moments, "v": np.ones(4)})
    assert found["t"].tolist() == [m.replace(tzinfo=None) for m in moments]
    days = pa.table({"t": [date(2026, 1, d) for d in (1, 2, 5)], "v": [1.0, 2.0, 5.0]})
    daily = sg.source(time="t", value="v").sample(1, 0, sg.linear(9)).run(days)
    assert daily["t"].to_pylist() == [date(2026, 1, d) for d in range(1, 6)]
    assert daily["v"].to_pylist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_windows_sessions_and_lifetimes_are_datetimes() -> None:
    source = sg.source(key="sensor", time="t", value="v")
    data = readings("us")
    ticks = data | {"t": data["t"].astype(np.int64)}
    second = 1_000_000
    for spoken, counted in (
        (source.tumbling("1s").sum(), source.tumbling(second).sum()),
        (source.hopping("2s", "1s").mean(), source.hopping(2 * second, second).mean()),
        (source.session("1s").count(), source.session(second).count()),
        (source.lifetime("100ms"), source.lifetime(second // 10)),
        (source.shift("-1s"), source.shift(-second)),
        (
            source.asof_join(source.shift("1s"), "2s"),
            source.asof_join(source.shift(second), 2 * second),
        ),
        (
            source.sample("1s") + source.sample("500ms", 0, sg.last("1s")),
            source.sample(second) + source.sample(second // 2, 0, sg.last(second)),
        ),
    ):
        found, wanted = spoken.run(data), counted.run(ticks)
        assert list(found) == list(wanted)
        for name, column in wanted.items():
            if name in ("t", "end"):
                assert found[name].dtype == np.dtype("M8[us]")
                column = column.view("M8[us]")
            np.testing.assert_array_equal(found[name], column)


def test_a_live_query_goes_on_with_datetimes(tmp_path: Path) -> None:
    source = sg.source(key="sensor", time="t", value="v", reorder="1s")
    query = source.sample("1s", 0, sg.last(timedelta(seconds=3)))
    data = pa.table(readings("us"))
    live = query.start()
    parts = [live.push(data.slice(0, 10))]
    live.save(tmp_path / "state")
    live = query.restore(tmp_path / "state")
    parts.append(live.push(data.slice(10)))
    parts.append(live.advance(datetime(2026, 3, 1, 12, 0, 6, tzinfo=UTC)))
    parts.append(live.advance("2026-03-01T12:00:06.5"))
    parts.append(live.flush())
    assert all(part.schema.field("t").type == pa.timestamp("us") for part in parts)
    rows = sorted(
        zip(*(pa.concat_tables(parts)[n].to_pylist() for n in ("sensor", "t", "v")), strict=True)
    )
    whole = query.run(data)
    assert rows == sorted(zip(*(whole[n].to_pylist() for n in ("sensor", "t", "v")), strict=True))
    assert live.stats()["late"] == 0


def test_a_source_says_what_a_tick_is() -> None:
    data = readings("ms")
    ticks = data | {"t": data["t"].astype(np.int64)}
    wanted = smooth(1000, 2000).run(ticks)
    spoken = smooth("1s", "2s", unit="ms").run(ticks)
    assert spoken["t"].dtype == np.int64
    np.testing.assert_array_equal(spoken["t"], wanted["t"])
    mixed = smooth(1000, "2s", unit="ms").run(readings("ns"))
    np.testing.assert_array_equal(mixed["t"], wanted["t"].view("M8[ms]"))
    assert mixed["t"].dtype == np.dtype("M8[ns]")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: smooth(1000, "2s"), TypingError, "nobody said what a tick is"),
        (lambda: smooth("1s", 2000), TypingError, "nobody said what a tick is"),
        (lambda: smooth("1 fortnight", None), TypingError, "no span of time"),
        (lambda: smooth("", None), TypingError, "no span of time"),
        (lambda: smooth(2.5, None), TypingError, "no span of time"),
        (lambda: smooth(True, None), TypingError, "no span of time"),
        (lambda: smooth(np.timedelta64("NaT"), None), TypingError, "no span of time"),
        (lambda: smooth("0s", None), TypingError, "sampling period"),
        (lambda: sg.linear("-1s"), TypingError, "interpolation window"),
        (lambda: smooth("1ns", None), TypingError, "not a whole number"),
        (lambda: smooth("1s", None, unit="minutes"), TypingError, "unit='minutes'"),
        (lambda: smooth("1s", None, reorder=5), TypingError, "nobody said what a tick is"),
        (
            lambda: smooth("1s", None).run({"sensor": [1], "t": [5], "v": [1.0]}),
            TypingError,
            "whole numbers, and the query has durations",
        ),
        (
            lambda: smooth("1s", None).run(
                readings("ns") | {"t": readings("ns")["t"] + np.timedelta64(1, "ns")}
            ),
            DataError,
            r"not a whole number of us(.|\n)*unit=.ns",
        ),
        (
            lambda: (
                sg.source(name="a", value="v", unit="ms").signal()
                + sg.source(name="b", value="v", unit="us").signal()
            ).start(),
            TypingError,
            "count time in ms, us",
        ),
    ],
)
def test_what_is_not_said_is_asked_for(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_batches_have_one_type_of_time() -> None:
    live = sg.source(time="t", value="v").sample(1000).start()
    live.push({"t": readings("ms")["t"][:3], "v": np.ones(3)})
    with pytest.raises(TypingError, match="datetimes in one batch and whole numbers in another"):
        live.push({"t": np.array([1]), "v": np.ones(1)})
    finer = readings("us")["t"][3:6]  # the same instants, counted more finely
    out = live.push({"t": finer, "v": np.ones(3)})
    assert out["t"].dtype == np.dtype("M8[ms]")
    with pytest.raises(TypingError, match="no moment"):
        live.advance("noon")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1s", 10**9), ("1.5 ms", 1_500_000), ("1h30min", 5400 * 10**9), ("2d", 2 * 86400 * 10**9),
     ("-3us", -3000), ("7ns", 7), ("1 day 1 m", 86460 * 10**9)],
)  # fmt: skip
def test_texts_of_spans(text: str, wanted: int) -> None:
    assert _nanoseconds(text) == Fraction(wanted)
    assert _nanoseconds(text) == int(pd.Timedelta(text).value)
