"""A counted hunt: several views over rows that come, go and are refused, beside DuckDB.

    python -m tests.oracle.long_hunt --minutes 10 [--seed N] [--engines local,local-rows]
        [--comparisons N] [--processes N]

A seed makes a schema, up to six views and a stream of batches. Values are small, so that rows
meet, with floats that are not finite, strings that are new, and one number that most rows have.
Each view has a maintenance mode, which changes now and then.
A batch comes as changes, as rows one by one, within a transaction, or from a statement of SQL
(INSERT, ON CONFLICT, UPDATE, DELETE, MERGE, or several as one transaction), which DuckDB runs too.
Between batches the database is saved and restored, or closed and opened again from disk; some
batches cannot be taken (a row that is not there, a key twice, a subscriber that says no, a
transaction that is rolled back) and must change nothing.

A comparison is: all rows of one view of one database, read after a batch, beside DuckDB's answer
for the rows that are there then. It is made and counted only where something can have gone wrong
since the view was last compared: the batch has changed, after all cancellation, a relation that the
view's query names, or the database was restarted, has refused a batch, or has changed a mode. Some
views are left unread for a batch, which is no comparison; the next one has to make up for it.
Engines are those of `connect`; `local-rows` is the local engine with a call for each row, a way
that has kernels of its own.

DuckDB adds floats in an order of its own and rounds on the way, and a condition may hang on that.
Where answers over DOUBLEs differ, the interpreter, whose sums are exact, decides.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import duckdb
from tests.oracle.generate import Generator
from tests.oracle.harness import Batch, Case, Mismatch, Row, compare, is_ordered
from tests.oracle.random_statements import Statements
from tests.oracle.reduce import reduce_case
from tests.oracle.running_oracle import RunningOracle
from tests.oracle.shared_compilations import shared_compilations
from tests.oracle.wild_rows import WILD, Stream, WildGenerator

import viewlet
from viewlet.errors import RangeError, StateError, UnsupportedError, ViewletError
from viewlet.interfaces.database import Database
from viewlet.schema import PRODUCT_NOT_FINITE

BATCHES, SECONDS = 2000, 20.0
"""Of each seed: so many batches, or what can be done in that time of the processor."""
MOST_VIEWS = 6
RESTARTS, MODE_CHANGES, REFUSED, SUBSCRIBED = 0.0015, 0.0015, 0.026, 0.02
RECENT = (50, 5, 5, 10)
"""Of a hundred queries so many are of newer constructs, by seed; those take long to compile."""
STATEMENTS, TRANSACTIONS = 0.05, 0.03
UNREAD = 0.08
"""How often an engine meets each between two batches; the first two may compile all views anew."""
BY_ROWS = "-rows"
ROUNDED = ("CORR", "COVAR", "REGR_", "STDDEV", "VAR_POP", "VARIANCE")
"""Aggregates that DuckDB sums up in DOUBLE whatever their arguments are."""
REDUCE_SECONDS = 120.0
REPORT_SECONDS = 60.0
FAILED = Path(__file__).parent / "hunted"


@dataclass
class Tally:
    """What a hunt has done so far."""

    comparisons: Counter[str] = field(default_factory=Counter)
    by_interpreter: int = 0
    refused: int = 0
    restarts: int = 0
    statements: int = 0
    seeds: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The counts on a few lines."""
        total = sum(self.comparisons.values())
        each = ", ".join(f"{engine} {count}" for engine, count in self.comparisons.items())
        return (
            f"{total} comparisons ({each}) of {self.seeds} seeds, "
            f"{self.by_interpreter} decided by the interpreter, "
            f"{self.refused} refused batches, {self.restarts} restarts, "
            f"{self.statements} statements, "
            f"{sum(self.skipped.values())} views skipped, {len(self.failures)} failures"
        )

    def add(self, other: Tally) -> None:
        """Counts what another hunt has done as well."""
        self.comparisons += other.comparisons
        self.by_interpreter += other.by_interpreter
        self.refused += other.refused
        self.restarts += other.restarts
        self.statements += other.statements
        self.seeds += other.seeds
        self.skipped += other.skipped
        self.failures += other.failures


