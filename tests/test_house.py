"""The tree keeps its rules, which `tests/house.py` has as functions; and each rule can fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import house
from tests.house import Citation, SourceTree

ROOT = Path(__file__).parents[1]
SHARED_PAPERS = ROOT.parent / "shared" / "papers"
TREE = SourceTree(ROOT, ("tests", "benchmarks", "examples"))
TREE.users = [user for user in TREE.users if user.path.stem not in ("house", "test_house")]

SIBLINGS = "matrices and signals are siblings of the SQL side, each with its own of it"
KERNEL_TEXT = "a node of the loops that kernels are printed from, private to kernels/"
OPERATORS = "an operator inside a signal query, which users never name"
SYNTAX = "a part of SQL's text or scope, private to frontend/"
FORMS = "every form of a query has one: its nodes, its text, its checker, its interpreter"
THEMES = "the frontend's rules for what functions/ defines"
KERNELS = "signals/kernels/ computes for the module of this name beside it"

CLASSES = {
    "Column": KERNEL_TEXT,
    "Cursor": "PEP 249's, which names it; where the source of a kernel is written",
    "DataError": "PEP 249's, which names it; of the family",
    "Database": "what users open; for evaluate(), whatever has contents for atoms",
    "Engine": SIBLINGS,
    "Expr": SIBLINGS,
    "Live": SIBLINGS,
    "Program": SIBLINGS,
    "Query": SIBLINGS,
    "Rows": KERNEL_TEXT,
    "Select": OPERATORS,
    "Signal": OPERATORS,
    "Signature": "the types of an atom; of a function in machine code",
    "Sink": SYNTAX,
    "Source": "a table in scope; a DataFrame; a stream; source text: never in one module",
    "Sum": SIBLINGS,
    "Table": SYNTAX,
    "Trigger": SIBLINGS,
    "Update": KERNEL_TEXT,
    "Value": "a weight of the calculus; a value in machine code",
    "Vector": "a column with NULLs; a register of a signal kernel",
    "View": SIBLINGS,
    "Window": OPERATORS,
    "Writer": "of the source of kernels; of the instructions of machine code",
}
"""Class names that several packages have, and why they may."""

MODULES = {
    "aggregates": KERNELS,
    "arithmetic": "functions of SQL; 64-bit integers that refuse to wrap around, in storage/",
    "casts": THEMES,
    "check": FORMS,
    "cost": SIBLINGS,
    "database": "what users open; for evaluate(), whatever has contents for atoms",
    "delta": SIBLINGS,
    "errors": SIBLINGS,
    "explain": SIBLINGS,
    "expr": SIBLINGS,
    "interpret": FORMS,
    "ir": FORMS,
    "joins": KERNELS,
    "keys": SIBLINGS,
    "live": SIBLINGS,
    "lower": SIBLINGS,
    "parse": SIBLINGS,
    "query": SIBLINGS,
    "sampling": KERNELS,
    "scalars": THEMES,
    "scope": "which variables an expression gives; which columns SQL can name",
    "simplify": FORMS,
    "stretches": KERNELS,
    "tables": SIBLINGS,
    "text": FORMS,
    "transforms": KERNELS,
    "updates": SIBLINGS,
    "vectors": KERNELS,
}
"""Module names that several packages have, and why they may."""

LONG = {
    "viewlet/engine/partitions/cluster.py": "one class: what the service offers, short methods",
    "viewlet/engine/spark/spark_engine.py": "one class: what the contract asks for, short methods",
    "viewlet/signals/query.py": "what users write: one line and a docstring for each operator",
}
"""Modules of more than 500 lines, and why they may be."""


def test_one_class_of_a_name_in_a_package() -> None:
    assert house.classes_repeated_in_a_package(TREE) == []


def test_class_names_that_several_packages_have() -> None:
    repeated = house.repeated_classes(TREE)
    assert {name: repeated[name] for name in repeated.keys() - CLASSES.keys()} == {}
    assert CLASSES.keys() - repeated.keys() == set(), "allowed, and not needed any more"


def test_module_names_that_several_packages_have() -> None:
    repeated = house.repeated_modules(TREE)
    assert {name: repeated[name] for name in repeated.keys() - MODULES.keys()} == {}
    assert MODULES.keys() - repeated.keys() == set(), "allowed, and not needed any more"


def test_modules_are_short() -> None:
    long = house.long_modules(TREE)
    assert {path: long[path] for path in long.keys() - LONG.keys()} == {}
    assert LONG.keys() - long.keys() == set(), "allowed, and not needed any more"


def test_what_is_public_has_a_docstring() -> None:
    assert house.undocumented(TREE) == []


def test_what_is_public_is_used() -> None:
    assert house.unused(TREE) == []


def test_names_are_nouns_of_the_field() -> None:
    words = house.borrowed_words(TREE)
    assert [finding for finding in words if not finding.endswith(" place")] == []
    assert len(words) == 1, "Hints.place is public; nothing else has that name"


def test_prose_names_what_is_there() -> None:
    assert house.broken_references(TREE) == []


# Papers and words.

SECTIONS = house.cited_sections((ROOT / "docs/papers.md").read_text(encoding="utf-8"))


def test_citations_are_explained() -> None:
    assert house.unresolved_citations(TREE, SECTIONS) == []


def test_explained_sections_are_cited() -> None:
    assert house.unanswered_sections(TREE, SECTIONS) == []


@pytest.mark.skipif(not SHARED_PAPERS.is_dir(), reason="the papers are not beside this clone")
def test_explained_sections_are_in_the_papers() -> None:
    texts = {path.name[:3]: path.read_text("utf-8") for path in SHARED_PAPERS.glob("*.txt")}
    texts["thesis"] = texts["001"]
    missing = [
        citation
        for citation in SECTIONS
        if not house.has_section(texts[citation.paper.removeprefix("paper ")], citation.section)
    ]
    assert missing == []


def test_words_of_the_glossary_are_where_it_says() -> None:
    page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| .* \| (`[^|]+`) \|$", page, flags=re.M)
    assert len(rows) > 30
    missing = [
        (word, path)
        for word, where in rows
        for path in re.findall(r"`([^`]+)`", where)
        if TREE.resolve(path) is None
    ]
    assert missing == []


# Each rule notices what it is for, and nothing else.

CLEAN = '''"""A module. See `there`, viewlet.b.other, `b/other.py: there` and thesis 3.1."""
from viewlet.b.other import there


class Shape:
    """What has an area."""

    def area(self) -> int:
        """Height times width."""
        return there()


class Square(Shape):
    """A shape."""

    def area(self) -> int:
        return 4


print(Square)
'''
OTHER = '''"""Another one."""


def there() -> int:
    """One."""
    return 1
'''
PAPERS = """# Papers

