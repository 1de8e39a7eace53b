"""The second aggregator's keys: its own, or the operator's, and what parties compare with it by telephone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.aggregator.home import open_home
from consilium.node import keys as own_keys
from consilium.node.checks import Advice
from consilium.node.keys import ENROLMENT, FOREIGN, Enrolment, OwnKeys, grouped, not_ours
from consilium.node.kit import Kit
from consilium.node.rosters import PinnedRoster, pinned_roster
from consilium.protocol.errors import ConfigError

SECOND = "aggregator"


@dataclass(frozen=True)
class AggregatorFingerprints:
    """own: of all its keys, as the kit lists them. second: of those that the roster has, which every party sees too.
    roster: of the roster that it pins."""

    name: str
    own: str
    made_here: bool
    second: str
    roster: str
    parties: tuple[str, ...]


def make(name: str, out: Path) -> Enrolment:
    """All private keys of a second aggregator, and its enrolment, in the new folder `out`. Raises as
    `own_keys.make`."""
    return own_keys.make(SECOND, name, out)


def join(kit: Kit, folder: Path) -> None:
    """Copy the private keys into the kit that was made for them; again does nothing.

    Raises
    ------
    ConfigError : the kit or its roster lists other keys, or a key cannot be used. OutputExists : other keys are there.
    """
    keys = own_keys.own_keys_for(kit, SECOND, folder)
    _check_roster(roster_of(kit), keys, not_ours(SECOND))
    own_keys.put_into(kit, keys)


def lacks_own_keys(kit: Kit) -> bool:
    """Whether it made its own keys and has not put them into its kit."""
    return own_keys.lacks_own_keys(kit, SECOND)


def check_present(kit: Kit) -> None:
    """Raise ConfigError if it made its own keys and has not put them into its kit."""
    own_keys.check_present(kit, SECOND)


def roster_of(kit: Kit) -> PinnedRoster:
    """The roster that its settings name. Raises ConfigError."""
    home = open_home(kit.folder)
    found = pinned_roster("verified", home.folder / home.settings.roster)
    if found is None:
        raise ConfigError("verified votes have a roster", "Unpack the kit again")
    return found


def fingerprints(kit: Kit) -> AggregatorFingerprints:
    """What it reads out over the telephone.

    Raises
    ------
    ConfigError : keys are missing, or are not those that the kit and the roster list.
    """
    check_present(kit)
    keys, made_here, roster = OwnKeys.load(SECOND, kit.folder), (kit / ENROLMENT).exists(), roster_of(kit)
    if made_here:
        own_keys.check_listed(kit, keys)
    _check_roster(roster, keys, not_ours(SECOND) if made_here else FOREIGN)
    return AggregatorFingerprints(
        name=kit.name,
        own=keys.fingerprint(kit.name),
        made_here=made_here,
        second=roster.second_fingerprint,
        roster=grouped(roster.digest),
        parties=tuple(roster.parties),
    )


def check_own(kit: Kit) -> str:
    """For the doctor: whose keys these are, and that they are the ones that were enrolled.

    Raises
    ------
    ConfigError : they are not. Advice : the operator made them.
    """
    found = fingerprints(kit)
    if not found.made_here:
        raise Advice(
            "the operator made both aggregators' keys: it could open every vote",
            f"Make your own, and send {kit.name}.enrol.json to the operator: consilium aggregator keys {kit.name}",
        )
    return f"made by this aggregator, fingerprint {found.own[:9]}...: the kit lists them"


def _check_roster(roster: PinnedRoster, keys: OwnKeys, action: str) -> None:
    listed = roster.second
    if listed is None or (listed.ed25519_pk, listed.x25519_pk) != (keys.identity, keys.sealing):
        raise ConfigError("the roster has other keys for the second aggregator", action)