class Subject:
    """A database of one engine under test, which can be restarted in two ways."""

    def __init__(self, name: str, folder: Path, on_disk: bool) -> None:
        self.name = name
        self._engine = name.removesuffix(BY_ROWS)
        self._by_rows = name.endswith(BY_ROWS)
        self._path = folder / name
        self._on_disk = on_disk
        self.modes: dict[int, str] = {}
        self.stale: set[int] = set()
        """Views to compare: what they read has changed, or the database was disturbed."""
        self.db: Database = self._opened()

    def _opened(self) -> Database:
        if self._on_disk:
            return viewlet.connect(engine=self._engine, path=self._path, synchronous="off")
        return viewlet.connect(engine=self._engine)

    def apply(self, batch: Batch) -> None:
        """All changes, as one batch or row after row."""
        if not self._by_rows:
            self.apply_at_once(batch)
            return
        for name, row, weight in batch:
            (self.db.insert if weight > 0 else self.db.delete)(name, row)

    def apply_in_transaction(self, batch: Batch, is_kept: bool) -> None:
        """Row after row within BEGIN and COMMIT, or ROLLBACK."""
        self.db.execute("BEGIN")
        for name, row, weight in batch:
            (self.db.insert if weight > 0 else self.db.delete)(name, row)
        self.db.execute("COMMIT" if is_kept else "ROLLBACK")

    def apply_at_once(self, batch: Batch) -> None:
        """All changes or none."""
        self.db.apply(viewlet.Change(n, [row], w) for n, row, w in batch)

    def restart(self) -> None:
        """Close and go on from what was written."""
        if self._on_disk:
            self.db.close()
            self.db = self._opened()
            return
        self.db.checkpoint(str(self._path))
        self.db.close()
        self.db = viewlet.restore(str(self._path))


