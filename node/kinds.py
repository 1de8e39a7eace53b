"""What nodes have in common on machines of their own: checks, start, status; and of those with keys of their own, more.

Each is a `NodeKind` that says what is particular to it: `party.deployed`, `aggregator.deployed`,
`coordinator.deploy.deployed` and `student.deployed`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Protocol

from consilium.node import acceptance
from consilium.node import keys as own_keys
from consilium.node.acceptance import Limit, PolicyRequest
from consilium.node.checks import (
    Advice,
    Check,
    check_authority,
    check_clock,
    check_disk,
    check_kit,
    check_port,
    check_signature,
    check_versions,
    examine,
    hold,
    wait_for_ports,
)
from consilium.node.flower import program
from consilium.node.installed_app import check_flower
from consilium.node.keys import ENROLMENT, FOREIGN, KEYS, NOT_OURS, OwnKeys, grouped
from consilium.node.kit import EnrolledKind, Kit, a_node
from consilium.node.kit import NodeKind as KitKind
from consilium.node.manifest import check_signed
from consilium.node.standing import NodeStanding, check_standing, last_standing
from consilium.node.supernode import NodeWatch, read_connection, supernode
from consilium.node.supervisor import BackOff, Supervisor, Tell, end_leftovers
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import held, is_held
from consilium.protocol.label_source import Unanswered
from consilium.protocol.messages import Terms
from consilium.protocol.models import Frozen
from consilium.report.disclosure import epsilon_text
from consilium.sums.roster import SumRoster

WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Fingerprints:
    """What nodes compare over the telephone. own: of all keys of this node, as its kit lists them. roster: of the
    one that it pins, empty for plaintext votes. second: of the second aggregator's keys in it, where votes are
    verified."""

    name: str
    own: str
    made_here: bool
    roster: str
    parties: tuple[str, ...]
    second: str = ""


@dataclass(frozen=True)
class NodeStatus:
    """Where a node stands, from its own files, for the eyes of its own people.

    federation: digest of the one that it takes part in, as far as people compare it. connection, standing: in words.
    since: of the standing. queries: ever answered, or in sums, of `most_queries`. epsilon: of this federation, by the
    node's own unit; None where its policy does not allow it, or nobody counts it. problem: why, and what to do.
    epsilon_student: the same towards the student and the public; None where no noise is in the sums. towards: whom each
    holds towards, in words. coordinator: how the coordinator says that it stands, None where it never did.
    """

    kind: EnrolledKind
    name: str
    federation: str
    running: bool
    connection: str
    standing: str
    queries: int
    most_queries: int
    most_epsilon: float
    problem: str = ""
    since: str = ""
    epsilon: float | None = None
    epsilon_student: float | None = None
    towards: str = ""
    coordinator: NodeStanding | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values; the name stands under the kind of node."""
        values = {**asdict(self), "coordinator": self.coordinator and self.coordinator.model_dump()}
        return {values.pop("kind"): values.pop("name"), **values}

    def lines(self) -> list[str]:
        """For people."""
        party, said = self.kind == "party", self.coordinator
        epsilon = "not allowed" if self.epsilon is None else f"at most {epsilon_text(self.epsilon)} in this federation"
        promised = f"{epsilon}; " if party else ""
        queries = "answered ever" if party else "ever in sums"
        return [
            f"{self.kind:12} {self.name}, federation {self.federation}",
            f"connection   {self.connection}",
            f"standing     {self.standing}{f' (since {self.since})' if self.since else ''}",
            *([f"coordinator  says: {said.sentence} (at {said.moment})"] if said else []),
            *([f"             {Unanswered(said.unanswered).words}"] if said and said.unanswered else []),
            f"queries      {self.queries} {queries}, of {self.most_queries} that its policy allows",
            f"epsilon      {promised}its policy allows {self.most_epsilon:g} over all federations",
            *([f"towards      {self.towards}"] if self.towards else []),
            *([f"problem      {self.problem}"] if self.problem else []),
        ]


