"""Values between commas, as EXECUTE has them: where each ends, and which of them are literals.

1, f(b, c), 'x'  ->  1, a number;  f(b, c), no literal;  x, a string
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError
from viewlet.frontend.parse import SourceText, split

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


class LiteralKind(Enum):
    """What a value is by its words alone."""

    NULL = "null"
    STRING = "string"
    NUMBER = "number"
    NONE = "no literal"


@dataclass(frozen=True)
class ListedValue:
    """A value as it is written, and what it says if it is a literal."""

    text: str
    kind: LiteralKind
    content: str


def listed_values(text: str) -> list[ListedValue]:
    """The values of a list, in their order."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in next(iter(split(SourceText(text))), []):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth < 0:
            raise ParseError("a bracket closes that was not opened")
        if token.token_type is TokenType.COMMA and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    if depth or (len(parts) > 1 and not all(parts)):
        raise ParseError("a list of values is not understood", hint="(1, 'a')")
    return [_value(text[part[0].start : part[-1].end + 1], part) for part in parts if part]


def _value(text: str, tokens: list[Token]) -> ListedValue:
    kinds = [token.token_type for token in tokens]
    if kinds == [TokenType.NULL]:
        return ListedValue(text, LiteralKind.NULL, "")
    if kinds == [TokenType.STRING]:
        return ListedValue(text, LiteralKind.STRING, tokens[0].text)
    if kinds[-1:] == [TokenType.NUMBER] and kinds[:-1] in ([], [TokenType.DASH]):
        return ListedValue(text, LiteralKind.NUMBER, re.sub(r"\s", "", text))
    return ListedValue(text, LiteralKind.NONE, "")
