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
from typing import Any, NamedTuple, TypeVar

from viewlet.calculus.expr import (
    PRESENCE,
    Add,
    Assign,
    Cond,
    Delta,
    Each,
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
    children,
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
from viewlet.calculus.fields import Rules
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


PartText = Callable[[Expr], str]
"""How a rule below prints the parts of its node."""

TEXTS: Rules[Callable[[Any, PartText], str]] = Rules("text")


def to_text(expr: Expr) -> str:
    """One line, with the fewest parentheses."""
    return TEXTS[type(expr)](expr, to_text)


def _factor_text(expr: Expr) -> str:
    text = to_text(expr)
    return f"({text})" if isinstance(expr, Add) else text


def rel_text(expr: Rel, part: PartText) -> str:
    """R(x, y)"""
    return f"{expr.name}({', '.join(expr.variables)})"


def delta_text(expr: Delta, part: PartText) -> str:
    """ΔR(x, y)"""
    return f"Δ{expr.name}({', '.join(expr.variables)})"


def map_text(expr: MapRef, part: PartText) -> str:
    """M[x, y].column"""
    column = "" if expr.column == VALUE_COLUMN else f".{expr.column}"
    return f"{expr.name}[{', '.join(expr.keys)}]{column}"


def value_text(expr: Value, part: PartText) -> str:
    """3, x, [f(x)]"""
    return _value_text(expr.scalar)


def cond_text(expr: Cond, part: PartText) -> str:
    """{x < y}"""
    return f"{{{format_scalar(expr.scalar)}}}"


def assign_text(expr: Assign, part: PartText) -> str:
    """(x := [f(y)])"""
    return f"({expr.variable} := {_value_text(expr.scalar)})"


def each_text(expr: Each, part: PartText) -> str:
    """(x := up to [f(y)])"""
    return f"({expr.variable} := up to {_value_text(expr.scalar)})"


def lift_text(expr: Lift, part: PartText) -> str:
    """(x := q)"""
    return f"({expr.variable} := {part(expr.body)})"


def extreme_text(expr: Extreme, part: PartText) -> str:
    """(x := min y in q)"""
    return f"({expr.variable} := {expr.kind} {expr.target} in {part(expr.body)})"


def exists_text(expr: Exists, part: PartText) -> str:
    """Exists(q)"""
    return f"Exists({part(expr.body)})"


def sum_text(expr: Sum, part: PartText) -> str:
    """Sum[x, y](q)"""
    return f"Sum[{', '.join(sorted(expr.keys))}]({part(expr.body)})"


def add_text(expr: Add, part: PartText) -> str:
    """a + b"""
    return " + ".join(part(term) for term in expr.terms)


def mul_text(expr: Mul, part: PartText) -> str:
    """a * (b + c)"""
    return " * ".join(
        f"({part(factor)})" if isinstance(factor, Add) else part(factor) for factor in expr.factors
    )


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
    """A factor: where one line is too short, its parts on lines between its head and its end."""
    pad = " " * indent
    line = pad + _factor_text(expr)
    if len(line) <= width or not children(expr):
        return line
    head, body, end = "(", expr, ")"
    if not isinstance(expr, Add):
        (body,) = children(expr)
        head, _, end = TEXTS[type(expr)](expr, lambda _: "\n").partition("\n")
    return f"{pad}{head.rstrip()}\n{to_lines(body, indent + 2, width)}\n{pad}{end}"


# --- parsing --------------------------------------------------------------------------------------


class Token(NamedTuple):
    """A word of a text, and where it stands."""

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
        self.buffers: set[str] = set()
        """The maps that were declared as buffers."""

    # The token stream.

    @property
    def next(self) -> Token:
        """The token that is read next."""
        return self.tokens[self.at]

    def peek(self, text: str, ahead: int = 0) -> bool:
        """Whether the next token, or one further ahead, is this text."""
        at = self.at + ahead
        return at < len(self.tokens) and self.tokens[at].text == text

    def accept(self, text: str) -> bool:
        """Read this text if it is next, and say whether it was."""
        is_next = self.peek(text) and self.next.kind != "string"
        self.at += is_next
        return is_next

    def expect(self, text: str) -> None:
        """Read this text; anything else is an error at its position."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}")

    def error(self, message: str) -> ParseError:
        """The error to raise at the next token."""
        token = self.next.text or "the end"
        return ParseError(f"{message}, found {token!r}", position=self.next.position)

    def name(self) -> str:
        """One name."""
        if self.next.kind != "name":
            raise self.error("expected a name")
        self.at += 1
        return self.tokens[self.at - 1].text

    def names(self, close: str) -> tuple[str, ...]:
        """NAME, ... and the bracket that closes them."""
        return tuple(self.separated(self.name, close))

    def separated(self, item: Callable[[], T], close: str) -> list[T]:
        """Items between commas up to and with the closing symbol."""
        items: list[T] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    # Expressions.

    def expr(self) -> Expr:
        """TERM + TERM - ..."""
        terms = [self.term()]
        while self.peek("+") or self.peek("-"):
            minus = self.next.text == "-"
            self.at += 1
            term = self.term()
            terms.append(negate(term) if minus else term)
        return sum_of(*terms)

    def term(self) -> Expr:
        """FACTOR * FACTOR * ..."""
        if self.accept("-"):
            return negate(self.term())
        factors = [self.factor()]
        while self.accept("*"):
            factors.append(self.factor())
        return product_of(*factors)

    def factor(self) -> Expr:
        """A number, [scalar], {condition}, (lift or expression), or what begins with a name."""
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
        """R(x), ΔR(x), m[k].c, or a node whose text begins with its name, such as Sum[x](q)."""
        name = self.name()
        if (name, self.next.text) in PREFIXES:
            return PREFIXES[name, self.next.text](self)
        if self.accept("("):
            return Rel(name, self.names(")"))
        if self.accept("["):
            keys = self.names("]")
            column = self.map_column() if self.accept(".") else VALUE_COLUMN
            return MapRef(name, column, keys, name in self.buffers)
        return Value(Ref(name))

    def in_parentheses(self) -> Expr:
        """(EXPR)"""
        self.expect("(")
        body = self.expr()
        self.expect(")")
        return body

    def map_column(self) -> str:
        """The column in m[k].c, or * for whether any column has a value."""
        return PRESENCE if self.accept(PRESENCE) else self.name()

    def lift(self) -> Expr:
        """x := q, x := min y in q, x := [scalar]: the inside of a lift's parentheses."""
        variable = self.name()
        self.expect(":=")
        if self.next.text in VALUE_WORDS and (self.peek("in", 2) or self.peek("to", 1)):
            return VALUE_WORDS[self.next.text](self, variable)
        scalar = self.scalar_alone()
        return lift(variable, self.expr()) if scalar is None else assign(variable, scalar)

    def scalar_alone(self) -> ScalarExpr | None:
        """A number, or a scalar in brackets, up to the closing parenthesis; None if more follows.

        Read here and not as an expression, where 0.0 would become the absorbing 0.
        """
        start = self.at
        if self.accept("["):
            scalar: ScalarExpr | None = self.scalar()
            closed = self.accept("]")
        else:
            sign = -1 if self.accept("-") else 1
            closed = self.next.kind == "number"
            scalar = Const(sign * self.number()) if closed else None
        if closed and self.peek(")"):
            return scalar
        self.at = start
        return None

    # Scalars.

    def scalar(self, strength: int = 1) -> ScalarExpr:
        """Infix operators by strength: a + b * c -> a + (b * c); equal ones to the left."""
        left = self.scalar_primary()
        while self.next.text in _SCALAR_SYMBOLS and self.next.kind != "string":
            name, own = _SCALAR_SYMBOLS[self.next.text]
            if own < strength:
                break
            self.at += 1
            left = apply(name, left, self.scalar(own + 1))
        return left

    def scalar_primary(self) -> ScalarExpr:
        """A constant, a variable, a call or a scalar in parentheses."""
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
        """An integer, or a float where the text has a point or an exponent."""
        if self.next.kind != "number":
            raise self.error("expected a number")
        text = self.next.text
        self.at += 1
        return int(text) if text.isdigit() else float(text)


PREFIXES: dict[tuple[str, str], Callable[[Parser], Expr]] = {}
"""By the word that a factor starts with and the bracket after it: what parses from the bracket."""

VALUE_WORDS: dict[str, Callable[[Parser, str], Expr]] = {}
"""By the word that follows (x :=, which is still to be read: what parses it and the rest."""


def parse_sum(parser: Parser) -> Expr:
    """Sum [x, y](q)"""
    parser.expect("[")
    keys = parser.names("]")
    return sum_over(keys, parser.in_parentheses())


def parse_exists(parser: Parser) -> Expr:
    """Exists (q)"""
    return exists_of(parser.in_parentheses())


def parse_each(parser: Parser, variable: str) -> Expr:
    """(x := up to [f(y)], or up to y"""
    parser.expect("up")
    parser.expect("to")
    scalar = parser.scalar_alone()
    return Each(variable, Ref(parser.name()) if scalar is None else scalar)


def parse_extreme(parser: Parser, variable: str) -> Expr:
    """(x := min y in q"""
    kind, target = parser.name(), parser.name()
    parser.expect("in")
    return extreme(variable, kind, target, parser.expr())


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
    """The text of one scalar -> the scalar."""
    parser = Parser(text)
    scalar = parser.scalar()
    if parser.next.kind != "end":
        raise parser.error("expected the end")
    return scalar
