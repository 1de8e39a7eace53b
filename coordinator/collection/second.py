"""The second aggregator as the coordinator reaches it: one more node behind the same transport, found by its key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from consilium.coordinator.collection.exchange import Failure, Transport, exchange
from consilium.coordinator.collection.greeting import Greeting
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog
from consilium.protocol.aggregators.errors import AggregatorAway, AggregatorRefuses
from consilium.protocol.aggregators.messages import AggregatorReply, AggregatorRequest
from consilium.protocol.parties.messages import PROTOCOL_VERSION, WireModel
from consilium.protocol.parties.refusals import CURES_OF_SECOND, Rule, cure_of
from consilium.protocol.verified.roster import VerifiedRoster

Reply = TypeVar("Reply", bound=WireModel)
REFUSED = "refused: "
ATTEMPTS = 2
"""How often a message is sent to a node that is silent; it is looked for anew in between."""


class SecondAggregator:
    """Finds the node that has the second aggregator's key, and asks it.

    Parties announce themselves to `query.hello`; whoever refuses that since it is another kind of node is asked here. A
    node that only claims the key cannot go on: all that it says later is sealed and signed.

    members : nodes of the parties that serve now, which are not asked.
    """

    def __init__(
        self,
        transport: Transport,
        config: FederationConfig,
        roster: VerifiedRoster,
        greeting: Greeting,
        members: Callable[[], Collection[int]],
        log: EventLog,
    ) -> None:
        self._transport, self._config, self._roster, self._log = transport, config, roster, log
        self._greeting, self._members = greeting, members
        self._node: int | None = None

    def find(self) -> int:
        """Its node, which would serve in this federation.

        Raises
        ------
        AggregatorAway : no such node is connected. AggregatorRefuses : it does not serve.
        """
        members = set(self._members())
        others = [node for node in self._transport.nodes() if node not in members]
        request = AggregatorRequest(
            **self._config.terms().model_dump(),
            protocol_version=PROTOCOL_VERSION,
            **self._greeting.position().model_dump(),
            program=self._greeting.program,
        )
        replies = exchange(
            self._transport, dict.fromkeys(others, request), AggregatorReply, self._config.timeouts.enrol, _untold
        )
        found = [node for node, reply in replies.answers.items() if reply.key == self._roster.helper.ed25519_pk]
        if not found:
            raise _why(list(replies.failures.values()), len(replies.answers))
        self._node = min(found)
        self._log.write("second-aggregator", name=replies.answers[self._node].name, node=self._node)
        return self._node

    def ask(self, request: WireModel, model: type[Reply], timeout: float) -> Reply:
        """Its answer to one message.

        Raises
        ------
        AggregatorAway : it is not there, or silent. AggregatorRefuses : it says no.
        """
        failure = Failure("node is not connected")
        for _attempt in range(ATTEMPTS):
            node = self.find() if self._node is None else self._node
            replies = exchange(self._transport, {node: request}, model, timeout, _untold)
            if node in replies.answers:
                return replies.answers[node]
            failure, self._node = replies.failures[node], None
            if not failure.silent:
                break
        raise _error(failure)


def _untold(done: int, total: int) -> None:
    """One node: there is no progress to tell."""


def _why(failures: list[Failure], others: int) -> AggregatorAway | AggregatorRefuses:
    """What there is to say where no node is the one: the refusal of one that is no party, if there is any."""
    of_parties = f"{REFUSED}{Rule.NODE_KIND}"
    told = [failure for failure in failures if failure.reason != of_parties]
    refused = next((failure for failure in told if not failure.silent), None)
    if refused is not None:
        return _error(refused)
    if others:
        return AggregatorAway("a node answers as second aggregator, with another key than the roster's")
    return AggregatorAway(told[0].reason if told else "no such node is connected")


def _error(failure: Failure) -> AggregatorAway | AggregatorRefuses:
    if failure.silent:
        return AggregatorAway(failure.reason)
    reason = failure.reason.removeprefix(REFUSED)
    rule = reason.partition(",")[0] if failure.reason.startswith(REFUSED) else ""
    return AggregatorRefuses(reason, cure_of(failure.reason, CURES_OF_SECOND), rule)
