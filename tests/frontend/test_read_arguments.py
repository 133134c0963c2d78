"""Every argument of every node that sqlglot knows is read by viewlet, or refused when it is set."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewlet.errors import ViewletError
from viewlet.frontend.aggregates import EXTREMES
from viewlet.frontend.moments import FORMULAS
from viewlet.frontend.read_arguments import CHILDREN, READ, WORDS, check_arguments
from viewlet.frontend.refusals import CLAUSES, CONSTRUCTS
from viewlet.frontend.scalars import _RULES

UNDECLARED = {(exp.Values, "joins"), (exp.Subquery, "lateral")}
"""What the parser sets although the node does not declare it."""


def subclasses(kind: type[exp.Expr]) -> Iterator[type[exp.Expr]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


NODES = sorted(set(subclasses(exp.Expression)), key=lambda node: node.__name__)


def made(kind: type[exp.Expr], /, **arguments: object) -> exp.Expr:
    """A node with what it needs and no more."""
    needed = {name: exp.null() for name, is_needed in kind.arg_types.items() if is_needed}
    return kind(**{**needed, **arguments})


def exists(kind: type[exp.Expr], argument: str) -> bool:
    return argument in kind.arg_types or (kind, argument) in UNDECLARED


def test_sqlglot_has_what_the_tables_name() -> None:
    assert len(NODES) > 900
    assert [(k.__name__, a) for k in READ for a in READ[k] if not exists(k, a)] == []
    for table in (WORDS, CHILDREN, CLAUSES):
        assert [(k.__name__, a) for k, a in table if not exists(k, a)] == []


def test_words_and_children_belong_to_arguments_that_are_read() -> None:
    assert all(argument in READ[kind] for table in (WORDS, CHILDREN) for kind, argument in table)


def test_nothing_is_both_read_and_refused() -> None:
    assert [kind for kind in CONSTRUCTS if kind in READ] == []
    both = {place for place in CLAUSES if place[1] in READ.get(place[0], ())}
    conditional = {*WORDS, *CHILDREN, (exp.Table, "joins")}
    assert both <= conditional


def test_whatever_is_lowered_is_in_the_table() -> None:
    assert [kind.__name__ for kind in (*_RULES, *EXTREMES) if kind not in READ] == []


def is_refused(tree: exp.Expr) -> bool:
    try:
        check_arguments(tree)
    except ViewletError as error:
        return bool(error.message)
    return False


def test_an_argument_that_is_not_read_is_refused() -> None:
    others = [(kind, a) for kind in READ for a in kind.arg_types if a not in READ[kind]]
    assert len(others) > 150
    for kind, argument in others:
        for value in (exp.null(), [exp.null()], True, "word"):
            assert is_refused(made(kind, **{argument: value})), (kind, argument)


def test_a_node_that_is_not_read_is_refused() -> None:
    for kind in NODES:
        is_read = kind in READ or kind in FORMULAS
        assert is_read or is_refused(exp.Paren(this=made(kind))), kind


def test_a_word_that_is_not_known_is_refused() -> None:
    for kind, argument in WORDS:
        assert is_refused(made(kind, **{argument: "SIDEWAYS"})), (kind, argument)


def test_a_statement_inside_of_another_is_refused() -> None:
    for kind in (exp.Create, exp.Insert, exp.Delete, exp.Update, exp.Copy, exp.Drop):
        assert is_refused(exp.Subquery(this=made(kind))), kind


def test_what_was_not_written_is_not_set() -> None:
    for nothing in (None, False, []):
        check_arguments(exp.Delete(this=exp.to_table("r"), limit=nothing, tables=nothing))
