"""The queries of a workload: their SQL, and the programs that keep them current."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from viewlet.errors import ResolutionError
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateView
from viewlet.pipeline.compile_file import compile_text
from viewlet.program.ir import Program, View

SQL = Path(__file__).parent / "sql"


@dataclass(frozen=True)
class CompiledQuery:
    """One query of a workload. `views` are its CREATE VIEW texts, the last one is the result."""

    workload: str
    query: str
    program: Program
    views: tuple[tuple[str, str], ...]  # name, text
    plan_s: float

    @property
    def result_view(self) -> View:
        """The view that the benchmark reads: the last one of its script."""
        return next(v for v in self.program.views if v.name == self.views[-1][0])

    @property
    def streamed(self) -> tuple[str, ...]:
        """The relations that change, in the order of the schema."""
        used = {trigger.relation for trigger in self.program.triggers}
        return tuple(r.name for r in self.program.relations if r.name in used and not r.static)

    @property
    def static(self) -> tuple[str, ...]:
        """Relations that do not change while the stream runs."""
        return tuple(r.name for r in self.program.relations if r.static)

    def mentioned(self, relation: str) -> list[str]:
        """The columns of a relation that the SQL names, which is all that DuckDB needs."""
        words = set(re.findall(r"\w+", " ".join(text.lower() for _, text in self.views)))
        return [n for n in self.program.relation(relation).names if n.lower() in words]


def queries(workload: str) -> list[str]:
    """The names of a workload's queries, q2 before q10."""
    names = (path.stem for path in (SQL / workload).glob("*.sql") if path.stem != "schema")
    return sorted(names, key=lambda name: (len(name), name))


def chosen(workload: str, names: Sequence[str] | None) -> list[str]:
    """The queries that a user asked for; all without a choice."""
    available = queries(workload)
    for name in names or ():
        if name not in available:
            raise ResolutionError(
                f"workload {workload} has no query {name}",
                hint=f"queries are {', '.join(available)}",
            )
    return available if names is None else list(names)


def whole_number(text: str, meaning: str, hint: str) -> int:
    """A batch or a size as users write it."""
    if not (text.isdigit() and int(text) > 0):
        raise ResolutionError(f"{text} is no {meaning}", hint=hint)
    return int(text)


def batch_sizes(texts: Sequence[str]) -> tuple[int, ...]:
    """The batch sizes that a user asked for."""
    return tuple(whole_number(text, "batch size", "give numbers: 1,1000,10000") for text in texts)


def schema_text(workload: str) -> str:
    """The CREATE TABLE statements of a workload."""
    return (SQL / workload / "schema.sql").read_text(encoding="utf-8")


def query_text(workload: str, query: str) -> str:
    """The CREATE VIEW statements of a query."""
    return (SQL / workload / f"{query}.sql").read_text(encoding="utf-8")


def compiled(workload: str, query: str, *, keyed: bool = True) -> CompiledQuery:
    """Parse, plan and optimize one query; kernels compile when an engine first runs.

    `keyed` as in the planner: the program of the local engine, or the one that is distributed.
    """
    text = query_text(workload, query)
    started = time.perf_counter()
    _, program = compile_text(schema_text(workload) + text, keyed=keyed)
    seconds = time.perf_counter() - started
    views = tuple((v.name, v.text) for v in parse(text) if isinstance(v, CreateView))
    return CompiledQuery(workload, query, program, views, seconds)
