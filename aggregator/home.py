"""A second aggregator's folder as it is opened: the federation that it joined, what it allows and what it has given."""

from __future__ import annotations

from dataclasses import dataclass

from consilium.accounting.events import ReleaseEvent
from consilium.aggregator.node import AggregatorNode, release_of
from consilium.aggregator.store import GivenStore
from consilium.node.folder import FEDERATION_FILE, NodeFolder
from consilium.node.home import Home, read_lines, refused_is_wrong
from consilium.node.keys import SEALING
from consilium.node.limits import NodePolicy
from consilium.node.signed import ASK, joined
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import SealingKey
from consilium.protocol.refusals import CURES_OF_SECOND
from consilium.sums.roster import VerifiedRoster

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
