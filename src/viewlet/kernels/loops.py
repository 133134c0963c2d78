"""A programme's triggers as loops: what to iterate, what to look up, what to add where.

The builder walks a right-hand side from left to right with the variables bound so far and decides
each access from that alone (paper 000, section 5.2; thesis 4.2):

    all keys of a map bound        Get      one probe of the unique index
    some bound                     Slice    a chain of the slice index over the bound columns
    none bound                     Scan     all records
    Sum(M[g, p].c * {p < x})       Range    subtree sums of the index by g, ordered by p
    (x := min p in M[g, p].c ...)  Walk     the same index from its end

Loops are in continuation style: the body of a loop is everything to the right of it, and nothing is
materialised in between. Only Exists and extremes of sums that several rows make up need a buffer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from viewlet.calculus.expr import (
    PRESENCE,
    Add,
    Assign,
    Cond,
    Delta,
    Exists,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    factors_of,
    product_of,
    terms_of,
    walk,
)
from viewlet.calculus.scope import all_names, outputs, visible
from viewlet.calculus.text import to_text
from viewlet.calculus.typing import Slot, scalar_slot, variable_slots, weight_type
from viewlet.errors import ProgramError
from viewlet.functions import Apply, Ref, ScalarExpr, free_variables
from viewlet.kernels.scalars import Scope, Variable
from viewlet.program.ir import KeyColumn, Map, Program, Statement, Trigger, ValueColumn
from viewlet.schema import Physical
from viewlet.storage.columns import CHAIN, TREE, Index

# --- the loop language ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A weight that a local holds; a float is a pair of locals."""

    name: str
    physical: Physical


@dataclass(frozen=True)
class Pure:
    """A weight computed from bound variables alone."""

    expr: Expr
    scope: Scope
    physical: Physical


Factor = Named | Pure
Factors = tuple[Factor, ...]


@dataclass
class Rows:
    """for each row of the batch: bind columns, require others to be equal, take the weight"""

    binds: list[tuple[Variable, int]]
    equal: list[tuple[Variable, int]]
    weight: str
    body: Block


@dataclass
class Get:
    """the record under a whole key, if there is one"""

    map: str
    record: str
    key: list[Variable]
    body: Block


@dataclass
class Scan:
    map: str
    record: str
    body: Block


@dataclass
class Slice:
    map: str
    index: int
    record: str
    key: list[Variable]
    body: Block


@dataclass
class Walk:
    """counted records of a group from one end of the order, until `stop` is set"""

    map: str
    index: int
    place: int
    record: str
    key: list[Variable]
    greatest: bool
    stop: str
    body: Block


@dataclass
class Range:
    """name = the sum of a column over the keys that satisfy all bounds"""

    name: str
    physical: Physical
    map: str
    index: int
    place: int
    key: list[Variable]
    bounds: list[tuple[str, ScalarExpr]]
    scope: Scope


@dataclass
class BindKey:
    """variable = a key column of a record"""

    variable: Variable
    map: str
    position: int
    record: str


@dataclass
class MatchKey:
    """only where a key column of a record is the same as a variable"""

    variable: Variable
    map: str
    position: int
    record: str
    body: Block


@dataclass
class Column:
    """name = a value column of a record; `body` only where it is not zero"""

    name: str
    map: str
    column: int
    record: str
    body: Block


@dataclass
class Present:
    """only where a record is there: some value is not zero"""

    map: str
    record: str
    body: Block


@dataclass
class Let:
    variable: Variable
    scalar: ScalarExpr
    scope: Scope


@dataclass
class If:
    scalar: ScalarExpr
    scope: Scope
    body: Block


@dataclass
class NotNull:
    variable: Variable
    body: Block


@dataclass
class Total:
    """name = 0, then whatever the body adds to it"""

    name: str
    physical: Physical
    body: Block


@dataclass
class AddTo:
    name: str
    physical: Physical
    factors: Factors


@dataclass
class LetTotal:
    """variable = the weight that was added up, rounded once"""

    variable: Variable
    name: str


