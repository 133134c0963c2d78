"""The maps of the local engine in a directory: rows of words, and what each word means.

    maps.json      the program as text, and for each map its key fields and value columns
    N.npy          the records of one map: the words of keys, then of values
    strings.arrow  the strings of codes 1, 2, ...

Hash tables, trees and links are not written: they follow from the records. So a file is readable as
long as words mean the same, whatever else changes in storage/; `SavedMaps.fits` says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.engine.values.strings import Dictionary
from viewlet.storage.columns import Array, Layout
from viewlet.storage.pool import Pool

_FILE = "maps.json"
_STRINGS = "strings.arrow"
FORMAT = 1


@dataclass(frozen=True)
class SavedMaps:
    """What a directory has: the program's text, each map's words and their meaning, the strings."""

    format: int
    program: str
    words: Mapping[str, Array]
    meanings: Mapping[str, Any]
    strings: list[str]

    def fits(self, layout: Layout) -> bool:
        """Whether the words of a map mean what they mean to this version."""
        return self.format == FORMAT and self.meanings.get(layout.name) == _meaning(layout)


def _meaning(layout: Layout) -> Any:
    bounds = (*layout.value_words, layout.row_width)
    widths = [end - start for start, end in pairwise(bounds)]
    return {
        "keys": [[key.physical.name, key.nullable] for key in layout.keys],
        "values": [[value.name, width] for value, width in zip(layout.values, widths, strict=True)],
    }


def write_maps(
    directory: Path, program: str, pools: Mapping[str, Pool], dictionary: Dictionary
) -> None:
    """Write the records of all maps that last, and the strings of their codes."""
    import pyarrow as pa

    directory.mkdir()
    lasting = {name: pool for name, pool in pools.items() if not pool.buffer}
    for number, pool in enumerate(lasting.values()):
        records = pool.table()[pool.live(), : pool.layout.row_width]
        np.save(directory / f"{number}.npy", np.ascontiguousarray(records))
    about = {
        "format": FORMAT,
        "program": program,
        "maps": {name: _meaning(pool.layout) for name, pool in lasting.items()},
    }
    (directory / _FILE).write_text(json.dumps(about), encoding="utf-8")
    strings = pa.table({"text": pa.array(dictionary.strings[1:], pa.large_string())})
    path = str(directory / _STRINGS)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, strings.schema) as writer:
        writer.write_table(strings)


def read_maps(directory: Path) -> SavedMaps:
    """What `write_maps` wrote, not yet judged."""
    import pyarrow as pa

    about = json.loads((directory / _FILE).read_text(encoding="utf-8"))
    words = {
        name: np.load(directory / f"{number}.npy") for number, name in enumerate(about["maps"])
    }
    with pa.memory_map(str(directory / _STRINGS)) as source:
        strings = pa.ipc.open_file(source).read_all().column("text").to_pylist()
    return SavedMaps(about["format"], about["program"], words, about["maps"], strings)
