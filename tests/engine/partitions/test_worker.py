"""One partition without Spark: a task may stop anywhere, be repeated, doubled or come late."""

from __future__ import annotations

import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engine.programs import KeyedSum, Reference, batch, rows, sums_of

from viewlet.engine.durable.sealed import DamagedFile
from viewlet.engine.partitions import worker
from viewlet.engine.partitions.change_log import ChangeLog, Entry
from viewlet.engine.partitions.head import partition_lock
from viewlet.engine.partitions.partition import Partition, detach
from viewlet.engine.partitions.partition_program import ClusterSite, Status, StepRequest
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.partitions.snapshot import Snapshots, start, take, trouble
from viewlet.engine.partitions.store import Store
from viewlet.errors import ProgramError, RangeError, StateError


class Crash(BaseException):
    """The process ends here; nothing catches it."""


class Bench:
    """A cluster of one partition and one stage, driven by hand."""

    def __init__(self, root: Path, undo: bool = False) -> None:
        program = KeyedSum(1, undo)
        self.site = ClusterSite(
            "c",
            0,
            1,
            program.fingerprint,
            1,
            pickle.dumps(program),
            str(root / "state"),
            str(root / "ck"),
        )
        self.tick, self.chain, self.attempt = 0, self.site.genesis(0), 0
        self.reference = Reference()
        self.notes: list[str] = []

    @property
    def directory(self) -> Path:
        return self.site.directory(0)

    def spec(self, broadcast: bytes = b"") -> StepRequest:
        self.attempt += 1
        return StepRequest(self.site, self.tick, (self.chain,), (1, self.attempt), broadcast)

    def task(self, spec: StepRequest, number: int) -> list[Any]:
        return list(worker.run_stage(spec, 0, 0, [rows(*batch(number))]))

    def commit(self, records: list[Any], number: int) -> None:
        failures = [r for _, r in records if r[0] == worker.FAILURE]
        if failures:
            worker.raise_problem(failures[0][3])
        status: Status = records[-1][1][3]
        self.tick, self.chain = self.tick + 1, status.chain
        self.notes += status.notes
        self.reference.apply(batch(number))

    def step(self, number: int) -> None:
        self.commit(self.task(self.spec(), number), number)

    def check(self) -> None:
        _, result, notes = worker.read_partition(self.spec(), 0, b"")
        self.notes += notes
        assert sums_of([result]) == self.reference.expected()


def forget() -> None:
    """What a new worker process does not have."""
    detach()


POINTS = [
    (PartitionState, "begin"),
    (PartitionState, "resize"),
    (PartitionState, "run_returned"),
    (ChangeLog, "append"),
    (Store, "put"),
    (Partition, "_record"),
    (PartitionState, "stamp"),
]


@pytest.mark.parametrize("undo", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point[1])
def test_a_crash_anywhere_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Any, when: str, undo: bool
) -> None:
    bench = Bench(tmp_path, undo)
    for number in range(3):
        bench.step(number)
    owner, name = point
    original = getattr(owner, name)

    def crashing(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            original(*args, **kwargs)
        raise Crash

    spec = bench.spec()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, crashing)
        with pytest.raises(Crash):
            bench.task(spec, 3)
    forget()
    bench.commit(bench.task(spec, 3), 3)  # Spark repeats the task
    bench.check()
    bench.step(4)
    bench.check()


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point[1])
def test_a_crash_in_a_rebuild_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Any
) -> None:
    bench = Bench(tmp_path)
    for number in range(3):
        bench.step(number)
    shutil.rmtree(bench.directory)
    forget()
    owner, name = point
    with monkeypatch.context() as patched:
        calls = iter(range(3))
        original = getattr(owner, name)

        def crashing(*args: Any, **kwargs: Any) -> Any:
            if next(calls, None) is None:
                raise Crash
            return original(*args, **kwargs)

        patched.setattr(owner, name, crashing)
        for _ in range(2):
            try:
                bench.check()
            except Crash:
                forget()
    bench.check()
    bench.step(3)
    bench.check()


def test_a_repeated_task_answers_from_the_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    spec = bench.spec()
    first, second = bench.task(spec, 0), bench.task(spec, 0)
    assert [r for _, r in first if r[0] == "output"] == [r for _, r in second if r[0] == "output"]
    bench.commit(second, 0)
    bench.check()
    assert bench.notes == []


def test_a_repeated_task_says_what_the_first_one_met(tmp_path: Path) -> None:
    """The state is lost; the task that rebuilds it is given up by Spark, and its answer with it."""
    bench = Bench(tmp_path)
    bench.step(0)
    shutil.rmtree(bench.directory)
    detach()
    spec = bench.spec()
    bench.task(spec, 1)
    bench.commit(bench.task(spec, 1), 1)
    assert any("rebuilt" in note for note in bench.notes)
    bench.check()


