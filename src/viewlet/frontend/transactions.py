"""BEGIN, COMMIT and ROLLBACK, with the words that PostgreSQL has for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token

from viewlet.errors import Position, UnsupportedError
from viewlet.frontend.statements import TransactionStatement, TransactionVerb

_WORDS = {
    "BEGIN": TransactionVerb.BEGIN,
    "START": TransactionVerb.BEGIN,
    "COMMIT": TransactionVerb.COMMIT,
    "END": TransactionVerb.COMMIT,
    "ROLLBACK": TransactionVerb.ROLLBACK,
    "ABORT": TransactionVerb.ROLLBACK,
}
FIRST_WORDS = frozenset((*_WORDS, "SAVEPOINT", "RELEASE"))


def read_transaction(
    tokens: Sequence[Token], position_of: Callable[[int], Position]
) -> TransactionStatement:
    """BEGIN [WORK | TRANSACTION], START TRANSACTION, COMMIT, END, ROLLBACK, ABORT"""
    words = [token.text.upper() for token in tokens]
    start = position_of(tokens[0].start)
    if words[0] in ("SAVEPOINT", "RELEASE") or "TO" in words or "SAVEPOINT" in words:
        raise UnsupportedError(
            "savepoints are not supported", position=start, hint="ROLLBACK undoes all statements"
        )
    rest = words[1:]
    if rest[:1] in (["WORK"], ["TRANSACTION"]):
        rest = rest[1:]
    elif words[0] == "START":
        raise UnsupportedError(
            "START is followed by TRANSACTION", position=start, hint="write START TRANSACTION"
        )
    if rest:
        token = tokens[len(tokens) - len(rest)]
        raise UnsupportedError(
            f"{words[0]} ... {' '.join(rest)} is not supported",
            position=position_of(token.start),
            hint="a transaction sees the rows as they were at its statements, and its own",
        )
    return TransactionStatement(_WORDS[words[0]], start)
