"""Keys that a node makes itself: made, enrolled, put into the kit that the operator made for them, held against it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.identity import Identity, SealingKey
from consilium.protocol.node.enrolment import (
    ENROLMENT,
    IDENTITY,
    NODE_KEY,
    SEALING,
    Enrolment,
    key_fingerprint,
    read_enrolment,
)
from consilium.protocol.node.kit import EnrolledKind, Kit
from consilium.protocol.node.node_key import NodeKey

KEYS: Mapping[EnrolledKind, Mapping[str, Any]] = {
    "party": {IDENTITY: Identity, NODE_KEY: NodeKey},
    "aggregator": {IDENTITY: Identity, NODE_KEY: NodeKey, SEALING: SealingKey},
}
"""Private keys of a node, by its kind and their file."""
FOREIGN = "identity.pem is not the one that was provisioned: ask the operator"


@dataclass(frozen=True)
class OwnKeys:
    """The private keys of a party or a second aggregator, by file."""

    kind: EnrolledKind
    keys: Mapping[str, Any]

    @classmethod
    def generate(cls, kind: EnrolledKind) -> OwnKeys:
        """New ones, from the operating system's entropy."""
        return cls(kind, {name: form.generate() for name, form in KEYS[kind].items()})

    @classmethod
    def load(cls, kind: EnrolledKind, folder: Path) -> OwnKeys:
        """Those in a folder. Raises ConfigError if one is not there, cannot be used, or others may read it."""
        return cls(kind, {name: form.load(folder / name) for name, form in KEYS[kind].items()})

    @classmethod
    def of_party(cls, identity: Identity, node: NodeKey) -> OwnKeys:
        """A party's."""
        return cls("party", {IDENTITY: identity, NODE_KEY: node})

    @property
    def identity(self) -> str:
        """Ed25519, public, hex."""
        return self.keys[IDENTITY].public.hex()

    @property
    def node(self) -> str:
        """P-384, public, one OpenSSH line."""
        return self.keys[NODE_KEY].public

    @property
    def sealing(self) -> str:
        """X25519, public, hex; empty at a party."""
        return self.keys[SEALING].public.hex() if SEALING in self.keys else ""

    def enrolment(self, name: str) -> Enrolment:
        """What tells the operator of them. Raises ConfigError if the name is none."""
        return Enrolment.create(name, self.keys[IDENTITY], self.keys[NODE_KEY], self.sealing)

    def fingerprint(self, name: str) -> str:
        """As that of the enrolment."""
        return key_fingerprint(name, self.identity, self.node, self.sealing)

    def save(self, folder: Path) -> None:
        """Write all of them, mode 0600. Raises OutputExists: a key is never overwritten."""
        for name, key in self.keys.items():
            key.save(folder / name)


def make(kind: EnrolledKind, name: str, out: Path) -> Enrolment:
    """All private keys of a node, and its enrolment, in the new folder `out`, mode 0700.

    Raises
    ------
    OutputExists : `out` is there. ConfigError : the name is none.
    """
    keys = OwnKeys.generate(kind)
    enrolment = keys.enrolment(name)
    try:
        out.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise OutputExists(f"{out} is already there", "Choose another folder: keys are never overwritten") from None
    except OSError as error:
        raise ConfigError(f"{out}: {error.strerror}", "Choose a folder that you may write to") from None
    try:
        keys.save(out)
        enrolment.save(enrolment_file(name, out))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # it is new, and what is in it was sent to nobody
        raise
    return enrolment


def enrolment_file(name: str, folder: Path) -> Path:
    """What to send to the operator."""
    return folder / f"{name}.enrol.json"


def own_keys_for(kit: Kit, kind: EnrolledKind, folder: Path) -> OwnKeys:
    """The keys in a folder, if the kit was made for them.

    Raises
    ------
    ConfigError : the kit was made for no keys of the node's own, or lists others.
    """
    if not (kit / ENROLMENT).exists():
        raise ConfigError(
            f"{kit.folder}: this kit was not made for keys of your own",
            "Send NAME.enrol.json to the operator, and ask for a kit that is made with it",
        )
    keys = OwnKeys.load(kind, folder)
    check_listed(kit, keys)
    return keys


def put_into(kit: Kit, keys: OwnKeys) -> None:
    """Copy private keys into the kit that was made for them; again does nothing.

    Raises
    ------
    OutputExists : other keys are there. ConfigError : they cannot be written.
    """
    for name, key in keys.keys.items():
        path = kit / name
        if path.exists() and type(key).load(path).public != key.public:
            raise OutputExists(f"{path} is another key", "Unpack the kit into a new folder, and join that one")
        try:
            if not path.exists():
                key.save(path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "Run this as the owner of the kit") from None


def lacks_own_keys(kit: Kit, kind: EnrolledKind) -> bool:
    """Whether the node made its own keys and has not put them into its kit."""
    return (kit / ENROLMENT).exists() and not all((kit / name).exists() for name in KEYS[kind])


def check_present(kit: Kit, kind: EnrolledKind) -> None:
    """Raise ConfigError if the node made its own keys and has not put them into its kit."""
    if lacks_own_keys(kit, kind):
        missing = [name for name in KEYS[kind] if not (kit / name).exists()]
        raise ConfigError(
            f"this kit holds no {' and no '.join(missing)}: this {kind} made its own keys",
            f"Run: consilium {kind} join {kit.folder} --keys FOLDER, with the folder that `consilium {kind} keys` made",
        )


def check_listed(kit: Kit, keys: OwnKeys) -> None:
    """Raise ConfigError unless the kit lists these keys."""
    listed = read_enrolment(kit / ENROLMENT, kit.name, keys.kind)
    if (listed.identity, listed.node, listed.sealing) != (keys.identity, keys.node, keys.sealing):
        own = keys.fingerprint(kit.name)
        raise ConfigError(f"the kit lists keys {listed.fingerprint}, these are {own}", not_ours(keys.kind))


def not_ours(kind: EnrolledKind) -> str:
    """What to do where other keys were enrolled in this node's name."""
    return (
        f"Take the folder that `consilium {kind} keys` made for this kit. If it is that one, the operator enrolled"
        " other keys in your name: do not take part, and telephone"
    )
