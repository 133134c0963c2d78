"""Damaged files, again and again: each damage is found out with the file named, or changes nothing.

usage: python -m tests.interfaces.damage DAMAGES [SEED]

What is damaged: a database on disk, checkpoints of both engines, the logs, snapshots and commits of
a Spark checkpoint as far as they are read without Spark, a pipeline's progress, a saved signal
query, and the code cache. How: flipped bits, cuts, zeroed ranges, exchanged files, appended bytes,
blocks in the wrong place, files that are gone or empty.
"""

from __future__ import annotations

import pickle
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.engine.programs import KeyedSum, Reference, batch, rows, sums_of
from tests.signals import queries

import viewlet
from viewlet.engine.durable import log as durable_log
from viewlet.engine.durable.sealed import DamagedFile
from viewlet.engine.partitions import worker
from viewlet.engine.partitions.commit_log import Commit, CommitLog
from viewlet.engine.partitions.partition import detach
from viewlet.engine.partitions.partition_program import ClusterSite, StepRequest
from viewlet.engine.partitions.snapshot import take
from viewlet.engine.partitions.store import Store
from viewlet.errors import StateError
from viewlet.interfaces.database import Database
from viewlet.native.code_cache import CodeCache, ObjectCode
from viewlet.pipeline.run_directory import RunDirectory

SCHEMA = """
CREATE TABLE r (n INT PRIMARY KEY, g INT NOT NULL, t VARCHAR, d DECIMAL(12,2), x DOUBLE);
CREATE STREAM s (n INT NOT NULL, at TIMESTAMP);
CREATE VIEW by_group AS
  SELECT g, COUNT(*) AS n, SUM(d) AS total, MAX(t) AS most FROM r GROUP BY g;
CREATE VIEW seen AS SELECT COUNT(*) AS n, SUM(n) AS total, MAX(at) AS at FROM s;
CREATE VIEW joined AS SELECT r.g, COUNT(*) AS n FROM r JOIN s ON r.n = s.n GROUP BY r.g;
"""


@dataclass(frozen=True)
class Subject:
    """Files that were written once, and how to read them; reading raises what it finds out."""

    name: str
    files: Path
    read: Callable[[Path], Any]
    expected: Any


# --- what is damaged ------------------------------------------------------------------------------


def write(db: Database, first: int, last: int) -> None:
    """Batches of one row and of many, inserts and deletes."""
    for number in range(first, last):
        size = 120 if number % 6 == 5 else 1 + number % 3
        rows = [
            (number * 200 + i, i % 5, f"text {i} of {number}", f"{i}.{i % 90 + 10}", i / 8)
            for i in range(size)
        ]
        db.insert("r", rows)
        db.insert("s", [(row[0], f"2024-01-{1 + i % 28:02d}") for i, row in enumerate(rows)])
        if number % 4 == 3:
            db.delete("r", [(row[0], row[1], row[2], row[3], row[4]) for row in rows[:1]])


def contents(db: Database) -> Any:
    """Everything that can be asked."""
    views = {
        name: sorted(map(repr, db.view(name).rows())) for name in ("by_group", "seen", "joined")
    }
    return views | {"r": sorted(map(repr, db.query("SELECT * FROM r").to_pylist()))}


def durable_database(directory: Path, engine: str) -> Subject:
    """A snapshot, closed segments of the log and an open one."""
    sizes, durable_log.SEGMENT_BYTES = durable_log.SEGMENT_BYTES, 1 << 13
    try:
        with viewlet.connect(engine, path=directory, synchronous="off") as db:
            db.execute(SCHEMA)
            write(db, 0, 7)
            db.checkpoint()
            write(db, 7, 25)
            expected = contents(db)
    finally:
        durable_log.SEGMENT_BYTES = sizes

    def read(path: Path) -> Any:
        with viewlet.connect(engine, path=path, synchronous="off") as db:
            return contents(db)

    return Subject(f"database on disk, {engine}", directory, read, expected)


def checkpoint(directory: Path, engine: str) -> Subject:
    """What `checkpoint` writes."""
    with viewlet.connect(engine) as db:
        db.execute(SCHEMA)
        write(db, 0, 12)
        db.checkpoint(directory)
        expected = contents(db)

    def read(path: Path) -> Any:
        with viewlet.restore(path) as db:
            return contents(db)

    return Subject(f"checkpoint, {engine}", directory, read, expected)


