"""One partition under its lock: its state is brought to a tick, and from there to the next.

    lock -> settle(tick, chain) -> begin (dirty) -> run -> log -> record outputs -> stamp (clean)

Whatever is found in the local directory (nothing, damage, a torn tick, an older tick, a tick of a
step that was given up), the head and the change log decide what to make of it.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from viewlet.engine.durable.sealed import DamagedFile, seal, unseal
from viewlet.engine.partitions.change_log import ChangeLog, Entry, LogLink
from viewlet.engine.partitions.head import BUILDING, DamagedState, partition_lock
from viewlet.engine.partitions.packing import pack, unpack
from viewlet.engine.partitions.partition_program import (
    ADOPT,
    DRIVER,
    ClusterSite,
    Repartitioning,
    Status,
    StepRequest,
    Undoing,
    program_of,
)
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.partitions.snapshot import Snapshots, trouble
from viewlet.errors import ProgramError, StateError, ViewletError

_ATTACHED: OrderedDict[tuple[str, int], PartitionState] = (
    OrderedDict()
)  # a cache: partition_state.py
_ATTACHED_LIMIT = 64


class LostState(StateError):
    """A version that neither local files nor the checkpoint have whole."""


def detach() -> None:
    """Forget the mappings of this process."""
    _ATTACHED.clear()


class Partition:
    """A partition under its lock: the only way to its state."""

    def __init__(self, site: ClusterSite, partition: int) -> None:
        self.site = site
        self.partition = partition
        self.program = program_of(site)
        self.directory = site.directory(partition)
        self.log = ChangeLog(site.store(), site.generation, partition)
        self.notes: list[str] = []
        self._keep = 2 * site.stages + 1

    @classmethod
    @contextmanager
    def locked(cls, site: ClusterSite, partition: int) -> Iterator[Partition]:
        """The partition, while no other process of this machine has it."""
        with partition_lock(site.directory(partition)):
            part = cls(site, partition)
            if problem := trouble(part.directory):
                part._note(problem)
            yield part

    # -- bringing the state to a tick -----------------------------------------------------------

    def settle(
        self, state: PartitionState | None, tick: int, chain: str, fence: tuple[int, int]
    ) -> PartitionState:
        """Bring the state to exactly (tick, chain).

        torn    -> undone by the program, else rebuilt
        later   -> (of a step that was given up) undone by the program, else rebuilt
        older   -> the log's records between are replayed on it
        foreign -> (missing, damaged, from a step that was given up) rebuilt
        """
        if state is not None and state.head.tick > tick:
            self._take_back(state, tick, chain, fence)
        if state is None or (state.head.tick, state.head.chain) != (tick, chain):
            state = self._restore(state, tick, chain, fence)
        self._remember(state)
        return state

    def goes_back(self, state: PartitionState, tick: int, chain: str) -> bool:
        """Whether a state that is further came by (tick, chain), and the log leads there too."""
        if state.head.tick <= tick or (tick, chain) not in state.head.history:
            return False
        link = self.log.links().get(chain)
        try:
            return link is not None and self.log.read(link).tick == tick
        except DamagedFile:
            return False

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

    def _take_back(
        self, state: PartitionState, tick: int, chain: str, fence: tuple[int, int]
    ) -> None:
        """Undo the ticks of a step that was given up, if the program can."""
        if (tick, chain) not in state.head.history or not hasattr(self.program, "take_back"):
            return
        state.begin(BUILDING, fence)
        if cast(Undoing, self.program).take_back(state, tick):
            # Outputs of what was undone must not answer for a step that does the same again.
            state.head.history = [past for past in state.head.history if past[0] < tick]
            state.stamp(tick, chain, self._keep)
        else:
            state.undone()

    def _undo(self, state: PartitionState) -> PartitionState | None:
        torn = state.head.dirty
        state.meta = json.loads(state.head.meta)
        if not state.head.returned and self.program.rollback(state):
            state.undone()
            self._note(f"tick {torn} was torn; undone by the program")
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
        if not lost:
            before = path[0].tick - 1 if path else tick
            lost.append(f"{self.log.base}/log/{before:015d}-{way[0]}-*: the record is gone")
        raise LostState(
            f"partition {self.partition} cannot be brought to tick {tick}: its state is lost. "
            f"Damaged: {'; '.join(lost)}",
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

    def _replay(self, state: PartitionState, path: list[LogLink], fence: tuple[int, int]) -> None:
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
        self, step: StepRequest, stage: int, chain: str, inputs: list[bytes]
    ) -> tuple[dict[int, bytes], Status]:
        """(tick, chain) -> (tick + 1, chain'), once, however often it is asked for."""
        entry = Entry(chain, step.tick + stage + 1, stage, inputs, step.broadcast)
        following = entry.chain()
        attached = self.attach(step.fence)
        if attached is not None and (entry.tick, following) in attached.head.history:
            try:
                outputs, notes = self._recorded(entry.tick, following)
            except (OSError, DamagedFile):
                self._note(f"outputs of tick {entry.tick} are lost; making them again")
            else:
                self._remember(attached)
                return outputs, Status(following, notes=notes + self.notes)
        state = self.settle(attached, step.tick + stage, chain, step.fence)
        state.begin(entry.tick, step.fence)
        started = time.perf_counter()
        try:
            outputs = self.program.run(state, stage, inputs, step.broadcast)
            ran = time.perf_counter() - started
            self._check_outputs(stage, outputs, step.last)
            state.run_returned()
            logged = self.log.append(entry, following)
            self._record(entry.tick, following, outputs)
            state.stamp(entry.tick, following, self._keep)
        except ViewletError:
            self._remember(self._undo(state))
            raise
        return outputs, Status(following, logged=logged, run_seconds=[ran], notes=self.notes)

    def adopt(self, step: StepRequest, chunks: list[bytes]) -> Status:
        """Start this generation from the chunks of the one before, at the step's tick."""
        genesis = self.site.genesis(self.partition)
        entry = Entry(genesis, step.tick, ADOPT, chunks, b"")
        chain = entry.chain()
        self.log.append(entry, chain)
        self.settle(self.attach(step.fence), step.tick, chain, step.fence)
        return Status(chain, notes=self.notes)

    def _check_outputs(self, stage: int, outputs: dict[int, bytes], last: int) -> None:
        for target, payload in outputs.items():
            if target != DRIVER and (stage == last or not 0 <= target < self.site.partitions):
                raise ProgramError(
                    f"stage {stage} of {last + 1} has an output for partition {target}",
                    hint=f"the last stage answers to DRIVER, the others also to partitions "
                    f"0 to {self.site.partitions - 1}",
                )
            if not isinstance(payload, bytes):
                raise ProgramError(f"an output of stage {stage} is no bytes: {type(payload)}")

    def _record(self, tick: int, chain: str, outputs: dict[int, bytes]) -> None:
        """Keep the outputs until no task of the step can ask for them again.

        Notes go with them: Spark may have given up the task that rebuilt the state (a fetch failed
        elsewhere) while its Python process went on, and only the repetition reports.
        """
        outputs_directory = self.directory / "outputs"
        try:
            outputs_directory.mkdir(exist_ok=True)
            with (outputs_directory / f"{tick:015d}-{chain}").open("wb") as file:
                for part in seal(pack((outputs, self.notes)), f"{tick:015d}-{chain}"):
                    file.write(part)
        except OSError as problem:
            raise StateError(
                f"partition {self.partition}: cannot record outputs in "
                f"{outputs_directory}: {problem.strerror}",
                hint="free space there, or set the state directory to a larger disk",
            ) from problem
        for old in outputs_directory.iterdir():
            if int(old.name.partition("-")[0]) <= tick - self._keep:
                old.unlink(missing_ok=True)

    def _recorded(self, tick: int, chain: str) -> tuple[dict[int, bytes], list[str]]:
        name = f"{tick:015d}-{chain}"
        data = (self.directory / "outputs" / name).read_bytes()
        outputs, notes = unpack(unseal(name, data, name))
        return outputs, notes

    def _remember(self, state: PartitionState | None) -> None:
        key = (str(self.directory), self.partition)
        _ATTACHED.pop(key, None)
        if state is not None:
            _ATTACHED[key] = state
            while len(_ATTACHED) > _ATTACHED_LIMIT:
                _ATTACHED.popitem(last=False)

    def _note(self, text: str) -> None:
        self.notes.append(f"partition {self.partition}: {text}")
