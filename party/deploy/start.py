"""`consilium party start`: the party's SuperNode under supervision."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

from consilium.party import journal
from consilium.party.deploy.connection import note_connection
from consilium.party.deploy.doctor import port_check, set_up, terms_checks
from consilium.party.deploy.installed_app import check_flower, write_programs
from consilium.party.deploy.keys import check_present
from consilium.party.deploy.status import standing_of
from consilium.party.deploy.watching import watched
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.files import held
from consilium.protocol.monitor.heard import ENDED, Heard
from consilium.protocol.monitor.node import monitored
from consilium.protocol.monitor.settings import load_monitor
from consilium.protocol.node import patient
from consilium.protocol.node.checks import check_coordinator, check_disk, examine, hold
from consilium.protocol.node.flower import flower_environment
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.ports import wait_for_ports
from consilium.protocol.node.state import enter
from consilium.protocol.node.supervisor import BackOff, Program, Supervisor, Tell, end_leftovers

LEAST_BYTES = 10_000_000
"""Below this much room, writing the next answer may fail."""
WAIT_SECONDS = 10.0
CONNECTED, BACK = "connected to the coordinator", "the connection to the coordinator is back"
NEWS = {
    "SuperNode ID:": CONNECTED,
    "Connection successful after": BACK,
    "Failed to activate SuperNode": "the coordinator refused this node: its key is not registered (yet, or any more),"
    " it was killed less than a minute ago, or a copy of this kit runs elsewhere: stop one of the two",
    "another version: the coordinator runs": "the coordinator and this party run different versions of Consilium or"
    " Flower, see state/logs/supernode.log: install one version at all nodes",
    "CERTIFICATE_VERIFY_FAILED": "the coordinator's certificate is not accepted: run consilium doctor",
    "Connection attempt failed": "a connection could not be made; trying on",
    "address already in use": "node_port in kit.json is taken by another program: choose another",
}


def supernode(kit: Kit) -> Program:
    """The SuperNode of a kit. It refuses by itself if Flower is another one."""
    folder: Path = kit.state / "flower"
    return Program(
        name="supernode",
        command=[
            *patient.command("flower-supernode"), "--root-certificates", str(kit.authority),
            "--superlink", kit.coordinator.superlink, "--auth-supernode-private-key", str(kit / "node.key"),
            "--host", "127.0.0.1", "--port", str(kit.node_port), "--node-config", f'home="{kit.folder}"',
        ],
        folder=kit.state,
        log=kit.logs / "supernode.log",
        environment=flower_environment(folder, write_programs(kit.state / "programs")),
        news=NEWS,
        well=frozenset({CONNECTED, BACK}),
    )  # fmt: skip


class NodeWatch:
    """What `party start` finds out by itself: no room on the disk, no way to the coordinator while not connected, and
    how the party stands in the federation.

    The processes' own logs are on that disk, and Flower does not say why a connection fails. Each is told when it
    begins, changes or ends.
    """

    def __init__(self, kit: Kit, tell: Tell) -> None:
        self._kit = kit
        self._tell = tell
        self._connected = self._ever = False
        self._trouble = ""
        self._last: dict[str, str] = {}
        self._answers = journal.read(kit.folder)
        note_connection(kit, "not connected yet")

    @property
    def connected(self) -> bool:
        """Whether the SuperNode said so, and has not ended since."""
        return self._connected

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

        self._tell_answers()

    def _tell_answers(self) -> None:
        """Tell what the coordinator asked of this party since the last look, where it changes how the party stands."""
        before, self._answers = self._answers, journal.read(self._kit.folder)
        if before != self._answers:
            now = standing_of(self._answers)[0]
            if now != standing_of(before)[0]:
                self._tell("party", now)

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


def _tell_terms(kit: Kit, tell: Tell) -> None:
    """What the federation promises this party, and what its own policy will refuse before that is mended."""
    for found in examine(terms_checks(kit)):
        if found.level != "ok" or found.name == "promise":
            tell(found.name, f"{found.what}{f'. {found.action}' if found.action else ''}")


def start(kit: Kit, tell: Tell, stop: threading.Event, backoff: BackOff | None = None) -> None:
    """Serve until `stop` is set.

    Raises
    ------
    ConfigError : the party's settings cannot be read, its own keys are not in the kit, a file is not as it was signed,
        a newer program used its state, or it is started already.
    EngineError : this is a Flower that cannot be kept from running bundles.
    """
    check_flower()
    check_present(kit)
    settings = load_monitor(kit)
    enter(kit, tell)
    hold(set_up(kit), tell)
    with held(kit.state / "lock", f"party {kit.name}"):
        end_leftovers(kit.logs, tell)
        wait_for_ports([port_check(kit)], tell, stop)
        _tell_terms(kit, tell)
        tell("party", f"{kit.name} serves {kit.federation!r} at {kit.coordinator.superlink}")
        heard = Heard(tell)
        watch = NodeWatch(kit, heard.tell)
        with (
            monitored(settings, watched(kit, heard, lambda: watch.connected)),
            Supervisor([supernode(kit)], watch.tell, backoff),
        ):
            # beside: a look at a coordinator that does not answer takes up to 25 s, for which no stop waits
            threading.Thread(target=watch.follow, args=(stop,), name="watch", daemon=True).start()
            while not stop.wait(WAIT_SECONDS):  # in turns: it may tell a watchdog that its main thread waits on it
                pass
        tell("party", "stopped")
