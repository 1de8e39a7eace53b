"""What the coordinator does while its disk takes nothing: it says so once, and waits, instead of trying on and on."""

from __future__ import annotations

import threading

from consilium.node.checks import check_disk
from consilium.node.kit import Kit
from consilium.node.supervisor import Tell
from consilium.protocol.errors import ConfigError, ConsiliumError, StorageError

LEAST_BYTES = 50_000_000
"""Below this much room a run is not begun: Flower's database, the ledger and the logs grow with each request."""
MOST_IN_A_ROW = 5
"""Runs that may end for want of storage although there is room, as under a quota, before the coordinator ends."""


class Room:
    """On the disk of a coordinator's state."""

    def __init__(self, kit: Kit, tell: Tell, seconds: float = 10) -> None:
        """seconds: between two looks."""
        self._kit, self._tell, self._seconds = kit, tell, seconds
        self._in_a_row = 0

    def wait(self, stop: threading.Event) -> None:
        """Until there is room, or `stop` is set."""
        why = self.lack()
        if why is None:
            return
        self._tell("disk", f"{why}. The federation goes on when there is room; nothing is lost")
        while self.lack() is not None and not stop.wait(self._seconds):
            pass
        if not stop.is_set():
            self._tell("disk", "there is room again")

    def meant(self, error: ConsiliumError) -> ConsiliumError:
        """What the end of a run means: want of room also where the run had none to write so.

        Raises
        ------
        StorageError : the disk has room, and yet took nothing for several runs in a row.
        """
        lack = self.lack()
        if lack is not None:
            return lack
        self._in_a_row = self._in_a_row + 1 if isinstance(error, StorageError) else 0
        if self._in_a_row >= MOST_IN_A_ROW:
            raise error
        return error

    def lack(self) -> StorageError | None:
        """What is wanting, or None."""
        try:
            check_disk(self._kit.state, LEAST_BYTES)
        except ConfigError as error:
            return StorageError(error.what, error.action)
        return None
