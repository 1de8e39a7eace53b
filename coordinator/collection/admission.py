"""Which parties take part: greeting, enrolment, training, those that come late, and the rule that enough must be left.

`query.hello` goes to every node that connects, again to one that refused, under the names that the operator lists. A
simulation asks once, whoever is there (`enrol`). A deployed coordinator waits for all that may connect, until
its time is over, and goes on listening for those that come late (`Latecomers`): enrolled and trained at once, and in
the sums from the next on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from consilium.coordinator.collection.base import Collector, Counts, Queries
from consilium.coordinator.collection.exchange import (
    Failure,
    Member,
    Replies,
    Steps,
    Tell,
    Transport,
    exchange,
    require,
    tell_left_out,
)
from consilium.coordinator.collection.means import Standing
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.node.supervisor import BackOff
from consilium.protocol.messages import HelloReply, TrainReply
from consilium.protocol.refusals import Rule

log = logging.getLogger("consilium.coordinator")


AGAIN, SOON = BackOff(first=60, most=900), BackOff(first=5, most=60)
"""Seconds until a party is asked again that refused, whose policy or data may have been corrected; that was silent."""
PAUSE_SECONDS, TELL_SECONDS = 1.0, 60.0


class Registered(NamedTuple):
    """By an operator: the parties that may connect; and whose key a node has, a party's or the second aggregator's."""

    parties: Collection[str]
    names: Mapping[int, str]


@dataclass
class Admission:
    """Asks nodes to enrol, and keeps who did. known: the nodes that an operator registered; None in a simulation, whose
    parties tell their own names. members and failures are by name; a simulated node that told none is called by its
    number."""

    transport: Transport
    config: FederationConfig
    log: EventLog
    standing: Standing
    known: Registered | None = None
    clock: Callable[[], float] = time.monotonic
    members: dict[str, Member] = field(init=False, default_factory=dict)
    failures: dict[str, Failure] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._connected: frozenset[int] = frozenset()
        self._lock = threading.RLock()  # a sum that begins asks who is back, also while a thread waits for latecomers
        self._tries: dict[int, tuple[int, float]] = {}
        self._no_party: set[int] = set()

    def expected(self) -> Collection[str]:
        return () if self.known is None else self.known.parties

    def _registered(self, node: int) -> str | None:
        return None if self.known is None else self.known.names.get(node)

    def look(self) -> frozenset[int]:
        """The nodes that are connected now; who came and who went since is written down, by name."""
        with self._lock:
            now = frozenset(self.transport.nodes())
            for node in now - self._connected - self._no_party:
                self._tries.pop(node, None)  # it was away, and is back: perhaps with another policy, or an older state
            for event, nodes in (("connected", now - self._connected), ("lost", self._connected - now)):
                names = sorted(filter(None, map(self._registered, nodes)))
                if names:
                    self.log.write(event, parties=names)
            self._connected = now
            return now

    def ask(self, late: bool = False, returned: bool = False) -> list[Member]:
        """Ask every connected node that is due; returns who enrolled now, sorted by name. A member whose node was away
        and is back enrols again, or is a member no more. late: the others are serving already, and the parties are told
        so. returned: ask such members only."""
        with self._lock:
            now = self.clock()
            due = [node for node in self.look() if node not in self._tries or self._tries[node][1] <= now]
            if returned:
                due = [node for node in due if node in {member.node for member in self.members.values()}]
            if not due:
                return []
            quiet = late or all(node in self._tries for node in due)
        request = self.standing.greeting(self.config, late)
        tell = None if quiet else Steps(self.log, "enrol", len(due))
        replies = exchange(
            self.transport, dict.fromkeys(sorted(due), request), HelloReply, self.config.timeouts.enrol, tell
        )
        with self._lock:
            return self._take(due, replies)

    def _take(self, due: list[int], replies: Replies[HelloReply]) -> list[Member]:
        self._no_party |= {node for node, failure in replies.failures.items() if failure.rule is Rule.NODE_KIND}
        failures, claims = dict[str, Failure](), dict[str, list[Member]]()
        for node, failure in replies.failures.items():
            if node not in self._no_party:
                failures[self._name(node)] = failure
            if not failure.silent:
                self._drop(node)
        for node, reply in replies.answers.items():
            name, wrong = self._registered(node) or reply.party, self._fault(node, reply)
            if reply.program != (ours := self.standing.program):
                theirs = reply.program or "an unknown version"
                self.log.write("version", party=reply.party, theirs=theirs, ours=ours)
            if wrong is not None:
                self._drop(node)
                failures[name] = Failure(wrong)
            else:
                claims.setdefault(name, []).append(Member(node, name, reply.teachers))
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
        by_name = {member.party: why for member, why in failed.items()}
        with self._lock:
            for name in by_name:
                self.members.pop(name, None)
            self._note([member.node for member in failed], [], by_name, "train")

    def _note(
        self, nodes: Collection[int], fresh: list[Member], failures: Mapping[str, Failure], stage: str = "enrol"
    ) -> None:
        again, now = {name: why for name, why in failures.items() if self.failures.get(name) != why}, self.clock()
        tell_left_out(self.log, stage, again)
        self.failures |= failures
        enrolled = {member.node for member in fresh}
        for node in nodes:
            tries, failure = self._tries.get(node, (0, 0.0))[0] + 1, failures.get(self._name(node))
            pause = (SOON if failure and failure.silent else AGAIN).pause(tries)
            self._tries[node] = (tries, float("inf") if node in enrolled or node in self._no_party else now + pause)
        for member in fresh:
            self.members[member.party] = member
            self.failures.pop(member.party, None)
        if fresh and self.known is not None:
            self.log.write("enrolled", parties=[member.party for member in fresh])

    def _drop(self, node: int) -> None:
        self.members = {name: member for name, member in self.members.items() if member.node != node}

    def _name(self, node: int) -> str:
        return self._registered(node) or f"node {node}"

    def _fault(self, node: int, reply: HelloReply) -> str | None:
        """Why a node that announces itself so cannot be a member, or None."""
        registered = self._registered(node)
        if registered is not None and (reply.party != registered or registered not in self.expected()):
            return "answers in another party's name than its key was registered for"
        if reply.teachers != self.config.teachers_per_party:
            return f"offers {reply.teachers} teachers, the federation asks {self.config.teachers_per_party}"
        return self.standing.behind(reply)


def assemble(
    admission: Admission,
    least: int,
    patience: float,
    stop: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Member]:
    """Wait until every party that may connect is enrolled or has refused; who is silent may yet come. `patience`
    seconds after there are `least` of them, go on without the others. Returns those that are connected then, sorted by
    name; nobody where `stop` says so. However long it takes until there are enough, nothing has failed. Who is missing
    is told when it changes, and every minute."""
    enough_since: float | None = None
    last_state: tuple[object, ...] = ()
    told = clock()
    while not stop():
        admission.ask()
        connected = admission.look()
        there = [member for _, member in sorted(admission.members.items()) if member.node in connected]
        missing = sorted({*admission.expected()} - {member.party for member in there} - {*admission.refused})
        enough_since = (clock() if enough_since is None else enough_since) if len(there) >= least else None
        waited = 0.0 if enough_since is None else clock() - enough_since
        if enough_since is not None and (not missing or waited >= patience):
            return there
        state = (tuple(missing), tuple(admission.refused), enough_since is None)
        if state != last_state or clock() - told >= TELL_SECONDS:
            left = {} if enough_since is None else {"at_most_seconds": max(0, round(patience - waited))}
            admission.log.write(
                "waiting", connected=len(there), required=least, awaited=missing, refused=admission.refused, **left
            )
            last_state, told = state, clock()
        sleep(PAUSE_SECONDS)
    return []


def enrol(transport: Transport, config: FederationConfig, log: EventLog, standing: Standing) -> list[Member]:
    """Ask `query.hello` of every connected node once; returns the members sorted by name. Waits up to `timeouts.enrol`
    for enough nodes to connect. Two nodes with one name are both left out, since nobody can tell which is the party.
    Raises NotEnoughParties."""
    deadline = time.monotonic() + config.timeouts.enrol
    while len(nodes := transport.nodes()) < config.minimum_parties and time.monotonic() < deadline:
        log.write("waiting", connected=len(nodes), required=config.minimum_parties)
        time.sleep(min(1.0, max(0.05, config.timeouts.enrol / 10)))
    admission = Admission(transport, config, log, standing)
    members = admission.ask()
    require(len(members), config.minimum_parties, "enrol", admission.failures)
    return members


class Training(NamedTuple):
    """Members that have trained, and why others have not."""

    members: list[Member]
    failures: dict[Member, Failure]

    @property
    def left_out_for_data(self) -> int:
        return sum(failure.for_data for failure in self.failures.values())


def train_all(
    transport: Transport, config: FederationConfig, members: list[Member], tell: Tell | None = None
) -> Training:
    """Ask `train.teacher` of every member."""
    request, by_node = config.train_request(), {member.node: member for member in members}
    replies = exchange(transport, dict.fromkeys(by_node, request), TrainReply, config.timeouts.train, tell)
    failures = {by_node[node]: failure for node, failure in replies.failures.items()}
    for node, reply in replies.answers.items():
        if reply.party != by_node[node].party or reply.teachers != by_node[node].teachers:
            failures[by_node[node]] = Failure("answers for another party, or with another number of teachers")
    return Training([member for member in members if member not in failures], failures)


def train(
    transport: Transport, config: FederationConfig, members: list[Member], log: EventLog, least: int | None = None
) -> Training:
    """Ask `train.teacher` of every member, and leave out by name who does not train. least: parties that there must be;
    the federation's `minimum_parties` where None. Raises NotEnoughParties."""
    trained = train_all(transport, config, members, Steps(log, "train", len(members)))
    by_name = {member.party: failure for member, failure in trained.failures.items()}
    tell_left_out(log, "train", by_name)
    require(len(trained.members), config.minimum_parties if least is None else least, "train", by_name)
    return trained


