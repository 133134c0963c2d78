"""When a view's work is done: the options of CREATE and ALTER MATERIALIZED VIEW, and REFRESH.

WITH (maintenance = 'auto' | 'eager' | 'split' | 'deferred' | 'intermittent',
      refresh = 'on change' | 'on read' | 'every N s' | 'every N rows' | 'when complete' | 'manual',
      staleness = 'N s',
      memory = 'N MB')
ALTER MATERIALIZED VIEW v SET (maintenance = 'split')
REFRESH MATERIALIZED VIEW v
ALTER TABLE r COMPLETE
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from viewlet.errors import Position, ResolutionError
from viewlet.frontend.syntax import did_you_mean, position_of
from viewlet.frontend.word_reader import Positions, WordReader


class MaintenanceMode(Enum):
    """What a batch does for a view: all, a part, nothing yet; or whatever costs least."""

    AUTO = "auto"
    EAGER = "eager"
    SPLIT = "split"
    DEFERRED = "deferred"
    INTERMITTENT = "intermittent"

    @property
    def is_later(self) -> bool:
        """Whether a batch is kept until a refresh."""
        return self in (MaintenanceMode.DEFERRED, MaintenanceMode.INTERMITTENT)


class When(Enum):
    """What makes a view current."""

    ON_CHANGE = "on change"
    ON_READ = "on read"
    SECONDS = "every N s"
    ROWS = "every N rows"
    COMPLETE = "when complete"
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
    """What a user has said about one view; None is the default.

    Staleness is in seconds, memory in bytes.
    """

    mode: MaintenanceMode = MaintenanceMode.AUTO
    refresh: RefreshRule | None = None
    staleness: float | None = None
    memory: int | None = None

    def texts(self) -> dict[str, str]:
        """The options as they are written."""
        written = {"maintenance": self.mode.value}
        if self.refresh is not None:
            written["refresh"] = str(self.refresh)
        if self.staleness is not None:
            written["staleness"] = f"{self.staleness:g} s"
        if self.memory is not None:
            written["memory"] = f"{self.memory} B"
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


@dataclass(frozen=True)
class Complete:
    """ALTER TABLE | STREAM name COMPLETE: no more rows will come."""

    name: str
    kind: str
    position: Position

    @property
    def text(self) -> str:
        """A statement that does the same."""
        return f'ALTER {self.kind} "{self.name.replace(chr(34), 2 * chr(34))}" COMPLETE'


OPTIONS = ("maintenance", "refresh", "staleness", "memory")

_UNITS = {"ms": 0.001, "s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(?:(ms|s|min|h)|(second|minute)s?)")
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 2.0**10, "MIB": 2.0**20, "GIB": 2.0**30}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?(B|[kKMG]i?B)")
_ROWS = re.compile(r"every\s+(\d+)\s+rows?")


def options_of(tree: exp.Create) -> MaintenanceOptions:
    """What CREATE MATERIALIZED VIEW v WITH (...) says of maintenance."""
    properties = tree.args.get("properties")
    options = []
    for part in properties.expressions if properties is not None else ():
        if isinstance(part, exp.Property) and part.name.lower() in OPTIONS:
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
        elif change.name == "memory":
            options = replace(options, memory=_bytes_of(change))
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
    if name not in known:
        raise ResolutionError(
            f"there is no maintenance {change.value!r}",
            position=change.position,
            hint=f"write one of {', '.join(map(repr, known))}",
        )
    return known[name]


def _rule(change: ViewOption) -> RefreshRule:
    text = " ".join(change.value.lower().split())
    for when in (When.ON_CHANGE, When.ON_READ, When.COMPLETE, When.MANUAL):
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
        hint="write 'on change', 'on read', 'every 5 s', 'every 1000 rows', 'when complete' or "
        "'manual'",
    )


def seconds_of(within: object) -> float | None:
    """60, "60 s" or None -> seconds"""
    if within is None:
        return None
    if isinstance(within, str):
        return _seconds(ViewOption("within", within, None), within)
    is_number = isinstance(within, int | float) and not isinstance(within, bool)
    if not is_number or not 0 < within < float("inf"):  # type: ignore[operator]
        raise ResolutionError(f"within={within!r}", hint="write seconds, or '60 s'")
    return float(within)  # type: ignore[arg-type]


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


def _bytes_of(change: ViewOption) -> int:
    try:
        return memory_of(change.value)
    except ResolutionError as error:
        raise ResolutionError(
            f"memory: {error.message}", position=change.position, hint=error.hint
        ) from None


def memory_of(text: str) -> int:
    """'64 MB' -> 64000000"""
    amount = _MEMORY.fullmatch(" ".join(text.split()))
    count = int(float(amount.group(1)) * _BYTES[amount.group(2).upper()]) if amount else 0
    if not count:
        raise ResolutionError(
            f"{text!r} is not an amount of memory",
            hint="write a number above 0 and B, kB, MB or GB, as in '64 MB'",
        )
    return count


def _check_together(options: MaintenanceOptions, position: Position | None) -> None:
    """An eager view is always current, a split one is made current by a read."""
    when = options.refresh.when if options.refresh is not None else None
    mode = options.mode
    allowed = {
        MaintenanceMode.AUTO: frozenset(When) - {When.COMPLETE},
        MaintenanceMode.EAGER: frozenset((When.ON_CHANGE,)),
        MaintenanceMode.SPLIT: frozenset((When.ON_READ,)),
        MaintenanceMode.DEFERRED: frozenset(When) - {When.ON_CHANGE},
        MaintenanceMode.INTERMITTENT: frozenset(When) - {When.ON_CHANGE},
    }[mode]
    if options.memory is not None and mode is not MaintenanceMode.INTERMITTENT:
        raise ResolutionError(
            f"memory is for intermittent views, and this one is {mode.value}",
            position=position,
            hint="write maintenance = 'intermittent', or leave memory out",
        )
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


def read_complete(tokens: Sequence[Token], position_of_offset: Positions) -> Complete | None:
    """ALTER TABLE | STREAM name COMPLETE; None if it is some other change of a table."""
    if len(tokens) < 2 or tokens[-1].text.upper() != "COMPLETE":
        return None
    reader = WordReader(tokens, position_of_offset, _COMPLETE_SHAPE)
    reader.expect("ALTER")
    kind = "TABLE" if reader.accept("TABLE") else "STREAM"
    if kind == "STREAM":
        reader.expect("STREAM")
    name = reader.name("a name")
    reader.expect("COMPLETE")
    reader.end()
    return Complete(name, kind, position_of_offset(tokens[0].start))


def _option(reader: WordReader) -> ViewOption:
    position = reader.position()
    name = reader.name("an option")
    reader.expect("=")
    return ViewOption(name, reader.next("a value").text, position)


_COMPLETE_SHAPE = "write ALTER TABLE r COMPLETE, or ALTER STREAM s COMPLETE"
_SHAPES = (
    "write REFRESH MATERIALIZED VIEW v, or ALTER MATERIALIZED VIEW v SET (maintenance = 'split')"
    " or AS SELECT ..."
)
