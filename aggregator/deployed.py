"""A second aggregator on a machine of its own: its folder, as it is opened; what is particular to it among nodes, see
`node.members`; and its Flower ClientApp, which opens the folder for each message, as `party.client_app` does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from flwr.app import Context

from consilium.accounting.events import ReleaseEvent
from consilium.aggregator.node import AggregatorNode, check_terms, release_of
from consilium.aggregator.store import GivenStore
from consilium.node.answering import AnsweringNode, folder_of
from consilium.node.folder import FEDERATION_FILE, NodeFolder
from consilium.node.home import Home, read_lines, refused_is_wrong, towards_whom
from consilium.node.keys import SEALING
from consilium.node.kinds import NodeOutcome
from consilium.node.limits import NodePolicy, kept_epsilon
from consilium.node.members import MemberKind
from consilium.node.signed import ASK, joined
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import SealingKey
from consilium.protocol.messages import WireModel
from consilium.protocol.refusals import CURES_OF_SECOND
from consilium.sums.roster import VerifiedRoster
from consilium.sums.verified.messages import AggregatorRequest, CheckRequest, GiveRequest, OpenRequest

STORE = "given.db"


@dataclass(frozen=True)
class AggregatorHome(Home):
    """A second aggregator's folder. All methods raise ConfigError for a file that cannot be used."""

    model = NodePolicy

    @property
    def release(self) -> ReleaseEvent:
        return release_of(self.terms.promise)

    @property
    def roster(self) -> VerifiedRoster:
        roster = self.federation.sum_roster()
        if not isinstance(roster, VerifiedRoster):
            raise ConfigError(f"{self.terms.collection} votes need no second aggregator", "Ask the operator")
        return roster

    def store(self, wait: float | None = None) -> GivenStore:
        return GivenStore(self.folder.state / STORE, wait)

    def past(self) -> tuple[tuple[str, ...], int]:
        if not (self.folder / "state" / STORE).exists():
            return (), 0
        with self.store(LOOK_SECONDS).transaction() as sums:
            federation = self.terms.federation
            return tuple(sums.other_promises(federation)), sums.ever() - sums.given_in(federation, 1)

    def node(self) -> AggregatorNode:
        """Raises NotAccepted: its people have not allowed all that is asked."""
        return AggregatorNode(
            self.store(),
            name=self.name,
            policy=self.policy,
            roster=self.roster,
            identity=self.identity(),
            sealing=SealingKey.load(self.folder.keys / SEALING),
            pinned=self.terms,
        )


def open_home(folder: NodeFolder) -> AggregatorHome:
    """Raises ConfigError: it has joined nothing, or a file of it cannot be used."""
    federation = joined(folder)
    refused_is_wrong(lambda: release_of(federation.terms.promise), FEDERATION_FILE, ASK, CURES_OF_SECOND)
    return AggregatorHome(folder, federation, read_lines(folder, NodePolicy))


class AggregatorKind(MemberKind):
    """See `MemberKind`."""

    name = "aggregator"
    app = "consilium.aggregator.deployed"
    memory = STORE

    def open_home(self, folder: NodeFolder) -> AggregatorHome:
        return open_home(folder)

    def joined(self, folder: NodeFolder) -> NodeOutcome:
        roster = open_home(folder).roster
        return NodeOutcome({}, (f"The roster lists this aggregator, and {roster.n} parties.",))

    def allowed(self, home: AggregatorHome) -> str:
        return f"sums with noise of its own, {towards_whom(home.terms, home.policy, self.given(home)[1])}"

    def given(self, home: AggregatorHome) -> tuple[int, float]:
        policy, terms = home.policy, home.terms

        def charged() -> float:
            check_terms(policy, terms, home.roster, sums)
            return kept_epsilon(sums.execute, (terms.promise,), policy)

        with home.store(LOOK_SECONDS).transaction() as sums:  # which keeps it, for the messages that come
            return sums.ever(), refused_is_wrong(charged, "its own policy", cures=CURES_OF_SECOND)


AGGREGATOR = AggregatorKind()


log = logging.getLogger("consilium.aggregator")


@contextmanager
def _open(context: Context) -> Iterator[AggregatorNode]:
    yield open_home(folder_of(context)).node()


ANSWERS: Mapping[type[WireModel], str] = {
    AggregatorRequest: "hello",
    OpenRequest: "open",
    CheckRequest: "check",
    GiveRequest: "give",
}
aggregator = AnsweringNode("aggregator", _open, ANSWERS, log)
app = aggregator.app()
