"""Nodes that connect with a SuperNode, and answer the coordinator by their own people's policy: parties and the second
aggregator. What is particular to each is in `party.deployed` and `aggregator.deployed`."""

from __future__ import annotations

import threading
from abc import abstractmethod
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, ClassVar

from consilium.node.apps import check_flower
from consilium.node.checks import Advice, Check, check_coordinator, check_disk, examine, hold, own_checks, standing
from consilium.node.folder import NodeFolder
from consilium.node.home import Home, towards_whom
from consilium.node.kinds import NodeKind, NodeOutcome
from consilium.node.signed import joined
from consilium.node.supernode import supernode
from consilium.node.supervisor import Tell, run_program
from consilium.protocol.databases import check_usable
from consilium.protocol.errors import ConfigError, EngineError
from consilium.protocol.files import held, is_held
from consilium.report.disclosure import epsilon_text

LEAST_BYTES = 10_000_000
"""Below this much room, writing the next answer may fail."""


class MemberKind(NodeKind):
    """See above. app: module whose `app` answers messages. memory: database of what it remembers, in state/."""

    app: ClassVar[str]
    memory: ClassVar[str]

    @abstractmethod
    def open_home(self, folder: NodeFolder) -> Home:
        """Raises ConfigError."""

    @abstractmethod
    def given(self, home: Any) -> tuple[int, float]:
        """Queries answered, or in sums, ever; and epsilon of this federation, by the node's own unit. Raises
        ConsiliumError: its policy does not allow the federation, or its state cannot be read."""

    @abstractmethod
    def allowed(self, home: Any) -> str:
        """What its policy, which covers all that is asked, makes of the federation. Raises ConfigError where the node
        would refuse it all the same."""

    def set_up(self, folder: NodeFolder) -> list[Check]:
        def flower() -> str:
            check_flower()
            return f"flwr {version('flwr')} is one that was tested, and runs no code but this node's own"

        def settings() -> str:
            if '"' in str(folder.path) or " " in str(folder.path):
                raise ConfigError(f"{folder.path}: a path with spaces or quotes", "Move it: Flower cannot pass it on")
            self.open_home(folder)
            return f"{folder.path}"

        def state() -> str:
            check_usable(folder / "state" / self.memory)
            return f"{self.open_home(folder).past()[1]} queries in other federations"

        return [
            ("flower", flower),
            ("settings", settings),
            ("state", state),
            ("room", lambda: check_disk(folder.path, LEAST_BYTES)),
        ]

    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        def policy() -> str:
            home = self.open_home(folder)
            request = home.request()
            home.check_beyond(request.asked)
            if request.new:
                raise Advice("nobody has allowed yet what is asked", f"Run: consilium node start {folder.path}")
            return self.allowed(home)

        return [("policy", policy), ("coordinator", lambda: f"{check_coordinator(folder)}; it {standing(folder)}")]

    def start(self, folder: NodeFolder, tell: Tell, stop: threading.Event) -> NodeOutcome:
        """Serve until `stop` is set; the first time, once its people have said yes. Raises ConsiliumError: what doctor
        finds wrong; NotAccepted: its people do not allow what is asked; EngineError: the SuperNode ended."""
        hold([*own_checks(folder), *self.set_up(folder)], tell)
        allowed_now = self.open_home(folder).request().allow(print)
        stamp, home = folder.joined_at, self.open_home(folder)
        hold([("policy", lambda: self.allowed(home))], tell)
        if allowed_now and is_held(folder.lock):
            return NodeOutcome(
                {"allowed": True}, [f"{home.name} is started already, and serves by what was allowed now"]
            )
        address = home.federation.coordinator.nodes

        def look() -> None:
            nonlocal stamp
            if stamp != folder.joined_at:
                stamp = folder.joined_at
                if (now := joined(folder).coordinator.nodes) != address:
                    raise EngineError(f"the coordinator is at {now} now", "Start the node again: it goes there")

        with held(folder.state / folder.lock.name, f"{self.name} {home.name}"):
            tell(self.name, f"{home.name} serves {home.federation.config.name!r} at {address}")
            try:
                run_program(supernode(folder, address, self.app), tell, stop, look)
            except EngineError:
                for result in examine([("coordinator", lambda: standing(folder))]):
                    tell(result.name, result.what)  # Flower ends a node that is refused, and does not say why
                raise
        tell(self.name, "stopped")
        return NodeOutcome({"stopped": True})

    def status(self, folder: NodeFolder) -> NodeOutcome:
        """Raises ConfigError if it has joined nothing. given: None where it cannot be said, for which `problems`, what
        the doctor finds wrong, say why."""
        home, given = self.open_home(folder), dict[str, Any]()

        def give() -> str:
            (queries, epsilon), policy = self.given(home), home.policy
            most = {"most_queries": policy.most_queries, "most_epsilon": policy.most_epsilon}
            towards = towards_whom(home.terms, policy, epsilon)
            given.update(queries=queries, epsilon=epsilon, towards=towards, **most)
            return ""

        quick: list[Check] = [*own_checks(folder), *self.set_up(folder)[1:]]
        quick += [("policy", give), ("coordinator", lambda: standing(folder))]
        results = examine(quick)
        since = datetime.fromtimestamp(folder.lock.stat().st_mtime, UTC) if is_held(folder.lock) else None
        values: dict[str, Any] = {
            "node": home.name,
            "federation": f"{home.federation.config.name!r} ({home.terms.federation[:12]})",
            "running": f"since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "no",
            "coordinator": results[-1].what,
            "given": given or None,
            "problems": [f"{each.name}: {each.what}. {each.action}" for each in results if each.level == "wrong"],
        }
        rows = [(self.name, f"{home.name}, federation {values['federation']}")]
        rows += [(what, values[what]) for what in ("running", "coordinator")]
        if given:
            most = f"its policy allows {given['most_epsilon']:g} over all federations"
            rows += [
                ("queries", f"{given['queries']} ever, of {given['most_queries']} that its policy allows"),
                ("epsilon", f"at most {epsilon_text(given['epsilon'])} in this federation; {most}"),
                ("towards", given["towards"]),
            ]
        rows += [("problem", problem) for problem in values["problems"]]
        return NodeOutcome(values, [f"{what:12} {words}" for what, words in rows])