def hunt_seed(
    seed: int,
    engines: list[str],
    tally: Tally,
    folder: Path,
    until: float,
) -> None:
    """One schema with its views and batches; what fails is in the tally."""
    draw = Random(seed)
    generator = WildGenerator(Random(seed), Random(seed + 1), doubles=WILD[seed % len(WILD)])
    generator.recent_percent = RECENT[seed // 2 % len(RECENT)]
    generator.schema()
    tables = [relation.sql() for relation in generator.relations]
    present: dict[str, list[Row]] = {r.name: [] for r in generator.relations}
    stream = Stream(draw, generator, present)
    views = _views(generator, draw, tables, tally)
    if not views:
        return
    ends_at = time.process_time() + SECONDS
    on_disk = draw.random() < 0.5
    subjects = [Subject(engine, folder, on_disk) for engine in engines]
    history: list[Batch] = []
    cases = [Case(tables, select, history) for select in views]
    tally.seeds += 1
    try:
        with (
            closing(RunningOracle(cases[0].relations(), views)) as oracle,
            closing(Statements(draw, generator, present)) as statements,
        ):
            modes = [_mode(draw) if draw.random() < 0.5 else None for _ in views]
            for subject in subjects:
                for text in tables:
                    subject.db.execute(text)
                _create_views(subject.db, views, one_by_one=draw.random() < 0.2)
                for at, mode in enumerate(modes):
                    if mode is not None:  # the same for all, which compile the same then
                        _change_mode(subject, at, mode)
            for number in range(BATCHES):
                impossible = stream.impossible()
                statement = statements.next() if draw.random() < STATEMENTS else None
                if statement is not None and statement[1] is None:
                    impossible, statement = statement[0], None
                text, batch = statement or (None, stream.next())
                for subject in subjects:
                    disturbed = _disturb(subject, impossible, batch, draw, tally)
                    if draw.random() < MODE_CHANGES:
                        _change_mode(subject, draw.randrange(len(views)), _mode(draw))
                        disturbed = True
                    if disturbed:
                        subject.stale.update(range(len(views)))
                tally.statements += text is not None
                history.append(batch)
                changed = oracle.apply(batch)
                for subject in subjects:
                    if text is not None:
                        subject.db.execute(text)
                    elif draw.random() < TRANSACTIONS:
                        subject.apply_in_transaction(batch, is_kept=True)
                    else:
                        subject.apply(batch)
                    subject.stale |= changed
                    for at in sorted(subject.stale):
                        if draw.random() < UNREAD:
                            continue
                        subject.stale.remove(at)
                        rows = subject.db.view(f"v{at}").rows()
                        tally.comparisons[subject.name] += 1
                        check = _Check(cases[at], number + 1, oracle, at)
                        answer = _answer(oracle, at, cases[at])
                        tally.by_interpreter += check.decided_by_interpreter(rows, answer)
                if time.monotonic() > until or time.process_time() > ends_at:
                    return
    except UnsupportedError as error:
        tally.skipped[error.message.split(":")[0]] += 1
    except Exception as error:
        if isinstance(error, RangeError) and PRODUCT_NOT_FINITE in error.message:
            tally.skipped[PRODUCT_NOT_FINITE] += 1
            return
        tally.failures.append(_failure(seed, error, history))
        _keep(seed, cases, engines)
    finally:
        for subject in subjects:
            subject.db.close()


def _create_views(db: Database, selects: list[str], one_by_one: bool) -> None:
    """Mostly in one statement, which plans and compiles once: the time goes into batches."""
    texts = [f"CREATE VIEW v{number} AS {select}" for number, select in enumerate(selects)]
    for text in texts if one_by_one else [";\n".join(texts)]:
        db.execute(text)


def _mode(draw: Random) -> str:
    return draw.choice(("auto", "eager", "split", "deferred"))


def _change_mode(subject: Subject, view: int, mode: str) -> None:
    """Another mode of maintenance."""
    subject.modes[view] = mode
    with suppress(StateError):  # what a stream brought may not be in the maps of another mode
        subject.db.execute(f"ALTER MATERIALIZED VIEW v{view} SET (maintenance = '{mode}')")


def _views(generator: Generator, draw: Random, tables: list[str], tally: Tally) -> list[str]:
    """Queries that both systems take; over streams too, since all views come before all rows."""
    selects = [generator.query() for _ in range(draw.randint(2, MOST_VIEWS))]
    if _refusal(tables, selects) is None:
        return selects
    accepted = []
    for select in selects:
        refusal = _refusal(tables, [select])
        if refusal is None:
            accepted.append(select)
        else:
            tally.skipped[str(refusal).split(":")[0]] += 1
    return accepted


def _refusal(tables: list[str], selects: list[str]) -> Exception | None:
    """What one of the two systems says against one of the queries, if it does."""
    with viewlet.connect(engine="interpreter") as probe, duckdb.connect() as duck:
        try:
            for text in tables:
                probe.execute(text)
                duck.execute(text.replace("CREATE STREAM", "CREATE TABLE"))
            _create_views(probe, selects, one_by_one=False)
            for select in selects:
                duck.execute(select)
        except (UnsupportedError, duckdb.Error) as error:
            return error
    return None


def _disturb(
    subject: Subject,
    impossible: Batch | str | None,
    batch: Batch,
    draw: Random,
    tally: Tally,
) -> bool:
    """Now and then a restart, a batch that cannot be, or a subscriber that refuses one.

    Whether there was one of them."""
    chance = draw.random()
    if chance < RESTARTS:
        subject.restart()
        tally.restarts += 1
        return True
    if chance < RESTARTS + REFUSED / 8 and batch:
        subject.apply_in_transaction(batch, is_kept=False)
        tally.refused += 1
        return True
    if impossible is not None and (isinstance(impossible, str) or chance < RESTARTS + REFUSED):
        _expect_refusal(subject, impossible, tally)
        return True
    if chance < RESTARTS + REFUSED + SUBSCRIBED:
        if subject.modes.get(0) in ("split", "deferred") and draw.random() > 0.1:
            return False  # whoever is heard of becomes eager: all views are compiled anew
        try:
            refusing = subject.db.subscribe("v0", _refuse)
        except StateError:
            return False  # over a stream a split view may have to stay one
        before = sorted(map(repr, subject.db.view("v0").rows()))
        try:
            subject.apply_at_once(batch)
        except ViewletError:
            tally.refused += 1
        else:
            subject.apply_at_once([(name, row, -weight) for name, row, weight in reversed(batch)])
        finally:
            refusing.close()
        if before != sorted(map(repr, subject.db.view("v0").rows())):
            raise Mismatch(f"a refused batch has changed the view: {batch}")
        return True
    return False


def _refuse(_batch: object) -> None:
    raise RuntimeError("this subscriber wants no batch")


def _expect_refusal(subject: Subject, impossible: Batch | str, tally: Tally) -> None:
    try:
        if isinstance(impossible, str):
            subject.db.execute(impossible)
        else:
            subject.apply_at_once(impossible)
    except ViewletError:
        tally.refused += 1
    else:
        raise Mismatch(f"a batch was taken that cannot be: {impossible}")


@dataclass
class _Check:
    """An answer of an engine beside DuckDB's; where those differ, who is right."""

    case: Case
    number: int
    oracle: RunningOracle
    at: int

    def decided_by_interpreter(self, rows: list[Row], answer: list[Row]) -> bool:
        """Whether DuckDB's floats were not good enough; Mismatch where the answer is wrong."""
        ordered = is_ordered(self.case.select)
        try:
            compare(rows, answer, self.case, self.number, ordered)
            return False
        except Mismatch:
            with suppress(duckdb.OutOfRangeException):
                answer = self.oracle.fresh_answer(self.at)
        try:
            compare(rows, answer, self.case, self.number, ordered)
            return False
        except Mismatch:
            if not self._has_doubles():
                raise
        compare(rows, _exact(self.case, self.oracle.present()), self.case, self.number, ordered)
        return True

    def _has_doubles(self) -> bool:
        """Whether a column, or an aggregate that DuckDB computes in DOUBLE, is in the case."""
        texts = [*self.case.tables, self.case.select]
        return any(word in text for text in texts for word in ("DOUBLE", *ROUNDED))


def _answer(oracle: RunningOracle, at: int, case: Case) -> list[Row]:
    """What DuckDB says; it has no STDDEV of infinities, which the definition has."""
    try:
        return oracle.answer(at)
    except duckdb.OutOfRangeException:
        return _exact(case, oracle.present())


def _exact(case: Case, present: Batch) -> list[Row]:
    """The answer of the definition, from all rows at once."""
    with viewlet.connect(engine="interpreter") as db:
        for text in case.tables:
            db.execute(text)
        db.execute(f"CREATE VIEW v AS {case.select}")
        db.apply(viewlet.Change(name, [row], weight) for name, row, weight in present)
        return [tuple(row) for row in db.view("v").rows()]


def _failure(seed: int, error: Exception, history: list[Batch]) -> str:
    where = "".join(traceback.format_tb(error.__traceback__)[-2:])
    return f"seed {seed}: {type(error).__name__}: {error}\n{where}after {len(history)} batches"


def _keep(seed: int, cases: list[Case], engines: list[str]) -> None:
    """Views that fail alone are made small and kept; where none does, all of them are kept."""
    FAILED.mkdir(exist_ok=True)
    until = time.monotonic() + REDUCE_SECONDS

    def fails(case: Case) -> bool:
        return time.monotonic() < until and any(_differs(case, engine) for engine in engines)

    alone = [case for case in cases if fails(case)]
    for at, case in enumerate(alone or cases):
        small = reduce_case(case, fails) if alone else case
        small.note = f"view {at} of seed {seed} of the long hunt"
        small.save(FAILED / f"seed-{seed}-{at}.json")


def _differs(case: Case, engine: str) -> bool:
    """Whether the case alone, without restarts and refusals, fails on the engine."""
    try:
        with (
            closing(RunningOracle(case.relations(), [case.select])) as oracle,
            tempfile.TemporaryDirectory() as folder,
        ):
            subject = Subject(engine, Path(folder), on_disk=False)
            with closing(subject.db):
                try:
                    for text in (*case.tables, f"CREATE VIEW v0 AS {case.select}"):
                        subject.db.execute(text)
                except ViewletError:
                    return False  # smaller than anything that has a meaning
                for number, batch in enumerate(case.batches):
                    oracle.apply(batch)
                    subject.apply(batch)
                    check = _Check(case, number + 1, oracle, 0)
                    rows = subject.db.view("v0").rows()
                    check.decided_by_interpreter(rows, _answer(oracle, 0, case))
    except (UnsupportedError, duckdb.Error):
        return False
    except Exception:
        return True
    return False


def hunt(
    minutes: float,
    seed: int,
    engines: list[str],
    step: int = 1,
    comparisons: int = sys.maxsize,
) -> Tally:
    """Every `step`-th seed until the time is up or so many comparisons are done.

    Failures are printed as they come, and the counts every minute."""
    tally = Tally()
    started = reported = time.monotonic()
    until = started + 60 * minutes
    while time.monotonic() < until and sum(tally.comparisons.values()) < comparisons:
        folder = Path(tempfile.mkdtemp(prefix="viewlet-hunt-"))
        failures = len(tally.failures)
        try:
            with shared_compilations():
                hunt_seed(seed, engines, tally, folder, until)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for failure in tally.failures[failures:]:
            print(failure, flush=True)
        if time.monotonic() > reported + REPORT_SECONDS:
            reported = time.monotonic()
            print(f"after {reported - started:.0f} s: {tally.text()}", flush=True)
        seed += step
    return tally


def _hunt_in_process(results: Any, *arguments: Any) -> None:
    results.put(hunt(*arguments))


def _commit() -> str:
    """The commit that is tried, for the record."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "of no repository"
    return commit.stdout.decode().strip() + (" and what is not committed" if changed.stdout else "")


def main() -> None:
    """Run from the command line; exit code 1 after a failure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--comparisons", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--engines", default="local,local-rows,interpreter")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9)
    print(f"commit {_commit()}, first seed {seed}", flush=True)
    started = time.monotonic()
    engines, count = options.engines.split(","), options.processes
    each = -(-options.comparisons // count)
    spawning = multiprocessing.get_context("spawn")
    results = spawning.Queue()
    workers = [
        spawning.Process(
            target=_hunt_in_process,
            args=(results, options.minutes, seed + i, engines, count, each),
        )
        for i in range(count)
    ]
    for worker in workers:
        worker.start()
    tally = Tally()
    for _ in workers:
        tally.add(results.get())
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = max(1, sum(tally.comparisons.values()))
    print(tally.text())
    print(
        f"{seconds:.0f} s, {total / seconds:.0f} comparisons a second, "
        f"{(used.ru_utime + used.ru_stime) / total * 1e6:.0f} us of CPU each"
    )
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
