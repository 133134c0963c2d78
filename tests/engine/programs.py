"""Small programs for the tests of the stateful-partition service, and their references."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.engine.partitions.worker import DRIVER, PartitionState
from viewlet.errors import RangeError

ROW = np.dtype([("key", "<i8"), ("value", "<i8")])


def rows(*pairs: tuple[int, int]) -> bytes:
    return np.array(list(pairs), ROW).tobytes()


class KeyedSum:
    """value by key, key k in partition k % n; every change of `sum` is also counted in meta.

    stages 1: rows arrive at their partition. stages 2: rows arrive anywhere and are routed.
    stages 3: the partitions then tell partition 0 how many rows they took, which adds them up.
    A row with value 13 is refused after it was applied. `faults` is a directory in which a test
    leaves orders: a file `{what}-{partition}-{stage}` is consumed by the first run that meets it.
    """

    def __init__(self, stages: int = 1, undo: bool = False, faults: str | None = None) -> None:
        self.stages = stages
        self.undo = undo
        self.faults = faults
        self.fingerprint = f"keyed-sum-{stages}-{undo}"

    def create(self, state: PartitionState) -> None:
        state.create("sum", 4, np.int64)
        state.create("wide", (1, 3), np.float32)
        state.create("undo", 0, ROW)
        state.meta["rows"] = 0

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        outputs: dict[int, bytes] = {}
        row_array = np.frombuffer(b"".join(inputs), ROW) if stage < 2 else None
        if stage == max(self.stages - 2, 0) if self.stages == 3 else stage == self.stages - 1:
            assert row_array is not None
            self._apply(state, stage, row_array, int(broadcast or b"1"))
            outputs[DRIVER] = f"{state.partition}:{len(row_array)}".encode()
            if self.stages == 3:
                outputs = {0: str(len(row_array)).encode()}
        elif stage == 0:
            assert row_array is not None
            self._fault(state, stage)
            for target in range(state.partitions):
                mine = row_array[row_array["key"] % state.partitions == target]
                if len(mine):
                    outputs[target] = mine.tobytes()
            outputs[DRIVER] = f"routed {len(row_array)}".encode()
        else:
            self._fault(state, stage)
            total = sum(int(number) for number in inputs)
            state.meta["total"] = state.meta.get("total", 0) + total
            if state.partition == 0:
                outputs[DRIVER] = str(total).encode()
        return outputs

    def _apply(self, state: PartitionState, stage: int, row_array: Any, weight: int) -> None:
        sums = state.array("sum")
        state.meta["rows"] += len(row_array)
        slots = row_array["key"] // state.partitions
        if len(slots) and slots.max() >= len(sums):
            sums = state.resize("sum", int(slots.max()) + 1)
        if self.undo:
            undo_log = state.resize("undo", len(row_array))
            undo_log["value"] = sums[slots]
            undo_log["key"] = slots + 1  # 0: the row was not filled in yet
        half = len(row_array) // 2
        np.add.at(sums, slots[:half], row_array["value"][:half] * weight)
        self._fault(state, stage)
        np.add.at(sums, slots[half:], row_array["value"][half:] * weight)
        if (row_array["value"] == 13).any():
            raise RangeError("13 is out of range", hint="leave it out")

    def _fault(self, state: PartitionState, stage: int) -> None:
        if self.faults is None:
            return
        for what in ("raise", "exit", "hang", "kill-executor"):
            order = Path(self.faults) / f"{what}-{state.partition}-{stage}"
            try:
                order.rename(order.with_name(f"done-{order.name}"))
            except FileNotFoundError:
                continue
            if what == "raise":
                raise RuntimeError("a fault in the middle of a run")
            if what == "exit":
                os._exit(3)
            if what == "kill-executor":
                os.kill(parent_of(os.getppid()), 9)  # the daemon's parent is the executor's JVM
                time.sleep(30)
            time.sleep(4.0)

    def rollback(self, state: PartitionState) -> bool:
        if not self.undo:
            return False
        undo_log, sums = state.array("undo"), state.array("sum")
        for slot, value in undo_log[::-1].tolist():
            if slot:
                sums[slot - 1] = value
        return True

    def read(self, state: PartitionState, request: bytes) -> bytes:
        if request == b"write":
            state.array("sum")[0] = 1
        if request.startswith(b"import "):
            __import__(request.split()[1].decode())
        if request == b"place":
            return f"{os.getppid()}".encode()
        if request == b"process":
            return f"{os.getpid()}".encode()
        sums = state.array("sum")
        sums_by_key = {
            int(slot) * state.partitions + state.partition: int(sums[slot])
            for slot in np.flatnonzero(sums)
        }
        return json.dumps({"sums": sums_by_key, "meta": state.meta}).encode()

    def repartition(self, state: PartitionState, partitions: int) -> dict[int, bytes]:
        sums = state.array("sum")
        slots = np.flatnonzero(sums)
        keys = slots * state.partitions + state.partition
        chunks: dict[int, bytes] = {}
        for target in range(partitions):
            mine = keys % partitions == target
            moved = np.zeros(int(mine.sum()), ROW)
            moved["key"], moved["value"] = keys[mine], sums[slots[mine]]
            chunks[target] = moved.tobytes()
        return chunks

    def adopt(self, state: PartitionState, chunks: list[bytes]) -> None:
        for chunk in chunks:
            row_array = np.frombuffer(chunk, ROW)
            slots = row_array["key"] // state.partitions
            sums = state.array("sum")
            if len(slots) and slots.max() >= len(sums):
                sums = state.resize("sum", int(slots.max()) + 1)
            sums[slots] = row_array["value"]


def parent_of(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


class Reference:
    """The same sums in a dictionary."""

    def __init__(self) -> None:
        self.sums: dict[int, int] = {}

    def apply(self, pairs: list[tuple[int, int]], weight: int = 1) -> None:
        for key, value in pairs:
            self.sums[key] = self.sums.get(key, 0) + value * weight

    def expected(self) -> dict[int, int]:
        return {key: value for key, value in self.sums.items() if value}


def batch(number: int, size: int = 40, keys: int = 200) -> list[tuple[int, int]]:
    generator = np.random.default_rng(number)
    values = generator.integers(-50, 50, size)
    values[values == 13] = 14
    return list(zip(generator.integers(0, keys, size).tolist(), values.tolist(), strict=True))


def scatter(pairs: list[tuple[int, int]], partitions: int, stages: int) -> dict[int, bytes]:
    """Rows to their own partition for one stage, to any for more."""
    parts: dict[int, list[tuple[int, int]]] = {}
    for at, (key, value) in enumerate(pairs):
        target = key % partitions if stages == 1 else at % partitions
        parts.setdefault(target, []).append((key, value))
    return {target: rows(*part) for target, part in parts.items()}


def sums_of(results: list[bytes]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for result in results:
        sums.update({int(k): v for k, v in json.loads(result)["sums"].items()})
    return sums