class StatusReport(Protocol):
    """Where a node stands."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        ...

    def lines(self) -> list[str]:
        """For people."""
        ...


@dataclass(frozen=True)
class StartResult:
    """What a start came to: plain values, and lines for people."""

    values: Mapping[str, Any]
    lines: tuple[str, ...]


class NodeKind(ABC):
    """A kind of node, known by its kit. least_free_bytes: on the disk of its state."""

    name: ClassVar[KitKind]
    least_free_bytes: ClassVar[int] = 500_000_000

    @abstractmethod
    def kit_checks(self, kit: Kit) -> list[Check]:
        """Of its files and keys."""

    @abstractmethod
    def set_up(self, kit: Kit) -> list[Check]:
        """What a start rests on: it is refused in the same words."""

    @abstractmethod
    def further_checks(self, kit: Kit) -> list[Check]:
        """What the doctor looks at beside that."""

    def ports(self, kit: Kit) -> list[Check]:
        """That it listens at."""
        return []

    def way_checks(self, kit: Kit, running: bool) -> list[Check]:
        """Of the way to other nodes, or of theirs to this one."""
        return []

    def join(self, kit: Kit, folder: Path) -> None:
        """Copy the node's own private keys into the kit that was made for them; again does nothing.

        Raises
        ------
        ConfigError : the kit or its roster lists other keys, or a key cannot be used. OutputExists : other keys are
            there.
        """
        raise ConfigError(
            f"{kit.folder} is the kit of {a_node(kit.kind)}, which makes no keys of its own", "Leave --keys out"
        )

    @abstractmethod
    def start(self, kit: Kit, tell: Tell, stop: threading.Event) -> StartResult:
        """Serve until `stop` is set. Raises ConsiliumError: what doctor finds wrong, or it is started already."""

    @abstractmethod
    def status(self, kit: Kit) -> StatusReport:
        """Raises ConfigError, LedgerError if its files cannot be read."""

    def checks(self, kit: Kit, running: bool) -> list[Check]:
        """In the order in which to mend. running: the node is started, so that its own ports are taken by itself."""
        return [
            *self.kit_checks(kit),
            ("versions", lambda: check_versions(kit)),
            ("clock", lambda: check_clock(kit)),
            *self.set_up(kit),
            *self.further_checks(kit),
            ("disk", lambda: check_disk(kit.state, self.least_free_bytes)),
            *([] if running else self.ports(kit)),
            *self.way_checks(kit, running),
        ]


class MemberKind(NodeKind):
    """A kind of node that connects with a SuperNode and answers the coordinator by its own people's policy.

    app: module whose `app` answers messages. model, limits: of its policy.
    promise_checks: checks whose words a start tells also where nothing is wrong.
    """

    name: ClassVar[EnrolledKind]
    app: ClassVar[str]
    model: ClassVar[type[Frozen]]
    limits: ClassVar[Mapping[str, Limit]]
    promise_checks: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def open_home(self, folder: Path) -> Any:
        """The node's settings and policy; has `name`, `folder` and `pinned_terms()`. Raises ConfigError."""

    @abstractmethod
    def request(self, home: Any, terms: Terms) -> PolicyRequest:
        """All that these terms ask. Raises ConfigError."""

    def check_is_accepted(self, home: Any) -> None:
        """See `check_kit_accepted`."""
        acceptance.check_kit_accepted(home, self.name, self.model, self.limits, self.request)

    @abstractmethod
    def state(self, kit: Kit) -> str:
        """That this program can read what the node remembers of what it gave. Raises ConsiliumError."""

    @abstractmethod
    def terms_checks(self, kit: Kit) -> list[Check]:
        """What the coordinator will be refused, or is promised: a node whose policy forbids it starts all the same, and
        joins once that is mended."""

    def data_checks(self, kit: Kit) -> list[Check]:
        """Of private rows, where the node has any."""
        return []

    @abstractmethod
    def status(self, kit: Kit) -> NodeStatus:
        """Raises ConfigError if settings or terms cannot be read or nothing was accepted yet, LedgerError."""

    @abstractmethod
    def standing(self, kit: Kit) -> str:
        """How it stands, in words, for whoever only tells of it."""

    @abstractmethod
    def roster_of(self, kit: Kit) -> SumRoster | None:
        """The roster that the node's settings name; None for plaintext votes. Raises ConfigError."""

    @abstractmethod
    def check_in_roster(self, roster: SumRoster | None, kit: Kit, keys: OwnKeys, action: str) -> None:
        """Raise ConfigError, with this action, where the roster lists other keys for the node."""

    @abstractmethod
    def made_by_operator(self, kit: Kit) -> str:
        """What the doctor says where the operator made the node's keys. May raise Advice."""

    def keys_of(self, kit: Kit) -> OwnKeys:
        """The private keys that the node's settings name. Raises ConfigError."""
        return OwnKeys.load(self.name, kit.folder)

    def terms_of(self, home: Any) -> Terms:
        """The terms of the one federation that a kit takes part in. Raises ConfigError."""
        pinned = home.pinned_terms()
        if pinned is None:
            raise ConfigError(
                f"{self.name}.toml pins no terms, so this node would take part in whatever a coordinator asks",
                f'Set terms = "terms.json" in {self.name}.toml',
            )
        return pinned

    def join(self, kit: Kit, folder: Path) -> None:
        keys = own_keys.own_keys_for(kit, self.name, folder)
        self.check_in_roster(self.roster_of(kit), kit, keys, NOT_OURS)
        own_keys.put_into(kit, keys)

    def fingerprints(self, kit: Kit) -> Fingerprints:
        """What is compared over the telephone: of the files that the node's settings really name.

        Raises
        ------
        ConfigError : keys are missing, or are not those that the kit and the roster list.
        """
        own_keys.check_present(kit, self.name)
        keys, made_here, roster = self.keys_of(kit), (kit / ENROLMENT).exists(), self.roster_of(kit)
        if made_here:
            own_keys.check_listed(kit, keys)
        self.check_in_roster(roster, kit, keys, NOT_OURS if made_here else FOREIGN)
        return Fingerprints(
            name=kit.name,
            own=keys.fingerprint(kit.name),
            made_here=made_here,
            roster=grouped(roster.digest) if roster else "",
            parties=tuple(roster.keys) if roster else (),
            second=own_keys.second_fingerprint(roster) if roster else "",
        )

    def set_up(self, kit: Kit) -> list[Check]:
        """What a start rests on: it is refused in the same words."""
        return [
            ("flower", _flower),
            ("place", lambda: self._place(kit)),
            ("state", lambda: self.state(kit)),
            ("accepted", lambda: self._accepted(kit)),
        ]

    def kit_checks(self, kit: Kit) -> list[Check]:
        """See `NodeKind`; of a kit whose node's own keys are not in it yet, without them."""
        if not own_keys.lacks_own_keys(kit, self.name):
            return check_kit(kit, list(KEYS[self.name]))
        return [("signature", lambda: check_signature(kit)), ("authority", lambda: check_authority(kit.authority))]

    def further_checks(self, kit: Kit) -> list[Check]:
        answered = acceptance.is_answered(kit) and not own_keys.lacks_own_keys(kit, self.name)
        return [
            ("own keys", lambda: self._own_keys(kit)),
            *(self.terms_checks(kit) if answered else []),
            *self.data_checks(kit),
        ]

    def ports(self, kit: Kit) -> list[Check]:
        """The loopback port of its SuperNode."""
        return [("port", lambda: check_port(kit.node_port, "127.0.0.1", "node_port"))]

    def way_checks(self, kit: Kit, running: bool) -> list[Check]:
        return [("node", lambda: _started(kit, running)), ("coordinator", lambda: check_standing(kit))]

    def start(self, kit: Kit, tell: Tell, stop: threading.Event, backoff: BackOff | None = None) -> StartResult:
        """Serve until `stop` is set.

        Raises
        ------
        ConfigError : the node's settings cannot be read, its own keys are not in the kit, a file is not as it was
            signed, or it is started already.
        EngineError : this is a Flower that cannot be kept from running bundles.
        """
        check_flower()
        own_keys.check_present(kit, self.name)
        check_signed(kit)
        hold(self.set_up(kit), tell)
        with held(kit.state / "lock", f"{self.name} {kit.name}"):
            end_leftovers(kit.logs, tell)
            wait_for_ports(self.ports(kit), tell, stop)
            for result in examine(self.terms_checks(kit)):
                if result.level != "ok" or result.name in self.promise_checks:
                    tell(result.name, f"{result.what}{f'. {result.action}' if result.action else ''}")
            tell(self.name, f"{kit.name} serves {kit.federation!r} at {kit.coordinator.superlink}")
            watch = NodeWatch(kit, tell, lambda: self.standing(kit))
            with Supervisor([supernode(kit, self.app)], watch.tell, backoff):
                # beside: a look at a coordinator that does not answer takes up to 25 s, for which no stop waits
                threading.Thread(target=watch.follow, args=(stop,), name="watch", daemon=True).start()
                while not stop.wait(WAIT_SECONDS):  # in turns: it may tell a watchdog that its main thread waits on it
                    pass
            tell(self.name, "stopped")
        return StartResult({"kit": str(kit.folder), "stopped": True}, ())

    def base_status(self, kit: Kit, home: Any, terms: Terms, queries: int, **more: Any) -> NodeStatus:
        """With what every kind of node knows alike. Raises NotAccepted where nothing was accepted yet."""
        running = is_held(kit.folder / "state" / "lock")
        return NodeStatus(
            kind=self.name,
            name=kit.name,
            federation=terms.federation[:12],
            running=running,
            connection=read_connection(kit) if running else "not started",
            queries=queries,
            most_queries=home.policy.most_queries,
            most_epsilon=home.policy.most_epsilon,
            coordinator=last_standing(kit),
            **more,
        )

    def _place(self, kit: Kit) -> str:
        home = self.open_home(kit.folder)
        if home.name != kit.name:
            raise ConfigError(
                f"{self.name}.toml says name {home.name!r}, the kit is that of {kit.name!r}",
                f"Set name back in {self.name}.toml",
            )
        if '"' in str(kit.folder) or " " in str(kit.folder):
            raise ConfigError(f"{kit.folder}: a path with spaces or quotes", "Move the kit: Flower cannot pass it on")
        return f"{kit.folder}"

    def _accepted(self, kit: Kit) -> str:
        """That its people have allowed what is asked: before that, nothing else of the policy can be said."""
        self.check_is_accepted(self.open_home(kit.folder))
        return acceptance.accepted_in_words(acceptance.read_policy(kit.folder, self.model, self.limits))

    def _own_keys(self, kit: Kit) -> str:
        """Whose keys these are, and that they are the ones that were enrolled. Raises ConfigError, Advice."""
        prints = self.fingerprints(kit)
        if not prints.made_here:
            return self.made_by_operator(kit)
        return f"made by this {self.name}, fingerprint {prints.own[:9]}...: the kit lists them"


def _started(kit: Kit, running: bool) -> str:
    """Whether it runs. Raises Advice of one that ran before."""
    logs = kit.folder / "state" / "logs"  # looked for: doctor may be another user, who must not make it
    if not running and logs.is_dir() and any(logs.iterdir()):
        raise Advice("this node is not started", f"Run: consilium node start {kit.folder}")
    return "started" if running else "not started yet"


def _flower() -> str:
    check_flower()
    program("flower-supernode")
    return f"flwr {version('flwr')} is one that was tested, and runs no code but this node's own"
