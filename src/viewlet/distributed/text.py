"""Distributed programs as text, and back.

    relation r(a: INTEGER)
    map m[a: int](count: int)
    place m dist(a)
    buffer s_r_1[a: int](value: int)
    place s_r_1 random
    batch random
    on r:
      distributed:
        s_r_1[a] += Δr(a)
      local:
        r_r_1 := repart[a](s_r_1)

A map and its place stand together; buffers of transfers follow the program's own maps, views
come last, as in `program.text`.
"""

from __future__ import annotations

from viewlet.calculus.query_text import relation_text
from viewlet.distributed.ir import (
    Compute,
    DistributedProgram,
    DistributedTrigger,
    Mode,
    Operation,
    StatementBlock,
    Transfer,
    TransferKind,
)
from viewlet.distributed.location import LOCAL, RANDOM, REPLICATED, Dist, Location
from viewlet.errors import ParseError
from viewlet.program.ir import Map, Program, View
from viewlet.program.text import (
    ProgramParser,
    map_text,
    statement_text,
    view_text,
)
from viewlet.schema import Relation


def distributed_text(program: DistributedProgram) -> str:
    """A distributed program as text that parses back."""
    source = program.program
    parts = ["\n".join(relation_text(r) for r in source.relations)]
    parts.append("\n".join(_placed_text(m, program) for m in source.maps))
    parts.append("\n".join(("transfers", *(_placed_text(m, program) for m in program.buffers))))
    parts.append(f"batch {program.batch}")
    parts += [trigger_text(t) for t in program.triggers]
    parts += [view_text(v) for v in source.views]
    return "\n\n".join(part for part in parts if part) + "\n"


def _placed_text(map: Map, program: DistributedProgram) -> str:
    return f"{map_text(map)}\nplace {map.name} {program.locations[map.name]}"


def trigger_text(trigger: DistributedTrigger) -> str:
    """A trigger, block by block."""
    return "\n".join([f"on {trigger.name}:", *(block_text(b) for b in trigger.blocks)])


def block_text(block: StatementBlock) -> str:
    """Where a block runs, and its operations."""
    lines = [f"  {block.mode.value}:", *(operation_text(o) for o in block.operations)]
    return "\n".join(lines)


def operation_text(operation: Operation) -> str:
    """A statement, or r := gather(s)"""
    if isinstance(operation, Compute):
        return "\n".join("  " + line for line in statement_text(operation.statement).split("\n"))
    by = ""
    if isinstance(operation.to, Dist):
        by = f"[{', '.join(operation.to.columns)}]"
    elif operation.to == REPLICATED:
        by = "[*]"
    return f"    {operation.target} := {operation.kind.value}{by}({operation.source})"


class DistributedParser(ProgramParser):
    """Reads what `distributed_text` writes."""

    def distributed(self) -> DistributedProgram:
        """A whole distributed program, as to_text prints it."""
        relations: list[Relation] = []
        maps: list[Map] = []
        own = -1
        locations: dict[str, Location] = {}
        triggers: list[DistributedTrigger] = []
        batch: Location = RANDOM
        views: list[View] = []
        while self.next.kind != "end":
            if self.accept("place"):
                name = self.name()
                locations[name] = self.location()
            elif self.accept("transfers"):
                own = len(maps)
            elif self.accept("batch"):
                batch = self.location()
            elif self.accept("on"):
                triggers.append(self.distributed_trigger())
            elif not self.declaration(relations, maps, views):
                raise self.error("expected relation, map, buffer, place, batch, on or view")
        own = len(maps) if own < 0 else own
        source = Program(tuple(relations), tuple(maps[:own]), (), tuple(views))
        return DistributedProgram(source, locations, tuple(maps[own:]), tuple(triggers), batch)

    def location(self) -> Location:
        """local, random, replicated or dist(KEYS)"""
        word = self.name()
        if word == "dist":
            self.expect("(")
            return Dist(self.names(")"))
        by_name = {str(location): location for location in (LOCAL, RANDOM, REPLICATED)}
        if word not in by_name:
            raise ParseError(f"unknown location {word}", position=self.next.position)
        return by_name[word]

    def distributed_trigger(self) -> DistributedTrigger:
        """RELATION, ...: and then blocks, each local: or distributed: with its operations."""
        relations = [self.name()]
        while self.accept(","):
            relations.append(self.name())
        self.expect(":")
        blocks: list[StatementBlock] = []
        while self.peek(":", 1) and self.next.text in ("local", "distributed"):
            mode = Mode(self.name())
            self.expect(":")
            blocks.append(StatementBlock(mode, tuple(self.operations(mode))))
        return DistributedTrigger(tuple(relations), tuple(blocks))

    def operations(self, mode: Mode) -> list[Operation]:
        """The statements and transfers of one block."""
        operations: list[Operation] = []
        while self.next.kind == "name" and (self.peek("[", 1) or self.peek(":=", 1)):
            transfer = self.peek(":=", 1)
            operations.append(self.transfer() if transfer else Compute(mode, self.statement()))
        return operations

    def transfer(self) -> Transfer:
        """TARGET := scatter<LOCATION>(SOURCE), and the same for repart and gather."""
        target = self.name()
        self.expect(":=")
        try:
            kind = TransferKind(self.name())
        except ValueError:
            raise self.error("expected scatter, repart or gather") from None
        to: Location = LOCAL
        if kind is not TransferKind.GATHER:
            self.expect("[")
            if self.accept("*"):
                to = REPLICATED
                self.expect("]")
            else:
                to = Dist(self.names("]"))
        self.expect("(")
        source = self.name()
        self.expect(")")
        return Transfer(kind, target, source, to)


def parse_distributed(text: str) -> DistributedProgram:
    """The program that a text stands for."""
    return DistributedParser(text).distributed()
