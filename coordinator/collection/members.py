"""Which parties take part: enrolment, training, and the rule that enough of them must be left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from consilium.coordinator.collection.admission import Admission, Member, Steps, tell_left_out
from consilium.coordinator.collection.exchange import Failure, Transport, exchange
from consilium.coordinator.collection.greeting import Greeting
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog
from consilium.protocol.errors import NotEnoughParties
from consilium.protocol.parties.messages import TrainReply
from consilium.protocol.parties.refusals import cure_of


def require(members: int, minimum: int, stage: str, failures: Mapping[str, Failure]) -> None:
    """Raise NotEnoughParties if fewer than `minimum` are left; the reasons are counted, most frequent first. What to do
    about the first for which something is known is said too."""
    if members >= minimum:
        return
    reasons: dict[str, int] = {}
    for failure in failures.values():
        reasons[failure.reason] = reasons.get(failure.reason, 0) + 1
    cure = next(filter(None, (cure_of(failure.reason) for failure in failures.values())), "")
    told = "; ".join(f"{count} x {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:3])
    raise NotEnoughParties(
        f"{members} parties after stage {stage!r}, at least {minimum} are required" + (f" ({told})" if told else ""),
        f"{f'{cure}. ' if cure else ''}See events.jsonl for each party's reason, or lower federation.minimum_parties",
    )


def enrol(
    transport: Transport,
    config: FederationConfig,
    ledger: str,
    log: EventLog,
    agreed: Mapping[str, int] | None = None,
    greeting: Greeting | None = None,
) -> list[Member]:
    """Ask `query.hello` of every connected node once; returns the members sorted by name. `ledger`: its id.

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
    admission = Admission(transport, config, ledger, log, agreed, greeting=greeting)
    members = admission.ask()
    require(len(members), config.minimum_parties, "enrol", admission.failures)
    return members


class Training(NamedTuple):
    """Members that have trained, and why others have not."""

    members: list[Member]
    failures: dict[Member, Failure]

    @property
    def left_out_for_data(self) -> int:
        """Parties that are left out because of what their data hold."""
        return sum(failure.for_data for failure in self.failures.values())


def train_all(
    transport: Transport, config: FederationConfig, members: list[Member], tell: Callable[[int, int], None]
) -> Training:
    """Ask `train.teacher` of every member. `tell(done, total)` is called as they answer."""
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
    """Ask `train.teacher` of every member, and leave out by name who does not train.

    least: parties that there must be; the federation's `minimum_parties` where None. Raises NotEnoughParties.
    """
    trained = train_all(transport, config, members, Steps(log, "train", len(members)))
    by_name = {member.party: failure for member, failure in trained.failures.items()}
    tell_left_out(log, "train", by_name)
    require(len(trained.members), config.minimum_parties if least is None else least, "train", by_name)
    return trained
