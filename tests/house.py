"""The rules of the house as functions: a source tree -> what is wrong in it, a line for each.

`tests/test_house.py` holds the tree of viewlet to them, with the exceptions that are allowed, and
shows on a tree of toys that each of them notices what it is for.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

PATH = re.compile(
    r"(?<![\w/.<*-])((?:[\w-]+/)*[\w-]+\.(?:py|md))(?![\w/])(?:: `?([A-Za-z_]\w*)(?:\(\))?`)?"
)
"""package/module.py, page.md, and a name in a module as `package/module.py: name`."""

DOTTED = re.compile(r"(?<![\w./])viewlet(?:_bench)?(?:\.\w+)+")
CODE_NAME = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`")
WORD = re.compile(r"[A-Za-z_]\w*")

PAPER = re.compile(r"\b([Tt]hesis|[Pp]aper (\d{3}))\b(?:'s)?(?!\w)")
KIND = r"(sections?|chapters?|appendix|Figure|Table|Algorithm|Example|Theorem) "
NUMBER = r"([A-C]\.\d+(?:\.\d+)*|\d+(?:\.\d+)*)[a-f]?(?![\w%])"
SECTION = re.compile(f"(?:{KIND})?{NUMBER}")
NUMBERED = re.compile(rf"\b{KIND}{NUMBER}")
BETWEEN = re.compile(r",? (?:and |to )?|,\s*|: ")
"""What stands between a paper and its section, and between one section and the next."""


@dataclass(frozen=True)
class Prose:
    """A docstring or a comment: what a reader is told, and the line where it begins."""

    line: int
    text: str


@dataclass(frozen=True)
class Module:
    """One Python file of a tree."""

    path: Path
    """Below the folder of sources: viewlet/calculus/expr.py."""
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def package(self) -> str:
        return self.path.parent.as_posix()

    @property
    def dotted(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @cached_property
    def top_names(self) -> set[str]:
        """What an import from the module may name."""
        names = set()
        for node in ast.walk(self.tree):
            if isinstance(node, (*FUNCTION, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).split(".")[0])
        return names

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        """Strings that stand as statements of their own: docstrings, those of fields as well."""
        return [
            node.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ]

    @cached_property
    def prose(self) -> list[Prose]:
        """Every docstring, and every comment with the comment lines that follow it."""
        return [Prose(node.lineno, str(node.value)) for node in self.docstrings] + [
            *self._comments()
        ]

    def _comments(self) -> Iterator[Prose]:
        comments: list[tuple[int, str]] = []
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type == tokenize.COMMENT:
                if comments and token.start[0] != comments[-1][0] + 1:
                    yield _joined(comments)
                    comments = []
                comments.append((token.start[0], token.string.lstrip("#: ")))
        if comments:
            yield _joined(comments)


def _joined(comments: list[tuple[int, str]]) -> Prose:
    return Prose(comments[0][0], " ".join(text for _, text in comments))


class SourceTree:
    """The modules below src, and the other files of the project that may use or name them."""

    def __init__(self, root: Path, users: Iterable[str] = ()) -> None:
        self.root = root
        self.modules = [
            Module(path.relative_to(root / "src"), path.read_text(encoding="utf-8"))
            for path in sorted((root / "src").rglob("*.py"))
        ]
        self.users = [
            Module(path.relative_to(root), path.read_text(encoding="utf-8"))
            for folder in users
            for path in sorted((root / folder).rglob("*.py"))
        ]
        self.pages = [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]

    @cached_property
    def names(self) -> dict[str, set[str]]:
        """Package or module -> the names that it has."""
        names = {module.dotted: module.top_names for module in self.modules}
        for module in self.modules:
            names.setdefault(module.package.replace("/", "."), set())
        return names

    def resolve(self, path: str, home: Path | None = None) -> Path | None:
        """The file that prose in the folder `home` means by a path.

        A path begins in that folder or in one above it, in src, or in src/viewlet.
        """
        source = self.root / "src"
        above = (home, *home.parents) if home else ()
        folders = [folder for folder in above if folder.is_relative_to(self.root)]
        for folder in (*folders, source / "viewlet", source, self.root, self.root / "docs"):
            if (folder / path).exists():
                return folder / path
        return None


# Names.


def repeated_classes(tree: SourceTree) -> dict[str, list[str]]:
    """Class name -> the modules that define it, where there are several."""
    modules = defaultdict(list)
    for module in tree.modules:
        for node in module.classes:
            modules[node.name].append(module.path.as_posix())
    return {name: paths for name, paths in modules.items() if len(paths) > 1}


def classes_repeated_in_a_package(tree: SourceTree) -> list[str]:
    """A reader of one package finds one class of a name."""
    findings = []
    for name, paths in repeated_classes(tree).items():
        packages = [path.rpartition("/")[0] for path in paths]
        if len(set(packages)) < len(packages):
            findings.append(f"class {name} in {', '.join(paths)}")
    return findings


def repeated_modules(tree: SourceTree) -> dict[str, list[str]]:
    """Module name -> the packages that have one, where there are several."""
    packages = defaultdict(list)
    for module in tree.modules:
        if module.path.stem not in ("__init__", "__main__"):
            packages[module.path.stem].append(module.package)
    return {name: several for name, several in packages.items() if len(several) > 1}


def long_modules(tree: SourceTree, most: int = 500) -> dict[str, int]:
    """Module -> its lines, where there are more than a reader wants to hold."""
    lines = {m.path.as_posix(): len(m.source.splitlines()) for m in tree.modules}
    return {path: count for path, count in lines.items() if count > most}


# Docstrings.


def undocumented(tree: SourceTree) -> list[str]:
    """Public classes, functions and methods without a docstring.

    The body of a Protocol is left out, and so is a method that a base class in the tree documents,
    or a Protocol of which the class has every method.
    """
    classes = defaultdict(list)
    for module in tree.modules:
        for node in module.classes:
            classes[node.name].append(node)
    contracts = [
        {method.name for method in _methods(node)}
        for nodes in classes.values()
        for node in nodes
        if "Protocol" in _base_names(node)
    ]
    findings = []
    for module in tree.modules:
        for node in module.tree.body:
            if not isinstance(node, (*FUNCTION, ast.ClassDef)) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None and not _is_overload(node):
                findings.append(f"{module.path.as_posix()}:{node.lineno} {node.name}")
            if isinstance(node, ast.ClassDef) and "Protocol" not in _base_names(node):
                inherited = _documented_methods(node, classes)
                own = {method.name for method in _methods(node)} | _inherited(node, classes)
                inherited = inherited.union(*(names for names in contracts if names <= own))
                findings += [
                    f"{module.path.as_posix()}:{method.lineno} {node.name}.{method.name}"
                    for method in _methods(node)
                    if not method.name.startswith("_")
                    and ast.get_docstring(method) is None
                    and method.name not in inherited
                    and not _is_overload(method)
                ]
    return findings


def _methods(node: ast.ClassDef) -> list[Function]:
    return [method for method in node.body if isinstance(method, FUNCTION)]


def _base_names(node: ast.ClassDef) -> list[str]:
    """class A(B, m.C, D[T])  ->  B, C, D"""
    names = []
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(base, ast.Name | ast.Attribute):
            names.append(base.id if isinstance(base, ast.Name) else base.attr)
    return names


def _documented_methods(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> set[str]:
    """The methods that a base of the class documents; in a Protocol, all that it has."""
    names: set[str] = set()
    bases = [base for name in _base_names(node) for base in classes.get(name, ())]
    for base in bases:
        if base is not node:
            is_protocol = "Protocol" in _base_names(base)
            names |= {m.name for m in _methods(base) if is_protocol or ast.get_docstring(m)}
            names |= _documented_methods(base, classes)
    return names


def _inherited(node: ast.ClassDef, classes: dict[str, list[ast.ClassDef]]) -> set[str]:
    """The methods that the class has from its bases in the tree."""
    names: set[str] = set()
    for base in [base for name in _base_names(node) for base in classes.get(name, ())]:
        if base is not node:
            names |= {method.name for method in _methods(base)} | _inherited(base, classes)
    return names


def _is_overload(node: Function | ast.ClassDef) -> bool:
    """@overload, @p.setter: the docstring is with the other definition of the name."""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return any(d.endswith(("overload", ".setter")) for d in decorators)


# What nothing uses.


def unused(tree: SourceTree) -> list[str]:
    """Public functions and classes of a module that no code, test, page or example names.

    Words in strings count, because kernels are written as text; docstrings and the definition
    itself do not.
    """
    uses: dict[str, int] = defaultdict(int)
    for module in (*tree.modules, *tree.users):
        for name in identifiers(module, module.tree):
            uses[name] += 1
    for page in tree.pages:
        for name in WORD.findall(page.read_text(encoding="utf-8")):
            uses[name] += 1
    findings = []
    for module in tree.modules:
        for node in module.tree.body:
            if not isinstance(node, (*FUNCTION, ast.ClassDef)) or node.name.startswith("_"):
                continue
            own = sum(name == node.name for name in identifiers(module, node))
            if uses[node.name] <= own and not node.decorator_list:
                findings.append(f"{module.path.as_posix()}:{node.lineno} {node.name}")
    return findings


def identifiers(module: Module, part: ast.AST) -> Iterator[str]:
    """The names that a piece of code uses, the words of its strings among them."""
    docstrings = {id(node) for node in module.docstrings}
    for node in ast.walk(part):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield from WORD.findall(node.value)


BORROWED = frozenset(
    {"found", "place", "places", "held", "told", "kept", "passed", "lacking", "given", "wanted"}
)
"""Words that say what happened to a thing, or where it stands, and not what it is."""


def borrowed_words(tree: SourceTree) -> list[str]:
    """Names that a module gives to its variables, fields, functions and classes."""
    findings = []
    for module in tree.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, (*FUNCTION, ast.ClassDef)):
                name = node.name
            elif isinstance(node, ast.arg):
                name = node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                name = node.attr
            else:
                continue
            if BORROWED.intersection(name.lower().split("_")):
                findings.append(f"{module.path.as_posix()}:{node.lineno} {name}")
    return findings


# What prose names.


def broken_references(tree: SourceTree) -> list[str]:
    """Docstrings and comments that name a file, a module or a name that is not there."""
    known = _known_names(tree)
    findings = []
    for module in tree.modules:
        home = (tree.root / "src" / module.path).parent
        for prose in module.prose:
            where = f"{module.path.as_posix()}:{prose.line}"
            findings += [f"{where} {path}" for path in _broken_paths(tree, prose.text, home)]
            findings += [f"{where} {name}" for name in _broken_dotted(tree, prose.text)]
            findings += [
                f"{where} `{name}`"
                for name in CODE_NAME.findall(prose.text)
                if not set(name.split(".")) <= known
            ]
    for page in tree.pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        findings += [f"{page.name} {path}" for path in _broken_paths(tree, text, page.parent)]
    return findings


def _broken_paths(tree: SourceTree, text: str, home: Path) -> Iterator[str]:
    for path, name in PATH.findall(text):
        file = tree.resolve(path, home)
        if file is None:
            yield path
        elif name and name not in Module(file, file.read_text(encoding="utf-8")).top_names:
            yield f"{path}: {name}"


def _broken_dotted(tree: SourceTree, text: str) -> Iterator[str]:
    """viewlet.package.module.name: as far as it is no package or module, a name in the last one."""
    names = tree.names
    for dotted in DOTTED.findall(text):
        home, rest = dotted, []
        while home not in names:
            home, _, last = home.rpartition(".")
            rest.insert(0, last)
        if rest and rest[0] not in names[home]:
            yield dotted


def _known_names(tree: SourceTree) -> set[str]:
    """All that a name in backticks may mean: what code defines, uses or writes in a string."""
    known = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist}
    for module in (*tree.modules, *tree.users):
        known.update(identifiers(module, module.tree), module.top_names, module.path.parts)
        known.add(module.path.stem)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.arg) or (isinstance(node, ast.keyword) and node.arg):
                known.add(node.arg)
            elif isinstance(node, ast.alias):
                known.update(node.name.split("."))
    return known


# Papers.


@dataclass(frozen=True)
class Citation:
    """A section of a paper that something cites: `thesis`, `3.4.2`."""

    paper: str
    section: str


def citations(text: str) -> Iterator[Citation]:
    """thesis 6.3.1 to 6.3.3, Algorithm 6.3  ->  6.3.1, 6.3.3 and Algorithm 6.3 of the thesis

    A figure without its paper is of the one named last. If there is none, it is of the thesis where
    its number has the chapter before it, and else of no paper.
    """
    text = re.sub(r"\s+", " ", text)
    cited: set[int] = set()
    papers = [(match.start(), _paper_name(match)) for match in PAPER.finditer(text)]
    for match in PAPER.finditer(text):
        end = match.end()
        while between := BETWEEN.match(text, end):
            section = SECTION.match(text, between.end())
            if section is None:
                break
            cited.add(section.start())
            yield Citation(_paper_name(match), _section_name(section[1], section[2]))
            end = section.end()
    for match in NUMBERED.finditer(text):
        if match.start() not in cited:
            before = [paper for at, paper in papers if at < match.start()]
            by_chapter = match[1][0].isupper() and "." in match[2]
            paper = before[-1] if before else "thesis" if by_chapter else "no paper"
            yield Citation(paper, _section_name(match[1], match[2]))


def _paper_name(match: re.Match[str]) -> str:
    """Paper 001 is the thesis."""
    return "thesis" if match[2] in (None, "001") else f"paper {match[2]}"


def _section_name(kind: str | None, number: str) -> str:
    """How docs/papers.md writes it: 3.4.2, chapter 3, appendix C.3, Figure 3.1."""
    if kind in (None, "section", "sections"):
        return f"appendix {number}" if number[0].isalpha() else number
    return f"{kind.removesuffix('s')} {number}"


def cited_sections(page: str) -> dict[Citation, list[str]]:
    """docs/papers.md: section -> the files where its idea is."""
    sections = {}
    for part in re.split(r"^## ", page, flags=re.M)[1:]:
        paper = part.partition("\n")[0].strip()
        for row in re.findall(r"^\| (.*) \|$", part, flags=re.M)[1:]:
            cells = row.split(" | ")
            sections[Citation(paper, cells[0])] = re.findall(r"`([^`]+)`", cells[-1])
    return sections


def unresolved_citations(tree: SourceTree, sections: Iterable[Citation]) -> list[str]:
    """Citations in docstrings and comments that docs/papers.md does not explain."""
    known = set(sections)
    return [
        f"{module.path.as_posix()}:{prose.line} {citation.paper} {citation.section}"
        for module in (*tree.modules, *tree.users)
        for prose in module.prose
        for citation in citations(prose.text)
        if citation not in known
    ]


def unanswered_sections(tree: SourceTree, sections: dict[Citation, list[str]]) -> list[str]:
    """Rows of docs/papers.md none of whose files cites the section."""
    findings = []
    for citation, paths in sections.items():
        cited = set()
        for path in paths:
            file = tree.resolve(path)
            if file is None:
                findings.append(f"{citation.paper} {citation.section}: no {path}")
            elif file.suffix == ".py":
                module = Module(file, file.read_text(encoding="utf-8"))
                for prose in module.prose:
                    cited.update(citations(prose.text))
        if citation not in cited:
            findings.append(f"{citation.paper} {citation.section}: cited by none of {paths}")
    return findings


def has_section(paper: str, section: str) -> bool:
    """Whether the text of a paper has a heading or caption with this number."""
    kind, _, number = section.rpartition(" ")
    if kind == "chapter":
        pattern = rf"^\W*(?:Chapter {number}\b|{number} [A-Z])"
    elif kind in ("", "appendix"):
        pattern = rf"^\W*(?:Appendix )?{re.escape(number)}\.?(?!\d|\.\d)"
    else:
        pattern = rf"\b{kind} {re.escape(number)}(?!\d|\.\d)"
    return re.search(pattern, paper, re.M | re.I) is not None
