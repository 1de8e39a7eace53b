"""What nodes of all kinds have in common on machines of their own: what a join says, checks, start, status.

Each is a `NodeKind` that says what is particular to it: `party.deployed`, `aggregator.deployed` (see `node.members`),
`coordinator.deploy.deployed` and `student.deployed`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import typer

from consilium.node import checks
from consilium.node.checks import Check
from consilium.node.folder import NodeFolder
from consilium.node.folder import NodeKind as KindName
from consilium.node.supervisor import Tell
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.output import Format, error_table, show


@dataclass(frozen=True)
class NodeOutcome:
    """What a command came to: plain values, and lines for people. error: what is still to be mended, for which the
    command ends with its exit code."""

    values: Mapping[str, Any]
    lines: Sequence[str] = ()
    error: ConsiliumError | None = None

    def show(self, output: Format) -> None:
        """Print it. Raises its error, and typer.Exit where that is in the printed object."""
        if self.error is not None and output is Format.json:
            show(output, {"error": error_table(self.error), **self.values}, ())
            raise typer.Exit(self.error.exit_code)
        show(output, dict(self.values), self.lines)
        if self.error is not None:
            raise self.error


class NodeKind(ABC):
    """A kind of node, known by its folder."""

    name: ClassVar[KindName]

    @abstractmethod
    def joined(self, folder: NodeFolder) -> NodeOutcome:
        """What is said of a federation that was joined, apart from who signed it: what people compare over the
        telephone, what does not fit yet, and what comes next. Raises ConsiliumError."""

    @abstractmethod
    def set_up(self, folder: NodeFolder) -> list[Check]:
        """What a start rests on: it is refused in the same words."""

    @abstractmethod
    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        """What the doctor looks at beside that, in the end the way to other nodes. running: the node is started, and
        holds its own ports."""

    @abstractmethod
    def start(self, folder: NodeFolder, tell: Tell, stop: threading.Event) -> NodeOutcome:
        """Serve until `stop` is set. Raises ConsiliumError: what doctor finds wrong, or it is started already."""

    @abstractmethod
    def status(self, folder: NodeFolder) -> NodeOutcome:
        """Where it stands, within 10 s. Raises ConfigError, LedgerError if its files cannot be read."""

    def checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        """In the order in which to mend. running: see `further_checks`."""
        return [
            *checks.own_checks(folder),
            ("clock", lambda: checks.check_clock(folder)),
            *self.set_up(folder),
            *self.further_checks(folder, running),
        ]
