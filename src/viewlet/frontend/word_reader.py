"""Reads the tokens of a short statement one after the other: words, names, what is between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position

Positions = Callable[[int], Position]
"""The line and column of an offset in the text."""


class WordReader:
    """Each method takes what comes next, or raises with its place and the `hint`."""

    def __init__(self, tokens: Sequence[Token], position_of: Positions, hint: str) -> None:
        self._tokens = tokens
        self._position_of = position_of
        self._hint = hint
        self._at = 0

    def accept(self, *words: str) -> bool:
        """Take these words if they are what comes next."""
        coming = self._tokens[self._at : self._at + len(words)]
        is_next = [token.text.upper() for token in coming] == list(words)
        self._at += len(words) if is_next else 0
        return is_next

    def expect(self, word: str) -> None:
        """Take this word."""
        if not self.accept(word):
            raise self.error(f"expected {word}")

    def name(self, what: str = "a name") -> str:
        """Take a name, folded to lower case unless it is quoted."""
        token = self.next(what)
        if token.token_type is TokenType.IDENTIFIER:
            return token.text
        if not token.text.isidentifier():
            raise self.error(f"expected {what}", back=1)
        return token.text.lower()

    def next(self, what: str) -> Token:
        """Take whatever comes next; `what` it should be."""
        if self._at >= len(self._tokens):
            raise self.error(f"expected {what}")
        self._at += 1
        return self._tokens[self._at - 1]

    def until_comma(self) -> list[Token]:
        """Take all up to the next comma that is not in parentheses."""
        start, depth = self._at, 0
        while self._at < len(self._tokens):
            kind = self._tokens[self._at].token_type
            if kind is TokenType.COMMA and not depth:
                break
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            self._at += 1
        return list(self._tokens[start : self._at])

    def position(self) -> Position:
        """Where what comes next is, or the last of what there was."""
        at = min(self._at, len(self._tokens) - 1)
        return self._position_of(self._tokens[at].start)

    def end(self) -> None:
        """Nothing may follow."""
        if self._at < len(self._tokens):
            raise self.error(f"unexpected {self._tokens[self._at].text!r}")

    def error(self, message: str, back: int = 0) -> ParseError:
        """What is wrong here, or with what was taken last."""
        at = min(self._at - back, len(self._tokens) - 1)
        position = self._position_of(self._tokens[at].start)
        return ParseError(message, position=position, hint=self._hint)
