"""Keys that a party makes itself, see `node.keys`, and the roster that it compares by telephone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.node import keys as own_keys
from consilium.node.keys import (
    ENROLMENT,
    FOREIGN,
    NODE_KEY,
    Enrolment,
    NodeKey,
    OwnKeys,
    grouped,
    key_fingerprint,
    not_ours,
)
from consilium.node.kit import Kit
from consilium.node.rosters import PinnedRoster
from consilium.node.rosters import pinned_roster as read_roster
from consilium.party.home import Home, open_home
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity

PARTY = "party"


@dataclass(frozen=True)
class Fingerprints:
    """own: of this party's keys, as the kit lists them. roster: of the roster that it pins, empty for clear votes.
    second: of the second aggregator's keys in it, where votes are verified."""

    name: str
    own: str
    made_here: bool
    roster: str
    parties: tuple[str, ...]
    second: str = ""


def make(name: str, out: Path) -> Enrolment:
    """All private keys of a party, and its enrolment, in the new folder `out`. Raises as `own_keys.make`."""
    return own_keys.make(PARTY, name, out)


def join(kit: Kit, folder: Path) -> None:
    """Copy the private keys into the kit that was made for them; again does nothing.

    Raises
    ------
    ConfigError : the kit or its roster lists other keys, or a key cannot be used. OutputExists : other keys are there.
    """
    keys = own_keys.own_keys_for(kit, PARTY, folder)
    _check_roster(pinned_roster(open_home(kit.folder)), kit.name, keys.identity, not_ours(PARTY))
    own_keys.put_into(kit, keys)


def lacks_own_keys(kit: Kit) -> bool:
    """Whether the party made its own keys and has not put them into its kit."""
    return own_keys.lacks_own_keys(kit, PARTY)


def check_present(kit: Kit) -> None:
    """Raise ConfigError if the party made its own keys and has not put them into its kit."""
    own_keys.check_present(kit, PARTY)


def fingerprints(kit: Kit) -> Fingerprints:
    """What parties compare over the telephone: of the files that this party's settings really name.

    Raises
    ------
    ConfigError : keys are missing, or are not those that the kit and the roster list.
    """
    check_present(kit)
    home = open_home(kit.folder)
    identity, node = Identity.load(home.identity_file), NodeKey.load(kit / NODE_KEY)
    made_here = (kit / ENROLMENT).exists()
    if made_here:
        own_keys.check_listed(kit, OwnKeys.of_party(identity, node))
    roster = pinned_roster(home)
    _check_roster(roster, kit.name, identity.public.hex(), not_ours(PARTY) if made_here else FOREIGN)
    return Fingerprints(
        name=kit.name,
        own=key_fingerprint(kit.name, identity.public.hex(), node.public),
        made_here=made_here,
        roster=grouped(roster.digest) if roster else "",
        parties=tuple(roster.parties) if roster else (),
        second=roster.second_fingerprint if roster else "",
    )


def pinned_roster(home: Home) -> PinnedRoster | None:
    """The roster that the party's settings name, read as the votes of its pinned terms need it; None for clear votes.
    Raises ConfigError."""
    terms = home.pinned_terms()
    return read_roster(home.policy.votes if terms is None else terms.votes, home.roster_file)


def check_own(kit: Kit) -> str:
    """For the doctor: whose keys these are, and that they are the ones that were enrolled. Raises ConfigError."""
    found = fingerprints(kit)
    if not found.made_here:
        return "the operator made this party's keys, and can sign in its name if it kept them; see docs/deploy.md"
    return f"made by this party, fingerprint {found.own[:9]}...: the kit lists them"


def _check_roster(roster: PinnedRoster | None, name: str, identity: str, action: str) -> None:
    if roster is None:
        return
    there = roster.parties.get(name)
    if there is None:
        raise ConfigError(f"the roster has no party {name!r}", "This party was removed: ask the operator")
    if there != identity:
        raise ConfigError(f"the roster has another signing key for {name!r}", action)
