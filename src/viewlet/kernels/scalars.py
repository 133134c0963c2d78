"""Scalar expressions as Python source, with NULL as a second expression beside the value.

A value that is NULL has some value of its type all the same (0), so that code can compute on. A
string is its dictionary code; the code of NULL is 0. A scalar over one string variable and
constants is a lookup in a table by code, which Python fills when the dictionary grows: LIKE,
SUBSTRING and comparisons with constants so cost one load, and each string is looked at once.

Everything else that makes or reads strings (concat of two columns, a date as text) is remembered: a
memo has the value for each combination of arguments that has come. A kernel that meets a new one
leaves, as it does when a map is full; Python computes the value, and the kernel goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from viewlet.calculus.typing import Slot, scalar_slot
from viewlet.errors import UnsupportedError
from viewlet.functions import (
    Apply,
    Const,
    Ref,
    ScalarExpr,
    format_scalar,
    free_variables,
    physical_type,
    substitute,
)
from viewlet.schema import Physical

BOOL, INT, FLOAT, STR = Physical.BOOL, Physical.INT, Physical.FLOAT, Physical.STR


@dataclass(frozen=True)
class Variable:
    """A calculus variable as a local of the kernel; nullable ones have a flag beside them."""

    name: str
    slot: Slot

    @property
    def null(self) -> str:
        return f"{self.name}_null"


Scope = Mapping[str, Variable]


@dataclass(frozen=True)
class Code:
    """Source of a value and of its NULL test, None where it is never NULL."""

    value: str
    null: str | None
    physical: Physical


@dataclass(frozen=True)
class Lookup:
    """A function of one string: `scalar` with `variable` as its argument."""

    scalar: ScalarExpr
    variable: str
    physical: Physical


@dataclass(frozen=True)
class Memo:
    """A function of several arguments, whose values are remembered in a map of this name.

    A record has the arguments as its key; its values are FOUND or GAP (the value is NULL), and the
    value.
    """

    name: str
    scalar: ScalarExpr
    arguments: tuple[tuple[str, Slot], ...]
    physical: Physical

    FOUND = 1
    GAP = 2


@dataclass
class Texts:
    """What kernels need to know about strings: lookup tables, memos, the codes of constants."""

    lookups: list[Lookup] = field(default_factory=list)
    memos: list[Memo] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    ranks: bool = False

    def lookup(self, scalar: ScalarExpr, variable: str, physical: Physical) -> int:
        # Names do not matter to a function of one variable.
        plain = Lookup(substitute(scalar, {variable: Ref("text")}), "text", physical)
        if plain not in self.lookups:
            self.lookups.append(plain)
        return self.lookups.index(plain)

    def memo(self, scalar: ScalarExpr, slots: dict[str, Slot], physical: Physical) -> Memo:
        names = {name: f"arg{i}" for i, name in enumerate(slots)}
        plain = substitute(scalar, {name: Ref(argument) for name, argument in names.items()})
        arguments = tuple((names[name], slot) for name, slot in slots.items())
        for known in self.memos:
            if (known.scalar, known.arguments) == (plain, arguments):
                return known
        self.memos.append(Memo(f"memo_{len(self.memos)}", plain, arguments, physical))
        return self.memos[-1]

    def constant(self, text: str) -> int:
        if text not in self.constants:
            self.constants.append(text)
        return self.constants.index(text)


Recall = Callable[[Memo, list[Variable]], str]
"""Writes the search in a memo; gives the local with the address of its record."""


class ScalarWriter:
    """Writes scalars over the variables of a scope."""

    def __init__(self, texts: Texts, recall: Recall) -> None:
        self.texts = texts
        self._recall = recall

    def code(self, scalar: ScalarExpr, scope: Scope) -> Code:
        """The scalar's value and NULL test."""
        if isinstance(scalar, Ref):
            return self._reference(scope[scalar.name])
        if isinstance(scalar, Const):
            return self._constant(scalar)
        physical = physical_type(scalar, {n: v.slot.physical for n, v in scope.items()})
        names = free_variables(scalar)
        if len(names) == 1 and scope[next(iter(names))].slot.physical is STR:
            return self._lookup(scalar, scope[next(iter(names))], next(iter(names)), physical)
        special = _SPECIAL.get(scalar.function)
        if special is not None:
            return special(self, scalar, scope, physical)
        if scalar.function not in _COMPARISONS and self._needs_memo(scalar, scope, physical):
            return self._remembered(scalar, scope, physical)
        parts = [self.code(a, scope) for a in scalar.arguments]
        null = any_of(*(part.null for part in parts))
        if scalar.function in _COMPARISONS:
            return Code(self._compare(scalar, parts), null, BOOL)
        return self._strict(scalar, parts, null, physical)

    def _needs_memo(self, scalar: Apply, scope: Scope, physical: Physical) -> bool:
        """Whether a function that is none of the special ones makes or reads a string."""
        types = {name: variable.slot.physical for name, variable in scope.items()}
        return physical is STR or any(physical_type(a, types) is STR for a in scalar.arguments)

    def _remembered(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        names = sorted(free_variables(scalar))
        slots = {name: scope[name].slot for name in names}
        memo = self.texts.memo(scalar, slots, physical)
        at = self._recall(memo, [scope[name] for name in names])
        word = sum(2 if slot.nullable else 1 for slot in slots.values())
        value = f"{'load_float' if physical is FLOAT else 'load'}({at}, {word + 1})"
        if physical is BOOL:
            value = f"({value} != 0)"
        gap = f"(load({at}, {word}) == {Memo.GAP})"
        return Code(value, gap if scalar_slot(scalar, slots).nullable else None, physical)

    def truth(self, scalar: ScalarExpr, scope: Scope) -> str:
        """Source that is true where the scalar is TRUE: conditions need no NULLs."""
        if isinstance(scalar, Apply) and scalar.function in ("and", "or"):
            parts = [self.truth(a, scope) for a in scalar.arguments]
            names = free_variables(scalar)
            if not (len(names) == 1 and scope[next(iter(names))].slot.physical is STR):
                return "(" + f" {scalar.function} ".join(parts) + ")"
        found = self.code(scalar, scope)
        if found.null is None:
            return found.value
        return f"(not {found.null} and {found.value})"

    def _reference(self, variable: Variable) -> Code:
        null = f"({variable.null} != 0)" if variable.slot.nullable else None
        if variable.slot.physical is BOOL:
            return Code(f"({variable.name} != 0)", null, BOOL)
        return Code(variable.name, null, variable.slot.physical)

    def _constant(self, scalar: Const) -> Code:
        value = scalar.value
        if value is None:
            return Code("0", "True", INT)
        if isinstance(value, bool):
            return Code(repr(value), None, BOOL)
        if isinstance(value, str):
            return Code(f"text_{self.texts.constant(value)}", None, STR)
        if isinstance(value, float):
            return Code(f"float({str(value)!r})" if value != value else _float(value), None, FLOAT)
        if not -(2**63) <= value < 2**63:
            raise UnsupportedError(f"the constant {value} is beyond 64-bit integers")
        return Code(f"({value})" if value < 0 else str(value), None, INT)

    def _lookup(self, scalar: Apply, variable: Variable, name: str, physical: Physical) -> Code:
        number = self.texts.lookup(scalar, name, physical)
        load = "load_float" if physical is FLOAT else "load"
        value = f"{load}(table_{number}, {variable.name})"
        if physical is BOOL:
            value = f"({value} != 0)"
        gap = f"(load_byte(gaps_{number}, {variable.name}) != 0)"
        nullable = scalar_slot(scalar, {name: variable.slot}).nullable
        return Code(value, gap if nullable else None, physical)

    def _compare(self, scalar: Apply, parts: list[Code]) -> str:
        operator = {"=": "==", "<>": "!="}.get(scalar.function, scalar.function)
        left, right = (part.value for part in parts)
        if STR in (part.physical for part in parts) and operator not in ("==", "!="):
            self.texts.ranks = True
            left, right = f"load(ranks, {left})", f"load(ranks, {right})"
        return f"({left} {operator} {right})"

    def _strict(
        self, scalar: Apply, parts: list[Code], null: str | None, physical: Physical
    ) -> Code:
        values = [part.value for part in parts]
        name = scalar.function
        if name in _CHECKED and physical is INT:
            return Code(f"{_CHECKED[name]}({', '.join(values)})", null, INT)
        if name in _CHECKED:
            return Code(f"({values[0]} {name} {values[1]})", null, FLOAT)
        if name == "neg":
            return Code(
                f"minus(0, {values[0]})" if physical is INT else f"(-{values[0]})", null, physical
            )
        if name in ("/", "div", "mod"):
            function = {"/": "divide", "div": "divide_whole"}.get(
                name, "modulo" if physical is INT else "modulo_float"
            )
            if name == "/":
                values = [f"float({value})" for value in values]
            zero = f"({values[1]} == 0)"
            return Code(f"{function}({', '.join(values)})", any_of(null, zero), physical)
        if name in ("sqrt", "ln"):
            test = f"({values[0]} < 0)" if name == "sqrt" else f"({values[0]} <= 0)"
            function = "root" if name == "sqrt" else "logarithm"
            return Code(f"{function}(float({values[0]}))", any_of(null, test), FLOAT)
        if name == "to_int":
            gap = f"(not isfinite({values[0]}))"
            return Code(f"to_int(float({values[0]}))", any_of(null, gap), INT)
        if name in ("least", "greatest"):
            function = "min" if name == "least" else "max"
            if physical is FLOAT:
                values = [f"float({value})" for value in values]
            return Code(f"{function}({', '.join(values)})", null, physical)
        if name == "not":
            return Code(f"(not {values[0]})", null, BOOL)
        if name == "bool_to_int":
            return Code(f"(1 if {values[0]} else 0)", null, INT)
        if name in _PLAIN:
            function, cast = _PLAIN[name]
            if cast:
                values[0] = f"float({values[0]})"
            return Code(f"{function}({', '.join(values)})", null, physical)
        if name.startswith(("date_", "timestamp_")) and physical is INT:
            return Code(f"{name}({', '.join(values)})", null, INT)
        raise UnsupportedError(f"{format_scalar(scalar)} has no native form")

    # Functions that look at NULL themselves.

    def _same(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        left, right = (self.code(a, scope) for a in scalar.arguments)
        equal = f"({left.value} == {right.value})"
        if left.null is None and right.null is None:
            return Code(equal, None, BOOL)
        if left.null is None or right.null is None:
            return Code(f"(not {left.null or right.null} and {equal})", None, BOOL)
        both = f"({left.null} and {right.null})"
        one = f"({left.null} or {right.null})"
        return Code(f"({both} or (not {one} and {equal}))", None, BOOL)

    def _is_null(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        return Code(self.code(scalar.arguments[0], scope).null or "False", None, BOOL)

    def _is_true(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        return Code(self.truth(scalar.arguments[0], scope), None, BOOL)

    def _junction(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        """and: FALSE wins over NULL; or: TRUE wins over NULL."""
        parts = [self.code(a, scope) for a in scalar.arguments]
        value = "(" + f" {scalar.function} ".join(self._firm(p, scalar) for p in parts) + ")"
        null = any_of(*(part.null for part in parts))
        if null is None:
            return Code(value, None, BOOL)
        if scalar.function == "or":
            return Code(value, f"({null} and not {value})", BOOL)
        decided = any_of(*(f"(not {p.null or 'False'} and not {p.value})" for p in parts))
        return Code(value, f"({null} and not {decided})", BOOL)

    def _firm(self, part: Code, scalar: Apply) -> str:
        return part.value if part.null is None else f"(not {part.null} and {part.value})"

    def _in(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        value, *candidates = scalar.arguments
        tests = tuple(Apply("=", (value, c)) for c in candidates)
        if len(tests) == 1:
            return self.code(tests[0], scope)
        return self._junction(Apply("or", tests), scope, physical)

    def _case(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        *branches, otherwise = scalar.arguments
        last = self._as(self.code(otherwise, scope), physical)
        value, null = last.value, last.null
        for test, then in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            condition, found = self.truth(test, scope), self._as(self.code(then, scope), physical)
            value = f"({found.value} if {condition} else {value})"
            if null is not None or found.null is not None:
                null = f"({found.null or 'False'} if {condition} else {null or 'False'})"
        return Code(value, null, physical)

    def _as(self, part: Code, physical: Physical) -> Code:
        """The branches of a choice have one type."""
        if part.null == "True":
            zero = {FLOAT: "0.0", BOOL: "False"}.get(physical, "0")
            return Code(zero, part.null, physical)
        if physical is FLOAT and part.physical is INT:
            return Code(f"float({part.value})", part.null, physical)
        return part

    def _coalesce(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        parts = [self._as(self.code(a, scope), physical) for a in scalar.arguments]
        value, null = parts[-1].value, parts[-1].null
        for part in reversed(parts[:-1]):
            if part.null is None:
                value, null = part.value, None
            else:
                value = f"({value} if {part.null} else {part.value})"
                null = f"({part.null} and {null})" if null is not None else None
        return Code(value, null, physical)

    def _nullif(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        left = self.code(scalar.arguments[0], scope)
        same = self._same(Apply("==", scalar.arguments), scope, BOOL)
        return Code(left.value, any_of(left.null, same.value), physical)

    def _known(self, scalar: Apply, scope: Scope, physical: Physical) -> Code:
        """The least or greatest of those that are not NULL, two by two."""
        first, *others = scalar.arguments
        operator = "<=" if scalar.function == "least_known" else ">="
        for other in others:
            nearer = Apply("or", (Apply(operator, (first, other)), Apply("is_null", (other,))))
            first = Apply("case", (nearer, first, other))
        return self.code(first, scope)


def any_of(*tests: str | None) -> str | None:
    """One test out of several that may be absent."""
    found = list(dict.fromkeys(test for test in tests if test is not None))
    if not found:
        return None
    return found[0] if len(found) == 1 else "(" + " or ".join(found) + ")"


def _float(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "(-inf)"
    return f"({value!r})" if value < 0 else repr(value)


_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_CHECKED = {"+": "plus", "-": "minus", "*": "times"}
_PLAIN = {
    "abs": ("abs", False),
    "floor": ("floor", True),
    "ceil": ("ceil", True),
    "round": ("round_half_away", True),
    "exp": ("exp", True),
    "power": ("pow", True),
    "sign": ("sign", False),
    "rescale": ("rescale", False),
    "decimal_floor": ("decimal_floor", False),
    "decimal_ceil": ("decimal_ceil", False),
    "to_float": ("float", False),
}
_SPECIAL = {
    "==": ScalarWriter._same,
    "in": ScalarWriter._in,
    "is_null": ScalarWriter._is_null,
    "is_true": ScalarWriter._is_true,
    "and": ScalarWriter._junction,
    "or": ScalarWriter._junction,
    "case": ScalarWriter._case,
    "coalesce": ScalarWriter._coalesce,
    "nullif": ScalarWriter._nullif,
    "least_known": ScalarWriter._known,
    "greatest_known": ScalarWriter._known,
}
