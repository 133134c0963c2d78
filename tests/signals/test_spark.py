"""The same queries over Spark: live with state between batches, and over finished DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.signals.helpers import assert_same, concat, pieces

import viewlet.signals as sg
from viewlet.errors import DataError, StateError, UnsupportedError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RNG = np.random.default_rng(2)
KEYS, LENGTH = 30, 120
EVENTS = {
    "k": np.tile(np.arange(KEYS), LENGTH),
    "t": np.repeat(np.arange(LENGTH) * 2, KEYS) + np.tile(np.arange(KEYS) % 2, LENGTH),
    "v": RNG.normal(size=KEYS * LENGTH),
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from viewlet.engine.partitions.session import spark_session

    session = spark_session(cores=2)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def query() -> sg.Query:
    """Interpolation, both kinds of filters, windows and overlap-add, behind a reorder buffer."""
    return (
        sg.source(key="k", time="t", value="v", reorder=3)
        .sample(1, 0, sg.linear(5))
        .fir([0.5, 0.3, 0.2])
        .iir([0.4], [1.0, -0.6])
        .window(16, 8)
        .rfft()
        .map(lambda a: a * np.exp(-np.arange(a.shape[1])))
        .irfft()
        .overlap_add()
    )


def test_live_equals_in_process_and_goes_on_after_restore(spark, tmp_path):
    parts = pieces(EVENTS, [700, 1500, 1501, 2600])
    live = query().start_spark(spark, partitions=2, checkpoint=str(tmp_path / "c"))
    outs = [live.push(part, batch_id=n) for n, part in enumerate(parts[:3])]
    again = live.push(parts[2], batch_id=2)
    assert_same(again, outs[2])
    assert live.version == 3
    live.close()
    live = query().start_spark(spark, checkpoint=str(tmp_path / "c"), restore=True)
    outs += [live.push(part) for part in parts[3:]]
    outs.append(live.flush())
    assert_same(query().run(EVENTS), concat(outs))
    assert live.stats() == {"events": KEYS * LENGTH, "late": 0, "reordered": 0, "keys": KEYS}
    with pytest.raises(StateError, match="has ended"):
        live.push(parts[0])
    live.close()


def test_a_bad_batch_changes_nothing(spark):
    parts = pieces(EVENTS, [1000])
    with query().start_spark(spark, partitions=2) as live:
        outs = [live.push(parts[0])]
        bad = {name: column.copy() for name, column in parts[1].items()}
        bad["t"][500] = -77
        with pytest.raises(DataError, match="at time -77"):
            live.push(bad)
        assert live.version == 1
        outs.append(live.push(parts[1]))
        outs.append(live.flush())
        assert_same(query().run(EVENTS), concat(outs))


def test_finished_dataframes(spark):
    frame = spark.createDataFrame(pa.table(EVENTS)).repartition(3)
    out = query().run(frame).toArrow()
    assert_same(query().run(EVENTS), {name: out[name].to_numpy() for name in out.column_names})
    spectra = sg.source(key="k", time="t", value="v").sample(1).window(8).fft().run(frame)
    assert spectra.schema["v"].dataType.simpleString() == "array<struct<re:double,im:double>>"


def test_two_sources_and_text_keys(spark):
    names = np.array([f"sensor {k}" for k in range(KEYS)])
    left = {"s": names[EVENTS["k"]], "t": EVENTS["t"], "v": EVENTS["v"]}
    right = {"s": names[EVENTS["k"]], "t": EVENTS["t"] + 1, "v": -EVENTS["v"]}
    a = sg.source(key="s", time="t", value="v", name="a").sample(1, 0, sg.linear(4))
    b = sg.source(key="s", time="t", value="v", name="b").sample(1, 0, sg.step(4))
    both = a + b
    expected = both.run(a=left, b=right)
    frames = {n: spark.createDataFrame(pa.table(c)) for n, c in (("a", left), ("b", right))}
    out = both.run(**frames).toPandas()
    assert_same(expected, {n: out[n].to_numpy() for n in out.columns}, "s")
    with both.start_spark(spark, partitions=2) as live:
        outs = [live.push(**frames), live.flush()]
    with both.start_spark(spark, partitions=2) as live:
        local = [live.push(a=left, b=right), live.flush()]
    assert_same(expected, concat(local), "s")
    tables = [frame.toPandas() for frame in outs]
    got = concat([{n: t[n].to_numpy() for n in t.columns} for t in tables])
    assert_same(expected, got, "s")


def test_what_partitions_cannot_do(spark):
    source = sg.source(key="k", time="t", value="v")
    with pytest.raises(UnsupportedError, match="regroups"):
        source.group(lambda e: {"g": e.k % 2}, "g").start_spark(spark)
    with pytest.raises(UnsupportedError, match="clock"):
        sg.source(key="k", time="t", value="v", clock="stream").start_spark(spark)