def partition_log(directory: Path) -> Subject:
    """Change log and snapshots of one partition, whose local state is lost."""
    reference = Reference()
    program = KeyedSum(1)

    def site_at(path: Path, state: Path) -> ClusterSite:
        packed = pickle.dumps(program)
        return ClusterSite("c", 0, 1, program.fingerprint, 1, packed, str(state), str(path))

    with tempfile.TemporaryDirectory() as state:
        site = site_at(directory, Path(state))
        tick, chain = 0, site.genesis(0)
        for number in range(30):
            step = StepRequest(site, tick, (chain,), (1, number), b"")
            records = list(worker.run_stage(step, 0, 0, [rows(*batch(number))]))
            tick, chain = tick + 1, records[-1][1][3].chain
            reference.apply(batch(number))
            if number in (9, 19):
                problem = take(worker.snapshot_order(site, 0, chain), wait=True)
                assert problem is None, problem
        detach()

    def read(path: Path) -> Any:
        with tempfile.TemporaryDirectory() as fresh:
            step = StepRequest(site_at(path, Path(fresh)), tick, (chain,), (2, 0), b"")
            try:
                return sums_of([worker.read_partition(step, 0, b"")[1]])
            finally:
                detach()

    return Subject("partition on Spark", directory, read, reference.expected())


def commit_log(directory: Path) -> Subject:
    """Identity, commits and driver states; what was given up is in `unreadable`."""
    log = CommitLog(Store(str(directory)))
    log.write_identity({"cluster": "c", "fingerprint": "f", "stages": 1})
    for version in range(6):
        outputs = (b"out%d" % version,)
        commit = Commit(version, 1, version, version, 0, (f"{version:032x}",), outputs=outputs)
        log.write(commit)
        log.save(commit, b"state of version %d" % version)

    def read(path: Path) -> Any:
        again = CommitLog(Store(str(path)))
        identity = again.identity()
        if identity is None:  # as Cluster.restore has it
            raise DamagedFile("cluster: the file is gone")
        newest, unreadable = again.newest()
        if unreadable:  # the caller reports it, and goes on from the version before
            raise DamagedFile("; ".join(unreadable))
        assert newest is not None
        saved = again.saved(newest)
        if saved is None:
            raise DamagedFile("driver: no state can be read")
        version, state = saved
        later = again.outputs(newest, range(version + 1, newest.version + 1))
        # A driver state that cannot be read costs the one before it and the outputs since.
        assert state == b"state of version %d" % version
        assert later == [[b"out%d" % v] for v in range(version + 1, newest.version + 1)]
        return identity, newest

    return Subject("commits on Spark", directory, read, read(directory))


def pipeline_run(directory: Path) -> Subject:
    """How far the sources of a pipeline have come, with its database."""
    with viewlet.connect() as db:
        db.execute(SCHEMA)
        write(db, 0, 8)
        run = RunDirectory(directory)
        run.save(db, 1, "mark", {"r": 1})
        run.save(db, 2, "mark", {"r": 2})
        run.intend(3, "mark", {"r": 3})
        run.intend(4, "mark", {"r": 4})
        run.close()
        expected = (2, "mark", {"r": 2}), ({"r": 3}, {"r": 4}), contents(db)

    def read(path: Path) -> Any:
        run = RunDirectory(path)
        try:
            saved = run.load()
            assert saved is not None, "the run begins anew"
            intents = [run.intended(batch) for batch in (3, 4)]
        finally:
            run.close()
        with viewlet.restore(saved.database) as db:
            progress = saved.batch, saved.fingerprint, saved.sources
            return progress, tuple(i.sources for i in intents if i is not None), contents(db)

    return Subject("pipeline", directory, read, expected)


def saved_signal(directory: Path) -> Subject:
    """A running query over signals."""
    events = {"k": np.arange(300) % 3, "t": np.arange(300) // 3, "v": np.arange(300.0)}
    query = queries.points.sample(1).fir([1.0, 1.0, 1.0])
    live = query.start()
    live.push({name: column[:200] for name, column in events.items()})
    live.save(directory)

    def read(path: Path) -> Any:
        again = query.restore(path)
        outs = again.push({name: column[200:] for name, column in events.items()}), again.flush()
        return [{name: list(column) for name, column in out.items()} for out in outs]

    return Subject("signals", directory, read, read(directory))


def code(directory: Path) -> Subject:
    """Machine code: what is not as it was is as good as none, and is made again."""
    directory.mkdir(mode=0o700)
    cache = CodeCache(directory)
    binaries = {
        f"f{i}-{i:08x}": ObjectCode((f"b{i}",), bytes(range(256)) * (i + 1)) for i in range(6)
    }
    for symbol, binary in binaries.items():
        cache.write(symbol, binary)

    def read(path: Path) -> Any:
        path.chmod(0o700)
        again = CodeCache(path)
        for symbol, binary in binaries.items():
            if again.read(symbol) is None:
                again.write(symbol, binary)  # compiled again
        return {symbol: again.read(symbol) for symbol in binaries}

    return Subject("code cache", directory, read, binaries)


def subjects(folder: Path) -> list[Subject]:
    """Everything that is written to disk; what is there twice gets twice as many damages."""
    subjects_once = [
        durable_database(folder / "durable", "local"),
        checkpoint(folder / "checkpoint", "local"),
        durable_database(folder / "reference", "interpreter"),
        checkpoint(folder / "saved", "interpreter"),
        partition_log(folder / "partition"),
        commit_log(folder / "commits"),
        pipeline_run(folder / "run"),
        saved_signal(folder / "signal"),
        code(folder / "code"),
    ]
    return [*subjects_once, *subjects_once[:2], subjects_once[0], subjects_once[4]]


# --- how it is damaged ----------------------------------------------------------------------------


def flip(path: Path, draw: random.Random, others: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 1, 5))):
        # Most of a segment is empty: flips fall on what was written as often as behind it.
        size = len(data) if draw.random() < 0.5 else len(data.rstrip(b"\0"))
        if size:
            data[draw.randrange(size)] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random, others: list[Path]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data) + 1)])


