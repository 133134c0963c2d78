"""A program's triggers as loops: one step after the other, each a statement or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from viewlet.calculus.expr import Expr, terms_of
from viewlet.calculus.scope import all_names
from viewlet.kernels import atoms, extremes, nested_values, product_loops, rows
from viewlet.kernels.alone import alone, meets_itself
from viewlet.kernels.builder import Builder, Cursor, build_rows, register_builders
from viewlet.kernels.lanes import plan_lanes
from viewlet.kernels.loop_nodes import (
    AddTo,
    BindKey,
    Block,
    ClearBuffer,
    ClearColumn,
    Column,
    Factors,
    Loops,
    Named,
    Rows,
    Scan,
    Step,
    Total,
    Update,
)
from viewlet.kernels.ordered_loops import edges_of
from viewlet.kernels.ranged import build_range_term
from viewlet.kernels.recognize import as_change, column_position, mentions, with_lookups_first
from viewlet.kernels.scalar_source import Variable
from viewlet.kernels.sharing import shared
from viewlet.kernels.totals import weight_factors
from viewlet.program.ir import Map, Program, Statement, Trigger
from viewlet.program.keys import Keys
from viewlet.program.text import statement_text
from viewlet.schema import Physical

T = TypeVar("T")
_Numbered = tuple[frozenset[int], Statement]

register_builders(
    atoms.BUILDERS,
    extremes.BUILDERS,
    nested_values.BUILDERS,
    product_loops.BUILDERS,
    rows.BUILDERS,
)


def build_loops(program: Program, *, keep_buffers: bool = False) -> Loops:
    """`keep_buffers`: triggers find in buffers what others left there; the caller empties them.

    These are the stages of a partition, which has one core: they have one lane.
    """
    loops = Loops(program, {m.name: m for m in program.maps}, Keys(program))
    loops.small = loops.keys.small_groups(s for t in program.triggers for s in t.statements)
    for trigger in program.triggers:
        loops.columns[trigger.relation] = set()
        relation = program.relation(trigger.relation)
        builder = Builder(loops, relation)
        steps = _steps(builder, trigger, keep_buffers)
        loops.batch_locals[trigger.relation] = builder.names
        phases = [[steps]] if keep_buffers else plan_lanes(steps)
        loops.phases[trigger.relation] = [[_fused(lane) for lane in phase] for phase in phases]
        single = trigger if keep_buffers else alone(trigger, program)
        if single is not trigger:
            builder = Builder(loops, relation)
            steps = _steps(builder, single, keep_buffers)
        loops.single_locals[trigger.relation] = builder.names
        loops.steps[trigger.relation] = _fused(steps)
        if not keep_buffers and meets_itself(trigger, program):
            loops.by_row.add(trigger.relation)
            loops.phases[trigger.relation] = [[loops.steps[trigger.relation]]]
    return loops


def _steps(builder: Builder, trigger: Trigger, keep_buffers: bool) -> list[Step]:
    """Buffers that are filled are emptied, then one statement after the other."""
    steps: list[Step] = []
    targets = {s.target for s in trigger.statements}
    for map in builder.loops.program.maps:
        if map.buffer and not keep_buffers and map.name in targets:
            steps.append(Step(f"clear {map.name}", (), [ClearBuffer(map.name)]))
    numbered = ((frozenset((at,)), each) for at, each in enumerate(trigger.statements))
    for numbers, statement in _joined(numbered, _numbered_change):
        made = _statement(builder, statement)
        steps += [replace(step, statements=numbers) for step in made]
    return steps


def _numbered_change(new: _Numbered, old: _Numbered) -> _Numbered | None:
    """The same as one statement, with the positions of both."""
    both = as_change(new[1], old[1])
    return None if both is None else (new[0] | old[0], both)


def _statement(builder: Builder, statement: Statement) -> list[Step]:
    target = builder.loops.maps[statement.target]
    if statement.target not in statement.reads:
        return _clearing(statement, target) + _fill(builder, statement, target)
    # A right-hand side sees its own target as it was: it is computed in full first.
    buffer = builder.new_buffer(target.keys, [target.column(c) for c, _ in statement.updates])
    first = [Step(f"clear {buffer.name}", (), [ClearBuffer(buffer.name)])]
    return [
        *first,
        *_fill(builder, statement, buffer),
        *_clearing(statement, target),
        _copy(builder, statement, buffer, target),
    ]


def _clearing(statement: Statement, target: Map) -> list[Step]:
    if statement.op != ":=":
        return []
    columns = [name for name, _ in statement.updates]
    if target.buffer and len(columns) == len(target.columns):
        return [Step(f"clear {target.name}", (), [ClearBuffer(target.name)])]
    return [
        Step(
            f"clear {target.name}.{name}",
            (),
            [ClearColumn(target.name, column_position(target, name))],
        )
        for name in columns
    ]


def _fill(builder: Builder, statement: Statement, target: Map) -> list[Step]:
    builder.uses = Counter(mentions(statement))
    builder.edges = edges_of(statement.loop)
    text = statement_text(statement).strip()
    return [
        Step(text, (target.name,), _term(builder, statement, term, target), statement.reads)
        for term in terms_of(statement.loop)
    ]


def _term(builder: Builder, statement: Statement, term: Expr, target: Map) -> Block:
    updates = [
        (column_position(target, c), target.column(c).physical, e) for c, e in statement.updates
    ]
    needed = frozenset(statement.keys).union(*(all_names(e) for _, _, e in updates))
    term = with_lookups_first(term, [e for _, _, e in updates], builder.loops.keys)
    totals = [(c, physical, builder.name("total")) for c, physical, _ in updates]

    def finish(scope: dict[str, Variable], weights: list[tuple[Block, Factors]]) -> Block:
        """One update of the target; sums for a map without keys stay in locals till the end."""
        block = [node for before, _ in weights for node in before]
        if statement.keys:
            key = [scope[name] for name in statement.keys]
            columns = [
                (column, physical, factors)
                for (column, physical, _), (_, factors) in zip(updates, weights, strict=True)
            ]
            return [*block, Update(target.name, key, columns)]
        return block + [
            AddTo(name, physical, factors)
            for (_, physical, name), (_, factors) in zip(totals, weights, strict=True)
        ]

    def add(scope: dict[str, Variable], factors: Factors) -> Block:
        weights = [weight_factors(builder, expr, scope) for _, _, expr in updates]
        return finish(scope, [(block, (*factors, *weight)) for block, weight in weights])

    exprs = [e for _, _, e in updates]
    keys = frozenset(statement.keys)
    block = build_range_term(builder, term, exprs, keys, finish, add)
    if block is None:
        block = build_rows(builder, term, Cursor({}, needed, (), add))
    if statement.keys:
        return block
    for _, physical, name in reversed(totals):
        block = [Total(name, physical, block)]
    sums: list[tuple[int, Physical, Factors]] = [
        (column, physical, (Named(name, physical),)) for column, physical, name in totals
    ]
    return [*block, Update(target.name, [], sums)]


def _copy(builder: Builder, statement: Statement, source: Map, target: Map) -> Step:
    record = builder.name("at")
    scope: list[Variable] = []
    block: Block = []
    for i, key in enumerate(source.keys):
        variable = Variable(builder.name(key.name), key.slot)
        scope.append(variable)
        block.append(BindKey(variable, source.name, i, record))
    columns: list[tuple[int, Physical, Factors]] = []
    values: list[Column] = []
    for i, (name, _) in enumerate(statement.updates):
        physical = source.columns[i].physical
        weight = builder.name("w")
        values.append(Column(weight, source.name, i, record, []))
        columns.append(
            (column_position(target, name), physical, (Named(weight, physical, nonzero=True),))
        )
    block += values
    block.append(Update(target.name, scope, columns))
    return Step(
        f"{target.name} += {source.name}",
        (target.name,),
        [Scan(source.name, record, block)],
        frozenset((source.name,)),
    )


def _fused(steps: list[Step]) -> list[Step]:
    return [shared(step) for step in _joined(steps, _fuse)]


def _joined(items: Iterable[T], join: Callable[[T, T], T | None]) -> list[T]:
    """Neighbors become one wherever `join` makes one of them."""
    joined: list[T] = []
    for item in items:
        both = join(joined[-1], item) if joined else None
        if both is None:
            joined.append(item)
        else:
            joined[-1] = both
    return joined


def _fuse(left: Step, right: Step) -> Step | None:
    """Two steps over the batch's rows -> one, where neither reads what the other writes."""
    if {*left.targets} & right.reads or {*right.targets} & left.reads:
        return None
    if len(left.block) != 1 or len(right.block) != 1:
        return None
    (first,), (second,) = left.block, right.block
    if not isinstance(first, Rows) or not isinstance(second, Rows):
        return None
    if first.equal or second.equal:
        return None
    binds = list(dict.fromkeys((*first.binds, *second.binds)))
    rows = Rows(binds, [], first.weight, [*first.body, *second.body])
    return Step(
        f"{left.text}\n{right.text}",
        (*left.targets, *right.targets),
        [rows],
        left.reads | right.reads,
        left.statements | right.statements,
    )
