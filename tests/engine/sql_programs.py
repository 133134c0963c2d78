"""The SQL engine with faults on order, and the batches that its fault tests run.

View w makes a batch of DataFrames two stages of the partitions: its first runs where the rows are.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.engine.programs import KeyedSum

from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.spark.sql_program import SqlProgram

TABLES = """
CREATE TABLE r (a INT NOT NULL, b VARCHAR NOT NULL, PRIMARY KEY (a));
CREATE TABLE q (b VARCHAR NOT NULL, w BIGINT, PRIMARY KEY (b));
CREATE STREAM s (a INT, x BIGINT)
"""
VIEWS = """
CREATE VIEW v AS SELECT r.a, r.b, SUM(s.x) AS x FROM r JOIN s ON r.a = s.a GROUP BY r.a, r.b;
CREATE VIEW w AS
  SELECT q.b, SUM(s.x) AS x FROM s JOIN r ON r.a = s.a JOIN q ON q.b = r.b GROUP BY q.b;
CREATE VIEW total AS SELECT COUNT(*) AS n, SUM(x) AS x FROM s
"""
NAMES = ("v", "w", "total")


class FaultyProgram(SqlProgram):
    """Fails where it is told to, after the stage has changed the partition's arrays."""

    faults: str | None = None
    _fault = KeyedSum._fault  # type: ignore[assignment]

    def run(
        self, state: PartitionState, stage: int, inputs: list[bytes], broadcast: bytes
    ) -> dict[int, bytes]:
        outputs = super().run(state, stage, inputs, broadcast)
        self._fault(state, stage)  # type: ignore[arg-type]
        return outputs


def tables() -> dict[str, list[tuple[Any, Any]]]:
    return {
        "r": [(a, f"group {a % 7}") for a in range(50)],
        "q": [(f"group {n}", 10 * n) for n in range(5)],
    }


def batch(number: int) -> list[tuple[int, int]]:
    return [((17 * i + number) % 60, i + number) for i in range(200)]


def expected(numbers: list[int]) -> dict[str, Any]:
    """What the views hold after these batches."""
    sums: Counter[int] = Counter()
    rows = [row for number in numbers for row in batch(number)]
    for a, x in rows:
        sums[a] += x
    groups = dict(tables()["r"])
    by_group: Counter[str] = Counter()
    for a, b in groups.items():
        by_group[b] += sums[a]
    return {
        "v": sorted([a, groups[a], x] for a, x in sums.items() if a in groups),
        "w": sorted([b, by_group[b]] for b, _ in tables()["q"]),
        "total": [[len(rows), sum(x for _, x in rows)]],
    }
