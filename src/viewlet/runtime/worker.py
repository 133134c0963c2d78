"""The worker's half of the stateful-partition service: one stage of one step on one partition.

A task names the tick and the chain that it expects and brings the inputs that make the next one.
Under the partition's lock the worker brings the local state to exactly that tick, whatever it
finds there (see `Partition.settle`), applies the stage once, and answers. Tasks may be repeated,
doubled, moved and killed at any point; what they leave is decided by the head and the log alone.

    lock -> settle(tick, chain) -> begin (dirty) -> run -> log -> record outputs -> stamp (clean)

A stage that was applied already answers with the outputs recorded for it. Nothing here imports
pyspark: programmes are tested in one process with `run_stage` itself.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import shutil
import socket
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from viewlet.errors import StateError, ViewletError
from viewlet.runtime.checkpoint import (
    ChangeLog,
    DamagedFile,
    Entry,
    Link,
    Store,
    digest_of,
    seal,
    unseal,
)
from viewlet.runtime.snapshot import Order, Snapshots, start, take, trouble
from viewlet.runtime.state import BUILDING, DamagedState, PartitionState, partition_lock

DRIVER = -1  # destination of outputs that go to the driver
ADOPT = -2  # stage of the log entry with which a generation begins

# Kinds of records that travel between stages, to a partition or through it to the driver.
CHUNK, OUTPUT, STATUS, FAILURE = "chunk", "output", "status", "failure"
Record = tuple[str, int, Any, Any]  # kind, stage, source (for the order), payload

_ATTACHED: OrderedDict[tuple[str, int], PartitionState] = OrderedDict()
_ATTACHED_LIMIT = 64
_PROGRAMS: OrderedDict[str, PartitionProgram] = OrderedDict()
_STORES: dict[str, Store] = {}


class PartitionProgram(Protocol):
    """What runs in the partitions. Picklable and stateless; all it remembers is in the state.

    `run` must be a function of the state, the stage, the inputs (which come in a fixed order) and
    the broadcast: rebuilding a partition calls it again with the same.
    """

    @property
    def fingerprint(self) -> str:
        """Changes when the programme or the layout of its state changes."""

    @property
    def stages(self) -> int:
        """A step runs stage 0, shuffle, stage 1, ..., shuffle, stage stages-1."""

    def create(self, state: PartitionState) -> None:
        """Allocate the arrays at version 0."""

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        """Apply one stage; outputs by destination: a partition (next stage) or DRIVER."""

    def read(self, state: PartitionState, request: bytes) -> bytes:
        """Answer a request; the arrays are read-only meanwhile."""

    def rollback(self, state: PartitionState) -> bool:
        """Undo a torn `run` from the programme's own undo log, found in the state.

        `state.meta` is that of before the torn run, the arrays are as it left them. The undo log
        is an array whose name begins with "undo": the run appends to it before it changes what it
        logs, never empties it (the service does, see PartitionState), and rows that are still zero
        mean nothing. Undoing twice must be safe.
        False: cannot, the service rebuilds from snapshot and change log.
        """


class Repartitioning(Protocol):
    """The optional hook of programmes whose state can be split over another number of parts."""

    def repartition(self, state: PartitionState, partitions: int) -> dict[int, bytes]:
        """This partition's state as chunks for each of the new `partitions`."""

    def adopt(self, state: PartitionState, chunks: list[bytes]) -> None:
        """Fill a created state from the chunks of all old partitions, in their order."""


@dataclass(frozen=True)
class Site:
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
        if self.state_dir is not None:
            base = Path(self.state_dir).absolute()
        else:
            base = Path(tempfile.gettempdir()) / f"viewlet-{os.getuid()}"
        return base / self.cluster

    def directory(self, partition: int) -> Path:
        return self.root() / f"g{self.generation:04d}" / f"p{partition:05d}"

    def store(self) -> Store:
        location = self.checkpoint if self.checkpoint is not None else str(self.root() / "log")
        if location not in _STORES:
            _STORES[location] = Store(location)
        return _STORES[location]

    def genesis(self, partition: int) -> str:
        """The chain of a partition in which nothing has happened yet."""
        name = f"{self.cluster}/{self.generation}/{partition}/{self.partitions}/{self.fingerprint}"
        return digest_of(name.encode())


@dataclass(frozen=True)
class Step:
    """One step as the driver asks for it; the same object for every task of the job."""

    site: Site
    tick: int
    chains: tuple[str, ...]
    fence: tuple[int, int]
    broadcast: bytes
    snapshot: bool = False  # take one, beside the steps that follow, when this one is done


