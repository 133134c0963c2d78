"""A counted hunt: several views over rows that come, go and are refused, beside DuckDB.

    python -m tests.oracle.long_hunt --minutes 10 [--seed N] [--engines local,local-rows]
        [--comparisons N] [--processes N]

A seed makes a schema, up to six views and a stream of batches. Values are small, so that rows
meet, with floats that are not finite, strings that are new, and one number that most rows have.
Some views read other views. Each has a maintenance mode, which changes now and then.
A batch comes as changes, as rows one by one, as Arrow's columns, within a transaction, or from a
statement of SQL (INSERT, ON CONFLICT, UPDATE, DELETE, MERGE, or several as one transaction), which
DuckDB runs too. Between batches the database is saved and restored, or closed and opened again from
disk; columns of tables are added, dropped and renamed; a view gets another query; some batches
cannot be taken (a row that is not there, a key twice, a subscriber that says no, a transaction that
is rolled back) and must change nothing.

A comparison is: all rows of one view of one database, read after a batch, beside DuckDB's answer
for the rows that are there then. It is made and counted only where something can have gone wrong
since the view was last compared: the batch has changed, after all cancellation, a relation that the
view's query names, or the database was restarted, altered, has refused a batch, or has changed a
mode. Some views are left unread for a batch, which is no comparison; the next one has to make up
for it. Engines are those of `connect`; `local-rows` and `local-columns` are the local engine with a
call for each row or with Arrow's columns (hunt_subjects.py).

Where answers over DOUBLEs differ, the interpreter, whose sums are exact, decides (hunt_answers.py).
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
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import duckdb
from tests.oracle.alterations import Alterations
from tests.oracle.harness import Batch, Case, Mismatch, Row
from tests.oracle.hunt_answers import HuntAnswers
from tests.oracle.hunt_subjects import Subject
from tests.oracle.hunt_views import MODES, ViewDraw, create_views, draw_mode
from tests.oracle.random_statements import Statements
from tests.oracle.reduce import reduce_case
from tests.oracle.shared_compilations import shared_compilations
from tests.oracle.wild_rows import WILD, Stream, WildGenerator

from viewlet.errors import RangeError, StateError, UnsupportedError, ViewletError
from viewlet.schema import PRODUCT_NOT_FINITE

BATCHES, SECONDS = 1500, 40.0
"""Of each seed: so many batches, or what can be done in that time of the processor."""
RESTARTS, REFUSED, SUBSCRIBED = 0.0015, 0.026, 0.02
"""How often an engine meets each between two batches; a restart may compile all views anew."""
MODE_CHANGES, TABLES_ALTERED, VIEWS_ALTERED = 0.001, 0.002, 0.0005
"""How often all engines do between two batches; all but tables compile all views anew."""
RECENT = (50, 5, 5, 10)
"""Of a hundred queries so many are of newer constructs, by seed; those take long to compile."""
STATEMENTS, TRANSACTIONS = 0.05, 0.03
UNREAD = 0.08
REDUCE_SECONDS = 120.0
REPORT_SECONDS = 60.0
FAILED = Path(__file__).parent / "hunted"
COUNTED = ("by_interpreter", "refused", "restarts", "statements", "alterations", "seeds")


@dataclass
class Tally:
    """What a hunt has done so far."""

    comparisons: Counter[str] = field(default_factory=Counter)
    by_interpreter: int = 0
    refused: int = 0
    restarts: int = 0
    statements: int = 0
    alterations: int = 0
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
            f"{self.statements} statements, {self.alterations} alterations, "
            f"{sum(self.skipped.values())} views skipped, {len(self.failures)} failures"
        )

    def add(self, other: Tally) -> None:
        """Counts what another hunt has done as well."""
        self.comparisons += other.comparisons
        self.skipped += other.skipped
        self.failures += other.failures
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class SeedHunt:
    """One schema with its views and batches."""

    def __init__(self, seed: int, engines: list[str], tally: Tally, folder: Path) -> None:
        self.seed = seed
        self._engines, self._tally = engines, tally
        self._draw = draw = Random(seed)
        generator = WildGenerator(Random(seed), Random(seed + 1), doubles=WILD[seed % len(WILD)])
        generator.recent_percent = RECENT[seed // 2 % len(RECENT)]
        generator.schema()
        self._generator = generator
        self._present: dict[str, list[Row]] = {r.name: [] for r in generator.relations}
        self._stream = Stream(draw, generator, self._present)
        self._alterations = Alterations(draw, generator, self._present)
        self._history: list[Batch] = []
        self._view_draw = ViewDraw(generator, draw, tally.skipped)
        self._views = self._view_draw.views()
        self._modes = [view.mode for view in self._views]
        on_disk = draw.random() < 0.5
        self._subjects = [Subject(engine, folder, on_disk, self._tables) for engine in engines]
        self._answers: HuntAnswers | None = None

    def run(self, until: float) -> None:
        """What fails is in the tally."""
        if not self._views:
            return
        self._tally.seeds += 1
        try:
            with closing(Statements(self._draw, self._generator, self._present)) as statements:
                self._create()
                ends_at = time.process_time() + SECONDS
                for number in range(1, BATCHES + 1):
                    self._alter_sometimes()
                    self._batch(statements, number)
                    if time.monotonic() > until or time.process_time() > ends_at:
                        return
        except UnsupportedError as error:
            self._tally.skipped[error.message.split(":")[0]] += 1
        except Exception as error:
            if isinstance(error, RangeError) and PRODUCT_NOT_FINITE in error.message:
                self._tally.skipped[PRODUCT_NOT_FINITE] += 1
                return
            self._tally.failures.append(self._failure(error))
            _keep(self.seed, self._cases(), self._engines)

    def close(self) -> None:
        """Closes what is open."""
        if self._answers is not None:
            self._answers.close()
        for subject in self._subjects:
            subject.db.close()

    def _cases(self) -> list[Case]:
        tables = self._alterations.wide_tables()
        return [Case(tables, view.written_out, self._history) for view in self._views]

    def _tables(self) -> list[str]:
        return [relation.sql() for relation in self._generator.relations]

    def _create(self) -> None:
        one_by_one = self._draw.random() < 0.2
        for subject in self._subjects:
            for text in self._tables():
                subject.db.execute(text)
            create_views(subject.db, self._views, one_by_one)
        self._answers = HuntAnswers(self._cases())

    def _batch(self, statements: Statements, number: int) -> None:
        """One for all subjects, and the comparisons after it."""
        draw, tally = self._draw, self._tally
        impossible: Batch | str | None = self._stream.impossible()
        statement = statements.next() if draw.random() < STATEMENTS else None
        if statement is not None and statement[1] is None:
            impossible, statement = statement[0], None
        text, batch = statement or (None, self._stream.next())
        assert batch is not None and self._answers is not None
        for subject in self._subjects:
            if self._disturb(subject, impossible, batch):
                subject.stale.update(range(len(self._views)))
        tally.statements += text is not None
        wide = self._alterations.wide(batch)
        self._history.append(wide)
        changed = self._answers.apply(wide)
        in_transaction = draw.random() < TRANSACTIONS
        for subject in self._subjects:
            if text is not None:
                subject.db.execute(text)
            elif in_transaction:
                subject.apply_in_transaction(batch, is_kept=True)
            else:
                subject.apply(batch)
            subject.stale |= changed
            for at in sorted(subject.stale):
                if draw.random() < UNREAD:
                    continue
                subject.stale.remove(at)
                rows = subject.db.view(self._views[at].name).rows()
                tally.comparisons[subject.name] += 1
                tally.by_interpreter += self._answers.check(at, rows, number)
                self._stream.keep_small(len(rows))

    # What is altered between two batches, the same for all subjects.

    def _alter_sometimes(self) -> None:
        draw = self._draw
        if draw.random() < MODE_CHANGES:
            self._change_mode(draw.randrange(len(self._views)), draw_mode(draw))
        if draw.random() < TABLES_ALTERED:
            alteration = self._alterations.next()
            if alteration is not None:
                text, accept = alteration
                if self._taken_by_all(text):
                    accept()
                    self._ask_anew()
        if draw.random() < VIEWS_ALTERED:
            self._change_query(draw.randrange(len(self._views)))

    def _change_mode(self, at: int, mode: str) -> None:
        """Another mode; what a stream brought may not be in the maps of another one."""
        name = self._views[at].name
        if self._taken_by_all(f"ALTER MATERIALIZED VIEW {name} SET ({MODES[mode]})"):
            self._modes[at] = mode

    def _change_query(self, at: int) -> None:
        """Another query for a view over tables that no view reads."""
        view = self._views[at]
        if any(view.name in other.reads for other in self._views):
            return
        other = self._view_draw.other_query(view)
        text = f"ALTER MATERIALIZED VIEW {view.name} AS "
        if other is not None and self._taken_by_all(text + other.select):
            self._views[at] = other
            self._ask_anew()

    def _taken_by_all(self, text: str) -> bool:
        """Whether all subjects take a statement; Mismatch where only some do."""
        refusals = []
        for subject in self._subjects:
            subject.stale.update(range(len(self._views)))
            try:
                subject.db.execute(text)
            except (StateError, UnsupportedError) as error:
                refusals.append(error)
        if 0 < len(refusals) < len(self._subjects):
            raise Mismatch(f"not all engines refuse {text}: {refusals[0]}")
        self._tally.alterations += not refusals
        return not refusals

    def _ask_anew(self) -> None:
        """Tables, or queries, have changed: all are asked again, with the rows that are there."""
        assert self._answers is not None
        self._answers.close()
        self._history = [self._alterations.wide_rows()]
        self._answers = HuntAnswers(self._cases())
        self._answers.apply(self._history[0])

    # What only one subject meets.

    def _disturb(self, subject: Subject, impossible: Batch | str | None, batch: Batch) -> bool:
        """Now and then a restart, a batch that cannot be, or a subscriber that refuses one.

        Whether there was one of them."""
        draw, tally = self._draw, self._tally
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
            self._expect_refusal(subject, impossible)
            return True
        if chance < RESTARTS + REFUSED + SUBSCRIBED:
            if self._modes[0] != "eager" and draw.random() > 0.1:
                return False  # whoever is heard of becomes eager: all views are compiled anew
            return self._refuse(subject, batch)
        return False

    def _refuse(self, subject: Subject, batch: Batch) -> bool:
        """A subscriber takes the batch back, if it hears of it; if not, it is taken back here."""
        view = self._views[0].name
        try:
            refusing = subject.db.subscribe(view, _refuse)
        except StateError:
            return False  # over a stream a split view may have to stay one
        before = sorted(map(repr, subject.db.view(view).rows()))
        try:
            subject.apply_at_once(batch)
        except ViewletError:
            self._tally.refused += 1
        else:
            subject.apply_at_once([(name, row, -weight) for name, row, weight in reversed(batch)])
        finally:
            refusing.close()
        if before != sorted(map(repr, subject.db.view(view).rows())):
            raise Mismatch(f"a refused batch has changed the view: {batch}")
        return True

    def _expect_refusal(self, subject: Subject, impossible: Batch | str) -> None:
        try:
            if isinstance(impossible, str):
                subject.db.execute(impossible)
            else:
                subject.apply_at_once(impossible)
        except ViewletError:
            self._tally.refused += 1
        else:
            raise Mismatch(f"a batch was taken that cannot be: {impossible}")

    def _failure(self, error: Exception) -> str:
        where = "".join(traceback.format_tb(error.__traceback__)[-2:])
        batches = len(self._history)
        return f"seed {self.seed}: {type(error).__name__}: {error}\n{where}after {batches} batches"


def _refuse(_batch: object) -> None:
    raise RuntimeError("this subscriber wants no batch")


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
        with closing(HuntAnswers([case])) as answers, tempfile.TemporaryDirectory() as folder:
            subject = Subject(engine, Path(folder), on_disk=False, tables=lambda: case.tables)
            with closing(subject.db):
                try:
                    for text in (*case.tables, f"CREATE VIEW v0 AS {case.select}"):
                        subject.db.execute(text)
                except ViewletError:
                    return False  # smaller than anything that has a meaning
                for number, batch in enumerate(case.batches):
                    answers.apply(batch)
                    subject.apply(batch)
                    answers.check(0, subject.db.view("v0").rows(), number + 1)
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
        folder = tempfile.mkdtemp(prefix="viewlet-hunt-")
        failures = len(tally.failures)
        try:
            with (
                shared_compilations(),
                closing(SeedHunt(seed, engines, tally, Path(folder))) as each,
            ):
                each.run(until)
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
