"""Partitions that share a task: each gets its own records, whatever slot runs it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.programs import KeyedSum, Reference, batch, scatter, sums_of

from viewlet.engine.partitions.cluster import Cluster
from viewlet.engine.partitions.slots import Slots
from viewlet.errors import StateError


def test_one_for_each_partition_or_for_each_core() -> None:
    assert [Slots.of(n, 2).count for n in (1, 2, 4, 5, 32)] == [1, 2, 4, 2, 2]
    assert list(Slots(5, 2).partitions_of(1)) == [1, 3]


def test_records_by_partition() -> None:
    slots = Slots(5, 2)
    pairs = [(1, None), (3, b"a"), (1, b"b"), (3, b"c"), (1, {3: b"d"})]
    assert slots.sorted_out(1, pairs) == {1: [b"b"], 3: [b"a", b"c", b"d"]}
    with pytest.raises(StateError, match="a record for partition 7: there are 5"):
        slots.sorted_out(1, [(7, b"")])


@pytest.mark.spark
def test_many_partitions_in_few_tasks(spark: Any, tmp_path: Any) -> None:
    """Steps, reads, restores with other numbers of partitions: the sums of what was sent."""
    reference = Reference()
    saved = str(tmp_path)
    with Cluster(spark, KeyedSum(2), 11, checkpoint=saved) as cluster:
        assert cluster.tasks == 2
        for number in range(3):
            pairs = batch(number, 100)
            reference.apply(pairs)
            cluster.step(scatter(pairs, 11, 2))
        assert sums_of(cluster.read(b"")) == reference.expected()
    for partitions in (3, 13, None):
        with Cluster.restore(spark, saved, KeyedSum(2), partitions) as cluster:
            assert cluster.version == 3
            assert sums_of(cluster.read(b"")) == reference.expected()
