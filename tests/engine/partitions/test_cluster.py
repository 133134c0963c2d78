"""Steps on Spark: every shape gives the sums of the reference, whatever happens on the way."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from tests.engine.programs import KeyedSum, Reference, batch, rows, scatter, sums_of

from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.worker import partition_of
from viewlet.errors import RangeError, StateError

pytestmark = pytest.mark.spark


def shapes(quick: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[Any]:
    """A few shapes for every run of the tests, the others for the long one."""
    return [*quick, *(pytest.param(*shape, marks=pytest.mark.slow) for shape in others)]


@pytest.mark.parametrize(
    ("partitions", "stages"),
    shapes([(1, 1), (2, 3), (5, 2)], [(1, 2), (1, 3), (2, 1), (2, 2), (5, 1), (5, 3)]),
)
def test_steps_equal_the_reference(spark: Any, partitions: int, stages: int) -> None:
    reference = Reference()
    with Cluster(spark, KeyedSum(stages), partitions) as cluster:
        for number in range(4):
            pairs = batch(number)
            reference.apply(pairs, 2)
            outputs = cluster.step(scatter(pairs, partitions, stages), b"2")
            if stages == 3:
                assert outputs[-1] == b"40"
            metrics = cluster.metrics()
            assert (metrics.jobs, metrics.stages) == (1, stages)
        assert cluster.version == 4
        assert sums_of(cluster.read(b"")) == reference.expected()
        assert cluster.incidents == []


def test_outputs_come_in_order_of_stage_and_partition(spark: Any) -> None:
    with Cluster(spark, KeyedSum(2), 3) as cluster:
        outputs = cluster.step({2: rows((0, 1), (1, 1)), 0: rows((2, 5))})
        assert outputs == [b"routed 1", b"routed 0", b"routed 2", b"0:1", b"1:1", b"2:1"]
        metrics = cluster.metrics()
        assert metrics.bytes_scattered == 3 * 16
        assert metrics.bytes_shuffled == 3 * 16
        assert metrics.bytes_collected == sum(map(len, outputs))


def test_inputs_from_an_rdd(spark: Any) -> None:
    pairs = batch(1, 100)
    reference = Reference()
    reference.apply(pairs)
    reference.apply(pairs)
    rdd = spark.sparkContext.parallelize([(k % 3, rows((k, v))) for k, v in pairs], 4)
    with Cluster(spark, KeyedSum(), 3) as cluster:
        cluster.step(rdd)
        assert cluster.metrics().stages == 2
        placed = rdd.partitionBy(3, partition_of)
        cluster.step(placed)
        assert sums_of(cluster.read(b"")) == reference.expected()


def test_a_step_without_inputs_and_a_large_broadcast(spark: Any) -> None:
    with Cluster(spark, KeyedSum(), 2) as cluster:
        assert cluster.step() == [b"0:0", b"1:0"]
        cluster.step({0: rows((0, 1))}, b"3" + b" " * 300_000)
        assert cluster.metrics().bytes_broadcast == 300_001
        assert sums_of(cluster.read(b"")) == {0: 3}


@pytest.mark.parametrize(
    ("stages", "undo"),
    shapes([(1, True), (3, False)], [(1, False), (2, True), (2, False), (3, True)]),
)
def test_a_refused_step_changes_nothing(spark: Any, stages: int, undo: bool) -> None:
    reference = Reference()
    with Cluster(spark, KeyedSum(stages, undo), 2) as cluster:
        for number in range(3):
            reference.apply(batch(number))
            cluster.step(scatter(batch(number), 2, stages))
        before = cluster.read(b"")
        with pytest.raises(RangeError, match="13 is out of range\nhint: leave it out"):
            cluster.step(scatter([*batch(7), (1, 13)], 2, stages))
        assert cluster.version == 3
        assert cluster.read(b"") == before
        reference.apply(batch(8))
        cluster.step(scatter(batch(8), 2, stages))
        assert sums_of(cluster.read(b"")) == reference.expected()


def test_a_read_cannot_write(spark: Any) -> None:
    with Cluster(spark, KeyedSum(), 2) as cluster:
        with pytest.raises(StateError, match=r"read failed in Spark.*read-only\nhint: the cause"):
            cluster.read(b"write")
        with pytest.raises(StateError, match=r"No module named 'absent'\nhint: executors need"):
            cluster.read(b"import absent")
        assert sums_of(cluster.read(b"")) == {}


def test_workers_live_on_after_reads_checkpoints_and_closing(spark: Any, tmp_path: Path) -> None:
    """A worker that leaves its input unread is ended by Spark, and the next one starts cold."""
    processes: set[bytes] = set()
    for number in range(2):
        with Cluster(spark, KeyedSum(), 2, checkpoint=str(tmp_path / str(number))) as cluster:
            for value in range(3):
                cluster.step({0: rows((0, value))})
                processes |= set(cluster.read(b"process"))
            cluster.checkpoint()
            processes |= set(cluster.read(b"process"))
    assert len(processes) <= spark.sparkContext.defaultParallelism


def test_a_repeated_batch_is_a_no_op(spark: Any) -> None:
    with Cluster(spark, KeyedSum(), 2) as cluster:
        first = cluster.step({0: rows((0, 1))}, batch_id=BatchId(("q",), 0))
        again = cluster.step({0: rows((0, 1))}, batch_id=BatchId(("q",), 0))
        assert first == again == [b"0:1", b"1:0"]
        assert cluster.version == 1
        assert cluster.version_of(BatchId(("q",), 0)) == 1
        assert not cluster.has_applied(BatchId(("q",), 1))
        assert not cluster.has_applied(BatchId(("p",), 0))
        assert sums_of(cluster.read(b"")) == {0: 1}


def test_several_steps_commit_or_abort_together(spark: Any) -> None:
    with Cluster(spark, KeyedSum(), 2) as cluster:
        cluster.step({0: rows((0, 1))})
        cluster.step({0: rows((0, 10))}, commit=False)
        cluster.step({1: rows((1, 5))}, batch_id=BatchId(("b",), 0))
        assert cluster.version == 2
        cluster.step({0: rows((0, 100))}, commit=False)
        assert sums_of(cluster.read(b"")) == {0: 111, 1: 5}
        with pytest.raises(StateError, match="steps are open"):
            cluster.checkpoint()
        cluster.abort()
        assert sums_of(cluster.read(b"")) == {0: 11, 1: 5}
        cluster.step({0: rows((0, 1000))})
        assert sums_of(cluster.read(b"")) == {0: 1011, 1: 5}


def test_meta_is_versioned_with_the_arrays(spark: Any) -> None:
    with Cluster(spark, KeyedSum(), 1) as cluster:
        cluster.step({0: rows((0, 1), (1, 1))})
        with pytest.raises(RangeError):
            cluster.step({0: rows((0, 13))})
        cluster.step({0: rows((0, 1))})
        assert json.loads(cluster.read(b"")[0])["meta"] == {"rows": 3}


def test_bad_inputs_are_refused_before_anything_runs(spark: Any) -> None:
    with pytest.raises(StateError, match="0 partitions"):
        Cluster(spark, KeyedSum(), 0)
    with Cluster(spark, KeyedSum(), 2) as cluster:
        with pytest.raises(StateError, match="partition 2: there are 2"):
            cluster.step({2: b""})
        with pytest.raises(StateError, match="bytes, not str"):
            cluster.step({1: "text"})  # type: ignore[dict-item]
        assert cluster.step() == [b"0:0", b"1:0"]
    with pytest.raises(StateError, match="closed"):
        cluster.step()


@pytest.mark.parametrize("undo", [True, False])
def test_a_task_that_fails_without_a_retry(spark: Any, tmp_path: Path, undo: bool) -> None:
    """local[2] repeats no task: the step fails, the next one finds the torn state and mends it."""
    reference = Reference()
    with Cluster(spark, KeyedSum(2, undo, str(tmp_path)), 2) as cluster:
        for number in range(4):
            reference.apply(batch(number))
            if number in (0, 2):
                (tmp_path / f"{'raise' if number else 'exit'}-1-1").touch()
                with pytest.raises(
                    StateError, match=r"step \d failed in Spark and changed nothing"
                ):
                    cluster.step(scatter(batch(number), 2, 2))
                assert cluster.version == number
            cluster.step(scatter(batch(number), 2, 2))
        assert sums_of(cluster.read(b"")) == reference.expected()
        how = "undone by the program" if undo else "rebuilding the state"
        assert sum(how in note for note in cluster.incidents) == 2


def test_a_full_disk_at_the_commit(spark: Any, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Cluster(spark, KeyedSum(), 2, checkpoint=str(tmp_path / "ck")) as cluster:
        cluster.step({0: rows((0, 1))})
        rdd = spark.sparkContext.parallelize([(0, rows((0, 10)))], 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))  # this process: the driver
        try:
            with pytest.raises(StateError, match=r"cannot write commits/.*\nhint: make room"):
                cluster.step(rdd, batch_id=BatchId(("b",), 0))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert cluster.version == 1
        assert not cluster.has_applied(BatchId(("b",), 0))
        assert sums_of(cluster.read(b"")) == {0: 1}
        cluster.step(rdd, batch_id=BatchId(("b",), 0))
        assert sums_of(cluster.read(b"")) == {0: 11}
