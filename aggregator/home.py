"""The home of a second aggregator: the folder with its settings, its keys and its state.

aggregator.toml      name; policy, but in a kit
policy.toml          in a kit: what it allows, written by `consilium node accept` (node.acceptance)
identity.pem         signing key
sealing.pem          long-term key of its link to the coordinator
roster.json          parties and both aggregators, with their keys
terms.json           in a kit: the terms of the one federation that it serves
state/given.db       what it was told, what it checked, and every sum that it gave its half of
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.aggregator.policy import AggregatorFile, AggregatorPolicy
from consilium.node.acceptance import LIMITS, not_accepted, read_terms, read_with_policy
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.messages import Terms
from consilium.sums.roster import VerifiedRoster

SETTINGS = "aggregator.toml"


@dataclass(frozen=True)
class AggregatorHome:
    """Paths and settings of one aggregator."""

    folder: Path
    settings: AggregatorFile

    @property
    def name(self) -> str:
        """As it calls itself, for people."""
        return self.settings.name

    @property
    def policy(self) -> AggregatorPolicy:
        """Its own limits. Raises NotAccepted while its people have said nothing."""
        if self.settings.policy is None:
            raise not_accepted(self.folder, "aggregator")
        return self.settings.policy

    def roster(self) -> VerifiedRoster:
        """Its own copy. Raises ConfigError if there is none, or if it lists this aggregator with other keys."""
        path = self.folder / self.settings.roster
        roster = VerifiedRoster.load(path)
        own = self.identity().public.hex(), self.sealing().public.hex()
        if own != (roster.helper.ed25519_pk, roster.helper.x25519_pk):
            raise ConfigError(
                f"{path} lists the second aggregator with other keys than this node has", "Take the roster of this kit"
            )
        return roster

    def identity(self) -> Identity:
        """The signing key. Raises ConfigError."""
        return Identity.load(self.folder / self.settings.identity)

    def sealing(self) -> SealingKey:
        """The sealing key. Raises ConfigError."""
        return SealingKey.load(self.folder / self.settings.sealing)

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that it serves; None where it pins none. Raises ConfigError."""
        if not self.settings.terms:
            return None
        return read_terms(self.folder / self.settings.terms)

    @property
    def store_file(self) -> Path:
        """Where it keeps what it has given, in a folder that only the owner can read; made on first use."""
        state = self.folder / "state"
        state.mkdir(mode=0o700, exist_ok=True)
        return state / "given.db"


def open_home(folder: Path) -> AggregatorHome:
    """Read `aggregator.toml`, and in a kit `policy.toml`.

    Raises
    ------
    ConfigError : the folder or file is missing, or says something it may not say.
    """
    return AggregatorHome(folder, read_with_policy(folder / SETTINGS, AggregatorFile, AggregatorPolicy, LIMITS))
