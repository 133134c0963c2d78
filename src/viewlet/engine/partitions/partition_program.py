"""What the stateful-partition service runs, and what its tasks are told."""

from __future__ import annotations

import gc
import pickle
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from viewlet.engine.durable.sealed import digest_of
from viewlet.engine.partitions.own_directory import own_directory
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.partitions.store import Store

DRIVER = -1  # destination of outputs that go to the driver
ADOPT = -2  # stage of the log entry with which a generation begins

_TRACKED = 10_000  # objects that one collection may walk over, about 3 ms
_PROGRAMS: OrderedDict[str, PartitionProgram] = OrderedDict()
_STORES: dict[str, Store] = {}


class PartitionProgram(Protocol):
    """What runs in the partitions. Picklable and stateless; all it remembers is in the state.

    `run` must be a function of the state, the stage, the inputs (which come in a fixed order) and
    the broadcast: rebuilding a partition calls it again with the same.
    """

    @property
    def fingerprint(self) -> str:
        """Changes when the program or the layout of its state changes."""

    @property
    def stages(self) -> int:
        """A step runs stage 0, shuffle, stage 1, ..., shuffle, stage stages-1; some stop before."""

    def create(self, state: PartitionState) -> None:
        """Allocate the arrays at version 0."""

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        """Apply one stage; outputs by destination: a partition (next stage) or DRIVER."""

    def read(self, state: PartitionState, request: bytes) -> bytes:
        """Answer a request; the arrays are read-only meanwhile."""

    def rollback(self, state: PartitionState) -> bool:
        """Undo a torn `run` from the program's own undo log, found in the state.

        `state.meta` is that of before the torn run, the arrays are as it left them. The undo log
        is an array whose name begins with "undo": the run appends to it before it changes what it
        logs, never empties it (the service does, see PartitionState), and rows that are still zero
        mean nothing. Undoing twice must be safe.
        False: cannot, the service rebuilds from snapshot and change log.
        """


class Repartitioning(Protocol):
    """The optional hook of programs whose state can be split over another number of parts."""

    def repartition(self, state: PartitionState, partitions: int) -> dict[int, bytes]:
        """This partition's state as chunks for each of the new `partitions`."""

    def adopt(self, state: PartitionState, chunks: list[bytes]) -> None:
        """Fill a created state from the chunks of all old partitions, in their order."""


class Exporting(Protocol):
    """The optional hook of programs whose state can be a part of another cluster's."""

    def export(self, state: PartitionState, request: Any) -> list[tuple[int, bytes]]:
        """What a request of the program's own kind asks of this partition, for partitions of the
        other cluster; it travels with the task.
        """


class Undoing(Protocol):
    """The optional hook of programs that can take back ticks that were completed."""

    def take_back(self, state: PartitionState, tick: int) -> bool:
        """Bring a clean, later state back to what it was after `tick`; False: cannot."""


@dataclass(frozen=True)
class ClusterSite:
    """What every task of a cluster knows: where state and log are, and what runs on them."""

    cluster: str
    generation: int
    partitions: int
    fingerprint: str
    stages: int
    program: bytes
    state_dir: str | None
    checkpoint: str | None

    def root(self) -> Path:
        """On the executor's disk. A relative `state_dir` is the executor's own directory."""
        chosen = self.state_dir
        base = own_directory() if chosen is None else Path(chosen).absolute()
        return base / self.cluster

    def directory(self, partition: int) -> Path:
        """Where the local state of a partition is, in this generation."""
        return self.root() / f"g{self.generation:04d}" / f"p{partition:05d}"

    def store(self) -> Store:
        """The store of logs and snapshots, one object for each location and process."""
        location = self.checkpoint if self.checkpoint is not None else str(self.root() / "log")
        if location not in _STORES:
            _STORES[location] = Store(location, durable=self.checkpoint is not None)
        return _STORES[location]

    def genesis(self, partition: int) -> str:
        """The chain of a partition in which nothing has happened yet."""
        name = f"{self.cluster}/{self.generation}/{partition}/{self.partitions}/{self.fingerprint}"
        return digest_of(name.encode())


@dataclass(frozen=True)
class StepRequest:
    """One step as the driver asks for it; the same object for every task of the job."""

    site: ClusterSite
    tick: int
    chains: tuple[str, ...]
    fence: tuple[int, int]
    broadcast: bytes
    # Committed chains: take a snapshot beside the steps that follow, keep what leads to these.
    snapshot: tuple[str, ...] | None = None
    stages: int | None = None  # of this step, where it needs fewer than the program has

    @property
    def last(self) -> int:
        """The number of the step's last stage."""
        return (self.site.stages if self.stages is None else self.stages) - 1


@dataclass
class Status:
    """What a partition reports of itself at the end of a stage; it grows from stage to stage."""

    chain: str
    shuffled: int = 0
    logged: int = 0
    executor: str = ""
    run_seconds: list[float] = field(default_factory=list)
    task_seconds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def program_of(site: ClusterSite) -> PartitionProgram:
    """The program of a site, unpickled once for each process."""
    key = digest_of(site.program)
    if key not in _PROGRAMS:
        _PROGRAMS[key] = pickle.loads(site.program)
        while len(_PROGRAMS) > 8:
            _PROGRAMS.popitem(last=False)
    return _PROGRAMS[key]


def spare_collector() -> None:
    """Keep the collector from walking over modules, programs and kernels.

    PySpark's worker collects after every task, and the next one waits for it: 30 ms for what a
    program with its kernels has loaded. It forks no more, and what is loaded lives as long as it
    does. Garbage of the running task may be kept with it, which is why it is not done every time.
    """
    if len(gc.get_objects(generation=2)) > _TRACKED:
        gc.freeze()