@dataclass
class IfTotal:
    """where the weight that was added up is not zero"""

    name: str
    physical: Physical
    body: Block


@dataclass
class NoBest:
    """variable = NULL, before an extreme is looked for"""

    variable: Variable


@dataclass
class Better:
    """variable = candidate where that is nearer to the wanted end; `stop` ends a Walk"""

    variable: Variable
    candidate: Variable
    greatest: bool
    stop: str | None


@dataclass
class ClearBuffer:
    map: str


@dataclass
class ClearColumn:
    """a value column becomes zero in all records"""

    map: str
    column: int


@dataclass
class Update:
    """map[key].column += product of factors, for each column"""

    map: str
    key: list[Variable]
    columns: list[tuple[int, Physical, Factors]]


Node = (
    Rows
    | Get
    | Scan
    | Slice
    | Walk
    | Range
    | BindKey
    | MatchKey
    | Column
    | Present
    | Let
    | If
    | NotNull
    | Total
    | AddTo
    | LetTotal
    | IfTotal
    | NoBest
    | Better
    | ClearBuffer
    | ClearColumn
    | Update
)
Block = list[Node]


@dataclass(frozen=True)
class Step:
    """A part of a trigger that runs to its end before the next one starts.

    `reads` are the maps that it looks into. Updates of its targets are counted, to go on after
    Python has made room.
    """

    text: str
    targets: tuple[str, ...]
    block: Block
    reads: frozenset[str] = frozenset()


@dataclass
class Loops:
    """All triggers of a programme as steps, and the indexes that their accesses ask for."""

    program: Program
    maps: dict[str, Map]
    steps: dict[str, list[Step]] = field(default_factory=dict)
    indexes: dict[str, list[Index]] = field(default_factory=dict)
    columns: dict[str, set[int]] = field(default_factory=dict)


def build_loops(program: Program) -> Loops:
    loops = Loops(program, {m.name: m for m in program.maps})
    for trigger in program.triggers:
        loops.columns[trigger.relation] = set()
        loops.steps[trigger.relation] = _Builder(loops, trigger).steps()
    return loops


# --- building -------------------------------------------------------------------------------------

Rest = Callable[[dict[str, Variable], Factors], Block]
"""What to do for each row, given the variables bound by then and the factors of its weight."""

_BOUNDS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DELTA_WEIGHT = Physical.INT


