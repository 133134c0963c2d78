"""LLVM's text, instruction by instruction: the values of a function and the lines written so far.

Kinds of values:  int i64,  float double,  bool i1,  none,  and tuples of kinds, which are kept as
their parts and become a structure of LLVM's only where a function returns one. A value that is
known while code is written (a number of Python) is kept as that number.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from viewlet.errors import UnsupportedError

Kind = Any
"""INT, FLOAT, BOOL, NONE, or a tuple of kinds."""

INT, FLOAT, BOOL, NONE = "int", "float", "bool", "none"
TYPES = {INT: "i64", FLOAT: "double", BOOL: "i1"}
ANNOTATED = {"int": INT, "float": FLOAT, "bool": BOOL, "None": NONE}
"""The kinds that annotations mean."""

RARELY = ", !prof !0"
"""Behind a branch that is seldom taken to its first label; METADATA says what it means."""
METADATA = '!0 = !{!"branch_weights", i32 1, i32 4000}\n'


class Untranslatable(UnsupportedError):
    """Something in a compiled function that is not of the part of Python that is translated."""

    def __init__(self, what: str, node: ast.AST | None = None, *, hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.node = node


_LATER = (str, tuple)


class Value(NamedTuple):
    """`data`: an operand as text, a number of Python, or the values of a tuple."""

    kind: Kind
    data: Any

    @property
    def is_constant(self) -> bool:
        """Whether it is a number already."""
        return not isinstance(self.data, _LATER)


NOTHING = Value(NONE, ())


def constant(number: int | float) -> Value:
    """A number of Python as a value."""
    if isinstance(number, bool):
        return Value(BOOL, number)
    if isinstance(number, int):
        if not -(2**63) <= number < 2**63:
            raise Untranslatable(f"{number} does not fit into 64 bits")
        return Value(INT, number)
    return Value(FLOAT, number)


def operand(value: Value) -> str:
    """A value of one part as LLVM writes it."""
    if isinstance(value.data, str):
        return value.data
    if value.kind == FLOAT:
        return f"0x{struct.pack('>d', value.data).hex().upper()}"
    return str(int(value.data))


def flat(value: Value) -> list[Value]:
    """The parts of a value, of nested tuples as well."""
    if isinstance(value.data, tuple):
        return [part for each in value.data for part in flat(each)]
    return [value]


def flat_kinds(kind: Kind) -> list[str]:
    """The kinds of a value's parts, tuples taken apart."""
    if isinstance(kind, tuple):
        return [part for each in kind for part in flat_kinds(each)]
    return [] if kind == NONE else [kind]


def rebuilt(kind: Kind, parts: Iterable[str]) -> Value:
    """The value of a kind whose parts are these operands, in order."""
    operands = iter(parts)
    if isinstance(kind, str) and kind != NONE:
        return Value(kind, next(operands))

    def build(kind: Kind) -> Value:
        if isinstance(kind, tuple):
            return Value(kind, tuple(build(each) for each in kind))
        return NOTHING if kind == NONE else Value(kind, next(operands))

    return build(kind)


def with_types(values: Iterable[Value]) -> str:
    """`i64 %a, double %b`: arguments of a call."""
    return ", ".join(f"{TYPES[v.kind]} {operand(v)}" for each in values for v in flat(each))


def result_type(kind: Kind, raises: bool) -> str:
    """What a function gives: the parts of its result; first a status, 0 if all is well."""
    types = ["i32"] * raises + [TYPES[part] for part in flat_kinds(kind)]
    if len(types) > 1:
        return f"{{ {', '.join(types)} }}"
    return types[0] if types else "void"


class Exit(NamedTuple):
    """Where a function ends. How is written when it is known whether it can raise at all."""

    value: Value
    status: str = "0"


class Writer:
    """Lines of one function. `reached` says whether anything can get to the next line."""

    def __init__(self) -> None:
        self.lines: list[str | Exit] = []
        self.slots: list[str] = []
        self.declared: dict[str, str] = {}
        self.reached = True
        self._targets: set[str] = set()
        self._names = 0

    def _fresh(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def take(self, text: str) -> str:
        """An instruction with a result; gives the result's name."""
        self._names += 1
        name = f"%v{self._names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def results(
        self, symbol: str, arguments: Iterable[Value], result: Kind, raises: bool
    ) -> list[str]:
        """A call; gives the status, if the function can raise, and the parts of its result."""
        kind = result_type(result, raises)
        text = f'call {kind} @"{symbol}"({with_types(arguments)})'
        if kind == "void":
            self.line(text)
            return []
        returned, count = self.take(text), len(flat_kinds(result)) + raises
        if count == 1:
            return [returned]
        return [self.take(f"extractvalue {kind} {returned}, {part}") for part in range(count)]

    def slot(self, kind: str) -> str:
        """Memory of the function's own, for a variable."""
        return self.room(TYPES[kind])

    def room(self, kind: str) -> str:
        """Memory for a type of LLVM's, one for the whole call however often a line is passed."""
        name = f"%{self._fresh('s')}"
        self.slots.append(f"  {name} = alloca {kind}")
        return name

    def declare(self, name: str, declaration: str) -> None:
        """Something outside of this unit that the function calls."""
        self.declared[name] = declaration

    def label(self) -> str:
        """A new name to jump to."""
        return self._fresh("b")

    def begin(self, label: str) -> None:
        """The next line is where a label points, if anything goes there."""
        self.reached = label in self._targets
        if self.reached:
            self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        """Go on at a label."""
        if self.reached:
            self.line(f"br label %{label}")
            self._targets.add(label)
        self.reached = False

    def branch(self, test: str, then: str, other: str, hint: str = "") -> None:
        """Go on at one of two labels."""
        self._targets |= {then, other}
        self.line(f"br i1 {test}, label %{then}, label %{other}{hint}")
        self.reached = False

    def leave(self, value: Value) -> None:
        """Return a value."""
        self.lines.append(Exit(value))
        self.reached = False

    def leave_if(self, test: str, status: str) -> None:
        """Raise, which nobody expects, or go on."""
        failed, well = self.label(), self.label()
        self.branch(test, failed, well, RARELY)
        self.begin(failed)
        self.lines.append(Exit(NOTHING, status))
        self.begin(well)

    @property
    def raises(self) -> bool:
        """Whether the function can leave with an error."""
        return any(isinstance(line, Exit) and line.status != "0" for line in self.lines)

    def text(self, result: Kind, raises: bool) -> str:
        """The function's body."""
        parts = ["entry:", *self.slots, "  br label %start", "start:"]
        for number, line in enumerate(self.lines):
            parts += _ending(line, result, raises, number) if isinstance(line, Exit) else [line]
        return "\n".join(parts)


def _ending(exit: Exit, result: Kind, raises: bool, line: int) -> list[str]:
    returned_type = result_type(result, raises)
    if returned_type == "void":
        return ["  ret void"]
    missing = [f"{TYPES[kind]} poison" for kind in flat_kinds(result)]
    values = [f"{TYPES[v.kind]} {operand(v)}" for v in flat(exit.value)] or missing
    fields = [f"i32 {exit.status}"] * raises + values
    if len(fields) == 1:
        return [f"  ret {fields[0]}"]
    built, lines = "poison", []
    for field, text in enumerate(fields):
        name = f"%e{line}.{field}"
        lines.append(f"  {name} = insertvalue {returned_type} {built}, {text}, {field}")
        built = name
    return [*lines, f"  ret {returned_type} {built}"]
