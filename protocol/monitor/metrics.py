"""A node's metrics in the form that Prometheus scrapes.

Names of nodes, stages, states, processes and certificate files are labels, and nothing else: no value here is computed
from rows or votes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from consilium.protocol.monitor.certificates import ages
from consilium.protocol.monitor.heard import Heard
from consilium.protocol.monitor.processes import ProcessUse, processes_of
from consilium.protocol.node.kit import Kit
from consilium.protocol.versions import DISTRIBUTION

PREFIX = "consilium_"


@dataclass(frozen=True)
class MetricFamily:
    """Samples of one metric. name: without `PREFIX`, and without the `_total` of a counter.

    samples: values by the labels' values, in the order of `labels`.
    """

    name: str
    meaning: str
    samples: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    counter: bool = False

    def as_metric(self) -> Metric:
        """As prometheus_client has it."""
        kind = CounterMetricFamily if self.counter else GaugeMetricFamily
        found = kind(PREFIX + self.name, self.meaning, labels=self.labels)
        for values, value in self.samples.items():
            found.add_metric(list(values), value)
        return found


def one(name: str, meaning: str, value: float, counter: bool = False) -> MetricFamily:
    """A metric without labels."""
    return MetricFamily(name, meaning, {(): value}, counter=counter)


def node_metrics(kit: Kit, heard: Heard, ready: bool, certificates: Sequence[Path]) -> Iterator[MetricFamily]:
    """What every node has: versions, readiness, log lines, processes, certificates and disk."""
    versions = (kit.name, kit.kind, version(DISTRIBUTION), version("flwr"))
    yield MetricFamily(
        "node_info", "This node and its versions.", {versions: 1}, ("node", "kind", "version", "flower_version")
    )
    yield one("ready", "1 while the node does its work, see /readyz.", ready)
    yield one("start_time_seconds", "When the node was started, seconds since 1970.", heard.began)
    yield MetricFamily(
        "log_lines", "Lines of the node's log.",
        {(level,): count for level, count in heard.lines.items()}, ("level",), counter=True,
    )  # fmt: skip
    yield MetricFamily(
        "process_ended", "Times that a supervised process ended by itself and was started again.",
        {(name,): count for name, count in heard.ended.items()}, ("process",), counter=True,
    )  # fmt: skip
    yield from _process_metrics(processes_of(kit))
    yield from _certificate_metrics(certificates)
    yield one("disk_free_bytes", "Free on the disk of the node's state.", shutil.disk_usage(kit.state).free)


def _process_metrics(processes: Mapping[str, ProcessUse]) -> Iterator[MetricFamily]:
    for name, meaning, attribute, counter in (
        ("process_count", "Processes: the program itself and what it started.", "processes", False),
        ("process_resident_bytes", "Resident memory; shared pages once for each process.", "resident_bytes", False),
        ("process_cpu_seconds", "Processor time.", "cpu_seconds", True),
        ("process_open_files", "Open files and sockets.", "open_files", False),
    ):
        samples = {(process,): float(getattr(use, attribute)) for process, use in processes.items()}
        yield MetricFamily(name, meaning, samples, ("process",), counter)


def _certificate_metrics(paths: Sequence[Path]) -> Iterator[MetricFamily]:
    known = [age for age in ages(paths) if age.since is not None and age.until is not None]
    for end, attribute in (("not_before", "since"), ("not_after", "until")):
        samples = {(age.name,): getattr(age, attribute).timestamp() for age in known}
        yield MetricFamily(
            f"certificate_{end}_timestamp_seconds", "Of a certificate in the kit, seconds since 1970.",
            samples, ("certificate",),
        )  # fmt: skip


class _Families(Collector):
    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return (family.as_metric() for family in self._families)


def exposition(families: Iterable[MetricFamily]) -> bytes:
    """The text that is scraped."""
    registry = CollectorRegistry(auto_describe=False)
    found = list(families)  # a registry collects once to learn names
    registry.register(_Families(found))
    return generate_latest(registry)
