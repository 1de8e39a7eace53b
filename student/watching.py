"""A student as a node that can be looked at while it asks and trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from consilium.node.kit import Kit
from consilium.node.log import Heard, MonitorSettings
from consilium.node.monitor import Watched, monitored
from consilium.node.supervisor import Tell
from consilium.protocol.label_source import Progress

if TYPE_CHECKING:
    from consilium.node.metrics import MetricFamily


class StudentBoard:
    """What a student is doing: whether it has reached the coordinator, its stage, and how far that is."""

    def __init__(self) -> None:
        self.connected = False
        self._stage, self._done, self._total = "", 0, 0

    def follow(self, progress: Progress) -> Progress:
        """A `Progress` that is noted here and passed on."""

        def noted(stage: str, done: int, total: int) -> None:
            self._stage, self._done, self._total = stage, done, total
            progress(stage, done, total)

        return noted

    def waits_for(self) -> list[str]:
        """What is missing before it does its work."""
        return [] if self.connected else ["no answer from the label service yet"]

    def metrics(self) -> Iterable[MetricFamily]:
        """Its stage and how far it is."""
        from consilium.node.metrics import MetricFamily, one

        yield one("connected", "1 once the label service has answered.", self.connected)
        if self._stage:
            yield MetricFamily("stage", "1 for the stage that the student is in.", {(self._stage,): 1.0}, ("stage",))
            yield one("stage_done", "How far the stage is, of stage_total.", self._done)
            yield one("stage_total", "Length of the stage; 0 or 1 where nobody knows it.", self._total)


@contextmanager
def student_monitor(kit: Kit, settings: MonitorSettings, tell: Tell) -> Iterator[StudentBoard]:
    """Let the student be looked at while the context is open.

    Raises
    ------
    ConfigError : observers or certificate cannot be used.
    """
    board = StudentBoard()
    certificates = (kit.client_tls.certificate, kit.authority)
    with monitored(settings, Watched(kit, Heard(tell), board.waits_for, certificates, board.metrics)):
        yield board
