"""Commutation and fusion of blocks (paper 000 appendix C.3)."""

import pytest

from viewlet.distributed.ir import Compute, Mode, Operation, StatementBlock, Transfer, TransferKind
from viewlet.distributed.location import LOCAL, REPLICATED, Dist
from viewlet.distributed.statement_blocks import commute, fuse, single_blocks
from viewlet.program.text import ProgramParser


def on_workers(text: str) -> Compute:
    return Compute(Mode.DISTRIBUTED, ProgramParser(text).statement())


def on_driver(text: str) -> Compute:
    return Compute(Mode.LOCAL, ProgramParser(text).statement())


def repart(target: str, source: str) -> Transfer:
    return Transfer(TransferKind.REPART, target, source, Dist(("a",)))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (on_workers("m[a] += x[a]"), on_workers("n[a] += y[a]"), True),
        (on_workers("m[a] += x[a]"), on_workers("m[a] += y[a]"), True),
        (on_workers("m[a] += x[a]"), on_workers("m[a] := y[a]"), False),
        (on_workers("m[a] += x[a]"), on_workers("n[a] += m[a]"), False),
        (on_workers("n[a] += m[a]"), on_workers("m[a] += x[a]"), False),
        # The two sides of a replicated map are different contents.
        (on_workers("m[a] += x[a]"), on_driver("n[a] += m[a]"), True),
        (on_workers("m[a] += x[a]"), repart("r", "m"), False),
        (repart("r", "m"), on_workers("m[a] += x[a]"), False),
        (repart("r", "m"), on_workers("n[a] += r[a]"), False),
        (repart("r", "m"), repart("q", "m"), True),
        (Transfer(TransferKind.GATHER, "r", "m", LOCAL), on_workers("n[a] += r[a]"), True),
        (Transfer(TransferKind.REPART, "r", "m", REPLICATED), on_driver("n[a] += r[a]"), False),
    ],
)
def test_commute(first: Operation, second: Operation, expected: bool) -> None:
    assert commute(first, second) is expected


def test_fusion_takes_in_what_commutes() -> None:
    """send, move, use twice over -> one block of sends, one of moves, one of uses"""
    operations: list[Operation] = []
    for i in (1, 2):
        operations += [
            on_workers(f"s{i}[a] += x[a]"),
            repart(f"r{i}", f"s{i}"),
            on_workers(f"m{i}[a] += r{i}[a]"),
        ]
    fused = fuse(single_blocks(operations))
    assert [(block.mode, len(block.operations)) for block in fused] == [
        (Mode.DISTRIBUTED, 2),
        (Mode.LOCAL, 2),
        (Mode.DISTRIBUTED, 2),
    ]


def test_old_values_are_read_before_they_are_written() -> None:
    """m's update must not pass the statement that reads the old m."""
    operations = [
        on_workers("s[a] += x[a]"),
        repart("r", "s"),
        on_workers("n[a] += r[a] * m[a]"),
        on_workers("m[a] += x[a]"),
    ]
    fused = fuse(single_blocks(operations))
    assert [len(block.operations) for block in fused] == [1, 1, 2]
    assert fused[2] == StatementBlock(Mode.DISTRIBUTED, (operations[2], operations[3]))
