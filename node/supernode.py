"""A node's SuperNode as a supervised program, and what the node finds out about its connection by itself."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from consilium.node import flower
from consilium.node.checks import check_coordinator, check_disk
from consilium.node.flower import flower_environment
from consilium.node.installed_app import write_programs
from consilium.node.kit import Kit
from consilium.node.standing import ask_standing, keep_standing
from consilium.node.supervisor import ENDED, Program, Tell
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.files import replacing

FILE = "connection"


def note_connection(kit: Kit, what: str) -> None:
    """Write down what was found out. A full disk is told of elsewhere."""
    with contextlib.suppress(OSError), replacing(_path(kit), mode=0o600, durable=False) as file:
        file.write(f"{what} (since {time.strftime('%Y-%m-%d %H:%M:%S')})".encode())


def read_connection(kit: Kit) -> str:
    """In words; "unknown" where nothing is written."""
    try:
        return _path(kit).read_text(encoding="utf-8").strip() or "unknown"
    except OSError:
        return "unknown"


def _path(kit: Kit) -> Path:
    return kit.folder / "state" / FILE


LEAST_BYTES = 10_000_000
"""Below this much room, writing the next answer may fail."""
CONNECTED, BACK = "connected to the coordinator", "the connection to the coordinator is back"
NEWS = {
    "SuperNode ID:": CONNECTED,
    "Connection successful after": BACK,
    "Failed to activate SuperNode": "the coordinator refused this node: its key is not registered (yet, or any more),"
    " it was killed less than a minute ago, or a copy of this kit runs elsewhere: stop one of the two",
    "another version: the coordinator runs": "the coordinator and this node run different versions of Consilium or"
    " Flower, see state/logs/supernode.log: install one version at all nodes",
    "CERTIFICATE_VERIFY_FAILED": "the coordinator's certificate is not accepted: run consilium doctor",
    "Connection attempt failed": "a connection could not be made; trying on",
    "address already in use": "node_port in kit.json is taken by another program: choose another",
}


def supernode(kit: Kit, app: str) -> Program:
    """The SuperNode of a kit. It refuses by itself if Flower is another one. app: see `write_programs`."""
    folder: Path = kit.state / "flower"
    return Program(
        name="supernode",
        command=[
            *flower.command("flower-supernode"), "--root-certificates", str(kit.authority),
            "--superlink", kit.coordinator.superlink, "--auth-supernode-private-key", str(kit / "node.key"),
            "--host", "127.0.0.1", "--port", str(kit.node_port), "--node-config", f'home="{kit.folder}"',
        ],
        folder=kit.state,
        log=kit.logs / "supernode.log",
        environment=flower_environment(folder, write_programs(kit.state / "programs", app)),
        news=NEWS,
        well=frozenset({CONNECTED, BACK}),
    )  # fmt: skip


class NodeWatch:
    """What a node that was started finds out by itself: no room on the disk, no way to the coordinator while not
    connected, and how it stands in the federation.

    The processes' own logs are on that disk, and Flower does not say why a connection fails. Each is told when it
    begins, changes or ends.

    standing : how the node stands, in words.
    """

    def __init__(self, kit: Kit, tell: Tell, standing: Callable[[], str]) -> None:
        self._kit = kit
        self._tell = tell
        self._connected = self._ever = False
        self._trouble = ""
        self._last: dict[str, str] = {}
        self._standing, self._stood = standing, standing()
        note_connection(kit, "not connected yet")

    def tell(self, name: str, what: str) -> None:
        """A `Tell` that passes on every message, and notices whether there is a connection, else what is in its way.

        A SuperNode that is refused ends, and is started again: that it ended says less than why.
        """
        if what == BACK and not self._ever:
            return  # a first connection after some attempts: that there is one comes next
        self._connected, ended = what in (CONNECTED, BACK), what.startswith(ENDED)
        self._ever = self._connected or (self._ever and not ended)
        if not (ended and self._trouble):
            note_connection(self._kit, what)
        if not ended:
            self._trouble = "" if self._connected else what
        self._tell(name, what)

    def follow(self, stop: threading.Event, seconds: float = 10) -> None:
        """Look every so many seconds until `stop` is set."""
        while not stop.wait(seconds):
            self.look()

    def look(self) -> None:
        """Look once."""
        self._say("disk", lambda: check_disk(self._kit.state, LEAST_BYTES), "there is room again")
        if not self._connected:
            self._say("coordinator", lambda: check_coordinator(self._kit), "nothing is in the way any more")
        self._hear()
        now = self._standing()
        if now != self._stood:
            self._tell(self._kit.kind, now)
        self._stood = now

    def _hear(self) -> None:
        """How the coordinator says that this node stands."""
        try:
            said = ask_standing(self._kit)
        except Exception:  # the look at the connection says why
            return
        if said is not None:
            keep_standing(self._kit, said)
            if said.sentence != self._last.get("standing"):
                self._tell("coordinator", f"says: {said.sentence}")
            self._last["standing"] = said.sentence

    def _say(self, name: str, check: Callable[[], str], well: str) -> None:
        what = ""
        try:
            check()
        except ConsiliumError as error:
            what = str(error)
        except Exception as error:  # looking is no reason to end
            what = f"cannot be checked: {type(error).__name__}"
        kind = re.sub(r"\d+", "", what)  # a clock's seconds, or the last free bytes, are no news
        if kind != self._last.get(name, ""):
            self._tell(name, what or well)
        self._last[name] = kind
