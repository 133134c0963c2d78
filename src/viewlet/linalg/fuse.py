"""Products with the same large matrix share one pass over it.

A U and A V, neither of which waits for the other, become A [U V] and two slices. A pass over a
matrix that does not fit the cache costs much the same for one column as for eight, so a trigger of
least squares reads W = (X^T X)^-1 once instead of three times.
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.linalg.expr import Matrix
from viewlet.linalg.ops import Op, OpList, Ref


def fuse_products(code: OpList) -> OpList:
    """mul(A, U), mul(A, V) -> fused(A, U, V), part 0, part 1  where no operand needs a result."""
    batches = [batch for batch in _batches(code) if len(batch) > 1]
    if not batches:
        return code
    ops = _reordered(code, batches)
    if ops is None:
        return code
    return OpList(ops, dict(code.results), set(code.owned))


def _batches(code: OpList) -> list[list[Op]]:
    """Groups of products with one matrix, each group free of dependencies inside."""
    leaves = {op.out for op in code.ops if op.kind == "leaf" and isinstance(op.leaf, Matrix)}
    below: dict[int, set[int]] = {}
    open_batches: dict[Ref, list[Op]] = {}
    batches: list[list[Op]] = []
    for op in code.ops:
        below[op.out] = {op.out}.union(*(below[slot] for slot, _ in op.args))
        if op.kind != "mul" or op.args[0][0] not in leaves or op.args[1][0] in leaves:
            continue
        batch = open_batches.get(op.args[0])
        if batch is not None and below[op.args[1][0]].isdisjoint(member.out for member in batch):
            batch.append(op)
        else:
            open_batches[op.args[0]] = [op]
            batches.append(open_batches[op.args[0]])
    return batches


def _reordered(code: OpList, batches: list[list[Op]]) -> list[Op] | None:
    """The operations with each batch in one place; None if two batches wait for each other."""
    slot = 1 + max(op.out for op in code.ops)
    fused: dict[int, Op] = {}  # by the slot of a member
    replaced: list[Op] = []
    for batch in batches:
        width = sum(op.shape[1] for op in batch)
        fused_op = Op(
            "fused",
            slot,
            (batch[0].shape[0], width),
            (batch[0].args[0], *(op.args[1] for op in batch)),
        )
        for at, op in enumerate(batch):
            fused[op.out] = fused_op
            part = replace(op, kind="part", args=((slot, False),), grid=(at,))
            replaced.append(part)
        slot += 1
    parts = {op.out: op for op in replaced}
    waiting: list[Op] = []
    for op in code.ops:
        if op.out in fused:
            if fused[op.out] not in waiting:
                waiting.append(fused[op.out])
            waiting.append(parts[op.out])
        else:
            waiting.append(op)
    done: set[int] = set()
    ordered: list[Op] = []
    while waiting:
        ready = [op for op in waiting if all(s in done for s, _ in op.args)]
        if not ready:
            return None
        # One at a time, in the old order, so that values still die early.
        following = ready[0]
        ordered.append(following)
        done.add(following.out)
        waiting.remove(following)
    return ordered
