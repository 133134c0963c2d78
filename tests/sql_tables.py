"""The tables of docs/sql-reference.md, made of the tests that stand behind them.

python -m tests.sql_tables      writes them into the page
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "sql-reference.md"
MARK = "<!-- {name}: made by python -m tests.sql_tables -->\n"


def supported() -> str:
    """Each section of features.sql with some of its queries."""
    text = (HERE / "frontend" / "features.sql").read_text()
    _, *sections = re.split(r"^-- ", text, flags=re.MULTILINE)
    lines = ["| | queries | for example |", "|---|---|---|"]
    for section in sections[1:]:
        title, _, body = section.partition("\n")
        queries = [" ".join(query.split()) for query in body.split(";") if query.strip()]
        step = max(1, len(queries) // 4)
        shown = [query for query in queries[::step] if len(query) < 90][:4]
        cell = "<br>".join(f"`{escaped(query)}`" for query in shown)
        lines.append(f"| {title} | {len(queries)} | {cell} |")
    return "\n".join(lines) + "\n"


def unsupported() -> str:
    """What errors.sql has rejected, with the way out."""
    text = (HERE / "frontend" / "errors.sql").read_text()
    found = re.findall(r"^(.*)\n--! UnsupportedError \S+ \| (.*) \| (.*)$", text, re.MULTILINE)
    lines = ["| what is rejected | message | instead |", "|---|---|---|"]
    seen = set()
    for statement, message, hint in found:
        if message not in seen:
            seen.add(message)
            instead = "" if hint == "-" else escaped(hint)
            lines.append(f"| `{escaped(statement)}` | {escaped(message)} | {instead} |")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


TABLES = {"supported": supported, "unsupported": unsupported}


def with_tables(page: str) -> str:
    for name, table in TABLES.items():
        start = re.escape(MARK.format(name=name))
        page, count = re.subn(rf"({start})(?:\|.*\n)*", lambda m, t=table: m.group(1) + t(), page)
        assert count == 1, name
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