@dataclass
class Status:
    """What a partition reports of itself at the end of a stage; it grows from stage to stage."""

    chain: str
    shuffled: int = 0
    logged: int = 0
    place: str = ""
    run_seconds: list[float] = field(default_factory=list)
    task_seconds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def program_of(site: Site) -> PartitionProgram:
    key = digest_of(site.program)
    if key not in _PROGRAMS:
        _PROGRAMS[key] = pickle.loads(site.program)
        while len(_PROGRAMS) > 8:
            _PROGRAMS.popitem(last=False)
        # A worker forks no more, and what is loaded by now lives as long as it does: keep the
        # collector from walking over it in every task.
        gc.freeze()
    return _PROGRAMS[key]


class Partition:
    """A partition under its lock: the only way to its state."""

    def __init__(self, site: Site, partition: int) -> None:
        self.site = site
        self.partition = partition
        self.program = program_of(site)
        self.directory = site.directory(partition)
        self.log = ChangeLog(site.store(), site.generation, partition)
        self.notes: list[str] = []
        self._keep = 2 * site.stages + 1

    @classmethod
    @contextmanager
    def locked(cls, site: Site, partition: int) -> Iterator[Partition]:
        with partition_lock(site.directory(partition)):
            part = cls(site, partition)
            if said := trouble(part.directory):
                part._note(said)
            yield part

    # -- bringing the state to a tick -----------------------------------------------------------

    def settle(
        self, state: PartitionState | None, tick: int, chain: str, fence: tuple[int, int]
    ) -> PartitionState:
        """Bring the state to exactly (tick, chain).

        torn    -> undone by the programme, else rebuilt
        older   -> the log's records between are replayed on it
        foreign -> (missing, damaged, from a step that was given up) rebuilt
        """
        if state is None or (state.head.tick, state.head.chain) != (tick, chain):
            state = self._restore(state, tick, chain, fence)
        self._remember(state)
        return state

    def attach(self, fence: tuple[int, int]) -> PartitionState | None:
        """The clean local state, or None. A torn tick is undone here."""
        try:
            state = PartitionState.attach(
                self.directory,
                self.partition,
                self.site.partitions,
                self.site.fingerprint,
                _ATTACHED.get((str(self.directory), self.partition)),
            )
        except DamagedState as problem:
            self._note(f"{problem}; rebuilding it")
            return None
        if state is None:
            return None
        if state.head.fence > fence:
            raise StateError(
                f"partition {self.partition}: a task of a step that was given up came late",
                hint="nothing to do: the step that replaced it is not affected",
            )
        if state.head.dirty == BUILDING:
            self._note("a rebuild was interrupted; starting it again")
            return None
        if state.head.dirty:
            return self._undo(state)
        return state

    def _undo(self, state: PartitionState) -> PartitionState | None:
        torn = state.head.dirty
        state.meta = json.loads(state.head.meta)
        if not state.head.returned and self.program.rollback(state):
            state.undone()
            self._note(f"tick {torn} was torn; undone by the programme")
            return state
        self._note(f"tick {torn} was torn; rebuilding the state")
        return None

    def _restore(
        self, local: PartitionState | None, tick: int, chain: str, fence: tuple[int, int]
    ) -> PartitionState:
        """Replay the log from the nearest state that lies on the way to `chain`.

        Tried in order: the local state, snapshots from the newest, the empty state of genesis. A
        damaged snapshot costs a longer replay; a damaged record on every way is a loss.
        """
        origin = self.site.genesis(self.partition)
        path = self.log.path_to(chain)
        way = [path[0].previous if path else chain, *(link.chain for link in path)]
        snapshots = Snapshots(self.site.store(), self.log.base)
        bases: list[tuple[str, Any]] = []
        if local is not None and local.head.chain in way:
            bases.append(("the local state", local))
        bases += [("a snapshot", name) for name in snapshots.on(way)]
        if way[0] == origin:
            bases.append(("the beginning", None))
        lost: list[str] = []
        for kind, base in bases:
            try:
                state = self._base(base, snapshots, fence)
                start = way.index(state.head.chain)
                self._replay(state, path[start:], fence)
            except DamagedFile as problem:
                lost.append(str(problem))
                self._note(f"checkpoint file damaged or missing: {problem}")
                continue
            if base is not None or path:  # else the partition is new
                records = len(path) - start
                self._note(f"state of tick {tick} rebuilt from {kind} and {records} log records")
            return state
        raise StateError(
            f"partition {self.partition} cannot be brought to tick {tick}: its state is lost. "
            + (f"Damaged: {'; '.join(lost)}" if lost else "No snapshot or log leads there"),
            hint="restore the named files of the checkpoint from a backup, or load the data again",
        )

    def _base(self, base: Any, snapshots: Snapshots, fence: tuple[int, int]) -> PartitionState:
        if isinstance(base, PartitionState):
            return base
        state = PartitionState.fresh(
            self.directory, self.partition, self.site.partitions, self.site.fingerprint
        )
        if base is None:
            self.program.create(state)
            tick, chain = 0, self.site.genesis(self.partition)
        else:
            tick, chain = snapshots.load(base, state)
        state.begin(BUILDING, fence)
        state.stamp(tick, chain, self._keep)
        return state

    def _replay(self, state: PartitionState, path: list[Link], fence: tuple[int, int]) -> None:
        for link in path:
            entry = self.log.read(link)
            state.begin(BUILDING, fence)
            if entry.stage == ADOPT:
                cast(Repartitioning, self.program).adopt(state, list(entry.inputs))
            else:
                self.program.run(state, entry.stage, list(entry.inputs), entry.broadcast)
            state.stamp(link.tick, link.chain, self._keep)

    # -- applying a tick ------------------------------------------------------------------------

    def advance(
        self, step: Step, stage: int, chain: str, inputs: list[bytes]
    ) -> tuple[dict[int, bytes], Status]:
        """(tick, chain) -> (tick + 1, chain'), once, however often it is asked for."""
        entry = Entry(chain, step.tick + stage + 1, stage, inputs, step.broadcast)
        following = entry.chain()
        found = self.attach(step.fence)
        if found is not None and (entry.tick, following) in found.head.history:
            try:
                outputs = self._recorded(entry.tick, following)
            except (OSError, DamagedFile):
                self._note(f"outputs of tick {entry.tick} are lost; making them again")
            else:
                self._remember(found)
                return outputs, Status(following, notes=self.notes)
        state = self.settle(found, step.tick + stage, chain, step.fence)
        state.begin(entry.tick, step.fence)
        started = time.perf_counter()
        try:
            outputs = self.program.run(state, stage, inputs, step.broadcast)
            ran = time.perf_counter() - started
            state.run_returned()
            logged = self.log.append(entry, following)
            self._record(entry.tick, following, outputs)
            state.stamp(entry.tick, following, self._keep)
        except ViewletError:
            self._remember(self._undo(state))
            raise
        return outputs, Status(following, logged=logged, run_seconds=[ran], notes=self.notes)

    def adopt(self, step: Step, chunks: list[bytes]) -> Status:
        """Start this generation from the chunks of the one before, at the step's tick."""
        genesis = self.site.genesis(self.partition)
        entry = Entry(genesis, step.tick, ADOPT, chunks, b"")
        chain = entry.chain()
        self.log.append(entry, chain)
        self.settle(self.attach(step.fence), step.tick, chain, step.fence)
        return Status(chain, notes=self.notes)

    def _record(self, tick: int, chain: str, outputs: dict[int, bytes]) -> None:
        """Keep the outputs until no task of the step can ask for them again."""
        kept = self.directory / "outputs"
        try:
            kept.mkdir(exist_ok=True)
            with (kept / f"{tick:015d}-{chain}").open("wb") as file:
                for part in seal(pickle.dumps(outputs, protocol=5)):
                    file.write(part)
        except OSError as problem:
            raise StateError(
                f"partition {self.partition}: cannot record outputs in {kept}: {problem.strerror}",
                hint="free space there, or set the state directory to a larger disk",
            ) from problem
        for old in kept.iterdir():
            if int(old.name.partition("-")[0]) <= tick - self._keep:
                old.unlink(missing_ok=True)

    def _recorded(self, tick: int, chain: str) -> dict[int, bytes]:
        name = f"{tick:015d}-{chain}"
        data = (self.directory / "outputs" / name).read_bytes()
        outputs: dict[int, bytes] = pickle.loads(unseal(name, data))
        return outputs

    def _remember(self, state: PartitionState | None) -> None:
        key = (str(self.directory), self.partition)
        _ATTACHED.pop(key, None)
        if state is not None:
            _ATTACHED[key] = state
            while len(_ATTACHED) > _ATTACHED_LIMIT:
                _ATTACHED.popitem(last=False)

    def _note(self, text: str) -> None:
        self.notes.append(f"partition {self.partition}: {text}")


