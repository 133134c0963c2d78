"""A new node of the calculus is one file: this one, with its class, its rules and its record.

Odd(q) weighs 1 where q's weight is an odd number. Nothing else knows it, and yet it prints and
parses, is differentiated, simplified, planned and kept current by the interpreter.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.calculus.worlds import World, meaning
from tests.planner.support import assert_maintains, catalog_of
from viewlet.calculus.delta import batch, delta, nested_delta
from viewlet.calculus.evaluate import Database, Environment, Row, evaluate
from viewlet.calculus.expr import Expr, Nested, Rel, children, product_of, sum_of
from viewlet.calculus.fields import node
from viewlet.calculus.nodes import NODES, NodeRules, register
from viewlet.calculus.query import Query, ViewKind
from viewlet.calculus.rewrite import canonical, rename
from viewlet.calculus.scope import exists_inputs, exists_outputs, inputs, outputs
from viewlet.calculus.simplify import simplify
from viewlet.calculus.text import Parser, PartText, parse, to_text
from viewlet.calculus.typing import counted_weight, parts_slots


@node
class Odd(Nested):
    """Weight 1 where the body's weight is odd."""

    body: Expr


def odd_rows(expr: Odd, database: Database, bound: Environment) -> Iterator[Row]:
    keys = tuple(sorted(outputs(expr.body)))
    for key, weight in evaluate(expr.body, keys, database, bound).items():
        if weight % 2:
            yield {**bound, **dict(zip(keys, key, strict=True))}, 1


def odd_text(expr: Odd, part: PartText) -> str:
    return f"Odd({part(expr.body)})"


def parse_odd(parser: Parser) -> Expr:
    return Odd(parser.in_parentheses())


register(
    NodeRules(
        Odd,
        build=Odd,
        outputs=exists_outputs,
        inputs=exists_inputs,
        rows=odd_rows,
        delta=nested_delta,
        slots=parts_slots,
        weight=counted_weight,
        text=odd_text,
        prefixes={("Odd", "("): parse_odd},
    )
)


def test_it_prints_parses_and_has_variables() -> None:
    text = "Sum[a](S(a, c) * Odd(Sum[a](R(a, b) * {b > 1})))"
    expr = parse(text)
    assert to_text(expr) == text
    assert (outputs(expr), inputs(expr)) == ({"a"}, set())
    assert to_text(rename(expr, {"a": "x"})) == text.replace("a", "x")
    assert canonical(expr).text == canonical(rename(expr, {"a": "x", "b": "y"})).text


@pytest.mark.parametrize("seed", range(12))
def test_its_delta_is_the_difference(seed: int) -> None:
    query = parse("Sum[a](S(a, c) * Odd(Sum[a](R(a, b) * {b > 1})))")
    change = simplify(delta(query, batch("R")), outputs(query))
    world = World(seed, query, change)
    sides = [meaning(query, w, frozenset("a")) for w in (world, world.after("R"))]
    whole = meaning(sum_of(query, change), world, frozenset("a"))
    assert whole == sides[1]


@pytest.mark.parametrize(
    "text",
    [
        "Odd(Sum[a](R(a, b)))",
        "Sum[c](S(a, c) * Odd(Sum[a](R(a, b) * {b > 1})) * c)",
        "Sum[](R(a, b) * (n := Odd(Sum[b](S(b, c)))) * {n = 0} * a)",
    ],
)
def test_a_view_over_it_is_kept_current(text: str) -> None:
    expr = simplify(parse(text))
    query = Query("q", ViewKind.GROUP, tuple(sorted(outputs(expr))), (("count", expr),), ())
    rows = {name: [(a, b) for a in range(3) for b in range(4)] * 2 for name in "RS"}
    for size in (1, 5):
        assert_maintains(catalog_of("R(a, b) S(a, c)"), [query], rows, size, seed=size)


def test_a_record_must_be_whole() -> None:
    with pytest.raises(TypeError, match="delta"):
        NodeRules(  # type: ignore[call-arg]
            Odd,
            build=Odd,
            outputs=exists_outputs,
            inputs=exists_inputs,
            rows=odd_rows,
            slots=parts_slots,
            weight=counted_weight,
            text=odd_text,
        )


def test_a_class_without_a_record_is_named() -> None:
    @node
    class Even(Nested):
        """Has no record."""

        body: Expr

    with pytest.raises(TypeError, match=r"Even has no text: see viewlet/calculus/nodes\.py"):
        to_text(Even(Rel("R", ("a",))))


def test_a_class_of_the_library_without_a_record_stops_the_import() -> None:
    script = (
        "import viewlet.calculus.expr as expr, importlib\n"
        "from viewlet.calculus.fields import node\n"
        "class Even(expr.Nested):\n    body: expr.Expr\n"
        "expr.Even = node(Even)\n"
        "import viewlet.calculus.nodes as nodes\n"
        "importlib.reload(nodes)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "no record in viewlet/calculus/nodes.py for Even" in done.stderr


def test_all_rules_of_a_node_are_in_its_record() -> None:
    """What the record of a node names is a function of the module for that operation."""
    modules = {"outputs": "scope", "inputs": "scope", "rows": "evaluate", "delta": "delta"}
    modules |= {"slots": "typing", "weight": "typing", "text": "text"}
    for record in NODES:
        for part, module in modules.items():
            assert getattr(record, part).__module__ == f"viewlet.calculus.{module}"


def test_a_pickle_has_no_remembered_hash() -> None:
    """Hashes of strings differ between processes, and nodes are sent to others."""
    expr = product_of(parse("R(a, b)"), parse("Odd(S(b, c))"))
    hash(expr), outputs(expr), children(expr)
    copy = pickle.loads(pickle.dumps(expr))
    assert copy == expr
    assert copy.__dict__.keys() == {"factors"}
