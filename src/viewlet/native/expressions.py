"""Expressions of compiled functions -> instructions.

What two kinds have in common is the wider one of  bool < int < float,  as in Python. `and` and `or`
are of truths only, so that they give what they were given; comparisons may be chained.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from viewlet.native.instructions import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    TYPES,
    Kind,
    Untranslatable,
    Value,
    Writer,
    constant,
    flat,
    operand,
    rebuilt,
)
from viewlet.native.intrinsics import INTRINSICS, Intrinsic
from viewlet.native.lowerings import ABSOLUTE, divide, floor_divide, to_int

_WIDTH = {BOOL: 0, INT: 1, FLOAT: 2}

_PLAIN: dict[type[ast.operator], dict[str, str]] = {
    ast.Add: {INT: "add", FLOAT: "fadd"},
    ast.Sub: {INT: "sub", FLOAT: "fsub"},
    ast.Mult: {INT: "mul", FLOAT: "fmul"},
    ast.BitAnd: {BOOL: "and", INT: "and"},
    ast.BitOr: {BOOL: "or", INT: "or"},
    ast.BitXor: {BOOL: "xor", INT: "xor"},
    ast.LShift: {INT: "shl"},
    ast.RShift: {INT: "ashr"},
}
_COMPARED: dict[type[ast.cmpop], dict[str, str]] = {
    ast.Eq: {BOOL: "icmp eq", INT: "icmp eq", FLOAT: "fcmp oeq"},
    ast.NotEq: {BOOL: "icmp ne", INT: "icmp ne", FLOAT: "fcmp une"},
    ast.Lt: {BOOL: "icmp ult", INT: "icmp slt", FLOAT: "fcmp olt"},
    ast.LtE: {BOOL: "icmp ule", INT: "icmp sle", FLOAT: "fcmp ole"},
    ast.Gt: {BOOL: "icmp ugt", INT: "icmp sgt", FLOAT: "fcmp ogt"},
    ast.GtE: {BOOL: "icmp uge", INT: "icmp sge", FLOAT: "fcmp oge"},
}
_CONSTANT_FOLDS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CASTS = {int: INT, float: FLOAT, bool: BOOL}


class Expressions(Writer):
    """`names` are variables and arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, Value] = {}
        """A variable's value holds the addresses of its parts; a known one is its number."""

    def outside(self, name: str) -> Any:
        """What the function finds around it."""
        raise NotImplementedError

    def call(self, function: Any, arguments: list[Value]) -> Value:
        """A call of another compiled function."""
        raise NotImplementedError

    # Kinds.

    def converted(self, value: Value, kind: Kind) -> Value:
        """The same number of another kind, for which there must be room."""
        if value.kind == kind:
            return value
        if isinstance(kind, tuple) and isinstance(value.kind, tuple):
            if len(kind) != len(value.kind):
                raise Untranslatable(f"{value.kind} where {kind} is expected")
            parts = zip(value.data, kind, strict=True)
            return Value(kind, tuple(self.converted(part, each) for part, each in parts))
        if kind not in _WIDTH or value.kind not in _WIDTH or _WIDTH[value.kind] > _WIDTH[kind]:
            raise Untranslatable(f"{value.kind} where {kind} is expected")
        if value.is_constant:
            return constant(float(value.data) if kind == FLOAT else int(value.data))
        if value.kind == BOOL:
            value = Value(INT, self.take(f"zext i1 {value.data} to i64"))
        if kind == FLOAT:
            value = Value(FLOAT, self.take(f"sitofp i64 {value.data} to double"))
        return value

    def common(self, *values: Value) -> list[Value]:
        """All of the widest kind among them."""
        kinds = [value.kind for value in values]
        if kinds.count(kinds[0]) == len(kinds):
            return [*values]
        if any(kind not in _WIDTH for kind in kinds):
            if len(set(kinds)) > 1:
                raise Untranslatable(f"{kinds[0]} beside {kinds[1]}")
            return [*values]
        widest = max(kinds, key=_WIDTH.__getitem__)
        return [self.converted(value, widest) for value in values]

    def truth(self, value: Value) -> Value:
        """Whether a value counts as true: not zero."""
        if value.is_constant:
            return constant(bool(value.data))
        if value.kind == INT:
            return Value(BOOL, self.take(f"icmp ne i64 {value.data}, 0"))
        if value.kind == FLOAT:
            return Value(BOOL, self.take(f"fcmp une double {value.data}, 0.0"))
        if value.kind != BOOL:
            raise Untranslatable(f"the truth of {value.kind}")
        return value

    # Expressions.

    def value(self, node: ast.expr) -> Value:
        """An expression's value."""
        try:
            translate = _EXPRESSIONS[type(node)]
        except KeyError:
            raise Untranslatable(f"{ast.unparse(node)}, which is no number", node) from None
        return translate(self, node)

    def _constant(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, int | float):
            raise Untranslatable(f"{node.value!r}, which is no number", node)
        return constant(node.value)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.loaded(self.names[node.id])
        number = self.outside(node.id)
        if not isinstance(number, int | float):
            raise Untranslatable(f"{node.id}, which is no number", node)
        return constant(number)

    def loaded(self, variable: Value) -> Value:
        """What a variable holds now."""
        kind, slot = variable
        if isinstance(slot, str):
            return Value(kind, self.take(f"load {TYPES[kind]}, ptr {slot}"))
        if variable.is_constant:
            return variable
        parts = flat(variable)
        return rebuilt(
            variable.kind,
            [self.take(f"load {TYPES[part.kind]}, ptr {part.data}") for part in parts],
        )

    def _tuple(self, node: ast.Tuple) -> Value:
        parts = tuple(self.value(each) for each in node.elts)
        return Value(tuple(part.kind for part in parts), parts)

    def _subscript(self, node: ast.Subscript) -> Value:
        value, index = self.value(node.value), self.value(node.slice)
        if not isinstance(value.kind, tuple) or not index.is_constant:
            raise Untranslatable(f"{ast.unparse(node)}: only known parts of tuples", node)
        part: Value = value.data[index.data]
        return part

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self._constant(ast.Constant(-node.operand.value))  # type: ignore[operator]
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            value = self.truth(value)
            return (
                constant(not value.data)
                if value.is_constant
                else Value(BOOL, self.take(f"xor i1 {value.data}, true"))
            )
        if isinstance(node.op, ast.USub) and value.is_constant:
            return constant(-value.data)
        if isinstance(node.op, ast.USub) and value.kind == FLOAT:
            return Value(FLOAT, self.take(f"fneg double {value.data}"))
        value = self.converted(value, INT)
        if isinstance(node.op, ast.USub):
            return Value(INT, self.take(f"sub i64 0, {operand(value)}"))
        if not isinstance(node.op, ast.Invert):
            raise Untranslatable(ast.unparse(node), node)
        if value.is_constant:
            return constant(~value.data)
        return Value(INT, self.take(f"xor i64 {value.data}, -1"))

    def _binary(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        """left op right."""
        if left.is_constant and right.is_constant and type(op) in _CONSTANT_FOLDS:
            return constant(_CONSTANT_FOLDS[type(op)](left.data, right.data))
        if isinstance(op, ast.Div | ast.Pow):
            a, b = (operand(self.converted(value, FLOAT)) for value in (left, right))
            if isinstance(op, ast.Pow):
                return Value(FLOAT, INTRINSICS[pow].lower(self, a, b))
            return Value(FLOAT, divide(self, a, b))
        if isinstance(op, ast.FloorDiv | ast.Mod):
            return self._floor(op, left, right)
        left, right = self.common(left, right)
        names = _PLAIN.get(type(op), {})
        if left.kind == BOOL and BOOL not in names:
            left, right = self.converted(left, INT), self.converted(right, INT)
        if left.kind not in names:
            raise Untranslatable(f"{type(op).__name__} of {left.kind}")
        written = f"{names[left.kind]} {TYPES[left.kind]} {operand(left)}, {operand(right)}"
        return Value(left.kind, self.take(written))

    def _floor(self, op: ast.operator, left: Value, right: Value) -> Value:
        left, right = self.converted(left, INT), self.converted(right, INT)
        divisor = right.data if right.is_constant and right.data > 0 else None
        both = floor_divide(self, operand(left), operand(right), divisor)
        return Value(INT, both[isinstance(op, ast.Mod)])

    def _compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1:
            left, right = self.value(node.left), self.value(node.comparators[0])
            return self._compared(node.ops[0], left, right)
        pieces: list[ast.expr] = []
        left_node = node.left
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            pieces.append(ast.Compare(left_node, [op], [right_node]))
            left_node = right_node
        # The middle is looked at twice: it is a name or a number wherever comparisons are chained.
        return self._both(ast.BoolOp(ast.And(), pieces))

    def _compared(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        if left.is_constant and right.is_constant:
            return constant(_CONSTANT_FOLDS[type(op)](left.data, right.data))
        left, right = self.common(left, right)
        names = _COMPARED.get(type(op), {})
        if left.kind not in names:
            raise Untranslatable(f"{type(op).__name__} of {left.kind}")
        written = f"{names[left.kind]} {TYPES[left.kind]} {operand(left)}, {operand(right)}"
        return Value(BOOL, self.take(written))

    def _both(self, node: ast.BoolOp) -> Value:
        """a and b and ...: a later one is looked at only where that decides."""
        stops = isinstance(node.op, ast.Or)
        result = self.slot(BOOL)
        end = self.label()
        for each in node.values:
            value = self.value(each)
            if value.kind != BOOL:
                raise Untranslatable(f"{ast.unparse(each)}, which is no truth", node)
            self.line(f"store i1 {operand(value)}, ptr {result}")
            if each is not node.values[-1]:
                further = self.label()
                targets = (end, further) if stops else (further, end)
                self.branch(operand(value), *targets)
                self.begin(further)
        self.jump(end)
        self.begin(end)
        return Value(BOOL, self.take(f"load i1, ptr {result}"))

    def _choice(self, node: ast.IfExp) -> Value:
        """a if test else b: both where neither can fail or do anything, else one of them."""
        test = self.truth(self.value(node.test))
        if test.is_constant:
            return self.value(node.body if test.data else node.orelse)
        then, other, end = self.label(), self.label(), self.label()
        self.branch(test.data, then, other)
        first, first_lines = self._apart(then, node.body)
        second, second_lines = self._apart(other, node.orelse)
        kind = self._widest(first.kind, second.kind)
        slots = self.variable(kind)
        for value, lines in ((first, first_lines), (second, second_lines)):
            self.lines += lines
            self.reached = True
            self.stored(slots, value)
            self.jump(end)
        self.begin(end)
        return self.loaded(slots)

    def _apart(self, label: str, node: ast.expr) -> tuple[Value, list[Any]]:
        """An expression behind a label, its lines apart until both kinds are known."""
        before, self.lines = self.lines, []
        self.begin(label)
        value = self.value(node)
        lines, self.lines = self.lines, before
        return value, lines

    def _widest(self, first: Kind, second: Kind) -> Kind:
        if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
            return tuple(self._widest(a, b) for a, b in zip(first, second, strict=True))
        if first == second:
            return first
        if first not in _WIDTH or second not in _WIDTH:
            raise Untranslatable(f"{first} or else {second}")
        return max(first, second, key=_WIDTH.__getitem__)

    # Variables.

    def variable(self, kind: Kind) -> Value:
        """Memory for a value of a kind."""
        if isinstance(kind, tuple):
            return Value(kind, tuple(self.variable(each) for each in kind))
        if kind == NONE:
            raise Untranslatable("a variable for the result of a function that gives none")
        return Value(kind, self.slot(kind))

    def stored(self, variable: Value, value: Value) -> None:
        """Give a variable a value."""
        value = self.converted(value, variable.kind)
        for slot, part in zip(flat(variable), flat(value), strict=True):
            self.line(f"store {TYPES[part.kind]} {operand(part)}, ptr {slot.data}")

    # Calls.

    def called(self, node: ast.expr) -> Any:
        """The object that a call's function is."""
        if isinstance(node, ast.Attribute):
            return getattr(self.called(node.value), node.attr)
        if not isinstance(node, ast.Name):
            raise Untranslatable(f"a call of {ast.unparse(node)}", node)
        return self.outside(node.id)

    def _call(self, node: ast.Call) -> Value:
        if node.keywords:
            raise Untranslatable(f"{ast.unparse(node)}: arguments by name", node)
        function = self.called(node.func)
        arguments = [self.value(each) for each in node.args]
        intrinsic = INTRINSICS.get(function)
        if intrinsic is not None:
            return self._lowered(intrinsic, arguments)
        special = _SPECIAL.get(function)
        if special is not None:
            return special(self, *arguments)
        if function in _CASTS:
            return self._cast(_CASTS[function], *arguments)
        return self.call(function, arguments)

    def _lowered(self, intrinsic: Intrinsic, arguments: list[Value]) -> Value:
        if len(arguments) != len(intrinsic.arguments):
            raise Untranslatable(f"{len(arguments)} arguments instead of {intrinsic.arguments}")
        pairs = zip(arguments, intrinsic.arguments, strict=True)
        result = intrinsic.lower(self, *(operand(self.converted(a, kind)) for a, kind in pairs))
        return Value(intrinsic.result, result or ())

    def _cast(self, kind: str, value: Value) -> Value:
        if kind == BOOL:
            return self.truth(value)
        if kind == INT and value.kind == FLOAT:
            return Value(INT, to_int(self, operand(value)))
        return self.converted(value, kind)

    def _length(self, value: Value) -> Value:
        if not isinstance(value.kind, tuple):
            raise Untranslatable(f"the length of {value.kind}")
        return constant(len(value.kind))

    def _absolute(self, value: Value) -> Value:
        value = self.common(value, constant(0))[0]
        return Value(value.kind, ABSOLUTE[value.kind](self, operand(value)))

    def _least(self, *values: Value) -> Value:
        return reduce(partial(self._better, ast.Lt()), values)

    def _largest(self, *values: Value) -> Value:
        return reduce(partial(self._better, ast.Gt()), values)

    def _better(self, op: ast.cmpop, first: Value, second: Value) -> Value:
        """As in Python, the second only if it is better: with NaN, the first."""
        first, second = self.common(first, second)
        test = operand(self._compared(op, second, first))
        kind = TYPES[first.kind]
        chosen = f"select i1 {test}, {kind} {operand(second)}, {kind} {operand(first)}"
        return Value(first.kind, self.take(chosen))


_EXPRESSIONS: dict[type[ast.expr], Callable[[Any, Any], Value]] = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Tuple: Expressions._tuple,
    ast.Subscript: Expressions._subscript,
    ast.UnaryOp: Expressions._unary,
    ast.BinOp: Expressions._binary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._both,
    ast.IfExp: Expressions._choice,
    ast.Call: Expressions._call,
}
_SPECIAL: dict[Any, Callable[..., Value]] = {
    len: Expressions._length,
    abs: Expressions._absolute,
    min: Expressions._least,
    max: Expressions._largest,
}
