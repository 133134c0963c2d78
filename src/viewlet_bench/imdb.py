"""A seeded generator of tables shaped as those of the Join Order Benchmark's IMDB.

FULL_ROWS has the rows of every table at scale 1; tables of kinds (info_type, role_type, ...) are
whole at every scale. References follow one power law, so that a film that is known has more of
everything: cast, keywords, companies and facts. Of a film, country, language and year of release go
together, and known films are rated better. The exponent, the shares of values and these two
correlations are chosen, not fitted to the data set: what a query selects of it, and whether it has
an answer at a small scale, is not what it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

FULL_ROWS: Mapping[str, int] = {
    "aka_name": 901_343,
    "aka_title": 361_472,
    "cast_info": 36_244_344,
    "char_name": 3_140_339,
    "company_name": 234_997,
    "complete_cast": 135_086,
    "keyword": 134_170,
    "movie_companies": 2_609_129,
    "movie_info": 14_835_720,
    "movie_info_idx": 1_380_035,
    "movie_keyword": 4_523_930,
    "movie_link": 29_997,
    "name": 4_167_491,
    "person_info": 2_963_664,
    "title": 2_528_312,
}
"""Rows at scale 1."""

KINDS: Mapping[str, Sequence[str]] = {
    "comp_cast_type": ("cast", "crew", "complete", "complete+verified"),
    "company_type": (
        "distributors",
        "production companies",
        "special effects companies",
        "miscellaneous companies",
    ),
    "kind_type": (
        *("movie", "tv series", "tv movie", "video movie", "tv mini series", "video game"),
        "episode",
    ),
    "link_type": (
        *("follows", "followed by", "remake of", "remade as", "references", "referenced in"),
        *("spoofs", "spoofed in", "features", "featured in", "spin off from", "spin off"),
        *("version of", "similar to", "edited into", "edited from", "alternate language version"),
        "unknown link",
    ),
    "role_type": (
        *("actor", "actress", "producer", "writer", "cinematographer", "composer"),
        *("costume designer", "director", "editor", "miscellaneous crew"),
        *("production designer", "guest"),
    ),
    "info_type": (
        *("genres", "countries", "languages", "release dates", "budget", "runtimes", "trivia"),
        *("mini biography", "birth date", "height", "rating", "votes", "top 250 rank"),
        *("bottom 10 rank", *(f"info {number}" for number in range(15, 114))),
    ),
}
"""Tables of an id and a word, at every scale."""

Column = Any
"""A NumPy array, or an Arrow array of strings."""

_WORDS = ("Dark", "Last", "Man", "Night", "Day", "Champion", "Loser", "Freddy", "Kung Fu", "Money")
_FIRST_NAMES = (
    "An",
    "Tim",
    "Yo",
    "Angela",
    "Bob",
    "Robert",
    "Maria",
    "Chris",
    "Yuko",
    "Lee",
    "Sam",
)
_SURNAMES = ("Downey", "Bach", "Smith", "Garcia", "Kim", "Boehm", "Xu", "Adams", "Berg", "Quist")
_ROLES = ("Queen", "Himself", "Tony Stark", "Iron Man", "Woman", "Policeman", "Sherlock", "Doctor")
_COUNTRIES = ("us", "gb", "de", "fr", "jp", "in", "it", "ru", "pl", "se")
_COUNTRY_NAMES = (
    *("USA", "UK", "Germany", "France", "Japan", "India", "Italy", "Russia", "Poland", "Sweden"),
)
_GENRES = ("Drama", "Comedy", "Short", "Documentary", "Horror", "Thriller", "Action", "Crime")
_KEYWORDS = (
    *("character-name-in-title", "murder", "violence", "blood", "sequel", "death", "superhero"),
    *("female-nudity", "gore", "fight", "hospital", "marvel-cinematic-universe", "hero"),
    *("computer-animation", "martial-arts", "based-on-comic", "marvel-comics", "second-part"),
    *("hand-to-hand-combat", "tv-special", "murder-in-title", "magnet", "web", "claw", "laser"),
    "10,000-mile-club",
)
_CAST_NOTES = (
    *("(uncredited)", "(voice)", "(producer)", "(executive producer)", "(writer)", "(written by)"),
    *("(story)", "(voice: English version)", "(voice: Japanese version)", "(voice) (uncredited)"),
    *("(head writer)", "(story editor)"),
)
_COMPANY_NOTES = (
    *("(presents)", "(co-production)", "(worldwide) (all media)", "(2006) (USA) (theatrical)"),
    *("(2009) (worldwide) (TV)", "(2007) (Japan) (DVD)", "(1999) (USA) (VHS)"),
    *("(2011) (France) (theatrical)", "(as Metro-Goldwyn-Mayer Pictures) (presents)"),
)
_COMPANIES = ("Warner Home Video", "Lionsgate", "Universal Film", "Film Works", "Pictures", "Media")


class ImdbTables:
    """All tables at a scale, each made when it is first asked for, the same for the same seed."""

    def __init__(self, sf: float, seed: int = 2013) -> None:
        self._sf = sf
        self._seed = seed
        self._made: dict[str, dict[str, Column]] = {}

    def length(self, table: str) -> int:
        """The rows of a table."""
        if table in KINDS:
            return len(KINDS[table])
        return max(20, round(self._sf * FULL_ROWS[table]))

    def table(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Some columns of a table, those that no query reads as NULL."""
        import pyarrow as pa

        made = self._columns(name)
        empty = pa.nulls(self.length(name), pa.string())
        return pa.table({column: made.get(column, empty) for column in columns})

    def _columns(self, name: str) -> dict[str, Column]:
        if name not in self._made:
            count = self.length(name)
            ids = np.arange(1, count + 1)
            if name in KINDS:
                self._made[name] = {"id": ids, _KIND_COLUMNS.get(name, "kind"): _text(KINDS[name])}
            else:
                random = np.random.default_rng((self._seed, sorted(FULL_ROWS).index(name)))
                self._made[name] = {"id": ids, **_MAKERS[name](self, random, count)}
        return self._made[name]

    def films(self, random: np.random.Generator, count: int) -> Any:
        """References to titles: the first ones are the known ones, in every table."""
        return _power_law(random, self.length("title"), count)

    def people(self, random: np.random.Generator, count: int) -> Any:
        """References to names, the busy ones first."""
        return _power_law(random, self.length("name"), count)


