"""When a view's work is done: the options of CREATE and ALTER MATERIALIZED VIEW, and REFRESH.

WITH (maintenance = 'auto' | 'eager' | 'split' | 'deferred',
      refresh = 'on change' | 'on read' | 'every N s' | 'every N rows' | 'manual',
      staleness = 'N s')
ALTER MATERIALIZED VIEW v SET (maintenance = 'split')
REFRESH MATERIALIZED VIEW v
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from viewlet.errors import Position, ResolutionError, UnsupportedError
from viewlet.frontend.syntax import did_you_mean, position_of
from viewlet.frontend.word_reader import Positions, WordReader


class MaintenanceMode(Enum):
    """What a batch does for a view: all, a part, nothing yet; or whatever costs least."""

    AUTO = "auto"
    EAGER = "eager"
    SPLIT = "split"
    DEFERRED = "deferred"


class When(Enum):
    """What makes a view current."""

    ON_CHANGE = "on change"
    ON_READ = "on read"
    SECONDS = "every N s"
    ROWS = "every N rows"
    MANUAL = "manual"


@dataclass(frozen=True)
class RefreshRule:
    """When a view is refreshed; `amount` is the N of it."""

    when: When
    amount: float = 0.0

    def __str__(self) -> str:
        return self.when.value.replace("N", f"{self.amount:g}")


@dataclass(frozen=True)
class MaintenanceOptions:
    """What a user has said about one view; None is the default. Staleness is in seconds."""

    mode: MaintenanceMode = MaintenanceMode.AUTO
    refresh: RefreshRule | None = None
    staleness: float | None = None

    def texts(self) -> dict[str, str]:
        """The options as they are written."""
        written = {"maintenance": self.mode.value}
        if self.refresh is not None:
            written["refresh"] = str(self.refresh)
        if self.staleness is not None:
            written["staleness"] = f"{self.staleness:g} s"
        return written


NO_OPTIONS = MaintenanceOptions()


@dataclass(frozen=True)
class ViewOption:
    """name = 'value', with its position_of_offset."""

    name: str
    value: str
    position: Position | None


@dataclass(frozen=True)
class AlterView:
    """ALTER MATERIALIZED VIEW name SET (option = value, ...)."""

    name: str
    options: tuple[ViewOption, ...]
    position: Position
    text: str


@dataclass(frozen=True)
class RefreshView:
    """REFRESH MATERIALIZED VIEW name."""

    name: str
    position: Position

    @property
    def text(self) -> str:
        """A statement that does the same."""
        return f'REFRESH MATERIALIZED VIEW "{self.name.replace(chr(34), 2 * chr(34))}"'


OPTIONS = ("maintenance", "refresh", "staleness")
_LATER = {
    "memory": "leave it out; a view's maps are kept in full",
    "intermittent": "write 'deferred', with refresh = 'every N s' or 'every N rows'",
}
"""Options and values that are known and not there yet."""

_UNITS = {"ms": 0.001, "s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(?:(ms|s|min|h)|(second|minute)s?)")
_ROWS = re.compile(r"every\s+(\d+)\s+rows?")


def options_of(tree: exp.Create) -> MaintenanceOptions:
    """What CREATE MATERIALIZED VIEW v WITH (...) says of maintenance."""
    properties = tree.args.get("properties")
    options = []
    for part in properties.expressions if properties is not None else ():
        if isinstance(part, exp.Property) and part.name.lower() in (*OPTIONS, *_LATER):
            value = part.args.get("value")
            text = value.name if isinstance(value, exp.Literal | exp.Var) else ""
            options.append(ViewOption(part.name.lower(), text, position_of(part)))
    return with_options(NO_OPTIONS, options)


def with_options(options: MaintenanceOptions, changes: Iterable[ViewOption]) -> MaintenanceOptions:
    """The options after a list of them; an error at the first that is not right."""
    position = None
    names: set[str] = set()
    for change in changes:
        position = change.position
        if change.name in names:
            raise ResolutionError(f"{change.name} is said twice", position=position)
        names.add(change.name)
        if change.name == "maintenance":
            options = replace(options, mode=_mode(change))
        elif change.name == "refresh":
            options = replace(options, refresh=_rule(change))
        elif change.name == "staleness":
            options = replace(options, staleness=_seconds(change, change.value))
        elif change.name in _LATER:
            raise UnsupportedError(
                f"option {change.name} is not supported",
                position=position,
                hint=_LATER[change.name],
            )
        else:
            raise ResolutionError(
                f"there is no option {change.name}",
                position=position,
                hint=did_you_mean(change.name, OPTIONS),
            )
    _check_together(options, position)
    return options


def _mode(change: ViewOption) -> MaintenanceMode:
    known = {mode.value: mode for mode in MaintenanceMode}
    name = change.value.lower()
    if name in _LATER:
        raise UnsupportedError(
            f"maintenance = '{name}' is not supported", position=change.position, hint=_LATER[name]
        )
    if name not in known:
        raise ResolutionError(
            f"there is no maintenance {change.value!r}",
            position=change.position,
            hint=f"write one of {', '.join(map(repr, known))}",
        )
    return known[name]


def _rule(change: ViewOption) -> RefreshRule:
    text = " ".join(change.value.lower().split())
    for when in (When.ON_CHANGE, When.ON_READ, When.MANUAL):
        if text == when.value:
            return RefreshRule(when)
    rows = _ROWS.fullmatch(text)
    if rows and int(rows.group(1)) > 0:
        return RefreshRule(When.ROWS, int(rows.group(1)))
    if text.startswith("every ") and rows is None:
        return RefreshRule(When.SECONDS, _seconds(change, text.removeprefix("every ")))
    raise ResolutionError(
        f"there is no refresh {change.value!r}",
        position=change.position,
        hint="write 'on change', 'on read', 'every 5 s', 'every 1000 rows' or 'manual'",
    )


def _seconds(change: ViewOption, text: str) -> float:
    duration = _DURATION.fullmatch(" ".join(text.lower().split()))
    seconds = 0.0
    if duration is not None:
        seconds = float(duration.group(1)) * _UNITS[duration.group(2) or duration.group(3)]
    if not seconds:
        raise ResolutionError(
            f"{change.name}: {text!r} is not a time",
            position=change.position,
            hint="write a number above 0 and ms, s, min or h, as in '5 s'",
        )
    return seconds


def _check_together(options: MaintenanceOptions, position: Position | None) -> None:
    """An eager view is always current, a split one is made current by a read."""
    when = options.refresh.when if options.refresh is not None else None
    mode = options.mode
    allowed = {
        MaintenanceMode.AUTO: frozenset(When),
        MaintenanceMode.EAGER: frozenset((When.ON_CHANGE,)),
        MaintenanceMode.SPLIT: frozenset((When.ON_READ,)),
        MaintenanceMode.DEFERRED: frozenset(When) - {When.ON_CHANGE},
    }[mode]
    if when is not None and when not in allowed:
        fitting = " or ".join(repr(w.value) for w in When if w in allowed)
        raise ResolutionError(
            f"maintenance = '{mode.value}' does not go with refresh = '{options.refresh}'",
            position=position,
            hint=f"write refresh = {fitting}, or another maintenance",
        )
    is_current = mode is MaintenanceMode.EAGER or when is When.ON_CHANGE
    if options.staleness is not None and is_current:
        raise ResolutionError(
            "staleness is for views that are refreshed later: this one is always current",
            position=position,
            hint="leave it out, or write maintenance = 'split' or 'deferred'",
        )


# --- statements -----------------------------------------------------------------------------------


def read_refresh(tokens: Sequence[Token], position_of_offset: Positions) -> RefreshView:
    """REFRESH [MATERIALIZED] VIEW name"""
    reader = WordReader(tokens, position_of_offset, _SHAPES)
    reader.expect("REFRESH")
    reader.accept("MATERIALIZED")
    reader.expect("VIEW")
    name = reader.name()
    reader.end()
    return RefreshView(name, position_of_offset(tokens[0].start))


def read_alter(tokens: Sequence[Token], position_of_offset: Positions, text: str) -> AlterView:
    """ALTER [MATERIALIZED] VIEW name SET (option = value, ...)"""
    reader = WordReader(tokens, position_of_offset, _SHAPES)
    reader.expect("ALTER")
    reader.accept("MATERIALIZED")
    reader.expect("VIEW")
    name = reader.name()
    reader.expect("SET")
    reader.expect("(")
    options = [_option(reader)]
    while reader.accept(","):
        options.append(_option(reader))
    reader.expect(")")
    reader.end()
    return AlterView(name, tuple(options), position_of_offset(tokens[0].start), text)


def _option(reader: WordReader) -> ViewOption:
    position = reader.position()
    name = reader.name("an option")
    reader.expect("=")
    return ViewOption(name, reader.next("a value").text, position)


_SHAPES = (
    "write REFRESH MATERIALIZED VIEW v, or ALTER MATERIALIZED VIEW v SET (maintenance = 'split')"
    " or AS SELECT ..."
)