def run_stage(
    step: Step, stage: int, partition: int, records: Iterable[Any]
) -> Iterator[tuple[int, Record]]:
    """One task: the records that arrived for a partition -> (destination, record) pairs.

    Every partition sends its status to itself through the shuffle: that is how the next stage
    knows which chain to expect. What is meant for the driver travels along.
    """
    started = time.perf_counter()
    chunks: list[Record] = []
    status: Status | None = Status(step.chains[partition]) if stage == 0 else None
    failed = False
    for record in records:
        kind = CHUNK if isinstance(record, bytes) else record[0]
        if isinstance(record, bytes):  # from the user's RDD; a shuffle keeps no order, bytes do
            chunks.append((CHUNK, 0, record, record))
        elif kind == CHUNK:
            chunks.append(record)
        elif kind == STATUS:
            status = record[3]
        else:
            failed = failed or kind == FAILURE
            yield partition, record
    if failed:
        return
    if status is None:
        raise StateError(f"partition {partition}: stage {stage - 1} left no status")
    chunks.sort(key=lambda record: record[2])
    inputs = [record[3] for record in chunks]
    try:
        with Partition.locked(step.site, partition) as part:
            outputs, latest = part.advance(step, stage, status.chain, inputs)
    except ViewletError as problem:
        # Repeating the task would end the same way. The failure is sent on as data: to every
        # partition, so that no later stage runs, and through them to the driver.
        last = stage == step.site.stages - 1
        for target in [partition] if last else range(step.site.partitions):
            yield target, (FAILURE, stage, partition, pickle.dumps(problem_of(problem)))
        return
    if step.snapshot and stage == step.site.stages - 1:
        start(snapshot_order(step, partition))
    status.chain = latest.chain
    status.place = f"{socket.gethostname()}/{os.getppid()}"  # workers of an executor: one parent
    status.logged += latest.logged
    status.run_seconds += latest.run_seconds or [0.0]
    status.notes += latest.notes
    for target, payload in outputs.items():
        if target == DRIVER:
            yield partition, (OUTPUT, stage, partition, payload)
        elif 0 <= target < step.site.partitions and stage < step.site.stages - 1:
            status.shuffled += len(payload)
            yield target, (CHUNK, stage, (partition, 0), payload)
        else:
            raise StateError(f"stage {stage} has an output for partition {target}: no such target")
    status.task_seconds.append(time.perf_counter() - started)
    yield partition, (STATUS, stage, partition, status)


