"""Program passes do what their fixtures say and change nothing that a program does."""

from __future__ import annotations

import random

import pytest

from tests.fixtures import Case, cases
from viewlet.calculus.ring import Gmr
from viewlet.program import optimize
from viewlet.program.check import check
from viewlet.program.interpret import Interpreter
from viewlet.program.ir import Program
from viewlet.program.text import parse_program, program_text

RULES = {rule.__name__: rule for rule in optimize.PASSES}


def test_every_pass_has_a_fixture() -> None:
    assert {rule.__name__ for rule in optimize.PASSES} == {c.rule for c in cases("optimize")}


@pytest.mark.parametrize("case", cases("optimize"), ids=str)
def test_pass(case: Case) -> None:
    before = check(parse_program(case.before))
    after = check(RULES[case.rule](before))
    assert program_text(after) == program_text(parse_program(case.after))
    kept = {m.name for m in after.maps if not m.buffer}
    for seed in range(5):
        for name, contents in run(before, seed).items():
            if name[0] in kept and not before.map(name[0]).buffer:
                assert run(after, seed)[name] == contents


def run(program: Program, seed: int) -> dict[tuple[str, str], Gmr]:
    """What the maps hold after a few random batches."""
    chance = random.Random(seed)
    interpreter = Interpreter(program)
    for _ in range(4):
        for relation in program.relations:
            delta = Gmr()
            for _ in range(5):
                row = tuple(chance.randint(1, 5) for _ in relation.columns)
                delta.add(row, chance.choice([1, 1, -1]))
            interpreter.apply(relation.name, delta)
    return interpreter.store
