"""Who is let in: `query.hello` to every node that connects, again to one that refused, under the names of the kits.

A simulation asks once, whoever is there (`members.enrol`). A deployed coordinator waits for all that may connect,
until its time is over, and goes on listening for those that come late (`late`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from consilium.coordinator.collection.exchange import Failure, Transport, exchange
from consilium.coordinator.collection.greeting import Greeting
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog
from consilium.protocol.node.supervisor import BackOff
from consilium.protocol.parties.messages import HelloReply
from consilium.protocol.parties.refusals import Rule

AGAIN, SOON = BackOff(first=60, most=900), BackOff(first=5, most=60)
"""Seconds until a party is asked again that refused, whose policy or data may have been corrected; that was silent."""
PAUSE_SECONDS = 1.0
NO_PARTY = f"refused: {Rule.NODE_KIND}"
"""What a second aggregator answers: it is no party that is left out, and is not asked again."""


@dataclass(frozen=True)
class Member:
    """A party that serves: its node, its name, its number of teachers, and how often each of their answers counts."""

    node: int
    party: str
    teachers: int
    weight: int = 1

    @property
    def votes(self) -> int:
        """That it gives to each query."""
        return self.teachers * self.weight


class KnownNodes(Protocol):
    """The nodes that an operator registered. Both may change while a federation runs."""

    def names(self) -> Collection[str]:
        """Of all parties that may connect."""
        ...

    def name(self, node: int) -> str | None:
        """The party whose key a node has; None where that is not known."""
        ...


class Unregistered:
    """Of a simulation: parties tell their own names."""

    def names(self) -> Collection[str]:
        """See `KnownNodes`."""
        return ()

    def name(self, node: int) -> str | None:
        """See `KnownNodes`."""
        return None


class Steps:
    """Tells of a stage: its beginning, and each step."""

    def __init__(self, log: EventLog, stage: str, total: int) -> None:
        self._log, self._stage = log, stage
        log.write("stage", stage=stage, total=total)

    def __call__(self, done: int, total: int) -> None:
        self._log.write("progress", stage=self._stage, done=done, total=total)


class QuietSteps(Steps):
    """Tells nothing: what is done beside a stage that the run is in."""

    def __init__(self, log: EventLog, stage: str, total: int) -> None:
        """Nothing begins."""

    def __call__(self, done: int, total: int) -> None:
        """Nothing is told."""


class Admission:
    """Asks nodes to enrol, and keeps who did.

    Parameters
    ----------
    ledger : id of the one that the federation is charged to.
    agreed : weights that are fixed already, by the roster or by an earlier enrolment.
    greeting : where the ledger and the parties' states stand; left out where nothing was asked yet.

    members and failures are by name; a simulated node that told none is called by its number.
    """

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        ledger: str,
        log: EventLog,
        agreed: Mapping[str, int] | None = None,
        known: KnownNodes | None = None,
        clock: Callable[[], float] = time.monotonic,
        greeting: Greeting | None = None,
    ) -> None:
        self._transport, self._config, self._log = transport, config, log
        self._greeting = greeting or Greeting.of_empty(ledger)
        self._agreed, self._known, self._clock = agreed or {}, known or Unregistered(), clock
        self._connected: frozenset[int] = frozenset()
        self._tries: dict[int, tuple[int, float]] = {}
        self._no_party: set[int] = set()
        self.members: dict[str, Member] = {}
        self.failures: dict[str, Failure] = {}

    @property
    def known(self) -> KnownNodes:
        """The nodes that an operator registered."""
        return self._known

    def look(self) -> frozenset[int]:
        """The nodes that are connected now; who came and who went since is written down, by name."""
        now = frozenset(self._transport.nodes())
        for node in now - self._connected:
            if (failure := self.failures.get(self._name(node))) and failure.silent:
                self._tries.pop(node, None)  # it was away, and is back
        for event, nodes in (("connected", now - self._connected), ("lost", self._connected - now)):
            names = sorted(filter(None, map(self._known.name, nodes)))
            if names:
                self._log.write(event, parties=names)
        self._connected = now
        return now

    def ask(self, late: bool = False) -> list[Member]:
        """Ask every connected node that is due; returns who enrolled now, sorted by name.

        late: the others are serving already, and the parties are told so.
        """
        now = self._clock()
        due = [node for node in self.look() if node not in self._tries or self._tries[node][1] <= now]
        if not due:
            return []
        request = self._greeting.request(self._config, late)
        steps = QuietSteps if late or all(node in self._tries for node in due) else Steps
        tell = steps(self._log, "enrol", len(due))
        replies = exchange(
            self._transport, dict.fromkeys(sorted(due), request), HelloReply, self._config.timeouts.enrol, tell
        )
        self._no_party |= {node for node, failure in replies.failures.items() if failure.reason == NO_PARTY}
        failures = {
            self._name(node): failure for node, failure in replies.failures.items() if node not in self._no_party
        }
        claims: dict[str, list[Member]] = {}
        for node, reply in replies.answers.items():
            name, wrong = self._known.name(node) or reply.party, self._fault(node, reply)
            if differing := self._greeting.other_version(reply):
                self._log.write("version", **differing)
            if wrong is not None:
                failures[name] = Failure(wrong)
            else:
                claims.setdefault(name, []).append(Member(node, name, reply.teachers, reply.weight))
        fresh: list[Member] = []
        for name, claimants in sorted(claims.items()):
            before = {self.members[name].node} if name in self.members else set()
            if len(before | {member.node for member in claimants}) > 1:
                failures[name] = Failure(f"{len(before) + len(claimants)} nodes claim this name")
            else:
                fresh += claimants
        self._note(due, fresh, failures)
        return fresh

    @property
    def refused(self) -> list[str]:
        """Who said no, or what cannot be taken, sorted; not who was silent."""
        return sorted(name for name, failure in self.failures.items() if not failure.silent)

    def fail(self, failed: Mapping[Member, Failure]) -> None:
        """These members did not get on: they are none any more, and are asked again later."""
        for member in failed:
            self.members.pop(member.party, None)
        self._note([member.node for member in failed], [], {each.party: why for each, why in failed.items()}, "train")

    def _note(
        self, asked: Collection[int], fresh: list[Member], failures: Mapping[str, Failure], stage: str = "enrol"
    ) -> None:
        again, now = {name: why for name, why in failures.items() if self.failures.get(name) != why}, self._clock()
        tell_left_out(self._log, stage, again)
        self.failures |= failures
        enrolled = {member.node for member in fresh}
        for node in asked:
            tries, failure = self._tries.get(node, (0, 0.0))[0] + 1, failures.get(self._name(node))
            pause = (SOON if failure and failure.silent else AGAIN).pause(tries)
            self._tries[node] = (tries, float("inf") if node in enrolled or node in self._no_party else now + pause)
        for member in fresh:
            self.members[member.party] = member
            self.failures.pop(member.party, None)
        if fresh and self._known.names():
            self._log.write("enrolled", parties=[member.party for member in fresh])

    def _name(self, node: int) -> str:
        return self._known.name(node) or f"node {node}"

    def _fault(self, node: int, reply: HelloReply) -> str | None:
        """Why a node that announces itself so cannot be a member, or None."""
        registered, agreed = self._known.name(node), self._agreed.get(reply.party)
        if registered is not None and reply.party != registered:
            return "answers in another party's name than its key was registered for"
        if reply.teachers != self._config.teachers_per_party:
            return f"offers {reply.teachers} teachers, the federation asks {self._config.teachers_per_party}"
        if reply.weight > self._config.most_weight:
            return f"claims weight {reply.weight}, the federation allows {self._config.most_weight}"
        if agreed is not None and reply.weight != agreed:
            return f"claims weight {reply.weight}, {agreed} was agreed"
        return self._greeting.behind(reply)


def assemble(
    admission: Admission,
    least: int,
    patience: float,
    log: EventLog,
    stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Member]:
    """Wait until every party that may connect is enrolled or has refused; who is silent may yet come. `patience`
    seconds after there are enough of them, go on without the others. Returns those that are connected then, sorted by
    name; nobody where `stop` says so.

    However long it takes until there are enough: nothing has failed meanwhile, and what is told is told once.

    Parameters
    ----------
    least : parties that there must be; of secure votes at least as many as a sum needs.
    """
    enough_since: float | None = None
    told: tuple[object, ...] = ()
    while not stop():
        admission.ask()
        connected = admission.look()
        there = sorted(
            (member for member in admission.members.values() if member.node in connected), key=lambda each: each.party
        )
        missing = sorted({*admission.known.names()} - {member.party for member in there} - {*admission.refused})
        enough_since = (clock() if enough_since is None else enough_since) if len(there) >= least else None
        waited = 0.0 if enough_since is None else clock() - enough_since
        if enough_since is not None and (not missing or waited >= patience):
            return there
        state = (tuple(missing), tuple(admission.refused), enough_since is None)
        if state != told:
            log.write(
                "waiting",
                connected=len(there),
                required=least,
                awaited=missing,
                refused=admission.refused,
                **({} if enough_since is None else {"at_most_seconds": max(0, round(patience - waited))}),
            )
            told = state
        sleep(PAUSE_SECONDS)
    return []


def tell_left_out(log: EventLog, stage: str, failures: Mapping[str, Failure]) -> None:
    """Write one event for each party that is left out: its name, the reason, and whether that is what its data hold."""
    for party, failure in sorted(failures.items()):
        log.write("left-out", stage=stage, party=party, reason=failure.reason, for_data=failure.for_data)