## thesis

| section | what it says | where it is |
|---|---|---|
| 3.1 | heuristics | `a/one.py` |
"""


def toy(tmp_path: Path, old: str = "", new: str = "", **files: str) -> SourceTree:
    """A tree of two packages; `old` becomes `new` in its first module."""
    texts = {"a/one.py": CLEAN.replace(old, new, 1) if old else CLEAN, "b/other.py": OTHER}
    texts |= {name.replace("__", "/") + ".py": text for name, text in files.items()}
    for name, text in texts.items():
        path = tmp_path / "src" / "viewlet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return SourceTree(tmp_path)


def all_findings(tree: SourceTree) -> list[str]:
    sections = house.cited_sections(PAPERS)
    return [
        *house.classes_repeated_in_a_package(tree),
        *house.repeated_classes(tree),
        *house.repeated_modules(tree),
        *house.long_modules(tree, most=30),
        *house.undocumented(tree),
        *house.unused(tree),
        *house.borrowed_words(tree),
        *house.broken_references(tree),
        *house.unresolved_citations(tree, sections),
        *house.unanswered_sections(tree, sections),
    ]


def test_a_clean_tree_has_no_findings(tmp_path: Path) -> None:
    assert all_findings(toy(tmp_path)) == []


SHAPE = 'class Shape:\n    """Used."""\n\n\nprint(Shape)\n'


@pytest.mark.parametrize(
    ("change", "findings"),
    [
        (
            {"a__two": SHAPE},
            ["class Shape in viewlet/a/one.py, viewlet/a/two.py", "Shape"],
        ),
        ({"b__shapes": SHAPE}, ["Shape"]),
        ({"c__other": '"""Empty."""\n'}, ["other"]),
        ({"b__long": "pass\n" * 31}, ["viewlet/b/long.py"]),
        ({"old": '"""Height times width."""', "new": ""}, ["1:8 Shape.area", "1:16 Square.area"]),
        ({"old": '"""What has an area."""', "new": ""}, ["1:5 Shape"]),
        ({"b__more": 'def lone():\n    """Calls lone."""\n    lone()\n'}, ["1:1 lone"]),
        (
            {"b__words": "found = print(1)\nleft_place = 2\nprint(found)\n"},
            ["1:1 found", "1:2 left_place"],
        ),
        ({"old": "`there`", "new": "`elsewhere`"}, ["1:1 `elsewhere`"]),
        ({"old": "viewlet.b.other,", "new": "viewlet.b.gone,"}, ["1:1 viewlet.b.gone"]),
        ({"old": "b/other.py: there", "new": "b/gone.py"}, ["1:1 b/gone.py"]),
        ({"old": "py: there", "new": "py: here"}, ["1:1 b/other.py: here"]),
        ({"old": "3.1.", "new": "3.1 to 3.3."}, ["1:1 thesis 3.3"]),
        ({"old": "3.1.", "new": "3.1. # Figure 7"}, ["1:1 thesis Figure 7"]),
        ({"old": "thesis 3.1", "new": "it"}, ["thesis 3.1: cited by none of ['a/one.py']"]),
    ],
)
def test_a_rule_that_is_broken(tmp_path: Path, change: dict[str, str], findings: list[str]) -> None:
    noticed = [
        re.sub(r"^viewlet/\w+/\w+\.py:(\d+)", r"1:\1", f)
        for f in all_findings(toy(tmp_path, **change))
    ]
    assert noticed == findings


def test_protocols_document_the_classes_that_have_their_methods(tmp_path: Path) -> None:
    text = '''from typing import Protocol


class Feed(Protocol):
    """A source."""

    def changes(self): ...

    def close(self): ...


class Files:
    """A feed."""

    def changes(self):
        return 1

    def close(self):
        return 2


class Handle:
    """Not a feed."""

    def close(self):
        return 3


print(Feed, Files, Handle)
'''
    tree = toy(tmp_path, b__feeds=text)
    assert house.undocumented(tree) == ["viewlet/b/feeds.py:25 Handle.close"]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("thesis 6.3.1 to 6.3.3, Algorithm 6.3", ["6.3.1", "6.3.3", "Algorithm 6.3"]),
        ("the thesis does; Table 6.1 has", ["Table 6.1"]),
        ("thesis chapter 3, Figure 3.1b", ["chapter 3", "Figure 3.1"]),
        ("thesis: 3 maps, 20% of it", ["3"]),
        ("Table 6.1 assumes powers of two", ["Table 6.1"]),
    ],
)
def test_citations_of_the_thesis(text: str, cited: list[str]) -> None:
    assert list(house.citations(text)) == [Citation("thesis", section) for section in cited]


def test_citations_of_other_papers() -> None:
    text = "paper 000 section 4.2, appendix C.3; Figure 9. Thesis 3.5. Paper 003, 2.1"
    assert {(c.paper, c.section) for c in house.citations(text)} == {
        ("paper 000", "4.2"),
        ("paper 000", "appendix C.3"),
        ("paper 000", "Figure 9"),
        ("thesis", "3.5"),
        ("paper 003", "2.1"),
    }
    assert list(house.citations("see Figure 9")) == [Citation("no paper", "Figure 9")]


@pytest.mark.parametrize("section", ["3.4.2", "chapter 3", "appendix C.3", "Figure 9"])
def test_headings_of_a_paper(section: str) -> None:
    paper = "## 3.4.2 Domains\nChapter 3 Deltas\nC.3 Fusion\nsee Figure 9."
    assert house.has_section(paper, section)
    other = re.sub(r"\d+$", "77", section)
    assert not house.has_section(paper, other)
