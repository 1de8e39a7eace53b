"""Which parties take part: enrolment, training, and the rule that enough of them must be left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from consilium.coordinator.collection.exchange import Failure, Transport, exchange
from consilium.coordinator.collection.greeting import Greeting
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog
from consilium.protocol.errors import NotEnoughParties
from consilium.protocol.parties.messages import HelloReply, LedgerPosition, TrainReply


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


def require(members: int, minimum: int, stage: str, failures: Mapping[str, Failure]) -> None:
    """Raise NotEnoughParties if fewer than `minimum` are left; the reasons are counted, most frequent first, and the
    cure is that of the first that has one."""
    if members >= minimum:
        return
    reasons: dict[str, int] = {}
    for failure in failures.values():
        reasons[failure.reason] = reasons.get(failure.reason, 0) + 1
    told = "; ".join(f"{count} x {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:3])
    raise NotEnoughParties(
        f"{members} parties after stage {stage!r}, at least {minimum} are required" + (f" ({told})" if told else ""),
        next((failure.cure for failure in failures.values() if failure.cure), "")
        or "See events.jsonl for each party's reason, or lower federation.minimum_parties",
    )


def enrol(
    transport: Transport,
    config: FederationConfig,
    ledger: str,
    log: EventLog,
    agreed: Mapping[str, int] | None = None,
    greeting: Greeting | None = None,
) -> list[Member]:
    """Ask `query.hello` of every connected node; returns the members sorted by name. `ledger`: its id.

    Waits up to `timeouts.enrol` for enough nodes to connect. Two nodes with one name are both left out, since nobody
    can tell which is the party. agreed: weights that are fixed already, by the roster or by an earlier enrolment.
    greeting: where the ledger and the parties' states stand; left out where the ledger is empty.

    Raises
    ------
    NotEnoughParties
    """
    deadline = time.monotonic() + config.timeouts.enrol
    while len(nodes := transport.nodes()) < config.minimum_parties and time.monotonic() < deadline:
        log.write("waiting", connected=len(nodes), required=config.minimum_parties)
        time.sleep(min(1.0, max(0.05, config.timeouts.enrol / 10)))
    greeting = greeting or Greeting(LedgerPosition(ledger=ledger, batch=0, head="0" * 64))
    request = greeting.request(config)
    log.write("stage", stage="enrol", total=len(nodes))
    replies = exchange(
        transport,
        dict.fromkeys(nodes, request),
        HelloReply,
        config.timeouts.enrol,
        lambda done, total: log.write("progress", stage="enrol", done=done, total=total),
    )
    failures = {f"node {node}": failure for node, failure in replies.failures.items()}
    by_name: dict[str, list[Member]] = {}
    for node, reply in replies.answers.items():
        if differing := greeting.other_version(reply):
            log.write("version", **differing)
        wrong = _fault(reply, config, (agreed or {}).get(reply.party))
        failure = Failure(wrong) if wrong is not None else greeting.behind(reply)
        if failure is not None:
            failures[reply.party] = failure
        else:
            by_name.setdefault(reply.party, []).append(Member(node, reply.party, reply.teachers, reply.weight))
    for name, claimants in by_name.items():
        if len(claimants) > 1:
            failures[name] = Failure(f"{len(claimants)} nodes claim this name")
    members = sorted((who[0] for who in by_name.values() if len(who) == 1), key=lambda member: member.party)
    tell_left_out(log, "enrol", failures)
    require(len(members), config.minimum_parties, "enrol", failures)
    return members


def _fault(reply: HelloReply, config: FederationConfig, agreed: int | None) -> str | None:
    """Why a party that announces itself so cannot be a member, or None."""
    if reply.teachers != config.teachers_per_party:
        return f"offers {reply.teachers} teachers, the federation asks {config.teachers_per_party}"
    if reply.weight > config.most_weight:
        return f"claims weight {reply.weight}, the federation allows {config.most_weight}"
    if agreed is not None and reply.weight != agreed:
        return f"claims weight {reply.weight}, {agreed} was agreed"
    return None


class Training(NamedTuple):
    """Members that have trained, and how many others are left out because of what their data hold."""

    members: list[Member]
    left_out_for_data: int


def train(transport: Transport, config: FederationConfig, members: list[Member], log: EventLog) -> Training:
    """Ask `train.teacher` of every member. Raises NotEnoughParties."""
    request = config.train_request()
    log.write("stage", stage="train", total=len(members))
    by_node = {member.node: member for member in members}
    replies = exchange(
        transport,
        dict.fromkeys(by_node, request),
        TrainReply,
        config.timeouts.train,
        lambda done, total: log.write("progress", stage="train", done=done, total=total),
    )
    failures = {by_node[node].party: failure for node, failure in replies.failures.items()}
    for node, reply in replies.answers.items():
        if reply.party != by_node[node].party or reply.teachers != by_node[node].teachers:
            failures[by_node[node].party] = Failure("answers for another party, or with another number of teachers")
    trained = [member for member in members if member.party not in failures]
    tell_left_out(log, "train", failures)
    require(len(trained), config.minimum_parties, "train", failures)
    return Training(trained, sum(failure.for_data for failure in failures.values()))


def tell_left_out(log: EventLog, stage: str, failures: Mapping[str, Failure]) -> None:
    """Write one event for each party that is left out: its name, the reason, and whether that is what its data hold."""
    for party, failure in sorted(failures.items()):
        cure = {"cure": failure.cure} if failure.cure else {}
        log.write("left-out", stage=stage, party=party, reason=failure.reason, for_data=failure.for_data, **cure)
