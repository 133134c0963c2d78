"""A driver that goes away is replaced: restore, batch ids, other partitions, damaged files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.engine.programs import KeyedSum, Reference, batch, rows, scatter, sums_of

from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.cluster import Cluster
from viewlet.errors import StateError

pytestmark = pytest.mark.spark


def run(cluster: Cluster, reference: Reference, numbers: range) -> None:
    stages, partitions = cluster.stages, cluster.partitions
    for number in numbers:
        reference.apply(batch(number))
        cluster.step(scatter(batch(number), partitions, stages), batch_id=BatchId(("b",), number))


@pytest.fixture
def here(tmp_path: Path) -> dict[str, Any]:
    return {"checkpoint": str(tmp_path / "ck"), "state_dir": str(tmp_path / "state")}


def again(spark: Any, here: dict[str, Any], program: Any, **more: Any) -> Cluster:
    return Cluster.restore(spark, here["checkpoint"], program, state_dir=here["state_dir"], **more)


def files(here: dict[str, Any], pattern: str) -> list[Path]:
    return sorted(p for p in Path(here["checkpoint"]).glob(pattern) if p.is_file())


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "local_state", ["kept", "lost", pytest.param("closed", marks=pytest.mark.slow)]
)
def test_restore_continues(spark: Any, here: dict[str, Any], local_state: str) -> None:
    reference = Reference()
    first = Cluster(spark, KeyedSum(2), 2, snapshot_every=1000, **here)
    run(first, reference, range(3))
    first.checkpoint()
    run(first, reference, range(3, 5))
    if local_state == "closed":
        first.close()
    elif local_state == "lost":
        shutil.rmtree(here["state_dir"])
    with again(spark, here, KeyedSum(2)) as cluster:
        assert cluster.version == 5
        assert cluster.step({0: rows((0, 1))}, batch_id=BatchId(("b",), 4))[-1].startswith(b"1:")
        assert cluster.version == 5
        run(cluster, reference, range(5, 7))
        assert sums_of(cluster.read(b"")) == reference.expected()
        rebuilt = [note for note in cluster.incidents if "from a snapshot and 4 log" in note]
        assert len(rebuilt) == (0 if local_state == "kept" else 2)


@pytest.mark.parametrize("partitions", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_restore_with_other_partitions(spark: Any, here: dict[str, Any], partitions: int) -> None:
    reference = Reference()
    first = Cluster(spark, KeyedSum(2), 2, **here)
    run(first, reference, range(3))
    with again(spark, here, KeyedSum(2), partitions=partitions) as cluster:
        assert (cluster.version, cluster.partitions) == (3, partitions)
        run(cluster, reference, range(3, 5))
        assert sums_of(cluster.read(b"")) == reference.expected()
    with again(spark, here, KeyedSum(2)) as cluster:
        assert cluster.partitions == partitions
        assert sums_of(cluster.read(b"")) == reference.expected()


def test_a_program_that_cannot_split_says_so(spark: Any, here: dict[str, Any]) -> None:
    class Rigid(KeyedSum):
        repartition = property()  # type: ignore[assignment]

    Cluster(spark, Rigid(), 2, **here).close()
    with pytest.raises(StateError, match=r"2 partitions, not 3.*\nhint: restore it with 2"):
        again(spark, here, Rigid(), partitions=3)


def test_a_driver_lost_in_a_step_leaves_no_trace_of_it(spark: Any, here: dict[str, Any]) -> None:
    """All partitions have applied a step that was not committed; another batch comes instead."""
    reference = Reference()
    first = Cluster(spark, KeyedSum(2), 2, **here)
    run(first, reference, range(3))
    first.step(scatter(batch(99), 2, 2), commit=False)
    cluster = again(spark, here, KeyedSum(2))
    assert cluster.version == 3
    run(cluster, reference, range(3, 5))
    assert sums_of(cluster.read(b"")) == reference.expected()
    assert any("rebuilt from" in note for note in cluster.incidents)
    cluster.close()


def test_the_same_batch_again_is_answered_from_the_record(spark: Any, here: dict[str, Any]) -> None:
    reference = Reference()
    first = Cluster(spark, KeyedSum(2), 2, **here)
    run(first, reference, range(3))
    outputs = first.step(scatter(batch(3), 2, 2), commit=False)
    with again(spark, here, KeyedSum(2)) as cluster:
        assert cluster.step(scatter(batch(3), 2, 2), batch_id=BatchId(("b",), 3)) == outputs
        reference.apply(batch(3))
        assert sums_of(cluster.read(b"")) == reference.expected()
        assert cluster.incidents == []


def test_a_replaced_driver_is_ignored_and_told(spark: Any, here: dict[str, Any]) -> None:
    reference = Reference()
    old = Cluster(spark, KeyedSum(), 2, **here)
    run(old, reference, range(2))
    new = again(spark, here, KeyedSum())
    run(new, reference, range(2, 3))
    for attempt in (lambda: old.step({0: rows((0, 1000))}), old.checkpoint):
        with pytest.raises(StateError, match=r"another driver \(process \d+ on .*taken over"):
            attempt()
    run(new, reference, range(3, 4))
    assert sums_of(new.read(b"")) == reference.expected()
    with again(spark, here, KeyedSum()) as third:
        assert third.version == 4
        assert sums_of(third.read(b"")) == reference.expected()


def test_a_replaced_driver_on_other_disks_cannot_commit(spark: Any, here: dict[str, Any]) -> None:
    """Nothing but the checkpoint is shared: what the old one applies it may not acknowledge."""
    reference = Reference()
    old = Cluster(spark, KeyedSum(), 2, **here)
    run(old, reference, range(2))
    elsewhere = here | {"state_dir": here["state_dir"] + "-2"}
    with again(spark, elsewhere, KeyedSum()) as new:
        for _ in range(2):
            with pytest.raises(StateError, match=r"has taken over the checkpoint .*\nhint: close"):
                old.step({0: rows((0, 1000))}, batch_id=BatchId(("b",), 2))
        assert old.version == 2
        run(new, reference, range(2, 4))
        assert sums_of(new.read(b"")) == reference.expected()


@pytest.mark.parametrize("damage", ["empty", "torn", pytest.param("gone", marks=pytest.mark.slow)])
def test_a_torn_newest_record_costs_its_batch_alone(
    spark: Any, here: dict[str, Any], damage: str
) -> None:
    """The commits are there, a log record of one partition is not whole, and no local state."""
    reference = Reference()
    first = Cluster(spark, KeyedSum(), 2, snapshot_every=1000, **here)
    run(first, reference, range(3))
    first.save(b"after three")
    for number in (3, 4):
        first.step(scatter(batch(number), 2, 1), batch_id=BatchId(("b",), number))
    first.save(b"of a version that will be lost")
    bad = files(here, "g0000/p00001/log/*")[-2]
    if damage == "gone":
        bad.unlink()
    else:
        bad.write_bytes(bad.read_bytes()[: 10 if damage == "torn" else 0])
    shutil.rmtree(here["state_dir"])
    with again(spark, here, KeyedSum()) as cluster:
        assert cluster.version == 3
        assert cluster.saved() == (3, b"after three")
        assert sums_of(cluster.read(b"")) == reference.expected()
        assert any(
            "going on from version 3 of 5; these must come again: b: batches after 2 to 4" in note
            for note in cluster.incidents
        ), cluster.incidents
        run(cluster, reference, range(2, 3))  # there already
        reference = Reference()
        run(cluster, reference, range(5))
        assert sums_of(cluster.read(b"")) == reference.expected()
    with again(spark, here, KeyedSum()) as cluster:
        assert cluster.version == 5
        assert cluster.saved() == (3, b"after three")
        assert len(cluster.outputs_since(3)) == 2
        assert sums_of(cluster.read(b"")) == reference.expected()


def test_snapshots_are_incremental_and_bound_the_log(spark: Any, here: dict[str, Any]) -> None:
    reference = Reference()
    with Cluster(spark, KeyedSum(), 2, snapshot_every=1000, **here) as cluster:
        cluster.step({0: rows(*((k, 1) for k in range(0, 100_000, 2)))})
        reference.apply([(k, 1) for k in range(0, 100_000, 2)])
        sizes = []
        for number in range(4):
            run(cluster, reference, range(number, number + 1))
            cluster.checkpoint()
            newest = files(here, "g0000/p00000/packs*/*")
            sizes.append(newest[-1].stat().st_size)
        assert len(files(here, "g0000/p00000/snapshots/*")) == 2
        assert len(files(here, "g0000/p00000/log/*")) <= 2
        assert min(sizes) < max(sizes) / 2
        shutil.rmtree(here["state_dir"])
        assert sums_of(cluster.read(b"")) == reference.expected()


@pytest.mark.parametrize(
    "what",
    [
        "packs*",
        pytest.param("snapshots", marks=pytest.mark.slow),
        pytest.param("missing pack", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_snapshot_costs_a_longer_replay(
    spark: Any, here: dict[str, Any], what: str
) -> None:
    reference = Reference()
    with Cluster(spark, KeyedSum(), 2, snapshot_every=1000, **here) as cluster:
        for number in range(4):
            run(cluster, reference, range(number, number + 1))
            cluster.checkpoint()
        names = files(here, f"g0000/p00001/{'packs*' if 'pack' in what else what}/*")
        newest = max(names, key=lambda path: path.name)
        if what == "missing pack":
            newest.unlink()
        else:
            spoil(newest)
        shutil.rmtree(here["state_dir"])
        assert sums_of(cluster.read(b"")) == reference.expected()
        said = [note for note in cluster.incidents if "damaged or missing" in note]
        assert len(said) == 1
        assert newest.name in said[0]


def test_a_damaged_log_is_harmless_while_the_local_state_lives(
    spark: Any, here: dict[str, Any]
) -> None:
    reference = Reference()
    with Cluster(spark, KeyedSum(), 2, snapshot_every=1000, **here) as cluster:
        run(cluster, reference, range(3))
        spoil(files(here, "g0000/p00001/log/*")[1])
        run(cluster, reference, range(3, 4))
        assert sums_of(cluster.read(b"")) == reference.expected()
        cluster.checkpoint()
        shutil.rmtree(here["state_dir"])
        assert sums_of(cluster.read(b"")) == reference.expected()


def test_a_real_loss_is_said_and_changes_nothing(spark: Any, here: dict[str, Any]) -> None:
    reference = Reference()
    cluster = Cluster(spark, KeyedSum(), 2, snapshot_every=1000, **here)
    run(cluster, reference, range(3))
    bad = files(here, "g0000/p00001/log/*")[1]
    data = bad.read_bytes()
    spoil(bad)
    shutil.rmtree(here["state_dir"])
    with pytest.raises(StateError, match=f"partition 1.*lost.*{bad.name}.*\nhint: restore"):
        cluster.step(scatter(batch(3), 2, 1))
    assert cluster.version == 3
    bad.write_bytes(data)  # the backup
    run(cluster, reference, range(3, 4))
    assert sums_of(cluster.read(b"")) == reference.expected()
    cluster.close()


def test_a_damaged_commit_loses_one_step_and_says_so(spark: Any, here: dict[str, Any]) -> None:
    reference = Reference()
    Cluster(spark, KeyedSum(), 2, **here)
    first = again(spark, here, KeyedSum())
    run(first, reference, range(3))
    first.step(scatter(batch(3), 2, 1), batch_id=BatchId(("b",), 3))
    spoil(files(here, "commits/*")[-1])
    with again(spark, here, KeyedSum()) as cluster:
        assert cluster.version == 3
        assert "going on from version 3" in cluster.incidents[0]
        run(cluster, reference, range(3, 4))  # the source sends it again
        assert sums_of(cluster.read(b"")) == reference.expected()


def test_checkpoints_are_not_mixed_up(spark: Any, here: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no checkpoint in"):
        again(spark, here, KeyedSum())
    Cluster(spark, KeyedSum(), 2, **here).close()
    with pytest.raises(StateError, match=r"already\nhint: use Cluster\.restore"):
        Cluster(spark, KeyedSum(), 2, **here)
    with pytest.raises(StateError, match=r"another program \(keyed-sum-1-False"):
        again(spark, here, KeyedSum(2))
    spoil(Path(here["checkpoint"]) / "cluster")
    with pytest.raises(StateError, match="does not say whose it is"):
        again(spark, here, KeyedSum())
    with pytest.raises(StateError, match="no filesystem"):
        Cluster(spark, KeyedSum(), 2, checkpoint="nonsense://x")


@pytest.mark.parametrize(
    "damage",
    [
        "corrupted",
        "everything",
        pytest.param("missing", marks=pytest.mark.slow),
        pytest.param("head", marks=pytest.mark.slow),
    ],
)
def test_damaged_local_state_is_rebuilt(spark: Any, here: dict[str, Any], damage: str) -> None:
    reference = Reference()
    with Cluster(spark, KeyedSum(2), 2, **here) as cluster:
        run(cluster, reference, range(3))
        local = next(Path(here["state_dir"]).glob("*/g0000/p00001"))
        arrays = sorted(local.glob("*.array"), key=lambda path: -path.stat().st_size)
        if damage == "missing":
            arrays[0].unlink()
        elif damage == "corrupted":
            arrays[0].write_bytes(b"x" * arrays[0].stat().st_size)
        elif damage == "head":
            spoil(local / "head")
        else:
            shutil.rmtree(local)
        run(cluster, reference, range(3, 5))
        assert sums_of(cluster.read(b"")) == reference.expected()
        assert any("partition 1: state of tick 6 rebuilt" in note for note in cluster.incidents)


def test_the_driver_gets_its_own_state_back(spark: Any, here: dict[str, Any]) -> None:
    """What the caller keeps on the driver: saved at a version, brought forward by the outputs."""
    first = Cluster(spark, KeyedSum(), 2, snapshot_every=2, **here)
    assert first.saved() is None
    outputs = [first.step({0: rows(*[(0, 1)] * number)}) for number in range(1, 4)]
    first.save(b"after three")
    outputs += [first.step({0: rows(*[(0, 1)] * number)}) for number in range(4, 11)]
    assert first.outputs_since(8) == outputs[8:]
    deadline = time.monotonic() + 120
    while len({path.parts[-3] for path in files(here, "g0000/*/snapshots/*")}) < 2:
        assert time.monotonic() < deadline, "every second step takes a snapshot beside it"
        time.sleep(0.1)
    with again(spark, here, KeyedSum()) as cluster:
        assert cluster.saved() == (3, b"after three")
        assert cluster.outputs_since(3) == outputs[3:]
        assert cluster.outputs_since(10) == []
        cluster.save(b"after ten")
        cluster.save(b"after ten again")
        cluster.checkpoint()
        with pytest.raises(StateError, match="outputs of version 2 of 10 are lost"):
            cluster.outputs_since(1)
        assert cluster.saved() == (10, b"after ten again")
