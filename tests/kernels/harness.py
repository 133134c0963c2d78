"""Runs a program on the local engine and on the interpreter and compares all maps."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from viewlet.calculus.ring import Gmr
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.values.batching import make_batch
from viewlet.program.interpret import Interpreter
from viewlet.program.ir import Program
from viewlet.program.text import parse_program
from viewlet.schema import Kind, Relation, encode

Row = tuple[Any, ...]
Changes = list[tuple[str, list[tuple[Row, int]]]]

DOMAIN: dict[Kind, Callable[[random.Random], Any]] = {
    Kind.INTEGER: lambda rng: rng.randrange(6),
    Kind.BIGINT: lambda rng: rng.randrange(-4, 4),
    Kind.DOUBLE: lambda rng: rng.choice((0.0, 0.1, 0.25, -1.5, 3.75)),
    Kind.DECIMAL: lambda rng: rng.randrange(100) * 0.25,
    Kind.DATE: lambda rng: f"199{rng.randrange(3)}-0{rng.randrange(1, 4)}-1{rng.randrange(3)}",
    Kind.BOOLEAN: lambda rng: rng.random() < 0.5,
    Kind.VARCHAR: lambda rng: rng.choice(("xa", "xb", "ya", "b", "", "xab")),
}


class Pair:
    """The engine and the interpreter side by side; rows are user's values."""

    def __init__(self, program: Program | str, *, single: bool = False) -> None:
        self.program = parse_program(program) if isinstance(program, str) else program
        self.engine = LocalEngine(self.program, single=single)
        self.interpreter = Interpreter(self.program)
        self.single = single
        self.rows: dict[str, list[Row]] = {r.name: [] for r in self.program.relations}

    def load_static(self, rows: dict[str, list[Row]]) -> None:
        """Fill the maps over static tables."""
        static = [r for r in self.program.relations if r.static]
        self.engine.load({r.name: make_batch(r, rows[r.name]) for r in static})
        self.interpreter.load(
            {r.name: Gmr((_encoded(r, row), 1) for row in rows[r.name]) for r in static}
        )

    def apply(self, changes: Changes) -> None:
        batches = []
        for name, rows in changes:
            relation = self.program.relation(name)
            batches.append(
                (name, make_batch(relation, [row for row, _ in rows], [w for _, w in rows]))
            )
        self.engine.apply(batches)
        for name, rows in changes:
            encoded = [(_encoded(self.program.relation(name), row), w) for row, w in rows]
            # Programs here need not keep views, for which the two would be the same.
            by_row = self.single or name in self.engine.module.loops.by_row
            for part in [[row] for row in encoded] if by_row else [encoded]:
                self.interpreter.apply(name, Gmr(part))
        self.check()

    def check(self) -> None:
        for map in (*self.program.state, *self.program.constants):
            for column in map.columns:
                expected = {
                    key: float(weight) if isinstance(weight, Fraction) else weight
                    for key, weight in self.interpreter.store[map.name, column.name].items()
                }
                found = self.engine.reader.contents(map.name, column.name)
                assert found == pytest.approx(expected, rel=1e-14, abs=1e-14), (
                    f"{map.name}.{column.name}"
                )

    def random_changes(self, rng: random.Random, size: int) -> Changes:
        """Inserts, and deletes of rows that are there."""
        changes: Changes = []
        for relation in rng.sample(self.program.relations, len(self.program.relations)):
            kept = self.rows[relation.name]
            rows = []
            for _ in range(rng.randrange(1, size + 1)):
                if kept and rng.random() < 0.45:
                    rows.append((kept.pop(rng.randrange(len(kept))), -1))
                else:
                    row = random_row(relation, rng)
                    kept.append(row)
                    rows.append((row, 1))
            changes.append((relation.name, rows))
        return changes

    def run(self, seed: int = 0, batches: int = 12, size: int = 12) -> None:
        rng = random.Random(seed)
        for _ in range(batches):
            self.apply(self.random_changes(rng, size))


def random_row(relation: Relation, rng: random.Random) -> Row:
    return tuple(
        None if column.nullable and rng.random() < 0.15 else DOMAIN[column.type.kind](rng)
        for column in relation.columns
    )


def _encoded(relation: Relation, row: Row) -> Row:
    return tuple(encode(v, c) for v, c in zip(row, relation.columns, strict=True))
