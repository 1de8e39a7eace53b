"""A node's metrics in the form that Prometheus scrapes: of its log, its processes (from /proc) and its certificates.

Names of nodes, stages, states, processes and certificate files are labels, and nothing else: no value here is computed
from rows or votes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from consilium.node.kit import Kit
from consilium.node.log import Heard
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.tls import load_certificate
from consilium.protocol.versions import DISTRIBUTION


@dataclass(frozen=True)
class CertificateAge:
    """One certificate. since, until: UTC; None where the file cannot be read."""

    name: str
    since: datetime | None = None
    until: datetime | None = None

    def age_days(self, now: datetime) -> int | None:
        """Whole days since it became valid."""
        return None if self.since is None else (now - self.since).days

    def days_left(self, now: datetime) -> int | None:
        """Whole days until it expires; negative where it has expired."""
        return None if self.until is None else (self.until - now).days


def ages(paths: Iterable[Path]) -> list[CertificateAge]:
    """Of each file."""
    return [_age(path) for path in paths]


def _age(path: Path) -> CertificateAge:
    try:
        found = load_certificate(path)
    except ConsiliumError:
        return CertificateAge(path.name)
    return CertificateAge(path.name, found.not_valid_before_utc, found.not_valid_after_utc)


OWN = "node"
"""What the node's own process is called, beside those that it supervises."""
PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessUse:
    """Of a program with all that it started. resident_bytes counts pages that they share once for each.

    cpu_seconds: of those that live, and of their children that have ended.
    """

    processes: int
    resident_bytes: int
    cpu_seconds: float
    open_files: int


class _Stat(NamedTuple):
    parent: int
    session: int
    ticks: int
    pages: int


def processes_of(kit: Kit) -> dict[str, ProcessUse]:
    """The node's own process and those that it supervises, by name; only those that live."""
    pids = supervised(kit.logs)
    uses = use_of_trees(pids.values())
    own = use_of(os.getpid())
    found = {name: uses[pid] for name, pid in pids.items() if pid in uses}
    return {OWN: own, **found} if own is not None else found


def supervised(logs: Path) -> dict[str, int]:
    """Process ids of the programs that a supervisor keeps up, by name, from its marks beside their logs."""
    found = {}
    for mark in sorted(logs.glob("*.pid")):
        try:
            found[mark.stem] = int(mark.read_text())
        except (OSError, ValueError):  # it ends at this moment
            continue
    return found


def use_of_trees(roots: Iterable[int]) -> dict[int, ProcessUse]:
    """Of each process that lives, with its descendants and all of the session that it leads."""
    table = _processes()
    return {root: _together(table, _tree(table, root)) for root in roots if root in table}


def use_of(pid: int) -> ProcessUse | None:
    """Of one process alone; None where it is gone."""
    table = _processes()
    return _together(table, {pid}) if pid in table else None


def _tree(table: dict[int, _Stat], root: int) -> set[int]:
    found, size = {root}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, stat in table.items() if stat.parent in found or stat.session == root}
    return found


def _together(table: dict[int, _Stat], pids: set[int]) -> ProcessUse:
    return ProcessUse(
        processes=len(pids),
        resident_bytes=sum(table[pid].pages for pid in pids) * _PAGE,
        cpu_seconds=sum(table[pid].ticks for pid in pids) / _TICK,
        open_files=sum(_open_files(pid) for pid in pids),
    )


def _processes() -> dict[int, _Stat]:
    found = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # the name before it may hold anything
        except OSError:
            continue
        times = sum(map(int, fields[11:15]))  # utime, stime, and those of children that were waited for
        found[int(path.parent.name)] = _Stat(int(fields[1]), int(fields[3]), times, int(fields[21]))
    return found


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in os.scandir(PROC / str(pid) / "fd"))
    except OSError:  # gone, or another user's
        return 0


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