def zero(path: Path, draw: random.Random, others: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    used = len(data.rstrip(b"\0"))
    if used:
        start = draw.randrange(used)
        end = draw.choice((len(data), min(len(data), start + draw.choice((1, 16, 512, 4096)))))
        data[start:end] = bytes(end - start)
    path.write_bytes(data)


def exchange(path: Path, draw: random.Random, others: list[Path]) -> None:
    other = draw.choice(others)
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)


def append(path: Path, draw: random.Random, others: list[Path]) -> None:
    with path.open("ab") as file:
        file.write(draw.choice((b"\0", b"\0" * 512, draw.randbytes(draw.randrange(1, 100)))))


def remove(path: Path, draw: random.Random, others: list[Path]) -> None:
    path.unlink()


def empty(path: Path, draw: random.Random, others: list[Path]) -> None:
    path.write_bytes(b"")


def overwrite(path: Path, draw: random.Random, others: list[Path]) -> None:
    """A part of another file over a part of this one: a block written to the wrong place."""
    data, source = bytearray(path.read_bytes()), draw.choice(others).read_bytes()
    if data and source:
        start, size = draw.randrange(len(data)), draw.choice((8, 64, 512))
        piece = source[draw.randrange(len(source)) :][:size]
        data[start : start + len(piece)] = piece
    path.write_bytes(data)


KINDS = (flip, flip, cut, zero, zero, exchange, append, remove, empty, overwrite)


def damage_once(subject: Subject, copy: Path, draw: random.Random) -> str:
    """One damage to a copy: "found" or "harmless"; AssertionError if it was neither."""
    shutil.copytree(subject.files, copy, copy_function=shutil.copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    before = {path: path.read_bytes() for path in files}
    path, kind = draw.choice(files), draw.choice(KINDS)
    if kind is remove and path == newest_commit(copy):
        return "excepted"  # as if the batch never was: docs/threats.md says so
    kind(path, draw, files)
    changed = [p for p in files if not p.exists() or p.read_bytes() != before[p]]
    what = f"{subject.name}: {kind.__name__} {path.relative_to(copy)}"
    damaged = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    try:
        contents = subject.read(copy)
    except (StateError, DamagedFile) as error:
        assert changed, f"{what}: nothing was changed, and yet: {error}"
        named = [p for p in changed if p.name in str(error) or requested_part(p.name) in str(error)]
        assert named, f"{what}: the error does not name the file: {error}"
        after = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file() and p.name != "LOCK"}
        expected = {p: data for p, data in damaged.items() if p.name != "LOCK"}
        assert after == expected, f"{what}: what was refused was changed"
        return "found"
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    assert contents == subject.expected, f"{what}: silently wrong"
    return "harmless"


def requested_part(name: str) -> str:
    """A record of a log is asked for by tick and chain; its name goes on with the one before."""
    return "-".join(name.split("-")[:2]) if name.count("-") == 2 else name


def newest_commit(directory: Path) -> Path | None:
    return max((directory / "commits").glob("*"), default=None)


def damage_often(damages: int, seed: int, folder: Path) -> Counter[tuple[str, str]]:
    """How many damages of each subject were found and how many harmless."""
    draw = random.Random(seed)
    counts: Counter[tuple[str, str]] = Counter()
    all_subjects = subjects(folder)
    failures = []
    for number in range(damages):
        subject = all_subjects[number % len(all_subjects)]
        copy = folder / "copy"
        try:
            counts[subject.name, damage_once(subject, copy, draw)] += 1
        except AssertionError as failure:
            failures.append(f"{number}: {failure}")
        finally:
            shutil.rmtree(copy, ignore_errors=True)
    assert not failures, f"{len(failures)} of {damages} (seed {seed}):\n" + "\n".join(failures)
    return counts


def main() -> None:
    """Run from the command line."""
    damages, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = damage_often(damages, seed, Path(folder))
    for (subject, outcome), count in sorted(counts.items()):
        print(f"{count:5} {outcome:9} {subject}")
    seconds = time.monotonic() - started
    print(f"{damages} damages, none silently wrong, seed {seed}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
