"""The APL-style text of linear algebra programs (thesis 6.1, 6.5).

    B := A * A;  C := B B';            # juxtaposition multiplies, ' and ^T transpose
    W := inv(X' * X + 0.5 * eye(3));   # also Z^-1, A^16, powersum(A, 16), iterate(A, B, T0, 16)
    M := [ A, B; C, D ];               # blocks: cells by comma or blank, rows by semicolon

`*` also multiplies by a number. Comments run from # or % to the end of the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.errors import ParseError, Position, ResolutionError, TypingError
from viewlet.linalg import expr as ex
from viewlet.linalg.expr import Expr, Matrix

_TOKENS = re.compile(
    r"(?P<skip>[ \t\r\n]+|[#%][^\n]*)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>:=|[-+*/^'(),;\[\]=])"
)
_FUNCTIONS = ("inv", "eye", "zeros", "transpose", "powersum", "iterate")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: Position
    spaced: bool  # blanks before it: they part the cells of a block


def parse_program(source: str, inputs: Mapping[str, Matrix]) -> list[tuple[str, Expr]]:
    """The statements of a program in order; each may use the inputs and earlier statements."""
    return _Parser(source, dict(inputs)).statements()


def _tokens(source: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = line = 0
    start_of_line = 0
    spaced = False
    while at < len(source):
        position = Position(line + 1, at - start_of_line + 1)
        match = _TOKENS.match(source, at)
        if match is None:
            raise ParseError(f"unexpected character {source[at]!r}", position=position)
        piece = match.group()
        if match.lastgroup == "skip":
            if "\n" in piece:
                line += piece.count("\n")
                start_of_line = at + piece.rindex("\n") + 1
            spaced = True
        else:
            tokens.append(_Token(match.lastgroup or "", piece, position, spaced))
            spaced = False
        at = match.end()
    tokens.append(_Token("end", "", Position(line + 1, at - start_of_line + 1), True))
    return tokens


class _Parser:
    """Recursive descent; a value is a matrix expression or a plain number."""

    def __init__(self, source: str, names: dict[str, Matrix]) -> None:
        self.tokens = _tokens(source)
        self.at = 0
        self.names = names
        self.in_block = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self, text: str | None = None) -> _Token:
        token = self.token
        if text is not None and token.text != text:
            shown = repr(token.text) if token.text else "the end of the text"
            raise ParseError(f"expected {text!r}, found {shown}", position=token.position)
        self.at += 1
        return token

    def statements(self) -> list[tuple[str, Expr]]:
        result: list[tuple[str, Expr]] = []
        while self.token.kind != "end":
            if self.token.text == ";":
                self.take()
                continue
            name = self.take()
            if name.kind != "name":
                raise ParseError(
                    f"a statement starts with a name, found {name.text!r}",
                    position=name.position,
                    hint="write NAME := EXPRESSION;",
                )
            if name.text in self.names or name.text in _FUNCTIONS:
                raise ResolutionError(
                    f"{name.text} is already defined",
                    position=name.position,
                    hint="give every statement a name of its own",
                )
            self.take("=" if self.token.text == "=" else ":=")
            value = self.matrix_value(self.sum(), name.position)
            if self.token.kind != "end":
                self.take(";")
            result.append((name.text, value))
            self.names[name.text] = ex.matrix(name.text, *value.shape)
        if not result:
            raise ParseError("the program has no statement", hint="write NAME := EXPRESSION;")
        return result

    def matrix_value(self, value: Expr | float, position: Position) -> Expr:
        if isinstance(value, Expr):
            return value
        raise TypingError("a number stands where a matrix is needed", position=position)

    def sum(self) -> Expr | float:
        value = self.product()
        while self.token.text in ("+", "-") and not self.cell_starts():
            operator = self.take()
            right = self.product()
            sign = 1.0 if operator.text == "+" else -1.0
            if isinstance(value, float) and isinstance(right, float):
                value = value + sign * right
            else:
                left = self.matrix_value(value, operator.position)
                other = self.matrix_value(right, operator.position)
                value = self.guard(
                    operator, lambda a=left, b=other, s=sign: ex.sum_of((a, ex.scale(s, b)))
                )
        return value

    def cell_starts(self) -> bool:
        """Inside a block `A -B` is two cells and `A - B` or `A-B` one, as in MATLAB."""
        following = self.tokens[self.at + 1]
        return bool(self.in_block and self.token.spaced and not following.spaced)

    def product(self) -> Expr | float:
        value = self.unary()
        while True:
            token = self.token
            if token.text in ("*", "/"):
                self.take()
                right = self.unary()
            elif not self.in_block and (token.kind in ("name", "number") or token.text in "(["):
                if token.kind == "end":
                    return value
                right = self.unary()
            else:
                return value
            value = self.multiply(value, right, token)

    def multiply(self, left: Expr | float, right: Expr | float, token: _Token) -> Expr | float:
        if token.text == "/":
            if isinstance(right, Expr) or right == 0.0:
                raise TypingError(
                    "/ divides by a number other than 0",
                    position=token.position,
                    hint="multiply by inv(...) to divide by a matrix",
                )
            right = 1.0 / right
        if isinstance(left, float) and isinstance(right, float):
            return left * right
        if isinstance(left, float):
            assert isinstance(right, Expr)
            return ex.scale(left, right)
        if isinstance(right, float):
            return ex.scale(right, left)
        return self.guard(token, lambda: ex.product_of((left, right)))

    def unary(self) -> Expr | float:
        if self.token.text in ("-", "+"):
            sign = -1.0 if self.take().text == "-" else 1.0
            value = self.unary()
            return sign * value if isinstance(value, float) else ex.scale(sign, value)
        return self.postfix()

    def postfix(self) -> Expr | float:
        value = self.primary()
        while self.token.text in ("^", "'"):
            token = self.take()
            target = self.matrix_value(value, token.position)
            if token.text == "'":
                value = ex.transpose(target)
            elif self.token.text == "T":
                self.take()
                value = ex.transpose(target)
            else:
                negative = self.token.text == "-"
                if negative:
                    self.take()
                exponent = self.whole_number("the exponent")
                if negative and exponent != 1:
                    raise TypingError(
                        f"^-{exponent} is not in the language",
                        position=token.position,
                        hint="write inv(A)^k for negative powers",
                    )
                value = self.guard(
                    token,
                    lambda t=target, k=exponent, n=negative: ex.inv(t) if n else ex.power(t, k),
                )
        return value

    def primary(self) -> Expr | float:
        token = self.take()
        if token.kind == "number":
            return float(token.text)
        if token.text == "(":
            outside, self.in_block = self.in_block, 0
            value = self.sum()
            self.in_block = outside
            self.take(")")
            return value
        if token.text == "[":
            return self.block(token)
        if token.kind != "name":
            shown = repr(token.text) if token.text else "the end of the text"
            raise ParseError(f"expected a matrix, found {shown}", position=token.position)
        if token.text in _FUNCTIONS and self.token.text == "(":
            outside, self.in_block = self.in_block, 0
            value = self.call(token)
            self.in_block = outside
            return value
        if token.text not in self.names:
            raise ResolutionError(
                f"unknown matrix {token.text}",
                position=token.position,
                hint=f"known here: {', '.join(sorted(self.names)) or 'nothing'}",
            )
        return self.names[token.text]

    def call(self, name: _Token) -> Expr:
        self.take("(")

        def argument() -> Expr:
            return self.matrix_value(self.sum(), name.position)

        def number() -> int:
            self.take(",")
            return self.whole_number("an argument")

        def further() -> Expr:
            self.take(",")
            return argument()

        match name.text:
            case "inv":
                operand = argument()
                result = self.guard(name, lambda: ex.inv(operand))
            case "transpose":
                result = ex.transpose(argument())
            case "eye":
                result = ex.eye(self.whole_number("an argument"))
            case "zeros":
                rows = self.whole_number("an argument")
                result = ex.zeros(rows, number())
            case "powersum":
                base = argument()
                k = number()
                result = self.guard(name, lambda: ex.power_sum(base, k))
            case _:
                a, b, start = argument(), further(), further()
                k = number()
                result = self.guard(name, lambda: ex.iterate(a, start, k, b))
        self.take(")")
        return result

    def block(self, opening: _Token) -> Expr:
        self.in_block += 1
        rows: list[list[Expr]] = [[]]
        while self.token.text != "]":
            if self.token.text == ";":
                self.take()
                rows.append([])
            elif self.token.text == ",":
                self.take()
            else:
                rows[-1].append(self.matrix_value(self.sum(), self.token.position))
        self.take("]")
        self.in_block -= 1
        return self.guard(opening, lambda: ex.block(rows))

    def whole_number(self, what: str) -> int:
        token = self.take()
        if token.kind != "number" or not token.text.isdigit():
            raise ParseError(f"{what} must be a whole number", position=token.position)
        return int(token.text)

    def guard(self, token: _Token, build: object) -> Expr:
        """Give a shape error the place in the text where it arose."""
        try:
            result: Expr = build()  # type: ignore[operator]
        except TypingError as error:
            if error.position is not None:
                raise
            raise TypingError(error.message, position=token.position, hint=error.hint) from None
        return result
