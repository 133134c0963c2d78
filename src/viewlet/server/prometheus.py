"""/metrics for Prometheus: what the figures say when they are asked for, and counts of requests."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from viewlet.server.feeds import Feeds
from viewlet.server.figures import FigureBook
from viewlet.server.gateway import Gateway


class ViewCollector(Collector):
    """The figures of every view, as Prometheus reads them."""

    def __init__(self, gateway: Gateway, figures: FigureBook, feeds: Feeds) -> None:
        self._gateway = gateway
        self._figures = figures
        self._feeds = feeds

    def collect(self) -> Iterable[Metric]:
        """One family for each figure."""
        views = dict(self._figures.views)
        refreshes = CounterMetricFamily(
            "viewlet_view_refreshes", "Batches that went through the view", labels=["view"]
        )
        rows = CounterMetricFamily("viewlet_view_rows", "Rows of those batches", labels=["view"])
        errors = CounterMetricFamily(
            "viewlet_view_errors", "Batches refused that it would have seen", labels=["view"]
        )
        for view, figures in views.items():
            refreshes.add_metric([view], figures.refreshes)
            rows.add_metric([view], figures.changed_rows)
            errors.add_metric([view], figures.refused)
        yield from (refreshes, rows, errors)
        modes = GaugeMetricFamily(
            "viewlet_view_mode", "1 for how it is maintained", labels=["view", "mode"]
        )
        pending = GaugeMetricFamily("viewlet_view_pending_rows", "That wait", labels=["view"])
        for view, figures in views.items():
            modes.add_metric([view, figures.mode], 1)
            pending.add_metric([view], figures.pending_rows)
        yield from (modes, pending)
        for name, text in (("bytes", "Bytes of its maps"), ("records", "Records of its maps")):
            family = GaugeMetricFamily(f"viewlet_view_{name}", text, labels=["view"])
            for view, figures in views.items():
                family.add_metric([view], getattr(figures, name))
            yield family
        family = GaugeMetricFamily(
            "viewlet_view_refresh_seconds",
            "Quantiles of the newest refreshes",
            labels=["view", "quantile"],
        )
        for view, figures in views.items():
            family.add_metric([view, "0.5"], figures.p50_ms / 1000)
            family.add_metric([view, "0.99"], figures.p99_ms / 1000)
        yield family
        family = GaugeMetricFamily(
            "viewlet_view_recomputed_maps", "Maps that batches recompute", labels=["view"]
        )
        for view, figures in views.items():
            family.add_metric([view], len(figures.recomputed))
        yield family
        yield CounterMetricFamily(
            "viewlet_rows_in", "Rows that came in", self._figures.history.rows
        )
        yield CounterMetricFamily("viewlet_rows_out", "Changed rows sent", self._feeds.rows)
        yield GaugeMetricFamily("viewlet_version", "Of the database", self._gateway.version)
        yield GaugeMetricFamily("viewlet_subscribers", "Clients of feeds", self._feeds.clients)


class ServerMetrics:
    """Everything that /metrics shows; each server has its own."""

    def __init__(self, gateway: Gateway, figures: FigureBook, feeds: Feeds) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ViewCollector(gateway, figures, feeds))
        self.requests = Counter(
            "viewlet_requests", "Requests", ["protocol", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "viewlet_request_seconds", "Time of requests", ["protocol"], registry=self._registry
        )

    def text(self) -> bytes:
        """In Prometheus' own format."""
        return generate_latest(self._registry)