class _Builder:
    def __init__(self, loops: Loops, trigger: Trigger) -> None:
        self.loops = loops
        self.trigger = trigger
        self.signatures = loops.program.signatures()
        self.names: Counter[str] = Counter()
        self.uses: Counter[str] = Counter()
        # Records at hand at the current place: by map and key variables, their locals.
        self.at_hand: dict[tuple[str, tuple[str, ...]], str] = {}

    # Statements.

    def steps(self) -> list[Step]:
        found: list[Step] = []
        buffers = [m.name for m in self.loops.program.maps if m.buffer]
        written = {s.target for s in self.trigger.statements}
        for name in buffers:
            if name in written:
                found.append(Step(f"clear {name}", (), [ClearBuffer(name)]))
        for statement in self.trigger.statements:
            for step in self._statement(statement):
                fused = _fuse(found[-1], step) if found else None
                if fused is None:
                    found.append(step)
                else:
                    found[-1] = fused
        return found

    def _statement(self, statement: Statement) -> list[Step]:
        target = self.loops.maps[statement.target]
        if statement.target not in statement.reads:
            return self._clearing(statement, target) + self._fill(statement, target)
        # A right-hand side sees its own target as it was: it is computed in full first.
        buffer = self._new_buffer(
            target.keys, [self._column(target, c) for c, _ in statement.updates]
        )
        first = [Step(f"clear {buffer.name}", (), [ClearBuffer(buffer.name)])]
        return [
            *first,
            *self._fill(statement, buffer),
            *self._clearing(statement, target),
            self._copy(statement, buffer, target),
        ]

    def _column(self, map: Map, name: str) -> ValueColumn:
        return map.column(name)

    def _clearing(self, statement: Statement, target: Map) -> list[Step]:
        if statement.op != ":=":
            return []
        columns = [name for name, _ in statement.updates]
        if target.buffer and len(columns) == len(target.columns):
            return [Step(f"clear {target.name}", (), [ClearBuffer(target.name)])]
        return [
            Step(
                f"clear {target.name}.{name}",
                (),
                [ClearColumn(target.name, _position(target, name))],
            )
            for name in columns
        ]

    def _fill(self, statement: Statement, target: Map) -> list[Step]:
        from viewlet.program.text import statement_text

        self.uses = Counter(_mentions(statement))
        text = statement_text(statement).strip()
        return [
            Step(text, (target.name,), self._term(statement, term, target), statement.reads)
            for term in terms_of(statement.loop)
        ]

    def _term(self, statement: Statement, term: Expr, target: Map) -> Block:
        updates = [
            (_position(target, c), target.column(c).physical, e) for c, e in statement.updates
        ]
        needed = frozenset(statement.keys).union(*(all_names(e) for _, _, e in updates))
        if not statement.keys:
            return self._term_without_keys(term, target, updates, needed)

        def add(scope: dict[str, Variable], factors: Factors) -> Block:
            key = [
                self._fit(scope[name], column.slot, statement)
                for name, column in zip(statement.keys, target.keys, strict=True)
            ]
            block: Block = []
            columns = []
            for column, physical, expr in updates:
                before, weight = self._weight(expr, scope)
                block += before
                columns.append((column, physical, (*factors, *weight)))
            return [*block, Update(target.name, key, columns)]

        return self._rows(term, {}, needed, (), add)

    def _term_without_keys(
        self,
        term: Expr,
        target: Map,
        updates: list[tuple[int, Physical, Expr]],
        needed: frozenset[str],
    ) -> Block:
        """Sums for the one record of a map without keys stay in locals until the loop ends."""
        totals = [(c, physical, self._name("total")) for c, physical, _ in updates]

        def add(scope: dict[str, Variable], factors: Factors) -> Block:
            block: Block = []
            for (_, physical, name), (_, _, expr) in zip(totals, updates, strict=True):
                before, weight = self._weight(expr, scope)
                block += [*before, AddTo(name, physical, (*factors, *weight))]
            return block

        block = self._rows(term, {}, needed, (), add)
        for _, physical, name in reversed(totals):
            block = [Total(name, physical, block)]
        columns: list[tuple[int, Physical, Factors]] = [
            (column, physical, (Named(name, physical),)) for column, physical, name in totals
        ]
        return [*block, Update(target.name, [], columns)]

    def _copy(self, statement: Statement, source: Map, target: Map) -> Step:
        record = self._name("at")
        scope: list[Variable] = []
        block: Block = []
        for i, key in enumerate(source.keys):
            variable = Variable(self._name(key.name), key.slot)
            scope.append(variable)
            block.append(BindKey(variable, source.name, i, record))
        columns: list[tuple[int, Physical, Factors]] = []
        values: list[Column] = []
        for i, (name, _) in enumerate(statement.updates):
            physical = source.columns[i].physical
            weight = self._name("w")
            values.append(Column(weight, source.name, i, record, []))
            columns.append((_position(target, name), physical, (Named(weight, physical),)))
        block += values
        block.append(Update(target.name, scope, columns))
        return Step(
            f"{target.name} += {source.name}",
            (target.name,),
            [Scan(source.name, record, block)],
            frozenset((source.name,)),
        )

    def _fit(self, variable: Variable, slot: Slot, where: Statement) -> Variable:
        if variable.slot.nullable and not slot.nullable:
            raise ProgramError(f"{variable.name} may be NULL, the key of {where.target} may not")
        if variable.slot.physical is Physical.FLOAT and slot.physical is not Physical.FLOAT:
            raise ProgramError(f"{variable.name} is a float, the key of {where.target} is not")
        return variable

    # Weights.

    def _weight(self, expr: Expr, scope: Scope) -> tuple[Block, Factors]:
        """The weight of an expression whose variables are bound, summed out ones aside."""
        if all(isinstance(node, Value | Add | Mul) for node in walk(expr)):
            if expr == Value(_ONE):
                return [], ()
            return [], (Pure(expr, dict(scope), self._weight_type(expr, scope)),)
        if isinstance(expr, Mul):
            pure = [f for f in expr.factors if isinstance(f, Value)]
            rest = [f for f in expr.factors if not isinstance(f, Value)]
            free = outputs(product_of(*rest)) - scope.keys()
            if pure and not any(free & all_names(f) for f in pure):
                block, factors = self._weight(product_of(*rest), scope)
                return block, (*self._weight(product_of(*pure), scope)[1], *factors)
        physical = self._weight_type(expr, scope)
        name = self._name("total")
        return [Total(name, physical, self._accumulate(expr, scope, name, physical))], (
            Named(name, physical),
        )

    def _accumulate(self, expr: Expr, scope: Scope, name: str, physical: Physical) -> Block:
        def add(inner: dict[str, Variable], factors: Factors) -> Block:
            return [AddTo(name, physical, factors)]

        block: Block = []
        for term in terms_of(expr):
            # Where all keys are bound a projection is just the sum that is being made.
            while isinstance(term, Sum) and frozenset(term.keys) <= scope.keys():
                term = term.body
            if isinstance(term, Add):
                block += self._accumulate(term, scope, name, physical)
            else:
                block += self._rows(term, dict(scope), frozenset(), (), add)
        return block

    def _weight_type(self, expr: Expr, scope: Scope) -> Physical:
        slots = {name: variable.slot for name, variable in scope.items()}
        return weight_type(expr, self.signatures, variable_slots(expr, self.signatures, slots))

    # Rows.

    def _rows(
        self,
        expr: Expr,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """For every row of the expression, the rest. `needed` are variables that the rest uses."""
        if isinstance(expr, Value):
            return self._with_weight(expr, scope, factors, rest)
        if isinstance(expr, Cond):
            return [If(expr.scalar, dict(scope), rest(scope, factors))]
        if isinstance(expr, Assign):
            slots = {name: variable.slot for name, variable in scope.items()}
            return self._bind(
                expr.variable,
                scalar_slot(expr.scalar, slots),
                scope,
                lambda variable: [Let(variable, expr.scalar, dict(scope))],
                lambda inner: rest(inner, factors),
            )
        if isinstance(expr, Delta):
            return self._delta(expr, scope, needed, factors, rest)
        if isinstance(expr, MapRef):
            return self._atom(expr, scope, factors, rest)
        if isinstance(expr, Mul):
            return self._product(expr.factors, scope, needed, factors, rest)
        if isinstance(expr, Rel):
            raise ProgramError(f"a trigger reads base relation {expr.name}")
        if not outputs(expr) - scope.keys() and isinstance(expr, Add | Sum):
            return self._with_weight(expr, scope, factors, rest)
        if isinstance(expr, Add):
            # Each term has its own loops; what follows is repeated in each.
            return [
                n for t in expr.terms for n in self._rows(t, dict(scope), needed, factors, rest)
            ]
        if isinstance(expr, Sum):
            return self._sum(expr, scope, needed, factors, rest)
        if isinstance(expr, Lift):
            return self._lift(expr, scope, factors, rest)
        if isinstance(expr, Exists):
            return self._exists(expr, scope, factors, rest)
        return self._extreme(expr, scope, factors, rest)

    def _with_weight(
        self, expr: Expr, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        if isinstance(expr, Sum) and not isinstance(expr.body, Value):
            expr = expr.body
        block, weight = self._weight(expr, scope)
        return [*block, *rest(scope, (*factors, *weight))]

    def _bind(
        self,
        name: str,
        slot: Slot,
        scope: dict[str, Variable],
        define: Callable[[Variable], Block],
        rest: Callable[[dict[str, Variable]], Block],
    ) -> Block:
        """Bind a name to what `define` computes, or compare where it is bound already."""
        variable = Variable(self._name(name), slot)
        block = define(variable)
        if name not in scope:
            return [*block, *rest({**scope, name: variable})]
        both = {"old": scope[name], "new": variable}
        return [*block, If(_SAME, both, rest(scope))]

    def _product(
        self,
        members: tuple[Expr, ...],
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        if not members:
            return rest(scope, factors)
        first, others = _next_factor(members, scope)
        if isinstance(first, MapRef):
            ranged = self._range(first, others, scope, needed)
            if ranged is not None:
                node, remaining = ranged
                weight = Named(node.name, node.physical)
                return [node, *self._product(remaining, scope, needed, (*factors, weight), rest)]
        later = needed.union(*(all_names(other) for other in others))
        return self._rows(
            first,
            scope,
            later,
            factors,
            lambda inner, found: self._product(others, inner, needed, found, rest),
        )

    def _delta(
        self,
        expr: Delta,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        inner = dict(scope)
        binds: list[tuple[Variable, int]] = []
        equal: list[tuple[Variable, int]] = []
        for i, (name, slot) in enumerate(
            zip(expr.variables, self.signatures[expr.name].keys, strict=True)
        ):
            if name in inner:
                equal.append((inner[name], i))
                inner[name] = _narrow(inner[name], slot)
            elif self.uses[name] > 1 or name in needed:
                column = self.loops.program.relation(expr.name).columns[i].name
                # Rows that stand outermost have common names, so that their loops can be fused.
                local = f"row_{_plain(column)}" if not scope else self._name(name)
                inner[name] = Variable(local, slot)
                binds.append((inner[name], i))
            else:
                continue
            self.loops.columns[expr.name].add(i)
        weight = "weight" if not scope else self._name("weight")
        body = rest(inner, (*factors, Named(weight, _DELTA_WEIGHT)))
        return [Rows(binds, equal, weight, body)]

    def _atom(
        self, expr: MapRef, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        map = self.loops.maps[expr.name]
        bound = [i for i, name in enumerate(expr.keys) if name in scope]
        key = [scope[expr.keys[i]] for i in bound]
        whole = len(bound) == len(expr.keys)
        known = self.at_hand.get((map.name, tuple(v.name for v in key))) if whole else None
        record = known or self._name("at")
        inner = dict(scope)
        for i in bound:
            inner[expr.keys[i]] = _narrow(scope[expr.keys[i]], map.keys[i].slot)
        binds: Block = []
        matches: list[tuple[Variable, int]] = []
        for i, name in enumerate(expr.keys):
            if i in bound:
                continue
            if name in inner:
                matches.append((inner[name], i))
            else:
                inner[name] = Variable(self._name(name), map.keys[i].slot)
                binds.append(BindKey(inner[name], map.name, i, record))
        body = self._with_record(expr, record, inner, binds, matches, factors, rest)
        if known:
            return body
        if whole:
            return [Get(map.name, record, key, body)]
        if bound:
            index = self._index(map.name, Index(CHAIN, tuple(bound)))
            return [Slice(map.name, index, record, key, body)]
        return [Scan(map.name, record, body)]

    def _with_record(
        self,
        expr: MapRef,
        record: str,
        scope: dict[str, Variable],
        binds: Block,
        matches: list[tuple[Variable, int]],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """The rest for one record of a map, under the tests that its keys and value must pass."""
        map = self.loops.maps[expr.name]
        place = (map.name, tuple(scope[name].name for name in expr.keys))
        before = self.at_hand.get(place)
        self.at_hand[place] = record
        weight = self._name("w")
        present = expr.column == PRESENCE
        column = None if present else _position(map, expr.column)
        if column is not None:
            factors = (*factors, Named(weight, map.columns[column].physical))
        body = rest(scope, factors)
        if before is None:
            del self.at_hand[place]
        else:
            self.at_hand[place] = before
        for variable, i in reversed(matches):
            body = [MatchKey(variable, map.name, i, record, body)]
        if column is None:
            return [Present(map.name, record, [*binds, *body])]
        return [Column(weight, map.name, column, record, [*binds, *body])]

    def _sum(
        self,
        expr: Sum,
        scope: dict[str, Variable],
        needed: frozenset[str],
        factors: Factors,
        rest: Rest,
    ) -> Block:
        """Weights are linear, so a projection is its body with the summed-out variables hidden."""

        def shown(inner: dict[str, Variable], found: Factors) -> Block:
            return rest({n: v for n, v in inner.items() if n in scope or n in expr.keys}, found)

        return self._rows(expr.body, dict(scope), needed & frozenset(expr.keys), factors, shown)

    def _lift(self, expr: Lift, scope: dict[str, Variable], factors: Factors, rest: Rest) -> Block:
        loose = outputs(expr.body) - scope.keys()
        if loose:
            raise ProgramError(f"lift over unbound {', '.join(sorted(loose))}: {to_text(expr)}")
        physical = self._weight_type(expr.body, scope)
        name = self._name("total")
        total = Total(name, physical, self._accumulate(expr.body, scope, name, physical))
        bound = self._bind(
            expr.variable,
            Slot(physical),
            scope,
            lambda variable: [LetTotal(variable, name)],
            lambda inner: rest(inner, factors),
        )
        return [total, *bound]

    def _exists(
        self, expr: Exists, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        free = tuple(sorted(outputs(expr.body) - scope.keys()))
        if not free:
            physical = self._weight_type(expr.body, scope)
            name = self._name("total")
            total = Total(name, physical, self._accumulate(expr.body, scope, name, physical))
            return [total, IfTotal(name, physical, rest(scope, factors))]
        if isinstance(expr.body, MapRef):
            # One row for each key: the weight is known not to be zero, and dropped.
            return self._atom(expr.body, scope, (), lambda inner, _: rest(inner, factors))
        return self._grouped(expr.body, free, scope, lambda inner: rest(inner, factors))

    def _grouped(
        self,
        body: Expr,
        free: tuple[str, ...],
        scope: dict[str, Variable],
        rest: Callable[[dict[str, Variable]], Block],
    ) -> Block:
        """Every key of `body` over the free variables once, where its total weight is not 0."""
        slots = variable_slots(body, self.signatures, {n: v.slot for n, v in scope.items()})
        physical = self._weight_type(body, scope)
        keys = tuple(KeyColumn(name, slots[name]) for name in free)
        buffer = self._new_buffer(keys, [ValueColumn("value", physical)])

        def add(inner: dict[str, Variable], factors: Factors) -> Block:
            return [Update(buffer.name, [inner[n] for n in free], [(0, physical, factors)])]

        fill = [
            node
            for term in terms_of(body)
            for node in self._rows(term, dict(scope), frozenset(free), (), add)
        ]
        read = self._atom(
            MapRef(buffer.name, "value", free), scope, (), lambda inner, _: rest(inner)
        )
        return [ClearBuffer(buffer.name), *fill, *read]

    # Extremes.

    def _extreme(
        self, expr: Extreme, scope: dict[str, Variable], factors: Factors, rest: Rest
    ) -> Block:
        inner = {name: v for name, v in scope.items() if name != expr.target}
        free = outputs(expr.body) - inner.keys() - {expr.target}
        if free:
            raise ProgramError(f"extreme over unbound {', '.join(sorted(free))}: {to_text(expr)}")
        slots = variable_slots(expr.body, self.signatures, {n: v.slot for n, v in inner.items()})
        slot = Slot(slots[expr.target].physical, nullable=True)

        def search(best: Variable) -> Block:
            return [NoBest(best), *self._candidates(expr, inner, best)]

        return self._bind(expr.variable, slot, scope, search, lambda found: rest(found, factors))

    def _candidates(self, expr: Extreme, scope: dict[str, Variable], best: Variable) -> Block:
        greatest = expr.kind == "max"
        terms = terms_of(expr.body)
        atoms = [_only_atom(term) for term in terms]
        if not all(_ranges_over(atom, expr.target, scope) for atom in atoms):
            return self._grouped(
                expr.body,
                (expr.target,),
                scope,
                lambda inner: _better(best, inner[expr.target], greatest, None),
            )
        block: Block = []
        for atom in atoms:
            assert atom is not None
            block += self._candidates_of(atom, expr, scope, best, greatest, len(atoms) == 1)
        return block

    def _candidates_of(
        self,
        atom: MapRef,
        expr: Extreme,
        scope: dict[str, Variable],
        best: Variable,
        greatest: bool,
        alone: bool,
    ) -> Block:
        """The keys of one map, those whose weights add up to zero over all terms left out."""
        map = self.loops.maps[atom.name]
        position = atom.keys.index(expr.target)
        ordered = (
            not map.buffer and not map.keys[position].slot.nullable and atom.column != PRESENCE
        )
        stop = self._name("stop") if ordered else None

        def check(inner: dict[str, Variable]) -> Block:
            found = _better(best, inner[expr.target], greatest, stop)
            if alone:
                return found
            physical = self._weight_type(expr.body, inner)
            name = self._name("total")
            total = Total(name, physical, self._accumulate(expr.body, inner, name, physical))
            return [total, IfTotal(name, physical, found)]

        if stop is None:
            return self._atom(atom, scope, (), lambda inner, _: check(inner))
        parts = tuple(i for i in range(len(atom.keys)) if i != position)
        column = _position(map, atom.column)
        index, place = self._tree(map.name, parts, position, (column, True))
        record = self._name("at")
        target = Variable(self._name(expr.target), map.keys[position].slot)
        inner = {**scope, expr.target: target}
        key = [scope[atom.keys[i]] for i in parts]
        body: Block = [BindKey(target, map.name, position, record), *check(inner)]
        return [Walk(map.name, index, place, record, key, greatest, stop, body)]

    # Indexes.

    def _range(
        self, atom: MapRef, others: tuple[Expr, ...], scope: Scope, needed: frozenset[str]
    ) -> tuple[Range, tuple[Expr, ...]] | None:
        """M[g, p].c * {p < x} * q -> range sum * q  where nothing but the conditions needs p."""
        map = self.loops.maps[atom.name]
        free = {name for name in atom.keys if name not in scope}
        if map.buffer or atom.column == PRESENCE or not free or free & needed:
            return None
        if len(set(atom.keys)) < len(atom.keys):
            return None
        bounds: list[tuple[str, ScalarExpr]] = []
        remaining: list[Expr] = []
        ordered: set[str] = set()
        for other in others:
            if not all_names(other) & free:
                remaining.append(other)
                continue
            bound = _bound(other, free)
            if bound is None:
                return None
            name, operator, scalar = bound
            if not free_variables(scalar) <= scope.keys():
                return None
            ordered.add(name)
            bounds.append((operator, scalar))
        sides = [operator[0] for operator, _ in bounds]
        if len(ordered) != 1 or len(set(sides)) < len(sides):
            return None
        position = atom.keys.index(ordered.pop())
        if map.keys[position].slot.nullable:
            return None
        parts = tuple(i for i, name in enumerate(atom.keys) if name in scope)
        column = _position(map, atom.column)
        index, place = self._tree(map.name, parts, position, (column, False))
        key = [scope[atom.keys[i]] for i in parts]
        physical = map.columns[column].physical
        node = Range(
            self._name("range"), physical, map.name, index, place, key, bounds, dict(scope)
        )
        return node, tuple(remaining)

    def _index(self, map: str, index: Index) -> int:
        found = self.loops.indexes.setdefault(map, [])
        if index not in found:
            found.append(index)
        return found.index(index)

    def _tree(
        self, map: str, parts: tuple[int, ...], order: int, sum: tuple[int, bool]
    ) -> tuple[int, int]:
        """The ordered index and the place of a sum in it; one index serves all sums."""
        found = self.loops.indexes.setdefault(map, [])
        for i, index in enumerate(found):
            if index.kind == TREE and index.parts == parts and index.order == order:
                sums = index.sums if sum in index.sums else (*index.sums, sum)
                found[i] = Index(TREE, parts, order, sums)
                return i, sums.index(sum)
        found.append(Index(TREE, parts, order, (sum,)))
        return len(found) - 1, 0

    def _new_buffer(self, keys: tuple[KeyColumn, ...], columns: list[ValueColumn]) -> Map:
        name = f"buffer_{len(self.loops.maps)}"
        buffer = Map(name, keys, tuple(ValueColumn(c.name, c.physical) for c in columns), True)
        self.loops.maps[name] = buffer
        self.signatures[name] = buffer.signature
        return buffer

    def _name(self, base: str) -> str:
        base = _plain(base)
        self.names[base] += 1
        return f"{base}_{self.names[base]}"


_ONE = product_of().scalar  # type: ignore[union-attr]
_SAME = Apply("==", (Ref("old"), Ref("new")))


def _next_factor(members: tuple[Expr, ...], scope: Scope) -> tuple[Expr, tuple[Expr, ...]]:
    """The factor to do next: before a loop, what does not depend on it.

    A * (x := q) -> (x := q) * A  where A iterates and q needs nothing that A binds
    """
    first = members[0]
    if isinstance(first, Delta | MapRef) and outputs(first) - scope.keys():
        for i, member in enumerate(members[1:], 1):
            bound = {member.variable} if isinstance(member, Assign | Lift | Extreme) else set()
            ready = isinstance(member, Cond | Assign | Lift | Extreme | Exists)
            if ready and bound.isdisjoint(outputs(first)) and visible(member) - bound <= set(scope):
                return member, (*members[:i], *members[i + 1 :])
    return first, members[1:]


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
    )


def _better(best: Variable, candidate: Variable, greatest: bool, stop: str | None) -> Block:
    found: Block = [Better(best, candidate, greatest, stop)]
    return [NotNull(candidate, found)] if candidate.slot.nullable else found


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _narrow(variable: Variable, slot: Slot) -> Variable:
    """What is the same as a key that cannot be NULL is not NULL."""
    if variable.slot.nullable and not slot.nullable:
        return Variable(variable.name, Slot(variable.slot.physical))
    return variable


def _position(map: Map, column: str) -> int:
    return [c.name for c in map.columns].index(column)


def _only_atom(term: Expr) -> MapRef | None:
    """The map of a term that is one, up to a constant coefficient."""
    found = [f for f in factors_of(term) if not isinstance(f, Value)]
    constants = all(not free_variables(f.scalar) for f in factors_of(term) if isinstance(f, Value))
    if len(found) == 1 and constants and isinstance(found[0], MapRef):
        return found[0]
    return None


def _ranges_over(atom: MapRef | None, target: str, scope: Scope) -> bool:
    """Whether all keys but the target are bound."""
    return (
        atom is not None
        and atom.keys.count(target) == 1
        and all(name in scope or name == target for name in atom.keys)
    )


def _bound(expr: Expr, free: set[str]) -> tuple[str, str, ScalarExpr] | None:
    """{p < x} or {x > p} -> (p, <, x)  where x has no free variable"""
    if not isinstance(expr, Cond) or not isinstance(expr.scalar, Apply):
        return None
    function, arguments = expr.scalar.function, expr.scalar.arguments
    if function not in _BOUNDS:
        return None
    left, right = arguments
    if isinstance(left, Ref) and left.name in free and not free_variables(right) & free:
        return left.name, function, right
    if isinstance(right, Ref) and right.name in free and not free_variables(left) & free:
        return right.name, _BOUNDS[function], left
    return None


def _mentions(statement: Statement) -> list[str]:
    """Every place where a variable stands in a statement."""
    found = list(statement.keys)
    for part in (statement.loop, *(update for _, update in statement.updates)):
        for node in walk(part):
            if isinstance(node, Delta | Rel):
                found += node.variables
            elif isinstance(node, MapRef | Sum):
                found += node.keys
            elif isinstance(node, Value | Cond):
                found += free_variables(node.scalar)
            elif isinstance(node, Assign):
                found += [node.variable, *free_variables(node.scalar)]
            elif isinstance(node, Lift):
                found.append(node.variable)
            elif isinstance(node, Extreme):
                found += [node.variable, node.target]
    return found