_KIND_COLUMNS = {"info_type": "info", "role_type": "role", "link_type": "link"}


def _title(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    # Newer titles are more and better known, and two of three are episodes or films.
    years = 2013 - (random.exponential(14.0, count)).astype(np.int64).clip(0, 120)
    kinds = random.choice(
        len(KINDS["kind_type"]), count, p=(0.3, 0.05, 0.05, 0.1, 0.02, 0.01, 0.47)
    )
    is_episode = kinds == 6
    titles = [f"{_WORDS[n % len(_WORDS)]} {n // 7}" for n in random.permutation(count)]
    titles[3] = "Shrek 2"
    return {
        "title": _text(titles),
        "kind_id": kinds + 1,
        "production_year": _with_gaps(random, years, 0.03),
        "episode_nr": _where(is_episode, random.integers(1, 200, count)),
        "season_nr": _where(is_episode, random.integers(1, 20, count)),
        "episode_of_id": _where(is_episode, _power_law(random, count, count)),
    }


def _name(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    first_names = random.integers(0, len(_FIRST_NAMES), count)
    surnames = random.integers(0, len(_SURNAMES), count)
    codes = [chr(65 + int(letter)) for letter in random.integers(0, 26, count)]
    pairs = zip(first_names, surnames, range(count), strict=True)
    return {
        "name": _text([f"{_SURNAMES[f]}, {_FIRST_NAMES[g]} {n}" for g, f, n in pairs]),
        "gender": _choice(random, count, ("m", "f", None), (0.42, 0.23, 0.35)),
        "name_pcode_cf": _text([f"{code}{n % 600}" for n, code in enumerate(codes)]),
    }


def _aka_name(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    numbers = random.integers(0, len(_FIRST_NAMES), count)
    return {
        "person_id": tables.people(random, count),
        "name": _text([f"{_FIRST_NAMES[g]} alias {n}" for n, g in enumerate(numbers)]),
    }


def _aka_title(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    return {
        "movie_id": tables.films(random, count),
        "title": _text([f"{_WORDS[n % len(_WORDS)]} also {n}" for n in range(count)]),
        "kind_id": random.integers(1, 8, count),
    }


def _char_name(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    kinds = random.integers(0, 4 * len(_ROLES), count)
    named = [_ROLES[k] if k < len(_ROLES) else f"Character {n}" for n, k in enumerate(kinds)]
    return {"name": _text(named)}


def _cast_info(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    roles = random.choice(
        12, count, p=(0.36, 0.2, 0.1, 0.1, 0.03, 0.03, 0.02, 0.05, 0.05, 0.04, 0.01, 0.01)
    )
    acted = roles < 2
    characters = _power_law(random, tables.length("char_name"), count)
    notes = _power_law(random, 3 * len(_CAST_NOTES), count) - 1
    return {
        "person_id": tables.people(random, count),
        "movie_id": tables.films(random, count),
        "person_role_id": _where(acted & (random.random(count) < 0.85), characters),
        "note": _taken(_CAST_NOTES, notes),
        "role_id": roles + 1,
    }


def _company_name(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    countries = _power_law(random, len(_COUNTRIES), count) - 1
    return {
        "name": _text([f"{_COMPANIES[n % len(_COMPANIES)]} {n}" for n in range(count)]),
        "country_code": _text([f"[{_COUNTRIES[c]}]" for c in countries]),
    }


def _movie_companies(
    tables: ImdbTables, random: np.random.Generator, count: int
) -> dict[str, Column]:
    notes = _power_law(random, 2 * len(_COMPANY_NOTES), count) - 1
    return {
        "movie_id": tables.films(random, count),
        "company_id": _power_law(random, tables.length("company_name"), count),
        "company_type_id": 1 + (random.random(count) < 0.46),
        "note": _taken(_COMPANY_NOTES, notes),
    }


def _movie_info(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    films = tables.films(random, count)
    types = _power_law(random, 16, count)
    countries = _COUNTRY_NAMES
    made = (films * 7919) % len(countries)  # a film's country, language and release go together
    years = 1990 + (films * 31) % 24
    numbers = random.integers(0, 1_000_000, count)
    genres = _power_law(random, len(_GENRES), count) - 1
    info = [
        _GENRES[g]
        if t == 1
        else countries[c]
        if t in (2, 3)
        else f"{countries[c]}:{1 + n % 28} May {y}"
        if t == 4
        else f"fact {n}"
        for t, g, c, y, n in zip(types, genres, made, years, numbers, strict=True)
    ]
    return {
        "movie_id": films,
        "info_type_id": types,
        "info": _text(info),
        "note": _choice(random, count, ("internet", "(premiere)", None), (0.1, 0.1, 0.8)),
    }


def _movie_info_idx(
    tables: ImdbTables, random: np.random.Generator, count: int
) -> dict[str, Column]:
    films = tables.films(random, count)
    types = random.choice((11, 12, 13, 14), count, p=(0.48, 0.48, 0.03, 0.01))
    # Known films are rated better: rank and rating go together.
    known = 1.0 - films / tables.length("title")
    ratings = (4.0 + 4.0 * known + random.normal(0, 1.2, count)).clip(1.0, 9.9)
    info = [
        f"{rating:.1f}"
        if kind == 11
        else str(int(1 + 1e5 * share**8))
        if kind == 12
        else str(1 + film % 250)
        for kind, rating, share, film in zip(types, ratings, known, films, strict=True)
    ]
    return {"movie_id": films, "info_type_id": types, "info": _text(info)}


def _keyword(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    made_up = (f"keyword-{number}" for number in range(len(_KEYWORDS), count))
    return {"keyword": _text([*_KEYWORDS[:count], *made_up])}


def _movie_keyword(
    tables: ImdbTables, random: np.random.Generator, count: int
) -> dict[str, Column]:
    return {
        "movie_id": tables.films(random, count),
        "keyword_id": _power_law(random, tables.length("keyword"), count),
    }


def _movie_link(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    return {
        "movie_id": tables.films(random, count),
        "linked_movie_id": tables.films(random, count),
        "link_type_id": _power_law(random, len(KINDS["link_type"]), count),
    }


def _complete_cast(
    tables: ImdbTables, random: np.random.Generator, count: int
) -> dict[str, Column]:
    return {
        "movie_id": tables.films(random, count),
        "subject_id": random.integers(1, 3, count),
        "status_id": random.integers(3, 5, count),
    }


def _person_info(tables: ImdbTables, random: np.random.Generator, count: int) -> dict[str, Column]:
    return {
        "person_id": tables.people(random, count),
        "info_type_id": 6 + _power_law(random, 5, count),
        "info": _text([f"about {number}" for number in range(count)]),
        "note": _choice(random, count, ("Volker Boehm", "Anonymous", None), (0.05, 0.15, 0.8)),
    }


Maker = Callable[[ImdbTables, np.random.Generator, int], dict[str, Column]]

_MAKERS: Mapping[str, Maker] = {
    "aka_name": _aka_name,
    "aka_title": _aka_title,
    "cast_info": _cast_info,
    "char_name": _char_name,
    "company_name": _company_name,
    "complete_cast": _complete_cast,
    "keyword": _keyword,
    "movie_companies": _movie_companies,
    "movie_info": _movie_info,
    "movie_info_idx": _movie_info_idx,
    "movie_keyword": _movie_keyword,
    "movie_link": _movie_link,
    "name": _name,
    "person_info": _person_info,
    "title": _title,
}


def _power_law(random: np.random.Generator, largest: int, count: int) -> Any:
    """1 .. largest, where n comes about as often as n ** -0.6: half are in the first 18 %."""
    return 1 + (largest * random.random(count) ** 2.5).astype(np.int64).clip(0, largest - 1)


def _text(values: Sequence[str]) -> Column:
    import pyarrow as pa

    return pa.array(values, pa.string())


def _taken(values: Sequence[str], numbers: Any) -> Column:
    """The value of each number, NULL beyond the last."""
    import pyarrow as pa

    inside = numbers < len(values)
    return _text(values).take(pa.array(np.where(inside, numbers, 0), mask=~inside))


def _choice(
    random: np.random.Generator, count: int, values: Sequence[str | None], shares: Sequence[float]
) -> Column:
    import pyarrow as pa

    numbers = random.choice(len(values), count, p=shares)
    return pa.array(values, pa.string()).take(pa.array(numbers))


def _where(condition: Any, values: Any) -> Column:
    """The values where the condition holds, NULL elsewhere."""
    import pyarrow as pa

    return pa.array(values, mask=~condition)


def _with_gaps(random: np.random.Generator, values: Any, share: float) -> Column:
    return _where(random.random(len(values)) >= share, values)
