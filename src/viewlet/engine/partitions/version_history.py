"""The versions of a cluster: the committed one, the one being made, and the one before.

    begin -> extend -> ... -> commit      a version exists once its commit is written
                          \\-> abandon    the next step starts from the committed version again

Commits go to the checkpoint where there is one; without it the history lives in this process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace

from viewlet.engine.partitions.commit_log import Commit, CommitLog
from viewlet.errors import StateError

_REMEMBERED_BATCHES = 256  # ids of past batches that each commit carries


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
        self._batches: OrderedDict[str, int] = OrderedDict(start.batches)
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

    def version_of(self, batch_id: str) -> int | None:
        """The version that a batch made, None if it made none yet."""
        return self._batches.get(batch_id)

    def extend(self, outputs: Iterable[bytes]) -> None:
        """Add outputs to the open version, which begins here if none is open."""
        if self.pending is None:
            self.pending = replace(self.committed, outputs=())
        self.pending = replace(self.pending, outputs=(*self.pending.outputs, *outputs))

    def commit(self, commit: Commit, batch_id: str | None) -> None:
        """Make `commit` the next version; it exists when this returns."""
        version = self.version + 1
        batches = OrderedDict(self._batches)
        if batch_id is not None:
            batches[batch_id] = version
            while len(batches) > _REMEMBERED_BATCHES:
                batches.popitem(last=False)
        commit = replace(commit, version=version, batches=tuple(batches.items()))
        if self._commits is not None:
            self._commits.write(commit)
        self._previous = self.committed
        self.committed, self.pending, self._batches = commit, None, batches
        if version % self._prune_every == 0:
            self.prune()

    def abandon(self) -> None:
        """Take back what was not committed; the next use of a partition undoes it."""
        self.pending = None

    def revert(self, output: bytes) -> None:
        """A new version with the state before the last one, once only; its output is `output`."""
        if self._previous is None or self.pending is not None:
            raise StateError("there is no version to take back")
        remaining = (
            (name, version) for name, version in self._batches.items() if version != self.version
        )
        self._batches = OrderedDict(remaining)
        self.commit(replace(self._previous, outputs=(output,)), None)
        self._previous = None

    def rebase(self, start: Commit) -> None:
        """Go on from the same version in another layout of partitions, and make that durable."""
        self.committed = start
        if self._commits is not None:
            self._commits.write(start)

    def outputs_since(self, version: int) -> list[list[bytes]]:
        """The outputs for the driver of every version after `version`, oldest first."""
        if version == self.version:
            return []
        if version == self.version - 1:
            return [list(self.committed.outputs)]
        if self._commits is None:
            raise StateError("outputs of past versions are in a checkpoint only")
        return self._commits.outputs(self.committed, range(version + 1, self.version + 1))

    def recorded_outputs(self, version: int) -> list[bytes]:
        """What a version gave when it was made; nothing where that was pruned, with an incident."""
        if version == self.version:
            return list(self.committed.outputs)
        try:
            return self.outputs_since(version - 1)[0]
        except StateError as problem:
            self._report(f"outputs of version {version} are gone: {problem.message}")
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
                self._commits.prune(self.committed, self.version - 2 * self._prune_every)
            except StateError as problem:
                self._report(f"old commits were not removed: {problem.message}")

    def check_alone(self) -> None:
        """Raise if a later driver has opened the checkpoint: versions of this one do not count."""
        if self._commits is not None and self._commits.is_superseded(self.committed):
            raise StateError(
                f"another driver has taken over the checkpoint {self._commits.store.name}",
                hint="close this cluster; steps since the takeover are not part of the checkpoint",
            )
