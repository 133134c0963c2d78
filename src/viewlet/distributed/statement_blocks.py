"""Statement blocks and their fusion (paper 000 section 4.3.2 and appendix C.3)."""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.distributed.ir import Compute, Operation, StatementBlock


def commute(first: Operation, second: Operation) -> bool:
    """Neither reads what the other writes, on the side where it does so.

    Two statements that write the same contents add up in any order, unless one of them sets them.
    """
    if first.writes & second.reads or second.writes & first.reads:
        return False
    return not (first.writes & second.writes) or (_adds(first) and _adds(second))


def _adds(operation: Operation) -> bool:
    return isinstance(operation, Compute) and operation.statement.op == "+="


def blocks_commute(first: StatementBlock, second: StatementBlock) -> bool:
    """All pairs of their operations do; most blocks have nothing in common at all."""
    if first.writes & second.reads or second.writes & first.reads:
        return False
    if not first.writes & second.writes:
        return True
    return all(commute(a, b) for a in first.operations for b in second.operations)


def single_blocks(operations: Iterable[Operation]) -> list[StatementBlock]:
    """A block for each operation, in its own mode."""
    return [StatementBlock(operation.mode, (operation,)) for operation in operations]


def fuse(blocks: list[StatementBlock]) -> list[StatementBlock]:
    """b1, b2, ..., bn -> fewer blocks: each takes in the later ones of its mode that commute with
    everything in between.

    The paper's algorithm, without its recursion: a head that has taken in a block is tried again
    on what it passed over, because it may commute with more of it now that less is in between.
    """
    done: list[StatementBlock] = []
    remaining = blocks
    while remaining:
        head, tail = _merge_into_head(remaining[0], remaining[1:])
        if head == remaining[0]:
            done.append(head)
            remaining = tail
        else:
            remaining = [head, *tail]
    return done


def _merge_into_head(
    head: StatementBlock, tail: list[StatementBlock]
) -> tuple[StatementBlock, list[StatementBlock]]:
    apart: list[StatementBlock] = []
    for block in tail:
        if block.mode is head.mode and all(blocks_commute(b, block) for b in apart):
            head = StatementBlock(head.mode, head.operations + block.operations)
        else:
            apart.append(block)
    return head, apart