def snapshot_order(step: Step, partition: int) -> Order:
    site = step.site
    return Order(
        str(site.directory(partition)),
        site.store().location,
        site.generation,
        partition,
        site.partitions,
        site.fingerprint,
        step.chains[partition],
    )


def snapshot_partition(step: Step, partition: int) -> tuple[int, list[str]]:
    """Take a snapshot of the step's tick now and wait for it."""
    with Partition.locked(step.site, partition) as part:
        part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
    problem = take(snapshot_order(step, partition))
    return partition, part.notes + ([f"partition {partition}: {problem}"] if problem else [])


def split_partition(
    step: Step, partitions: int, partition: int
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """This partition's state as (new partition, (old partition, chunk)) pairs."""
    with Partition.locked(step.site, partition) as part:
        state = part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
        with state.read_only():
            chunks = cast(Repartitioning, part.program).repartition(state, partitions)
    for target, chunk in chunks.items():
        yield target, (partition, chunk)


def adopt_partition(
    step: Step, partition: int, chunks: Iterable[tuple[int, bytes]]
) -> tuple[int, Status]:
    """Begin a generation from the chunks that the old partitions sent here."""
    ordered = [chunk for _, chunk in sorted(chunks)]
    with Partition.locked(step.site, partition) as part:
        return partition, part.adopt(step, ordered)


def problem_of(problem: ViewletError) -> tuple[type[ViewletError], str, Any, str | None]:
    """An error as it crosses to the driver: keyword-only arguments do not pickle by themselves."""
    return type(problem), problem.message, problem.position, problem.hint


def raise_problem(data: bytes) -> None:
    kind, message, position, hint = pickle.loads(data)
    raise kind(message, position=position, hint=hint)


def read_partition(step: Step, partition: int, request: bytes) -> tuple[int, bytes, list[str]]:
    """Answer a request at the step's tick, bringing the state there first if it is not."""
    with Partition.locked(step.site, partition) as part:
        state = part.settle(part.attach(step.fence), step.tick, step.chains[partition], step.fence)
        with state.read_only():
            return partition, part.program.read(state, request), part.notes


def partition_of(key: int) -> int:
    """The partitioner of all shuffles; Spark compares partitioners by this function's identity."""
    return key


def discard_partition(site: Site, partition: int) -> tuple[int, str]:
    """Remove the local state of a cluster that is being closed."""
    _ATTACHED.clear()
    with partition_lock(site.directory(partition)):
        shutil.rmtree(site.directory(partition), ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty: other partitions are still there
        site.directory(partition).parent.rmdir()
        shutil.rmtree(site.root() / "log", ignore_errors=True)
        site.root().rmdir()
    return partition, "closed"
