"""The versions of a cluster: the committed one, the one being made, and the one before.

    begin -> extend -> ... -> commit      a version exists once its commit is written
                          \\-> abandon    the next step starts from the committed version again

Commits go to the checkpoint where there is one; without it the history lives in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.commit_log import Commit, CommitLog
from viewlet.errors import StateError


class VersionHistory:
    """What has been committed, and what is on its way to be; the caller serializes all calls."""

    def __init__(
        self,
        commits: CommitLog | None,
        start: Commit,
        prune_every: int,
        report: Callable[[str], None],
    ) -> None:
        """`report` is told of incidents: what went wrong without harm to any version."""
        self._commits = commits
        self._report = report
        self._prune_every = prune_every
        self._previous: Commit | None = None  # while it can be gone back to
        self.committed = start
        self.pending: Commit | None = None

    @property
    def version(self) -> int:
        """The last committed one."""
        return self.committed.version

    @property
    def newest(self) -> Commit:
        """What the next step starts from: the open version, else the committed one."""
        return self.pending or self.committed

    @property
    def is_durable(self) -> bool:
        """Whether versions outlive the session, because there is a checkpoint."""
        return self._commits is not None

    def has_applied(self, batch: BatchId) -> bool:
        """Whether a batch of this id is in the state."""
        return batch in self.committed.batches

    def version_of(self, batch: BatchId) -> int | None:
        """The version that a batch made; None if it made none, or its source has gone on since."""
        return self.committed.batches.version_of(batch)

    def extend(self, outputs: Iterable[bytes]) -> None:
        """Add outputs to the open version, which begins here if none is open."""
        if self.pending is None:
            self.pending = replace(self.committed, outputs=())
        self.pending = replace(self.pending, outputs=(*self.pending.outputs, *outputs))

    def commit(self, made: Commit, batch: BatchId | None) -> None:
        """Make `made` the next version; it exists when this returns."""
        version = self.version + 1
        batches = made.batches if batch is None else made.batches.with_batch(batch, version)
        before = self.committed
        self._write(replace(made, version=version, batches=batches))
        self._previous, self.pending = before, None
        if version % self._prune_every == 0:
            self.prune()

    def _write(self, made: Commit) -> None:
        """The commit in the slot after the last one, which no other driver may have taken."""
        made = replace(made, slot=self.committed.slot + 1)
        self.committed = self._commits.write(made) if self._commits is not None else made

    def abandon(self) -> None:
        """Take back what was not committed; the next use of a partition undoes it."""
        self.pending = None

    def revert(self, output: bytes) -> None:
        """A new version with the state before the last one, once only; its output is `output`."""
        if self._previous is None or self.pending is not None:
            raise StateError("there is no version to take back")
        self.commit(replace(self._previous, outputs=(output,)), None)
        self._previous = None

    def rebase(self, start: Commit) -> None:
        """Go on from a version in another layout of partitions, or from an earlier one."""
        self._write(start)
        self._previous = None

    def claim(self) -> None:
        """Write the committed version once more: StateError unless this driver is the only one."""
        self.rebase(self.committed)

    def earlier(self) -> Commit | None:
        """The newest commit of an earlier version that led here, None where none is kept."""
        if self._commits is not None:
            for commit in self._commits.lineage(self.committed):
                if commit.version < self.version:
                    return commit
        return None

    def outputs_since(self, version: int) -> list[list[bytes]]:
        """The outputs for the driver of every version after `version`, oldest first."""
        if version == self.version:
            return []
        if version == self.version - 1:
            return [list(self.committed.outputs)]
        if self._commits is None:
            raise StateError("outputs of past versions are in a checkpoint only")
        return self._commits.outputs(self.committed, range(version + 1, self.version + 1))

    def recorded_outputs(self, batch: BatchId) -> list[bytes]:
        """What a batch gave when it was applied; nothing where that is gone, with an incident."""
        version = self.version_of(batch)
        if version == self.version:
            return list(self.committed.outputs)
        try:
            if version is None:
                raise StateError("its source has gone on since")
            return self.outputs_since(version - 1)[0]
        except StateError as problem:
            self._report(f"outputs of {batch} are gone: {problem.message}")
            return []

    def save_driver_state(self, driver_state: bytes) -> None:
        """Write what the caller has on the driver at this version."""
        self.check_alone()
        if self._commits is not None:
            self._commits.save(self.committed, driver_state)

    def saved_driver_state(self) -> tuple[int, bytes] | None:
        """The newest driver state that was written, and its version."""
        return self._commits.saved(self.committed) if self._commits is not None else None

    def prune(self) -> None:
        """Remove commits that no restore needs; a failure is an incident, the version stands."""
        if self._commits is not None:
            try:
                self._commits.prune(self.version - 2 * self._prune_every)
            except StateError as problem:
                self._report(f"old commits were not removed: {problem.message}")

    def check_alone(self) -> None:
        """Raise if a later driver has opened the checkpoint; what this one does is then no more."""
        slot = self.committed.slot + 1
        if self._commits is not None and self._commits.is_taken(slot):
            raise self._commits.taken_over(slot)