@pytest.mark.parametrize("spoiled", [True, False])
def test_lost_records_of_outputs_are_made_again(tmp_path: Path, spoiled: bool) -> None:
    bench = Bench(tmp_path)
    bench.step(0)
    spec = bench.spec()
    bench.task(spec, 1)
    for path in (bench.directory / "outputs").iterdir():
        if spoiled:
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.unlink()
    bench.commit(bench.task(spec, 1), 1)
    bench.check()
    assert any("are lost; making them again" in note for note in bench.notes)


def test_other_inputs_for_the_same_tick_replace_what_was_applied(tmp_path: Path) -> None:
    """The step of a driver that died before its commit; its successor brings other rows."""
    bench = Bench(tmp_path)
    bench.step(0)
    bench.task(bench.spec(), 7)
    bench.step(1)
    bench.check()
    assert any("rebuilt from the beginning and 1 log records" in note for note in bench.notes)


def test_a_task_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    late = bench.spec()
    bench.step(0)
    with pytest.raises(StateError, match="came late"):
        bench.commit(bench.task(late, 5), 5)
    bench.check()


def test_older_local_state_is_caught_up_from_the_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.step(0)
    shutil.copytree(bench.directory, tmp_path / "old")
    bench.step(1)
    bench.step(2)
    shutil.rmtree(bench.directory)
    shutil.copytree(tmp_path / "old", bench.directory)
    bench.check()
    assert any("from the local state and 2 log records" in note for note in bench.notes)


def test_a_refused_run_is_undone_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, undo=True)
    bench.step(0)
    with pytest.raises(RangeError):
        bench.commit(list(worker.run_stage(bench.spec(), 0, 0, [rows((1, 5), (2, 13))])), 0)
    assert PartitionState.attach(bench.directory, 0, 1, bench.site.fingerprint) is not None
    bench.check()


def test_outputs_for_nobody_are_a_fault_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.step(0)
    for wrong in ({0: b"the last stage sends to no partition"}, {worker.DRIVER: "text"}):
        with monkeypatch.context() as patched:
            patched.setattr(KeyedSum, "run", lambda *_, wrong=wrong: wrong)
            with pytest.raises(ProgramError, match=r"output (for partition 0|of stage 0 is no)"):
                bench.step(1)
    bench.step(1)
    bench.check()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size`: what a full disk looks like to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 300, 2_000, 20_000])
@pytest.mark.parametrize("undo", [True, False])
def test_a_full_disk_is_said_and_changes_nothing(tmp_path: Path, size: int, undo: bool) -> None:
    """0: not even the head; 300: no log; 2,000 and 20,000: no room for the arrays to grow."""
    bench = Bench(tmp_path, undo)
    bench.step(0)
    spec = bench.spec()
    inputs = [rows((100_000, 1), *batch(1))]
    with largest_file(size), pytest.raises(StateError, match=r"no room|cannot (write|record)"):
        bench.commit(list(worker.run_stage(spec, 0, 0, inputs)), 1)
    forget()
    bench.check()
    bench.commit(list(worker.run_stage(bench.spec(), 0, 0, inputs)), 1)
    bench.reference.apply([(100_000, 1)])
    bench.check()


def test_a_disk_that_is_too_small_for_the_state(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.step(0)
    with pytest.raises(StateError, match=r"no room for 8,000,.* bytes"):
        bench.commit(list(worker.run_stage(bench.spec(), 0, 0, [rows((10**15, 1))])), 1)
    bench.check()


def test_the_lock_keeps_others_out(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from viewlet.engine.partitions.head import partition_lock\n"
        "with partition_lock(Path(sys.argv[1])):\n"
        "    print('held', flush=True); time.sleep(0.5)\n"
    )
    source = str(Path(worker.__file__).parents[3])
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": source},
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        started = time.monotonic()
        with partition_lock(tmp_path):
            assert time.monotonic() - started > 0.3


def test_a_snapshot_is_taken_by_a_process_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(3):
        bench.step(number)
    start(worker.snapshot_order(bench.site, 0, bench.chain))
    snapshots = Snapshots(bench.site.store(), "g0000/p00000")
    deadline = time.monotonic() + 60
    while not snapshots.names():
        assert time.monotonic() < deadline
        bench.step(bench.tick)
        time.sleep(0.05)
    shutil.rmtree(bench.directory, ignore_errors=True)
    bench.check()
    assert any("from a snapshot" in note for note in bench.notes)


def test_a_snapshot_that_fails_is_said_at_the_next_step(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.step(0)
    order = worker.snapshot_order(bench.site, 0, bench.chain)
    with largest_file(100):
        problem = take(order, wait=True)
    assert problem is not None
    assert "no snapshot was taken" in problem
    (bench.directory / "snapshot-trouble").write_text(problem)
    bench.step(1)
    assert any("no snapshot was taken, the log is kept" in note for note in bench.notes)
    assert trouble(bench.directory) is None
    bench.check()


def test_entries_are_their_own_checksum() -> None:
    entry = Entry("0" * 32, 7, 1, [b"a", b"", b"bc"], b"cast")
    data = b"".join(entry.parts())
    assert Entry.parse("p", entry.chain(), data) == entry
    for at in range(len(data)):
        spoiled = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(DamagedFile, match="checksum"):
            Entry.parse("p", entry.chain(), spoiled)
