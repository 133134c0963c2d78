"""Partitions in plain directories of one process: the service's contract without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from viewlet.engine.partitions.batch_ids import BatchId
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.spark.sql_program import SqlProgram


class Directories:
    """Runs a program's stages one partition after the other. Implements conductor.Steps.

    `abort` puts the directories back to what they were at the last commit.
    """

    def __init__(self, program: SqlProgram, partitions: int, root: Path) -> None:
        self.program = program
        self.partitions = partitions
        self._root = root
        self.states = []
        for p in range(partitions):
            state = PartitionState.fresh(root / str(p), p, partitions, program.fingerprint)
            program.create(state)
            state.begin(-1, (0, 0))
            state.stamp(0, "start", 3)
            self.states.append(state)
        self._tick = 0
        self._keep()

    def _keep(self) -> None:
        for p in range(self.partitions):
            saved = self._root / f"saved{p}"
            shutil.rmtree(saved, ignore_errors=True)
            shutil.copytree(self._root / str(p), saved)

    def step(
        self,
        inputs: Any = None,
        broadcast: bytes = b"",
        *,
        batch_id: BatchId | None = None,
        commit: bool = True,
        stages: int | None = None,
    ) -> list[bytes]:
        coming = {p: [data] for p, data in (inputs or {}).items()}
        driver_outputs: list[bytes] = []
        for stage in range(stages or self.program.stages):
            leaving: dict[int, list[bytes]] = {}
            for p in range(self.partitions):
                state = self._attached(p)
                state.begin(self._tick + 1, (0, 0))
                outputs = self.program.run(state, stage, coming.get(p, []), broadcast)
                state.stamp(self._tick + 1, "tick", 3)
                self.states[p] = state
                for node, data in outputs.items():
                    target = driver_outputs if node == DRIVER else leaving.setdefault(node, [])
                    target.append(data)
            self._tick += 1
            coming = leaving
        assert not coming
        return driver_outputs

    def note(self, output: bytes, run_seconds: float = 0.0) -> None:
        """Nothing is kept here that it could be part of."""

    def gather(self, rdd: Any) -> list[bytes]:
        raise AssertionError("only Spark brings an RDD")

    def _attached(self, p: int) -> PartitionState:
        state = PartitionState.attach(
            self._root / str(p), p, self.partitions, self.program.fingerprint, self.states[p]
        )
        assert state is not None
        return state

    def read(self, request: bytes) -> list[bytes]:
        results = []
        for p in range(self.partitions):
            state = self._attached(p)
            with state.read_only():
                results.append(self.program.read(state, request))
        return results

    def commit(self, batch_id: BatchId | None = None) -> None:
        self._keep()

    def abort(self) -> None:
        for p in range(self.partitions):
            shutil.rmtree(self._root / str(p))
            shutil.copytree(self._root / f"saved{p}", self._root / str(p))