LOOK_SECONDS = 2.0


class Latecomers:
    """Threads, while the context is open, that look who connects and has those trained that enrol. Nobody waits for it:
    a sum that has begun goes on with the parties that it began with."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._ready: list[Member] = []
        self._back: list[Member] = []
        # what comes and goes is seen also while a latecomer is waited for, or trains
        works = (("arrivals", admission.look), ("latecomers", self.look))
        self._threads = [threading.Thread(target=self._repeat, args=(work,), name=n, daemon=True) for n, work in works]

    def __enter__(self) -> Latecomers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LOOK_SECONDS)  # it may wait for a party that is training: nobody needs it any more

    def look(self) -> None:
        returned, fresh = self._admission.ask(late=True, returned=True), self._admission.ask(late=True)
        with self._lock:
            due, self._back = self._back + returned + fresh, []
        if not due:
            return
        trained = train_all(self._admission.transport, self._admission.config, due)
        self._admission.fail(trained.failures)
        ready = [member for member in trained.members if member in fresh]
        if ready:
            with self._lock:
                self._ready += ready
            self._admission.log.write("takes-part", parties=[member.party for member in ready])

    def join(self, members: list[Member]) -> list[Member]:
        """Bring the list up to date, before a sum: those that are ready take part from now on, and are returned; one
        that is back and cannot enrol again is out. One that is back is asked here, whatever the thread is waiting for:
        with an older state it must not be in this sum. Its training, of which nothing is left to do, is not waited
        for."""
        back = self._admission.ask(late=True, returned=True)
        with self._lock:
            self._back += back
            ready, self._ready = [member for member in self._ready if member not in members], []
        standing = {*self._admission.members.values()}
        members[:] = [member for member in [*members, *ready] if member in standing]
        return ready

    def _repeat(self, work: Callable[[], object]) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                work()
            except Exception as error:  # a full disk, a SuperLink that restarts: the next look may work
                if not self._stop.is_set():
                    log.warning("cannot look for parties that come late: %s", type(error).__name__)


@dataclass(frozen=True)
class NotedCollector:
    """A `Collector` in whose next sum are the parties that came since the last, and of whose parties it is written down
    at which position of the ledger they were asked."""

    collector: Collector
    late: Latecomers | None
    members: list[Member]
    standing: Standing

    def collect(self, queries: Queries, sigma: float) -> Counts:
        if self.late is not None:
            self.late.join(self.members)
        self.standing.begin()
        counts = self.collector.collect(queries, sigma)
        self.standing.voted(counts.parties)
        return counts

    def settle(self) -> None:
        self.collector.settle()
