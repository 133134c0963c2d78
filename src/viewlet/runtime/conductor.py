"""The driver's half of a distributed programme: its own maps, and batch after batch of jobs.

A batch is atomic: all its jobs become one version of the partitions, and the driver's maps are put
back where any of them fails. What partitions are and where they run is the business of `Steps`:
a Spark cluster, or a few directories in a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from viewlet.errors import ProgramError
from viewlet.runtime.batching import Batch
from viewlet.runtime.chunks import Columns, Message, batch_columns, parts_of, with_codes
from viewlet.runtime.program import DRIVER
from viewlet.runtime.site import Site
from viewlet.runtime.spark_program import Order, routed
from viewlet.runtime.stages import JobPlan, Piece, Plan
from viewlet.runtime.strings import Dictionary
from viewlet.storage.columns import Arrays, MemoryArrays


class Steps(Protocol):
    """What the conductor asks of the partitions; runtime.cluster.Cluster is one."""

    @property
    def partitions(self) -> int: ...

    def step(
        self,
        inputs: Any = None,
        broadcast: bytes = b"",
        *,
        batch_id: str | None = None,
        commit: bool = True,
        stages: int | None = None,
    ) -> list[bytes]: ...

    def commit(self, batch_id: str | None = None) -> None: ...

    def abort(self) -> None: ...


class Conductor:
    """Runs a plan's triggers over partitions and on the driver's own site."""

    def __init__(
        self,
        plan: Plan,
        steps: Steps,
        arrays: Arrays | None = None,
        dictionary: Dictionary | None = None,
    ) -> None:
        self.plan = plan
        self.steps = steps
        self.arrays = arrays if arrays is not None else MemoryArrays()
        self.site = Site(plan.driver, self.arrays, dictionary or Dictionary())
        self._relations = {r.name: r for r in plan.distributed.program.relations}
        self.used = _columns_read(plan)

    # Batches.

    def columns(self, relation: str, batch: Batch) -> Columns:
        """A batch as it travels: only the columns that some kernel of a worker reads."""
        return batch_columns(self._relations[relation], batch, sorted(self.used[relation]))

    def apply(
        self,
        batches: Mapping[str, Batch],
        *,
        batch_id: str | None = None,
        given: Any = None,
    ) -> None:
        """One atomic batch. `given`: an RDD that brings (partition, message) in place of batches,
        whose relations are then the keys of `batches`."""
        number = self.plan.trigger_for(batches)
        if number is None:
            return
        scattered: list[Message] = [Message() for _ in range(self.steps.partitions)]
        if given is None:
            for name, batch in batches.items():
                if name in self.used:
                    parts = parts_of(self.columns(name, batch), len(scattered))
                    for message, part in zip(scattered, parts, strict=True):
                        message.columns.append(part)
        self.site.begin()
        try:
            self._jobs(number, scattered, given)
            self.steps.commit(batch_id)
        except BaseException:
            self.site.rollback()
            self.steps.abort()
            raise

    def _jobs(self, number: int, scattered: list[Message], given: Any) -> None:
        self.site.clear_buffers()
        for at, job in enumerate(self.plan.triggers[number].jobs):
            self._before(job, scattered)
            if job.stages:
                inputs: Any = {
                    p: message.pack()
                    for p, message in enumerate(scattered)
                    if message.rows or message.columns
                }
                if at == 0 and given is not None:
                    if inputs:
                        raise ProgramError("a job cannot take scattered rows beside an RDD")
                    inputs = given
                order = Order(number, at, begin=at == 0)
                outputs = self.steps.step(
                    inputs, order.pack(), commit=False, stages=len(job.stages)
                )
                self._receive(map(Message.unpack, outputs))
            self._after(job)
            scattered = [Message() for _ in scattered]

    def _before(self, job: JobPlan, scattered: list[Message]) -> None:
        for operation in job.before:
            if isinstance(operation, Piece):
                self.site.run(operation)
                continue
            for node, rows in routed(self.site, operation, len(scattered)):
                if node == DRIVER:
                    self._receive([Message([rows])])
                else:
                    scattered[node].rows.append(rows)

    def _receive(self, messages: Iterable[Message]) -> None:
        for message in messages:
            for rows in message.rows:
                self.site.add(rows.target, with_codes(rows, self.site.dictionary))

    def _after(self, job: JobPlan) -> None:
        for piece in job.after:
            self.site.run(piece)

    # Contents put into maps as they are, and batches repeated from what is recorded of them.

    def put(self, messages: Sequence[Message], own: Message) -> None:
        """Add rows to maps, for each partition and for the driver; one version."""
        self.site.begin(logged=False)
        self._receive([own])
        self.steps.step(
            {p: message.pack() for p, message in enumerate(messages)},
            Order(None).pack(),
            stages=1,
        )

    def replay(self, outputs: Sequence[bytes]) -> None:
        """Repeat the driver's part of one version from what the partitions sent it then."""
        received: dict[tuple[int, int], list[Message]] = {}
        for data in outputs:
            message = Message.unpack(data)
            if message.origin is not None:
                received.setdefault(message.origin, []).append(message)
        if not received:
            return
        self.site.begin()
        self.site.clear_buffers()
        for (number, at), messages in sorted(received.items()):
            job = self.plan.triggers[number].jobs[at]
            self._before(job, [Message() for _ in range(self.steps.partitions)])
            self._receive(messages)
            self._after(job)


def _columns_read(plan: Plan) -> dict[str, set[int]]:
    """The columns of each relation that some kernel reads, of relations that have a trigger."""
    found: dict[str, set[int]] = {}
    for trigger in plan.triggers:
        for job in trigger.jobs:
            for stage in job.stages:
                for piece in stage.pieces:
                    if piece.relation is not None:
                        read = plan.workers.module.loops.columns[piece.kernel]
                        found.setdefault(piece.relation, set()).update(read)
    return found
