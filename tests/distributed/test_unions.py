"""Transfers that only feed one sum travel as one."""

from viewlet.distributed.check import check
from viewlet.distributed.ir import DistributedTrigger, StatementBlock
from viewlet.distributed.location import RANDOM
from viewlet.distributed.redundancy import Buffers
from viewlet.distributed.text import operation_text, parse_distributed
from viewlet.distributed.unions import unite

PROGRAM = """
relation r(a: INTEGER not null, b: INTEGER not null)
map t[a: int, b: int](x: int, y: float)
place t local
map m[a: int, b: int](value: int)
place m dist(a)
transfers
buffer s1[a: int, b: int](value: int)
place s1 random
buffer s2[b: int, a: int](value: float)
place s2 random
buffer r1[a: int, b: int](value: int)
place r1 local
buffer r2[b: int, a: int](value: float)
place r2 local
batch random
on r:
"""
CHAINS = """
  distributed:
    s1[a, b] += Δr(a, b)
    s2[b, a] += Δr(a, b) * {a > b} | value: a
  local:
    r1 := gather(s1)
    t[p, q] += r1[p, q].* | x: r1[p, q]
    BETWEEN
    r2 := gather(s2)
    t[p, q] += r2[q, p].* | y: r2[q, p]
"""


def run(blocks: str) -> tuple[list[str], Buffers]:
    program = parse_distributed(PROGRAM + blocks)
    trigger = program.triggers[0]
    operations = [o for block in trigger.blocks for o in block.operations]
    buffers = Buffers(
        {m.name: m for m in program.buffers},
        {m.name: program.locations[m.name] for m in program.buffers},
    )
    found = unite(operations, buffers)
    made = tuple(StatementBlock(o.mode, (o,)) for o in found)
    check(
        type(program)(
            program.program,
            {**program.locations, **buffers.locations},
            tuple(buffers.maps.values()),
            (DistributedTrigger(trigger.relations, made),),
            RANDOM,
        )
    )
    return [" ".join(operation_text(o).split()) for o in found], buffers


def test_parts_are_added_up_before_they_move() -> None:
    """Other key orders and other columns do not matter."""
    found, buffers = run(CHAINS.replace("BETWEEN", ""))
    assert found == [
        "s2[a, b] += Δr(a, b) | x: 1",
        "s2[a, b] += Δr(a, b) * {a > b} | y: a",
        "r2 := gather(s2)",
        "t[p, q] += r2[p, q].* | x: r2[p, q].x, y: r2[p, q].y",
    ]
    assert [(c.name, c.physical.value) for c in buffers.maps["r2"].columns] == [
        ("x", "int"),
        ("y", "float"),
    ]


def test_a_reader_of_the_target_in_between_keeps_them_apart() -> None:
    found, _ = run(CHAINS.replace("BETWEEN", "t[a, b] := t[a, b].* | y: t[a, b].x"))
    assert len([line for line in found if "gather" in line]) == 2


def test_a_transfer_with_another_reader_stays() -> None:
    found, _ = run(CHAINS.replace("BETWEEN", "t[p, q] += r1[q, p].* | x: 2"))
    assert len([line for line in found if "gather" in line]) == 2
