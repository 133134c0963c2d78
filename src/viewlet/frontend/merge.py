"""MERGE -> a statement: which rows of a table its source changes, deletes and adds.

    MERGE INTO t [AS x] USING s [AS y] ON condition
    WHEN MATCHED [AND condition] THEN UPDATE SET ... | DELETE | DO NOTHING
    WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT [(columns)] VALUES (...) | DO NOTHING
    WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET ... | DELETE | DO NOTHING

DuckDB evaluates conditions and values, from their text as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position, UnsupportedError
from viewlet.frontend.changes import assignments_of, depths, listed
from viewlet.frontend.parameters import written
from viewlet.frontend.statements import Merge, MergeAction, MergeCase, MergeClause
from viewlet.frontend.syntax import fault, plain_name, plain_names


class PositionedText(Protocol):
    """A text that knows where its characters are."""

    text: str

    def position(self, offset: int) -> Position:
        """The line and column of an offset."""
        ...


MERGE_HINT = "write MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN ..."


def merge(
    tree: exp.Merge, source: PositionedText, tokens: Sequence[Token], start: Position
) -> Merge:
    """The tree says what is there, the tokens how it was written."""
    text = source.text
    if tree.args.get("returning") is not None:
        hint = "read the rows after the statement"
        raise fault(UnsupportedError, "MERGE ... RETURNING is not supported", tree.this, hint)
    if tree.args.get("with_") is not None:
        raise UnsupportedError(
            "WITH before MERGE is not supported", position=start, hint="write USING (WITH ...) AS s"
        )
    target = tree.this
    parts = list(_parts(tokens))
    words = [part[0].text.upper() for part in parts]
    if words[:3] != ["MERGE", "USING", "ON"] or "WHEN" not in words:
        raise ParseError(
            "MERGE needs USING, ON and WHEN",
            position=start,
            hint=MERGE_HINT,
        )
    whens = tree.args["whens"].expressions
    clauses = tuple(
        _clause(node, part, source) for node, part in zip(whens, parts[3:], strict=True)
    )
    for at, clause in enumerate(clauses):
        if any(c.case is clause.case and c.condition is None for c in clauses[:at]):
            raise ParseError(
                f"clause {at + 1} of MERGE is never reached",
                position=start,
                hint="an earlier WHEN without AND takes all of its rows",
            )
    return Merge(
        plain_name(target),
        target.alias,
        written(text, parts[1][1:]),
        written(text, parts[2][1:]),
        clauses,
        start,
    )


def _parts(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """MERGE INTO t USING s ON p WHEN ... WHEN ... -> each word with what follows it"""
    part: list[Token] = []
    cases = 0
    words = ["USING", "ON"]
    for token, depth in zip(tokens, depths(tokens), strict=True):
        word = "" if token.token_type in _NO_WORDS else token.text.upper()
        if word == "CASE":
            cases += 1
        elif word == "END" and cases:
            cases -= 1
        is_next = bool(words) and word == words[0]
        if part and not depth and not cases and (is_next or (word == "WHEN" and not words)):
            yield part
            part = []
            words = words[1:]
        part.append(token)
    yield part


_NO_WORDS = (TokenType.STRING, TokenType.IDENTIFIER)


def _clause(node: exp.When, tokens: Sequence[Token], source: PositionedText) -> MergeClause:
    """WHEN [NOT] MATCHED ... THEN ..."""
    text = source.text
    case = MergeCase.MATCHED
    if not node.args.get("matched"):
        case = MergeCase.NO_SOURCE if node.args.get("source") else MergeCase.NO_TARGET
    then = _word_at(tokens, "THEN")
    condition = None
    if node.args.get("condition") is not None:
        condition = written(text, tokens[_word_at(tokens, "AND") + 1 : then])
    action, body = node.args["then"], tokens[then + 1 :]
    body_start = source.position(body[0].start if body else tokens[-1].start)
    word = body[0].text.upper() if body else ""
    if isinstance(action, exp.Insert):
        if case is not MergeCase.NO_TARGET:
            hint = "INSERT belongs to WHEN NOT MATCHED"
            raise ParseError("INSERT of a row that is there", position=body_start, hint=hint)
        columns, values = _inserted(action, body, text)
        return MergeClause(case, condition, MergeAction.INSERT, columns, values)
    if isinstance(action, exp.Update):
        if case is MergeCase.NO_TARGET:
            hint = "WHEN NOT MATCHED can INSERT or DO NOTHING"
            raise ParseError("UPDATE of a row that is not there", position=body_start, hint=hint)
        if len(body) < 2 or body[1].text.upper() != "SET":
            hint = "write UPDATE SET column = value"
            raise UnsupportedError(
                "UPDATE without SET is not supported", position=body_start, hint=hint
            )
        if any(isinstance(part, exp.Star) for part in action.expressions):
            raise UnsupportedError(
                "UPDATE SET * is not supported", position=body_start, hint="list the columns"
            )
        pairs = assignments_of(action.expressions, body[2:], text)
        names, values = tuple(name for name, _ in pairs), tuple(value for _, value in pairs)
        return MergeClause(case, condition, MergeAction.UPDATE, names, values)
    if word == "DELETE":
        if case is MergeCase.NO_TARGET:
            hint = "WHEN NOT MATCHED can INSERT or DO NOTHING"
            raise ParseError("DELETE of a row that is not there", position=body_start, hint=hint)
        return MergeClause(case, condition, MergeAction.DELETE)
    if [token.text.upper() for token in body] == ["DO", "NOTHING"]:
        return MergeClause(case, condition, MergeAction.NOTHING)
    hint = "write UPDATE SET, DELETE, INSERT or DO NOTHING"
    raise ParseError(f"{word or 'nothing'} after THEN", position=body_start, hint=hint)


def _inserted(
    action: exp.Insert, tokens: Sequence[Token], text: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """INSERT [(a, b)] VALUES (x, y) -> (a, b), (x, y)"""
    values = action.expression
    if not isinstance(values, exp.Tuple):
        hint = "write INSERT (columns) VALUES (values)"
        raise fault(UnsupportedError, "INSERT without VALUES is not supported", action, hint)
    names: tuple[str, ...] = ()
    if action.this is not None:
        parts = (part.this if isinstance(part, exp.Column) else part for part in action.this)
        names = plain_names(parts)
    written_values = [
        written(text, part) for part in listed(tokens[_word_at(tokens, "VALUES") + 2 : -1])
    ]
    if names and len(names) != len(written_values):
        message = f"{len(written_values)} values for {len(names)} columns"
        raise fault(ParseError, message, values.find(exp.Identifier, exp.Literal))
    return names, tuple(written_values)


def _word_at(tokens: Sequence[Token], word: str) -> int:
    cases = 0
    for at, (token, depth) in enumerate(zip(tokens, depths(tokens), strict=True)):
        text = "" if token.token_type in _NO_WORDS else token.text.upper()
        cases += (text == "CASE") - (text == "END" and cases > 0)
        if text == word and not depth and not cases:
            return at
    raise ParseError(f"{word} is missing", hint="write WHEN ... THEN ...")
