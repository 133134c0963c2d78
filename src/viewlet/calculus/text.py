"""Expressions as text, and back: `parse(to_text(q)) == q` for every expression in normal form.

expr    := ['-'] term (('+' | '-') term)*        term := factor ('*' factor)*
factor  := number | name | name '(' names ')' | 'Δ' name '(' names ')'
         | name '[' names ']' ['.' (name | '*')] | '[' scalar ']' | '{' scalar '}'
         | '(' name ':=' (('min' | 'max') name 'in')? expr ')'
         | 'Sum' '[' names ']' '(' expr ')' | 'Exists' '(' expr ')' | '(' expr ')'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

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
    assign,
    cond,
    constant,
    exists_of,
    extreme,
    lift,
    negate,
    product_of,
    sum_of,
    sum_over,
)
from viewlet.errors import ParseError, Position
from viewlet.functions import (
    FALSE,
    FUNCTIONS,
    INFIX,
    NULL,
    TRUE,
    Const,
    Ref,
    ScalarExpr,
    apply,
    format_scalar,
)

T = TypeVar("T")

VALUE_COLUMN = "value"
"""The value column of a map that has only one."""


def to_text(expr: Expr) -> str:
    """One line, with the fewest parentheses."""
    if isinstance(expr, Add):
        return " + ".join(to_text(term) for term in expr.terms)
    if isinstance(expr, Mul):
        return " * ".join(_factor_text(factor) for factor in expr.factors)
    return _factor_text(expr)


def _factor_text(expr: Expr) -> str:
    if isinstance(expr, Rel):
        return f"{expr.name}({', '.join(expr.variables)})"
    if isinstance(expr, Delta):
        return f"Δ{expr.name}({', '.join(expr.variables)})"
    if isinstance(expr, MapRef):
        column = "" if expr.column == VALUE_COLUMN else f".{expr.column}"
        return f"{expr.name}[{', '.join(expr.keys)}]{column}"
    if isinstance(expr, Value):
        return _value_text(expr.scalar)
    if isinstance(expr, Cond):
        return f"{{{format_scalar(expr.scalar)}}}"
    if isinstance(expr, Assign):
        return f"({expr.variable} := {_value_text(expr.scalar)})"
    if isinstance(expr, Lift):
        return f"({expr.variable} := {to_text(expr.body)})"
    if isinstance(expr, Extreme):
        return f"({expr.variable} := {expr.kind} {expr.target} in {to_text(expr.body)})"
    if isinstance(expr, Exists):
        return f"Exists({to_text(expr.body)})"
    if isinstance(expr, Sum):
        return f"Sum[{', '.join(expr.keys)}]({to_text(expr.body)})"
    return f"({to_text(expr)})"


def _value_text(scalar: ScalarExpr) -> str:
    """Numbers and variables stand for themselves, other scalars in brackets."""
    bare = isinstance(scalar, Ref) or (
        isinstance(scalar, Const)
        and isinstance(scalar.value, int | float)
        and not isinstance(scalar.value, bool)
    )
    return format_scalar(scalar) if bare else f"[{format_scalar(scalar)}]"


def to_lines(expr: Expr, indent: int = 0, width: int = 100) -> str:
    """Several lines where one would be too long: a line for each term and factor."""
    pad = " " * indent
    line = pad + to_text(expr)
    if len(line) <= width:
        return line
    if isinstance(expr, Add):
        return f"\n{pad}+ ".join(to_lines(t, indent + 2, width).lstrip() for t in expr.terms).join(
            (pad + "  ", "")
        )
    if isinstance(expr, Mul):
        parts = [_wrapped(factor, indent, width) for factor in expr.factors]
        return " *\n".join(parts)
    return _wrapped(expr, indent, width)


def _wrapped(expr: Expr, indent: int, width: int) -> str:
    pad = " " * indent
    line = pad + _factor_text(expr)
    if len(line) <= width:
        return line
    if isinstance(expr, Sum):
        head, body = f"Sum[{', '.join(expr.keys)}](", expr.body
    elif isinstance(expr, Exists):
        head, body = "Exists(", expr.body
    elif isinstance(expr, Lift):
        head, body = f"({expr.variable} :=", expr.body
    elif isinstance(expr, Extreme):
        head, body = f"({expr.variable} := {expr.kind} {expr.target} in", expr.body
    elif isinstance(expr, Add):
        head, body = "(", expr
    else:
        return line
    return f"{pad}{head}\n{to_lines(body, indent + 2, width)}\n{pad})"


# --- parsing --------------------------------------------------------------------------------------


class Token(NamedTuple):
    kind: str
    text: str
    position: Position


_TOKENS = re.compile(
    r"(?P<space>\s+|\#[^\n]*)"
    r"|(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+|\binf\b|\bnan\b)"
    r"|(?P<string>'(?:[^']|'')*')"
    r"|(?P<name>[@A-Za-z_][\w@$#]*)"
    r"|(?P<symbol>:=|\+=|<=|>=|<>|==|[-+*/()\[\]{},.<>=Δ:;|?])"
)

_SCALAR_SYMBOLS = {symbol: (name, strength) for name, (symbol, strength) in INFIX.items()}


class Parser:
    """A recursive-descent parser over one text; `program.text` builds on it."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokenise(text)
        self.at = 0

    # The token stream.

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def peek(self, text: str, ahead: int = 0) -> bool:
        at = self.at + ahead
        return at < len(self.tokens) and self.tokens[at].text == text

    def accept(self, text: str) -> bool:
        found = self.peek(text) and self.next.kind != "string"
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}")

    def error(self, message: str) -> ParseError:
        found = self.next.text or "the end"
        return ParseError(f"{message}, found {found!r}", position=self.next.position)

    def name(self) -> str:
        if self.next.kind != "name":
            raise self.error("expected a name")
        self.at += 1
        return self.tokens[self.at - 1].text

    def names(self, close: str) -> tuple[str, ...]:
        return tuple(self.separated(self.name, close))

    def separated(self, item: Callable[[], T], close: str) -> list[T]:
        """Items between commas up to and with the closing symbol."""
        found: list[T] = []
        while not self.accept(close):
            if found:
                self.expect(",")
            found.append(item())
        return found

    # Expressions.

    def expr(self) -> Expr:
        terms = [self.term()]
        while self.peek("+") or self.peek("-"):
            minus = self.next.text == "-"
            self.at += 1
            term = self.term()
            terms.append(negate(term) if minus else term)
        return sum_of(*terms)

    def term(self) -> Expr:
        if self.accept("-"):
            return negate(self.term())
        factors = [self.factor()]
        while self.accept("*"):
            factors.append(self.factor())
        return product_of(*factors)

    def factor(self) -> Expr:
        if self.accept("-"):
            return negate(self.factor())
        if self.next.kind == "number":
            return constant(self.number())
        if self.accept("["):
            scalar = self.scalar()
            self.expect("]")
            return Value(scalar)
        if self.accept("{"):
            scalar = self.scalar()
            self.expect("}")
            return cond(scalar)
        if self.accept("Δ"):
            name = self.name()
            self.expect("(")
            return Delta(name, self.names(")"))
        if self.accept("("):
            inner = self.lift() if self.peek(":=", 1) else self.expr()
            self.expect(")")
            return inner
        return self.named()

    def named(self) -> Expr:
        name = self.name()
        if name == "Sum" and self.accept("["):
            keys = self.names("]")
            self.expect("(")
            body = self.expr()
            self.expect(")")
            return sum_over(keys, body)
        if name == "Exists" and self.accept("("):
            body = self.expr()
            self.expect(")")
            return exists_of(body)
        if self.accept("("):
            return Rel(name, self.names(")"))
        if self.accept("["):
            keys = self.names("]")
            return MapRef(name, self.map_column() if self.accept(".") else VALUE_COLUMN, keys)
        return Value(Ref(name))

    def map_column(self) -> str:
        return PRESENCE if self.accept(PRESENCE) else self.name()

    def lift(self) -> Expr:
        variable = self.name()
        self.expect(":=")
        if self.next.text in ("min", "max") and self.peek("in", 2):
            kind, target = self.name(), self.name()
            self.expect("in")
            return extreme(variable, kind, target, self.expr())
        scalar = self.whole_scalar()
        return lift(variable, self.expr()) if scalar is None else assign(variable, scalar)

    def whole_scalar(self) -> ScalarExpr | None:
        """A scalar in brackets up to the closing parenthesis; None if there is more to come."""
        start = self.at
        if self.accept("["):
            scalar = self.scalar()
            if self.accept("]") and self.peek(")"):
                return scalar
        self.at = start
        return None

    # Scalars.

    def scalar(self, strength: int = 1) -> ScalarExpr:
        left = self.scalar_primary()
        while self.next.text in _SCALAR_SYMBOLS and self.next.kind != "string":
            name, own = _SCALAR_SYMBOLS[self.next.text]
            if own < strength:
                break
            self.at += 1
            left = apply(name, left, self.scalar(own + 1))
        return left

    def scalar_primary(self) -> ScalarExpr:
        token = self.next
        if token.kind == "number":
            return Const(self.number())
        if token.kind == "string":
            self.at += 1
            return Const(token.text[1:-1].replace("''", "'"))
        if self.accept("-"):
            return Const(-self.number())
        if self.accept("("):
            inner = self.scalar()
            self.expect(")")
            return inner
        name = self.function_or_name()
        if self.accept("("):
            if name not in FUNCTIONS:
                raise ParseError(f"unknown function {name}", position=token.position)
            return apply(name, *self.separated(self.scalar, ")"))
        return {"TRUE": TRUE, "FALSE": FALSE, "NULL": NULL}.get(name, Ref(name))

    def function_or_name(self) -> str:
        """Symbols may stand before their arguments too: and(a, b, c)."""
        if self.next.text in INFIX and self.peek("(", 1):
            self.at += 1
            return self.tokens[self.at - 1].text
        return self.name()

    def number(self) -> int | float:
        if self.next.kind != "number":
            raise self.error("expected a number")
        text = self.next.text
        self.at += 1
        return int(text) if text.isdigit() else float(text)


def _tokenise(text: str) -> list[Token]:
    tokens: list[Token] = []
    at, line, start = 0, 1, 0
    while at < len(text):
        position = Position(line, at - start + 1)
        match = _TOKENS.match(text, at)
        if match is None:
            raise ParseError(f"unexpected character {text[at]!r}", position=position)
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match.group(), position))
        newlines = match.group().count("\n")
        if newlines:
            line += newlines
            start = match.start() + match.group().rindex("\n") + 1
        at = match.end()
    tokens.append(Token("end", "", Position(line, at - start + 1)))
    return tokens


def parse(text: str) -> Expr:
    """The expression that a text stands for."""
    parser = Parser(text)
    expr = parser.expr()
    if parser.next.kind != "end":
        raise parser.error("expected the end")
    return expr


def parse_scalar(text: str) -> ScalarExpr:
    parser = Parser(text)
    scalar = parser.scalar()
    if parser.next.kind != "end":
        raise parser.error("expected the end")
    return scalar
