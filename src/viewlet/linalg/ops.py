"""Straight-line code: what expressions become before they run, are costed or go to Spark.

`Compiler` turns assignments into operations over numbered slots. Each product is associated at the
least cost, common subexpressions are computed once, and a product with a large sum or block is
distributed, (A + e w) T -> A T + e (w T), so that no large operand is formed just to be applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np

from viewlet.errors import ProgramError
from viewlet.linalg import arrays
from viewlet.linalg import expr as ex
from viewlet.linalg.arrays import Value
from viewlet.linalg.chain import Shape, Tree, associate
from viewlet.linalg.expr import Expr, Factor, Matrix

Ref = tuple[int, bool]  # a slot, and whether it is read transposed


@dataclass(frozen=True)
class Op:
    """One operation: leaf, mul, add, block, rows, eye, zero, inv, woodbury, fused or part."""

    kind: str
    out: int
    shape: Shape
    args: tuple[Ref, ...] = ()
    alpha: tuple[float, ...] = ()
    grid: tuple[int, ...] = ()  # rows: first and last row; block: see Compiler._block
    leaf: Expr | None = None


@dataclass
class OpList:
    """Operations in order, and the slot in which each assigned symbol ends up."""

    ops: list[Op] = field(default_factory=list)
    results: dict[Expr, Ref] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)

    @cached_property
    def dying(self) -> list[tuple[int, ...]]:
        """After each operation, the slots that no later one reads."""
        last: dict[int, int] = {}
        for position, op in enumerate(self.ops):
            last[op.out] = position
            for slot, _ in op.args:
                last[slot] = position
        ends: list[list[int]] = [[] for _ in self.ops]
        for slot, position in last.items():
            ends[position].append(slot)
        return [tuple(slots) for slots in ends]


class Compiler:
    """Emits code for a sequence of assignments; later ones may read earlier targets."""

    def __init__(self) -> None:
        self.code = OpList()
        self.memo: dict[Expr, Ref] = {}
        self.shapes: list[Shape] = []

    def assign(self, target: Matrix | Factor, value: Expr) -> None:
        """Code that computes the value and leaves it in the target."""
        before = len(self.shapes)
        ref = self.emit(value)
        if ref[0] >= before and self.code.ops[-1].out == ref[0] and not ref[1]:
            # A slot that only its symbol reads may be replaced by an equal, narrower value.
            del self.memo[value]
            self.code.owned.add(ref[0])
        self.memo[target] = ref
        self.code.results[target] = ref

    def emit(self, e: Expr) -> Ref:
        """Where the value of an expression will be; an expression is computed once."""
        if e not in self.memo:
            self.memo[e] = self._emit(e)
        return self.memo[e]

    def _emit(self, e: Expr) -> Ref:
        match e:
            case Matrix() | Factor():
                return self._op("leaf", e.shape, leaf=e)
            case ex.Transpose():
                slot, transposed = self.emit(e.operand)
                return slot, not transposed
            case ex.Scale():
                if isinstance(e.operand, ex.Product):
                    return self._product(e.operand, e.coefficient)
                return self._op("add", e.shape, (self.emit(e.operand),), (e.coefficient,))
            case ex.Sum():
                return self._sum(e)
            case ex.Product():
                return self._product(e, 1.0)
            case ex.Identity():
                return self._op("eye", e.shape)
            case ex.Zero():
                return self._op("zero", e.shape)
            case ex.Inverse():
                return self._op("inv", e.shape, (self.emit(e.operand),), leaf=e.operand)
            case ex.Woodbury():
                return self._op("woodbury", e.shape, (self.emit(e.g), self.emit(e.q)))
            case ex.Block():
                return self._block(e)
        raise ProgramError(f"no code for {type(e).__name__}")

    def _op(
        self,
        kind: str,
        shape: Shape,
        args: tuple[Ref, ...] = (),
        alpha: tuple[float, ...] = (),
        grid: tuple[int, ...] = (),
        leaf: Expr | None = None,
    ) -> Ref:
        slot = len(self.shapes)
        self.shapes.append(shape)
        self.code.ops.append(Op(kind, slot, shape, args, alpha, grid, leaf))
        return slot, False

    def _sum(self, e: ex.Sum) -> Ref:
        parts = [
            (t.coefficient, t.operand) if isinstance(t, ex.Scale) else (1.0, t) for t in e.terms
        ]
        return self._op(
            "add", e.shape, tuple(self.emit(p) for _, p in parts), tuple(c for c, _ in parts)
        )

    def _block(self, e: ex.Block) -> Ref:
        """Zero cells have no slot: a rank is only known at run time, and so is their width."""
        cells = tuple(cell for row in e.rows for cell in row)
        heights = tuple(row[0].shape[0] for row in e.rows)
        widths = tuple(cell.shape[1] for cell in e.rows[0])
        positions = tuple(i for i, cell in enumerate(cells) if not isinstance(cell, ex.Zero))
        return self._op(
            "block",
            e.shape,
            tuple(self.emit(cells[i]) for i in positions),
            grid=(len(heights), len(widths), *heights, *widths, *positions),
        )

    def _product(self, e: ex.Product, coefficient: float) -> Ref:
        tree = associate(tuple(f.shape for f in e.factors))
        assert not isinstance(tree, int)

        def operand(node: Tree) -> Expr:
            if isinstance(node, int):
                return e.factors[node]
            return ex.product_of((operand(node[0]), operand(node[1])))

        left, right = operand(tree[0]), operand(tree[1])
        spread = _distribute(left, right)
        if spread is not None:
            return self.emit(ex.scale(coefficient, spread))
        if isinstance(left, ex.Block) and _dominates(left, right):
            return self._block_times(left, right, coefficient)
        if isinstance(right, ex.Block) and _dominates(right, left):
            flipped = self._block_times(ex.transpose(right), ex.transpose(left), coefficient)  # type: ignore[arg-type]
            return flipped[0], not flipped[1]
        return self._op("mul", e.shape, (self.emit(left), self.emit(right)), (coefficient,))

    def _block_times(self, left: ex.Block, right: Expr, coefficient: float) -> Ref:
        """[A B; C D] y -> [A y1 + B y2; C y1 + D y2]."""
        source = self.emit(right)
        parts: list[Expr] = []
        at = 0
        for cell in left.rows[0]:
            height = cell.shape[1]
            shape = (height, right.shape[1])
            ref = self._op("rows", shape, (source,), grid=(at, at + height))
            part = ex.factor(f"rows {ref[0]} of {id(self)}", *shape)
            self.memo[part] = ref
            parts.append(part)
            at += height
        rows = [
            ex.scale(
                coefficient,
                ex.sum_of(ex.product_of((c, y)) for c, y in zip(row, parts, strict=True)),
            )
            for row in left.rows
        ]
        return self.emit(ex.block([[row] for row in rows]))


def _dominates(large: Expr, small: Expr) -> bool:
    """Applying `large` piece by piece beats forming it."""
    result = large.shape[0] * small.shape[1]
    size = large.shape[0] * large.shape[1]
    return size > 2 * max(small.shape[0] * small.shape[1], result)


def _distribute(left: Expr, right: Expr) -> Expr | None:
    if isinstance(left, ex.Sum) and _dominates(left, right):
        return ex.sum_of(ex.product_of((t, right)) for t in left.terms)
    if isinstance(right, ex.Sum) and _dominates(ex.transpose(right), ex.transpose(left)):
        return ex.sum_of(ex.product_of((left, t)) for t in right.terms)
    return None


def compile_assignments(assignments: Iterable[tuple[Matrix | Factor, Expr]]) -> OpList:
    """Assignments -> operations on arrays, common parts computed once."""
    compiler = Compiler()
    for target, value in assignments:
        compiler.assign(target, value)
    return compiler.code


class Machine:
    """Runs code: leaves come from `read`, results are arrays by symbol.

    `amplifications` collects what each Woodbury step reports about its conditioning.
    """

    def __init__(self, read: Callable[[Expr], Value]) -> None:
        self.read = read
        self.amplifications: list[float] = []

    def run(
        self,
        code: OpList,
        keep: AbstractSet[Expr] | None = None,
        after: Mapping[int, Callable[[dict[int, Value]], None]] | None = None,
    ) -> dict[Expr, Value]:
        """Results of the symbols in `keep` (all without it); other slots are freed early.

        `after[i]` runs when slot i is made and may replace slots: recompression enters there.
        """
        slots: dict[int, Value] = {}
        results = {s: r for s, r in code.results.items() if keep is None or s in keep}
        result_slots = {slot for slot, _ in results.values()}
        with np.errstate(all="ignore"):
            for op, dying in zip(code.ops, code.dying, strict=True):
                slots[op.out] = self.execute(op, slots)
                if after is not None and op.out in after:
                    after[op.out](slots)
                for slot in dying:
                    if slot not in result_slots:
                        del slots[slot]
        return {s: _transposed(slots[slot], t) for s, (slot, t) in results.items()}

    def execute(self, op: Op, slots: Mapping[int, Value]) -> Value:
        """The value of one operation, from the values of its arguments."""
        args = [(slots[slot], transposed) for slot, transposed in op.args]
        match op.kind:
            case "leaf":
                assert op.leaf is not None
                return self.read(op.leaf)
            case "mul":
                (x, tx), (y, ty) = args
                return arrays.multiply(x, tx, y, ty, op.alpha[0])
            case "fused":
                return _fused(args)  # type: ignore[return-value]
            case "part":
                value: arrays.Array = args[0][0][op.grid[0]]  # type: ignore[index]
                return value if op.alpha[0] == 1.0 else op.alpha[0] * value
            case "add":
                return arrays.add([(c, x, t) for c, (x, t) in zip(op.alpha, args, strict=True)])
            case "rows":
                dense = arrays.dense_of(_transposed(*args[0]))
                return dense[op.grid[0] : op.grid[1]]
            case "eye":
                return np.eye(op.shape[0])
            case "zero":
                return np.zeros(op.shape)
            case "inv":
                return arrays.inverse(*args[0], what=str(op.leaf))
            case "woodbury":
                (g, tg), (q, tq) = args
                return arrays.woodbury(_transposed(g, tg), _transposed(q, tq), self.amplifications)
            case "block":
                return _assemble(op, [arrays.dense_of(_transposed(*a)) for a in args])
        raise ProgramError(f"unknown operation {op.kind}")


def _fused(args: list[tuple[Value, bool]]) -> tuple[arrays.Array, ...]:
    """op(x) y for several y in one pass over x; unit vectors only pick columns and need none."""
    (x, tx), *others = args
    products: dict[int, arrays.Array] = {}
    dense: list[tuple[int, arrays.Array]] = []
    for at, (y, ty) in enumerate(others):
        if isinstance(y, arrays.OneHot):
            products[at] = arrays.multiply(x, tx, y, ty)
        else:
            full = arrays.dense_of(y)
            dense.append((at, full.T if ty else full))
    if dense:
        widths = list(accumulate((y.shape[1] for _, y in dense), initial=0))
        side_by_side = np.empty((dense[0][1].shape[0], widths[-1]), order="F")
        for (_, y), left, right in zip(dense, widths, widths[1:], strict=False):
            side_by_side[:, left:right] = y
        product = arrays.multiply(x, tx, side_by_side, False)
        for (at, _), left, right in zip(dense, widths, widths[1:], strict=False):
            products[at] = product[:, left:right]
    return tuple(products[at] for at in range(len(others)))


def _transposed(value: Value, transposed: bool) -> Value:
    return arrays.dense_of(value).T if transposed else value


def _assemble(op: Op, cells: list[arrays.Array]) -> Value:
    """One row of cells is the common case: the columns of a factor side by side."""
    rows, columns = op.grid[:2]
    heights = list(op.grid[2 : 2 + rows])
    widths = list(op.grid[2 + rows : 2 + rows + columns])
    positions = [divmod(at, columns) for at in op.grid[2 + rows + columns :]]
    for (i, j), cell in zip(positions, cells, strict=True):
        heights[i], widths[j] = cell.shape
    tall = sum(heights) >= sum(widths)
    full = len(cells) == rows * columns
    shape = (sum(heights), sum(widths))
    out = (np.empty if full else np.zeros)(shape, order="F" if tall else "C")
    tops, lefts = list(accumulate(heights, initial=0)), list(accumulate(widths, initial=0))
    for (i, j), cell in zip(positions, cells, strict=True):
        out[tops[i] : tops[i + 1], lefts[j] : lefts[j + 1]] = cell
    return out
