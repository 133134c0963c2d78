"""Structured Streaming brings the batches; a query that dies and comes back repeats nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engine.programs import KeyedSum, Reference, batch, scatter, sums_of

from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Stop(Exception):
    """The query dies here."""


@pytest.mark.parametrize("when", ["before the step", "after the step", "between commit and state"])
def test_a_query_that_fails_and_is_started_again(spark: Any, tmp_path: Path, when: str) -> None:
    from pyspark.errors import StreamingQueryException

    reference = Reference()
    (tmp_path / "in").mkdir()
    for number in range(4):
        lines = [f"{key},{value}" for key, value in batch(number)]
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(lines))
        reference.apply(batch(number))
    stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
    here = {"checkpoint": str(tmp_path / "ck"), "state_dir": str(tmp_path / "state")}
    failing = {2}

    def run(cluster: Cluster) -> None:
        def apply(frame: Any, number: int) -> None:
            pairs = [tuple(map(int, row.value.split(","))) for row in frame.collect()]
            fail = number in failing
            failing.discard(number)
            if fail and when == "before the step":
                raise Stop
            inputs = scatter(pairs, 2, 2)
            cluster.step(
                inputs, batch_id=BatchId(("q",), number), commit=not fail or when[0] != "b"
            )
            if fail:
                raise Stop

        query = (
            stream.writeStream.foreachBatch(apply)
            .option("checkpointLocation", str(tmp_path / "query"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(StreamingQueryException):
        run(Cluster(spark, KeyedSum(2), 2, **here))
    with Cluster.restore(spark, here["checkpoint"], KeyedSum(2), state_dir=here["state_dir"]) as c:
        assert c.version == (3 if when == "after the step" else 2)
        run(c)
        assert c.version == 4
        assert sums_of(c.read(b"")) == reference.expected()
