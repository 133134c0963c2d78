"""Random FROM clauses against PostgreSQL's rules, written down here a second time.

The model below is nested loops over lists: which rows a join has, which columns * shows in which
order, and which names are ambiguous. Its rows are compared with DuckDB's in turn where DuckDB
takes the clause: its * has another order, and it knows no names for joins.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pytest
from tests.frontend.oracle import Memory, connect, lower_last, read_catalog, viewlet_rows

import viewlet
from viewlet.errors import ResolutionError

TABLES = {
    "a": ("k", "x"),
    "b": ("k", "y"),
    "c": ("z", "k", "x"),
    "d": ("y", "w"),
    "e": ("v", "k"),
}
CATALOG = read_catalog(
    ";".join(
        f"CREATE TABLE {name} ({', '.join(f'{column} INT' for column in columns)})"
        for name, columns in TABLES.items()
    )
)

Row = tuple[Any, ...]


def random_rows(maker: random.Random) -> dict[str, list[Row]]:
    def value() -> int | None:
        return maker.choice((1, 2, 3, None))

    return {
        name: [tuple(value() for _ in columns) for _ in range(maker.randint(1, 3))]
        for name, columns in TABLES.items()
    }


@dataclass
class Item:
    """A FROM item: rows of slots, and the slot that each name means."""

    text: str
    rows: list[Row]
    sources: dict[str, list[tuple[str, int]]]
    columns: list[tuple[str, int]]
    in_duckdb: bool = True

    @property
    def width(self) -> int:
        return 1 + max(
            (slot for columns in self.sources.values() for _, slot in columns), default=-1
        )

    @property
    def tables(self) -> dict[str, list[tuple[str, int]]]:
        """The sources that the text can name."""
        return {a: known for a, known in self.sources.items() if not a.startswith("<")}

    def slots(self, name: str) -> list[int]:
        return [slot for column, slot in self.columns if column == name]


class AmbiguousError(Exception):
    """The clause is one that must be refused."""


@dataclass
class Maker:
    """Draws FROM items; `used` are the names that are taken."""

    random: random.Random
    contents: dict[str, list[Row]]
    used: set[str] = field(default_factory=set)

    def alias(self, hint: str) -> str:
        name = hint
        while name in self.used:
            name = f"{hint}{self.random.randint(2, 99)}"
        self.used.add(name)
        return name

    def clause(self) -> Item:
        whole = self.tree(self.random.randint(1, 3))
        for _ in range(self.random.choice((0, 0, 1, 2))):
            other = self.tree(self.random.randint(0, 2))
            joined = self.pair(whole, other, "", lambda _: True)
            joined.text = f"{whole.text}, {other.text}"
            whole = joined
        return whole

    def tree(self, depth: int) -> Item:
        if depth == 0:
            return self.leaf()
        left, right = self.tree(depth - 1), self.tree(self.random.randint(0, depth - 1))
        joined = self.join(left, right)
        choice = self.random.random()
        if choice < 0.15:
            return self.named(joined)
        if choice < 0.5:
            joined.text = f"({joined.text})"
        return joined

    def leaf(self) -> Item:
        name = self.random.choice(sorted(TABLES))
        columns, rows = TABLES[name], self.contents[name]
        choice = self.random.random()
        if choice < 0.2:
            alias = self.alias("q")
            chosen = self.random.sample(columns, self.random.randint(1, len(columns)))
            text = f"(SELECT {', '.join(chosen)} FROM {name}) {alias}"
            rows = [tuple(row[columns.index(c)] for c in chosen) for row in rows]
            columns = tuple(chosen)
        elif choice < 0.3:
            alias = self.alias("u")
            rows = [(1, 7), (None, 8)]
            text = f"(VALUES (1, 7), (NULL, 8)) {alias} (k, x)"
            columns = ("k", "x")
        elif name not in self.used and choice < 0.7:
            alias = self.alias(name)
            text = name
        else:
            alias = self.alias(name)
            text = f"{name} AS {alias}"
        known = [(column, slot) for slot, column in enumerate(columns)]
        return Item(text, list(rows), {alias: known}, known)

    def named(self, item: Item) -> Item:
        """(a JOIN b ...) AS j, which hides a and b"""
        alias = self.alias("j")
        columns = [(name, at) for at, (name, _) in enumerate(item.columns)]
        rows = [tuple(row[slot] for _, slot in item.columns) for row in item.rows]
        names = [name for name, _ in columns]
        if len(set(names)) < len(names) or self.random.random() < 0.3:
            columns = [(f"{alias}_{at}", at) for at in range(len(columns))]
            text = f"({item.text}) AS {alias} ({', '.join(name for name, _ in columns)})"
        else:
            text = f"({item.text}) AS {alias}"
        return Item(text, rows, {alias: columns}, columns, in_duckdb=False)

    def join(self, left: Item, right: Item) -> Item:
        side = self.random.choice(("", "LEFT ", "RIGHT ", "FULL "))
        shared = [n for n in dict.fromkeys(n for n, _ in left.columns) if right.slots(n)]
        how = self.random.choice(("on", "on", "using", "using", "natural", "cross"))
        if how == "cross":
            joined = self.pair(left, right, "", lambda _: True)
            joined.text = f"{left.text} CROSS JOIN {self.right_text(right, False)}"
            return joined
        if how == "natural" and shared:
            joined = self.merged(left, right, side, shared)
            joined.text = f"{left.text} NATURAL {side}JOIN {self.right_text(right, False)}"
            return joined
        if how == "using" and shared:
            names = self.random.sample(shared, self.random.randint(1, len(shared)))
            joined = self.merged(left, right, side, names)
            text = self.right_text(right)
            joined.text = f"{left.text} {side}JOIN {text} USING ({', '.join(names)})"
            return joined
        (alias, known), (other, theirs) = (
            self.random.choice(sorted(item.tables.items())) for item in (left, right)
        )
        (name, slot), (their_name, their_slot) = (
            self.random.choice(known),
            self.random.choice(theirs),
        )
        offset = left.width

        def equal(row: Row) -> bool:
            return row[slot] is not None and row[slot] == row[offset + their_slot]

        joined = self.pair(left, right, side, equal)
        text = self.right_text(right)
        joined.text = f"{left.text} {side}JOIN {text} ON {alias}.{name} = {other}.{their_name}"
        return joined

    def right_text(self, right: Item, may_nest: bool = True) -> str:
        """A join on the right is in parentheses, or its condition comes before the other one."""
        if self.is_one_item(right.text):
            return right.text
        has_condition = right.text.endswith(")") or " ON " in right.text
        plain = "CROSS" not in right.text and "NATURAL" not in right.text
        if may_nest and has_condition and plain and self.random.random() < 0.4:
            return right.text
        return f"({right.text})"

    @staticmethod
    def is_one_item(text: str) -> bool:
        """No JOIN outside of parentheses."""
        depth = 0
        for at, character in enumerate(text):
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth == 0 and text[at:].startswith(" JOIN "):
                return False
        return True

    def pair(self, left: Item, right: Item, side: str, test: Callable[[Row], bool]) -> Item:
        offset = left.width
        matches = [(a, b) for a in left.rows for b in right.rows if test((*a, *b))]
        rows = [(*a, *b) for a, b in matches]
        nothing_left: Row = (None,) * offset
        nothing_right: Row = (None,) * right.width
        if side in ("LEFT ", "FULL "):
            hit = {id(a) for a, _ in matches}
            rows += [(*a, *nothing_right) for a in left.rows if id(a) not in hit]
        if side in ("RIGHT ", "FULL "):
            hit = {id(b) for _, b in matches}
            rows += [(*nothing_left, *b) for b in right.rows if id(b) not in hit]
        moved = {
            alias: [(name, slot + offset) for name, slot in known]
            for alias, known in right.sources.items()
        }
        columns = [*left.columns, *((name, slot + offset) for name, slot in right.columns)]
        in_duckdb = left.in_duckdb and right.in_duckdb
        # Slots that only a merged column has are behind the last one of a source.
        return Item("", rows, {**left.sources, **moved}, columns, in_duckdb)

    def merged(self, left: Item, right: Item, side: str, names: list[str]) -> Item:
        for name in names:
            if len(left.slots(name)) > 1 or len(right.slots(name)) > 1:
                raise AmbiguousError
        offset = left.width
        pairs = [(left.slots(n)[0], right.slots(n)[0] + offset) for n in names]

        def equal(row: Row) -> bool:
            return all(row[a] is not None and row[a] == row[b] for a, b in pairs)

        joined = self.pair(left, right, side, equal)
        width = offset + right.width
        rows = [
            (*row, *(row[a] if row[a] is not None else row[b] for a, b in pairs))
            for row in joined.rows
        ]
        rest = [(n, slot) for n, slot in joined.columns if n not in names]
        columns = [*((name, width + at) for at, name in enumerate(names)), *rest]
        # The merged slots belong to no table: a hidden source keeps the width right.
        hidden = {f"<{self.alias('merged')}>": [("", width + at) for at in range(len(names))]}
        return Item("", rows, {**joined.sources, **hidden}, columns, joined.in_duckdb)


def draw(seed: int) -> tuple[Maker, Item | None, str]:
    """A clause and what it means; None for one that USING makes ambiguous, with its text."""
    maker = Maker(random.Random(seed), random_rows(random.Random(seed)))
    try:
        item = maker.clause()
    except AmbiguousError:
        return maker, None, ""
    return maker, item, item.text


def is_small(seed: int) -> bool:
    """The definition multiplies everything out, and an outer join has its sides twice."""
    item, text = draw(seed)[1:]
    return item is not None and len(item.tables) <= 5 and text.count("FULL") <= 1


SEEDS = [seed for seed in range(1500) if is_small(seed)]
FEW = SEEDS[:150]


def expected_of(item: Item) -> Counter[Row]:
    return Counter(tuple(row[slot] for _, slot in item.columns) for row in item.rows)


def view_text(item: Item) -> str:
    names = ", ".join(f"c{at}" for at in range(len(item.columns)))
    return f"CREATE VIEW v ({names}) AS SELECT * FROM {item.text}"


def test_there_are_enough() -> None:
    assert len(SEEDS) >= 750


@pytest.mark.parametrize("seed", FEW)
def test_rows_and_columns(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(len(FEW), len(SEEDS), 100))
def test_more_rows_and_columns(start: int) -> None:
    for seed in SEEDS[start : start + 100]:
        check(seed)


def check(seed: int) -> None:
    maker, item, _ = draw(seed)
    assert item is not None
    query = lower_last(view_text(item), CATALOG)
    assert len(query.columns) == len(item.columns), item.text
    memory = Memory(CATALOG, maker.contents)
    assert Counter(viewlet_rows(query, memory)) == expected_of(item), item.text
    for name, slots in _by_name(item).items():
        text = f"CREATE VIEW v (c) AS SELECT {name} FROM {item.text}"
        if len(slots) > 1:
            with pytest.raises(ResolutionError, match=f"column {name} is ambiguous"):
                lower_last(text, CATALOG)
        else:
            rows = viewlet_rows(lower_last(text, CATALOG), memory)
            assert Counter(rows) == Counter((row[slots[0]],) for row in item.rows), item.text


def _by_name(item: Item) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, slot in item.columns:
        found.setdefault(name, []).append(slot)
    return found


def test_the_model_equals_duckdb() -> None:
    """Qualified columns, because * has another order there."""
    compared = 0
    for seed in FEW:
        maker, item, text = draw(seed)
        if item is None or not item.in_duckdb:
            continue
        named = [
            (f"{alias}.{name}", slot)
            for alias, known in item.tables.items()
            for name, slot in known
        ]
        columns = ", ".join(name for name, _ in named)
        database = connect(CATALOG, maker.contents)
        try:
            rows = database.execute(f"SELECT {columns} FROM {text}").fetchall()
        except duckdb.BinderException as error:
            # It merges columns by other rules, and calls some of PostgreSQL's clauses ambiguous.
            assert "mbiguous" in str(error) or "exists on" in str(error), text
            continue
        assert Counter(rows) == Counter(tuple(r[slot] for _, slot in named) for r in item.rows), (
            text
        )
        compared += 1
    assert compared >= 75


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_rows_on_the_local_engine(seed: int) -> None:
    maker, item, _ = draw(seed)
    assert item is not None
    with viewlet.connect() as db:
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
        db.execute(view_text(item))
        for name, rows in maker.contents.items():
            db.insert(name, rows)
        assert Counter(tuple(row) for row in db.view("v").rows()) == expected_of(item), item.text


@pytest.mark.parametrize(
    ("clause", "rows"),
    [
        ("((SELECT k, x FROM a) p JOIN (SELECT y FROM b) q ON p.x > q.y)", []),
        ("a JOIN b USING (k), f JOIN g USING (k)", [(1, 2, 3, 5, 6, 7)]),
        ("g, a JOIN b USING (k)", [(5, 7, 1, 2, 3)]),
        ("a p JOIN b q JOIN f s ON s.k > q.k ON p.k = q.k", [(1, 2, 1, 3, 5, 6)]),
        ("a p JOIN b q RIGHT JOIN f s ON s.k = q.k ON p.k < s.k", [(1, 2, None, None, 5, 6)]),
        ("(a JOIN b USING (k)) j JOIN a USING (k, x)", [(1, 2, 3)]),
    ],
)
def test_clauses_that_were_wrong(clause: str, rows: list[Row]) -> None:
    catalog = read_catalog(
        "CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT);"
        "CREATE TABLE f (k INT, x INT); CREATE TABLE g (k INT, y INT)"
    )
    memory = Memory(catalog, {"a": [(1, 2)], "b": [(1, 3)], "f": [(5, 6)], "g": [(5, 7)]})
    width = len(rows[0]) if rows else 3
    names = ", ".join(f"c{at}" for at in range(width))
    query = lower_last(f"CREATE VIEW v ({names}) AS SELECT * FROM {clause}", catalog)
    assert len(query.columns) == width
    assert viewlet_rows(query, memory) == rows


def test_merged_columns_of_two_chains_are_ambiguous() -> None:
    catalog = read_catalog(
        ";".join(f"CREATE TABLE {name} (k INT, {name}_x INT)" for name in ("a", "b", "c", "d"))
    )
    text = "CREATE VIEW v AS SELECT a_x FROM a JOIN b USING (k), c JOIN d USING (k) WHERE k = 1"
    with pytest.raises(ResolutionError, match="column k is ambiguous: a and b and c and d have it"):
        lower_last(text, catalog)
