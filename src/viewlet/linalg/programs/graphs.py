"""Graphs that change edge by edge: PageRank and reachability within k steps (thesis 6.4.2)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from viewlet.errors import DataError, RangeError, TypingError
from viewlet.linalg import expr as ex
from viewlet.linalg.arrays import Array, OneHot
from viewlet.linalg.live import Live
from viewlet.linalg.program import program
from viewlet.linalg.real_numbers import real_number, real_table, whole_number
from viewlet.linalg.updates import Change

EXACT_COUNTS = 2.0**53
logger = logging.getLogger("viewlet")


class PageRank:
    """k steps of r <- d (M + e w) r + (1 - d)/n 1 over a graph that stays sparse.

    M[j, i] is the share of page i's weight that goes to page j, w marks pages without links and
    e = 1/n spreads their weight. Changing the links of one page changes one column of M.

    A step brings r closer to the true ranks r* by the factor d in the sum of absolute differences,
    and no two distributions differ by more than 2, so that |r - r*| <= 2 d^k whatever the graph:
    `tol` bounds that sum and chooses k. Whoever gives `steps` chooses k instead; `error_bound` says
    how far the ranks can be from the truth now, and a log line warns where that is above `tol`.

    >>> ranks = la.PageRank(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    >>> int(np.argmax(ranks.ranks))
    0
    """

    def __init__(
        self,
        graph: Any,
        *,
        damping: float = 0.85,
        tol: float = 1e-6,
        steps: int | None = None,
        **options: Any,
    ) -> None:
        damping, tol = real_number(damping, "damping"), real_number(tol, "tol")
        if not 0.0 <= damping < 1.0:
            raise RangeError(f"damping is at least 0 and below 1, got {damping}")
        if not tol > 0.0:
            raise RangeError(f"a tolerance is above 0, got {tol}")
        links = sparse.csr_array(real_table(graph, "the graph"))
        n = links.shape[0]
        if links.shape != (n, n):
            raise DataError(f"an adjacency matrix is square, got {links.shape}")
        if links.nnz and not (np.isfinite(links.data).all() and links.data.min() >= 0.0):
            raise DataError("the weights of links must be finite and not negative")
        self.n = n
        links.eliminate_zeros()
        self._links: dict[int, dict[int, float]] = {}
        self._initial = links
        totals = np.asarray(links.sum(axis=1)).reshape(-1)
        shares = sparse.diags_array(np.divide(1.0, totals, out=np.zeros(n), where=totals > 0.0))
        matrix, w = ex.matrix("M", n, n), ex.matrix("w", 1, n)
        e, b, start = ex.matrix("e", n), ex.matrix("b", n), ex.matrix("r0", n)
        self.damping, self.tol = damping, tol
        self.steps = steps_within(tol, damping) if steps is None else steps
        ranks = ex.iterate(damping * (matrix + e @ w), start, self.steps, b)
        self.live: Live = program(r=ranks).start(
            {
                "M": (shares @ links).T.tocsr(),
                "w": (totals == 0.0).astype(np.float64)[None, :],
                "e": np.full(n, 1.0 / n),
                "b": np.full(n, (1.0 - damping) / n),
                "r0": np.full(n, 1.0 / n),
            },
            **{"changing": ["M"], **({"model": "linear"} | options)},
        )

        self._warn_if_far()

    def __repr__(self) -> str:
        return f"<PageRank: {self.n:,} pages, damping={self.damping}, steps={self.steps}>"

    @property
    def ranks(self) -> Array:
        """One number for each page; they add up to 1."""
        ranks: Array = self.live["r"][:, 0]
        return ranks

    @property
    def error_bound(self) -> float:
        """The most that the absolute errors of all ranks can add up to, by one more step.

        |r - r*| <= |T(r) - r| / (1 - d) for the step T, which contracts by d.
        """
        ranks = self.ranks
        links, dangling = self.live["M"], self.live["w"]
        spread = (float((dangling @ ranks)[0]) * self.damping + 1.0 - self.damping) / self.n
        following = self.damping * (links @ ranks) + spread
        return float(np.abs(following - ranks).sum()) / (1.0 - self.damping)

    def _warn_if_far(self) -> None:
        if 2.0 * self.damping**self.steps <= self.tol:
            return  # within the tolerance for every graph
        bound = self.error_bound
        if bound > self.tol:
            logger.warning(
                "PageRank: after %d steps the errors of all ranks may add up to %.2g, above the "
                "tolerance of %.2g; leave `steps` out, or raise `tol`",
                self.steps,
                bound,
                self.tol,
            )

    def add_links(self, links: Iterable[tuple[int, int] | tuple[int, int, float]]) -> None:
        """Add links (from, to) or (from, to, weight); an existing link takes the new weight."""
        self._change([_link(link) for link in links])

    def remove_links(self, links: Iterable[tuple[int, int]]) -> None:
        """Remove links; each must exist."""
        pairs = [_link(link)[:2] for link in links]
        for i, j in pairs:
            if self._page(i) and self._page(j) and j not in self._out(i):
                raise DataError(f"there is no link from {i} to {j}")
        self._change([(i, j, 0.0) for i, j in pairs])

    def _page(self, i: int) -> bool:
        if not 0 <= i < self.n:
            raise DataError(f"there is no page {i}; pages are 0 to {self.n - 1}")
        return True

    def _out(self, i: int) -> dict[int, float]:
        if i not in self._links:
            row = self._initial[[i]]
            self._links[i] = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        return self._links[i]

    def _change(self, links: list[tuple[int, int, float]]) -> None:
        fresh: dict[int, dict[int, float]] = {}
        for i, j, weight in links:
            if not (self._page(i) and self._page(j) and np.isfinite(weight) and weight >= 0.0):
                raise DataError(f"the weight of a link must be finite and not negative: {weight}")
            out = fresh.setdefault(i, dict(self._out(i)))
            if weight == 0.0:
                out.pop(j, None)
            else:
                out[j] = weight
        if not fresh:
            return
        pages = np.array(sorted(fresh), dtype=np.intp)
        unit = OneHot(pages, self.n)
        columns = np.zeros((self.n, len(pages)), order="F")
        dangling = np.zeros((1, len(pages)))
        for at, i in enumerate(pages.tolist()):
            _add_shares(columns[:, at], self._out(i), -1.0)
            _add_shares(columns[:, at], fresh[i], 1.0)
            dangling[0, at] = float(not fresh[i]) - float(not self._out(i))
        changes: dict[str, Change] = {"M": (columns, unit)}
        if dangling.any():
            changes["w"] = (dangling, unit)
        self.live.update(changes)
        self._links.update(fresh)
        self._warn_if_far()


def _link(link: Any) -> tuple[int, int, float]:
    """(from, to) or (from, to, weight)"""
    if not isinstance(link, tuple | list | np.ndarray) or len(link) not in (2, 3):
        raise TypingError(f"a link is (from, to) or (from, to, weight), got {link!r}")
    weight = real_number(link[2], "a weight") if len(link) == 3 else 1.0
    return whole_number(link[0], "a page"), whole_number(link[1], "a page"), weight


def steps_within(tol: float, damping: float) -> int:
    """The least k with 2 damping^k <= tol."""
    if damping == 0.0:
        return 1
    return max(1, math.ceil(math.log(tol / 2.0) / math.log(damping)))


def _add_shares(column: Array, out: dict[int, float], sign: float) -> None:
    total = sum(out.values())
    for j, weight in out.items():
        column[j] += sign * weight / total


class Reachability:
    """Which nodes reach which within k steps, by counting walks: I + A + ... + A^k.

    Counts are whole numbers, exact in double precision up to 2^53; beyond it an update is refused
    rather than answered wrongly.

    >>> net = la.Reachability(3, [(0, 1), (1, 2)], steps=2)
    >>> net.reaches(0, 2)
    True
    """

    def __init__(
        self, n: int, links: Iterable[tuple[int, int]], *, steps: int, **options: Any
    ) -> None:
        self.n, self.steps = whole_number(n, "n"), whole_number(steps, "steps")
        adjacency = np.zeros((n, n))
        for i, j in links:
            adjacency[self._node(i), self._node(j)] = 1.0
        matrix = ex.matrix("A", n, n)
        self.live: Live = program(S=ex.power_sum(matrix, steps + 1)).start(
            {"A": adjacency}, **options
        )
        self._guard()

    def __repr__(self) -> str:
        return f"<Reachability: {self.n:,} nodes, steps={self.steps}>"

    def _node(self, i: int) -> int:
        if not 0 <= whole_number(i, "a node") < self.n:
            raise DataError(f"there is no node {i}; nodes are 0 to {self.n - 1}")
        return int(i)

    def _guard(self) -> None:
        if float(np.max(self.live["S"])) >= EXACT_COUNTS:
            raise RangeError(
                "there are more walks than double precision counts exactly",
                hint="use fewer steps",
            )

    def add_links(self, links: Iterable[tuple[int, int]]) -> None:
        """Add links; one that is there already changes nothing."""
        self._set(links, 1.0)

    def remove_links(self, links: Iterable[tuple[int, int]]) -> None:
        """Remove links; one that is not there changes nothing."""
        self._set(links, 0.0)

    def _set(self, links: Iterable[tuple[int, int]], value: float) -> None:
        entries = [(self._node(i), self._node(j), value) for i, j in links]
        before = [(i, j, float(self.live["A"][i, j])) for i, j, _ in entries]
        self.live.set_entries("A", entries)
        try:
            self._guard()
        except RangeError:
            self.live.replace("A", _restored(self.live["A"], before))
            raise

    def walks(self, source: int, target: int) -> int:
        """The number of walks of at most k steps."""
        return int(np.rint(self.live["S"][self._node(source), self._node(target)]))

    def reaches(self, source: int, target: int) -> bool:
        """Whether some walk of the counted lengths leads from source to target."""
        return self.walks(source, target) > 0

    def matrix(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """reachable[i, j] for all pairs."""
        return np.asarray(np.rint(self.live["S"]) > 0)


def _restored(now: Array, entries: Iterable[tuple[int, int, float]]) -> Array:
    value = np.array(now)
    for i, j, x in entries:
        value[i, j] = x
    return value
