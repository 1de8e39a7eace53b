"""What nodes of all kinds have in common on machines of their own: what a join says, checks, start, status.

Each is a `NodeKind` that says what is particular to it: `party.deployed`, `aggregator.deployed` (see `node.members`),
`coordinator.deploy.deployed` and `student.deployed`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from consilium.node import checks
from consilium.node.checks import Check
from consilium.node.folder import NodeFolder
from consilium.node.folder import NodeKind as KindName
from consilium.node.supervisor import Tell
from consilium.protocol.errors import ConsiliumError


@dataclass(frozen=True)
class NodeOutcome:
    """What a command came to: plain values, and lines for people. error: what is still to be mended, for which the
    command ends with its exit code."""

    values: Mapping[str, Any]
    lines: tuple[str, ...]
    error: ConsiliumError | None = None


class StatusReport(Protocol):
    """Where a node stands."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        ...

    def lines(self) -> list[str]:
        """For people."""
        ...


class NodeKind(ABC):
    """A kind of node, known by its folder. least_free_bytes: on the disk of its state."""

    name: ClassVar[KindName]
    least_free_bytes: ClassVar[int] = 500_000_000

    @abstractmethod
    def joined(self, folder: NodeFolder) -> NodeOutcome:
        """What is said of a federation that was joined, apart from who signed it: what people compare over the
        telephone, what does not fit yet, and what comes next. Raises ConsiliumError."""

    def own_checks(self, folder: NodeFolder) -> list[Check]:
        """Of what it joined, and of its keys."""
        return checks.own_checks(folder)

    @abstractmethod
    def set_up(self, folder: NodeFolder) -> list[Check]:
        """What a start rests on: it is refused in the same words."""

    @abstractmethod
    def further_checks(self, folder: NodeFolder) -> list[Check]:
        """What the doctor looks at beside that."""

    def ports(self, folder: NodeFolder) -> list[Check]:
        """That it listens at."""
        return []

    def way_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        """Of the way to other nodes, or of theirs to this one."""
        return []

    @abstractmethod
    def start(self, folder: NodeFolder, tell: Tell, stop: threading.Event) -> NodeOutcome:
        """Serve until `stop` is set. Raises ConsiliumError: what doctor finds wrong, or it is started already."""

    @abstractmethod
    def status(self, folder: NodeFolder) -> StatusReport:
        """Within 10 s. Raises ConfigError, LedgerError if its files cannot be read."""

    def checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        """In the order in which to mend. running: the node is started, so that its own ports are taken by itself."""
        return [
            *self.own_checks(folder),
            ("versions", lambda: checks.check_versions(folder)),
            ("clock", lambda: checks.check_clock(folder)),
            *self.set_up(folder),
            *self.further_checks(folder),
            ("disk", lambda: checks.check_disk(folder.path, self.least_free_bytes)),
            *([] if running else self.ports(folder)),
            *self.way_checks(folder, running),
        ]
