"""Keys that a party makes itself: made, put into the kit that the operator made for them, and compared by telephone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from consilium.party.home import Home, open_home
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.node.enrolment import (
    ENROLMENT,
    IDENTITY,
    NODE_KEY,
    Enrolment,
    grouped,
    key_fingerprint,
    read_enrolment,
)
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.node_key import NodeKey
from consilium.protocol.secagg.identity import Identity
from consilium.protocol.secagg.roster import Roster

NOT_OURS = (
    "Take the folder that `consilium party keys` made for this kit. If it is that one, the operator enrolled other keys"
    " in your name: do not take part, and telephone"
)
FOREIGN = "identity.pem is not the one that was provisioned: ask the operator"


@dataclass(frozen=True)
class Fingerprints:
    """own: of this party's keys, as the kit lists them. roster: of the roster that it pins, empty for clear votes."""

    name: str
    own: str
    made_here: bool
    roster: str
    parties: tuple[str, ...]


def make(name: str, out: Path) -> Enrolment:
    """Both private keys of a party, and its enrolment, in the new folder `out`, mode 0700.

    Raises
    ------
    OutputExists : `out` is there. ConfigError : the name is none.
    """
    identity, node = Identity.generate(), NodeKey.generate()
    enrolment = Enrolment.create(name, identity, node)
    try:
        out.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise OutputExists(f"{out} is already there", "Choose another folder: keys are never overwritten") from None
    except OSError as error:
        raise ConfigError(f"{out}: {error.strerror}", "Choose a folder that you may write to") from None
    try:
        identity.save(out / IDENTITY)
        node.save(out / NODE_KEY)
        enrolment.save(enrolment_file(name, out))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # it is new, and what is in it was sent to nobody
        raise
    return enrolment


def enrolment_file(name: str, folder: Path) -> Path:
    """What to send to the operator."""
    return folder / f"{name}.enrol.json"


def join(kit: Kit, folder: Path) -> None:
    """Copy the private keys into the kit that was made for them; again does nothing.

    Raises
    ------
    ConfigError : the kit or its roster lists other keys, or a key cannot be used. OutputExists : other keys are there.
    """
    if not (kit / ENROLMENT).exists():
        raise ConfigError(
            f"{kit.folder}: this kit was not made for keys of your own",
            "Send NAME.enrol.json to the operator, and ask for a kit that is made with it",
        )
    identity, node = Identity.load(folder / IDENTITY), NodeKey.load(folder / NODE_KEY)
    _check_listed(kit, identity, node)
    _check_roster(pinned_roster(open_home(kit.folder)), kit.name, identity, NOT_OURS)
    for name, key in ((IDENTITY, identity), (NODE_KEY, node)):
        path = kit / name
        if path.exists() and type(key).load(path).public != key.public:
            raise OutputExists(f"{path} is another key", "Unpack the kit into a new folder, and join that one")
        try:
            if not path.exists():
                key.save(path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Run this as the owner of the kit") from None


def lacks_own_keys(kit: Kit) -> bool:
    """Whether the party made its own keys and has not put them into its kit."""
    return (kit / ENROLMENT).exists() and not all((kit / name).exists() for name in (IDENTITY, NODE_KEY))


def check_present(kit: Kit) -> None:
    """Raise ConfigError if the party made its own keys and has not put them into its kit."""
    if lacks_own_keys(kit):
        missing = [name for name in (IDENTITY, NODE_KEY) if not (kit / name).exists()]
        raise ConfigError(
            f"this kit holds no {' and no '.join(missing)}: this party made its own keys",
            f"Run: consilium party join {kit.folder} --keys FOLDER, with the folder that `consilium party keys` made",
        )


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
        _check_listed(kit, identity, node)
    roster = pinned_roster(home)
    _check_roster(roster, kit.name, identity, NOT_OURS if made_here else FOREIGN)
    return Fingerprints(
        name=kit.name,
        own=key_fingerprint(kit.name, identity.public.hex(), node.public),
        made_here=made_here,
        roster=grouped(roster.digest) if roster else "",
        parties=tuple(entry.id for entry in roster.parties) if roster else (),
    )


def pinned_roster(home: Home) -> Roster | None:
    """The roster that the party's settings name; None if it serves clear votes and has none. Raises ConfigError."""
    if home.policy.votes == "clear" and not home.roster_file.exists():
        return None
    return Roster.load(home.roster_file)


def check_own(kit: Kit) -> str:
    """For the doctor: whose keys these are, and that they are the ones that were enrolled. Raises ConfigError."""
    found = fingerprints(kit)
    if not found.made_here:
        return "the operator made this party's keys, and can sign in its name if it kept them; see docs/deploy.md"
    return f"made by this party, fingerprint {found.own[:9]}...: the kit lists them"


def _check_listed(kit: Kit, identity: Identity, node: NodeKey) -> None:
    listed = read_enrolment(kit / ENROLMENT, kit.name)
    if (listed.identity, listed.node) != (identity.public.hex(), node.public):
        own = key_fingerprint(kit.name, identity.public.hex(), node.public)
        raise ConfigError(f"the kit lists keys {listed.fingerprint}, these are {own}", NOT_OURS)


def _check_roster(roster: Roster | None, name: str, identity: Identity, action: str) -> None:
    if roster is None:
        return
    there = next((entry.ed25519_pk for entry in roster.parties if entry.id == name), None)
    if there is None:
        raise ConfigError(f"the roster has no party {name!r}", "This party was removed: ask the operator")
    if there != identity.public.hex():
        raise ConfigError(f"the roster has another signing key for {name!r}", action)
