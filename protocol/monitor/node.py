"""One node as it can be looked at: health, metrics, and what else it shows, at the port of its `monitor.toml`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from consilium.protocol.monitor.answers import Answer, Page, as_json
from consilium.protocol.monitor.heard import Heard
from consilium.protocol.monitor.lasting import Lasting
from consilium.protocol.monitor.server import MonitorPort
from consilium.protocol.monitor.settings import MonitorSettings
from consilium.protocol.node.kit import Kit

if TYPE_CHECKING:
    from consilium.protocol.monitor.metrics import MetricFamily

METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def no_metrics() -> Iterable[MetricFamily]:
    """Of a node that has none of its own."""
    return ()


@dataclass(frozen=True)
class Watched:
    """What a node shows.

    waits_for : what is missing before it does its work, in words; empty: it is ready.
    certificates : files whose dates are told. metrics: the node's own. pages: what it shows besides, by path.
    """

    kit: Kit
    heard: Heard
    waits_for: Callable[[], list[str]]
    certificates: tuple[Path, ...]
    metrics: Callable[[], Iterable[MetricFamily]] = no_metrics
    pages: Mapping[str, Page] = field(default_factory=dict)

    def all_pages(self) -> dict[str, Page]:
        """By path: whether it lives, whether it is ready, metrics, and its own pages."""
        return {
            "/healthz": self._alive,
            **{
                path: Lasting(page)
                for path, page in {"/readyz": self._ready, "/metrics": self._metrics, **self.pages}.items()
            },
        }

    def _alive(self) -> Answer:
        return as_json({"alive": True, "node": self.kit.name, "kind": self.kit.kind})

    def _ready(self) -> Answer:
        missing = self.waits_for()
        told = {"ready": not missing, "node": self.kit.name, "kind": self.kit.kind, "waits_for": missing}
        return as_json(told, 503 if missing else 200)

    def _metrics(self) -> Answer:
        from consilium.protocol.monitor.metrics import exposition, node_metrics

        families = [*node_metrics(self.kit, self.heard, not self.waits_for(), self.certificates), *self.metrics()]
        return Answer(200, METRICS_MEDIA, exposition(families))


@contextmanager
def monitored(settings: MonitorSettings, watched: Watched) -> Iterator[None]:
    """Let the node be looked at while the context is open; without a port nothing is opened.

    Raises
    ------
    ConfigError : observers or certificate cannot be used.
    """
    if settings.port is None:
        yield
        return
    tls = settings.tls(watched.kit.folder)
    with MonitorPort(settings, tls, watched.all_pages(), watched.heard.tell):
        yield
