"""`consilium party start`: the party's SuperNode under supervision."""

from __future__ import annotations

import threading

from consilium.node.checks import examine, hold, wait_for_ports
from consilium.node.installed_app import check_flower
from consilium.node.kit import Kit
from consilium.node.log import Heard, load_monitor
from consilium.node.monitor import monitored
from consilium.node.state import enter
from consilium.node.supernode import NodeWatch, supernode
from consilium.node.supervisor import BackOff, Supervisor, Tell, end_leftovers
from consilium.party.deploy.doctor import port_check, set_up, terms_checks
from consilium.party.deploy.installed_app import MODULE
from consilium.party.deploy.keys import check_present
from consilium.party.deploy.status import standing_now
from consilium.party.deploy.watching import watched
from consilium.protocol.files import held

WAIT_SECONDS = 10.0


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
        watch = NodeWatch(kit, heard.tell, lambda: standing_now(kit))
        with (
            monitored(settings, watched(kit, heard, lambda: watch.connected)),
            Supervisor([supernode(kit, MODULE)], watch.tell, backoff),
        ):
            # beside: a look at a coordinator that does not answer takes up to 25 s, for which no stop waits
            threading.Thread(target=watch.follow, args=(stop,), name="watch", daemon=True).start()
            while not stop.wait(WAIT_SECONDS):  # in turns: it may tell a watchdog that its main thread waits on it
                pass
        tell("party", "stopped")
