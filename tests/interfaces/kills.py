"""kill -9 of a writing process, again and again: nothing that was acknowledged may be lost.

usage: python -m tests.interfaces.kills KILLS [LEVEL] [SEED]
"""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest.mock import patch

from tests.interfaces import durable_writer

ROOT = Path(__file__).parents[2]
_WRITERS = multiprocessing.get_context("forkserver")
"""Writers are forked where everything is imported already: opening is what takes their time."""
_WRITERS.set_forkserver_preload(["tests.interfaces.durable_writer"])
_FRESH = 40
"""Kills after which a new database begins: the writer looks for its batch from the first on."""


def kill_often(kills: int, level: str, seed: int, folder: Path) -> int:
    """How many batches were acknowledged in all; AssertionError if one was lost."""
    draw = random.Random(seed)
    total = acknowledged = 0
    folder.mkdir(exist_ok=True)
    path = folder / "db"
    for kill in range(kills):
        if kill % _FRESH == 0:
            total += acknowledged
            acknowledged = 0
            shutil.rmtree(path, ignore_errors=True)
        acknowledged = run_and_kill(path, level, draw, acknowledged)
    return total + acknowledged


def run_and_kill(path: Path, level: str, draw: random.Random, acknowledged: int) -> int:
    """Start the writer, kill it at a random moment; the newest batch that it acknowledged."""
    reader, lines_of_writer = _WRITERS.Pipe(duplex=False)
    writer = _WRITERS.Process(
        target=durable_writer.run_as_process,
        args=(str(path), level, draw.randrange(10**6), lines_of_writer),
    )
    with patch.dict(os.environ, {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}):
        writer.start()
    lines_of_writer.close()
    # Some die while they open the database or replay the log, others after some batches.
    is_early = draw.random() < 0.2
    batches = draw.randrange(60)
    ends_at = time.monotonic() + (draw.uniform(0.0, 0.25) if is_early else 90.0)
    lines: list[bytes] = []
    partial = b""
    while time.monotonic() < ends_at and (is_early or len(lines) <= batches):
        ready, _, _ = select.select([reader], [], [], 0.01)
        if ready:
            data = os.read(reader.fileno(), 1 << 16)
            if not data:
                break
            *complete, partial = (partial + data).split(b"\n")
            lines += complete
    time.sleep(draw.uniform(0.0, 0.01))
    writer.kill()
    remaining = b""
    while data := os.read(reader.fileno(), 1 << 16):
        remaining += data
    reader.close()
    writer.join()
    assert writer.exitcode == -9, f"the writer ended by itself with {writer.exitcode}"
    lines += [line for line in (partial + remaining).split(b"\n")[:-1] if line]
    for line in lines:
        if line.startswith(b"open"):
            opened = int(line.split()[1])
            assert opened >= acknowledged, f"batch {acknowledged} was acknowledged and is lost"
            acknowledged = opened
        else:
            acknowledged = int(line)
    return acknowledged


def main() -> None:
    """Run from the command line: a part of the kills on each core, each with its own database."""
    kills, level, seed = int(sys.argv[1]), "normal", 1
    if len(sys.argv) > 2:
        level = sys.argv[2]
    if len(sys.argv) > 3:
        seed = int(sys.argv[3])
    started = time.monotonic()
    workers = min(kills, os.cpu_count() or 1)
    parts = [kills // workers + (i < kills % workers) for i in range(workers)]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool,
    ):
        running = [
            pool.submit(kill_often, part, level, seed + i, Path(folder) / str(i))
            for i, part in enumerate(parts)
        ]
        batches = sum(done.result() for done in running)
    seconds = time.monotonic() - started
    print(f"{kills} kills, {batches} batches acknowledged, none lost, {seconds:.0f} s")


if __name__ == "__main__":
    main()
