"""What the coordinator needs as one of the two aggregators: the roster and its keys."""

from __future__ import annotations

from dataclasses import dataclass

from consilium.coordinator.collection.secure import check_enough
from consilium.coordinator.config import FederationConfig
from consilium.protocol.aggregators.keys import SealingKey
from consilium.protocol.errors import ConfigError
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.verified.roster import VerifiedRoster
from consilium.protocol.verified.session import MOST_REACH, reach_of


@dataclass(frozen=True)
class VerifiedKeys:
    """The roster with both aggregators, the coordinator's signing key and its sealing key."""

    roster: VerifiedRoster
    signer: Identity
    sealing: SealingKey

    @property
    def least_sum(self) -> int:
        """Parties that must be in a sum."""
        return self.roster.least_accepted

    def weights(self) -> dict[str, int]:
        """How often the answers of each party count, by name: once each."""
        return dict.fromkeys(self.roster.places, 1)

    def check(self, config: FederationConfig) -> None:
        """Raise ConfigError unless they are those of the federation."""
        if self.roster.digest != config.roster:
            raise ConfigError(
                f"the roster has hash {self.roster.digest[:12]}, the federation asks for {config.roster[:12]}",
                "Use the roster that the federation was made with",
            )
        if (self.signer.public.hex(), self.sealing.public.hex()) != (
            self.roster.leader.ed25519_pk,
            self.roster.leader.x25519_pk,
        ):
            raise ConfigError(
                "the roster lists the coordinator with other keys than these", "Name the files that belong to it"
            )
        check_verified_sums(config, self.roster)


def check_verified_sums(config: FederationConfig, roster: VerifiedRoster) -> None:
    """Raise ConfigError unless all sums over this roster, with both aggregators' noise, fit into half of the field, and
    exact ones have enough parties; and no mechanism holds rows of exact ones against their totals: its error would tell
    of a count that one of them moved.
    """
    for number in config.phase_numbers:
        mechanism = config.phase(number).mechanism
        if mechanism.needs_probabilities and not config.noise_in_sums:
            raise ConfigError(
                f"{mechanism.name} needs rows that are votes, and an aggregator may falsify a row of exact sums",
                "Leave exact_sums out, or choose the mechanism confident",
            )
    events = [config.node_event(0, 0, number) for number in config.phase_numbers]
    if not config.noise_in_sums:
        check_enough(roster, roster.least_accepted)
    drawn = [event.party_noise(phase) for event in events for phase in (1, 2)]
    sigma = max((noise.sigma for noise in drawn if noise is not None), default=0.0)
    reach = reach_of(roster.n, config.teachers_per_party, sigma, sigma)
    if reach > MOST_REACH:
        raise ConfigError(
            f"verified sums of {roster.n} parties may reach {reach}, the most is {MOST_REACH}",
            "Use fewer parties or teachers, or less noise",
        )
