"""Who takes part: rosters, held against a federation, least parties, and the nodes that may connect.

Nodes are known by `nodes.json`, by what the SuperLink took in, and by their signatures: a request to the gateway is a
registered node's if its key is in `nodes.json` and signed the request's head just now."""

from __future__ import annotations

import binascii
import datetime
import logging
import math
from base64 import b64decode
from collections.abc import Collection, Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import Field

from consilium.coordinator.collection.secure import check_digest
from consilium.coordinator.collection.ways import WAYS
from consilium.coordinator.config import Federation, FederationConfig
from consilium.coordinator.run_state import shown
from consilium.node.flower import fleet_scheme
from consilium.node.keys import public_key
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import PartyName
from consilium.protocol.models import Frozen
from consilium.sums.roster import SumRoster


def check_sums(config: FederationConfig, roster: SumRoster | None) -> None:
    """Raise ConfigError unless the sums of a federation over this roster can be computed; plaintext votes have none."""
    if roster is not None:
        check_digest(config, roster)
        WAYS[config.collection].check(config, roster)


def least_together(federation: Federation, least_sum: int) -> int:
    """`least_parties` where so many must be in a sum, 0 for plaintext votes."""
    needed = federation.mechanism.votes_needed
    return max(federation.minimum_parties, least_sum, math.ceil(needed / federation.teachers_per_party))


def least_parties(federation: Federation, roster: SumRoster | None) -> int:
    """The federation's minimum; as many as a secure sum needs; and as many as can pass every threshold at all.

    roster: None for plaintext votes.
    """
    return least_together(federation, 0 if roster is None else roster.least)


REGISTERED = "registered.json"


class NodesFile(Frozen):
    """The file `nodes.json`: public keys, in OpenSSH form, of the SuperNodes that may connect: by party, and that of
    the second aggregator, if there is one, by its name."""

    nodes: dict[PartyName, str]
    aggregators: dict[PartyName, str] = Field(default_factory=dict)

    @property
    def all(self) -> dict[str, str]:
        """By what each is called in logs, see `shown`."""
        return {**self.nodes, **{shown(name): key for name, key in self.aggregators.items()}}


class Registered(Frozen):
    """The file `state/registered.json`: what was registered with the SuperLink, by public key."""

    nodes: dict[str, int] = Field(default_factory=dict)


class RegisteredNodes:
    """See `KnownNodes`. Both files are read again when they change, so that a party that is added while a federation
    runs is known by its name, and a revoked one is awaited no more."""

    def __init__(self, folder: Path) -> None:
        """folder: of the kit. Raises ConfigError if its list cannot be read."""
        self._nodes, self._registered = folder / "nodes.json", folder / "state" / REGISTERED
        self._stamps: tuple[int, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._by_node: dict[int, str] = {}
        self._read()

    def names(self) -> Collection[str]:
        """See `KnownNodes`."""
        self._refresh()
        return self._names

    def name(self, node: int) -> str | None:
        """See `KnownNodes`; of the second aggregator "aggregator NAME", which no party can be called."""
        self._refresh()
        return self._by_node.get(node)

    def _refresh(self) -> None:
        try:
            self._read()
        except (OSError, ConfigError):
            return  # an update that is being unpacked: what was known stays until the file can be read

    def _read(self) -> None:
        stamps = tuple(path.stat().st_mtime_ns if path.exists() else -1 for path in (self._nodes, self._registered))
        if stamps == self._stamps:
            return
        found = load(self._nodes, NodesFile)
        known = load(self._registered, Registered).nodes if self._registered.exists() else {}
        self._names = frozenset(found.nodes)
        self._by_node = {known[key]: name for name, key in found.all.items() if known.get(key)}
        self._stamps = stamps


log = logging.getLogger("consilium.gateway")


class NodeKeys:
    """Which registered node a request comes from, by its headers alone: Flower's signed time, before any body is read.

    See `fleet_scheme`. The SuperLink checks the same, but only after it has read and decoded the whole body. The
    file is read again whenever it changes, so that a revoked node is out at once.

    Raises
    ------
    ConfigError : the file cannot be read at the start. Later the last good list stays until the file can be read.
    EngineError : this Flower signs in another way, or is another version.
    """

    def __init__(self, path: Path) -> None:
        self._scheme = fleet_scheme()
        self._path = path
        self._stamp = path.stat().st_mtime_ns if path.exists() else -1
        self._keys = _keys_of(path)

    def name(self, headers: Mapping[str, str]) -> str | None:
        """The node that signed these headers within Flower's window of time, or None.

        An unknown key costs a look-up; only for a key of the list is a signature checked.
        """
        self._refresh()
        try:
            name, key = self._keys[b64decode(headers[self._scheme.key], validate=True)]
            signature = b64decode(headers[self._scheme.signature], validate=True)
            time = headers[self._scheme.moment]
            age = (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(time)).total_seconds()
            if not -self._scheme.ahead < age < self._scheme.behind:
                return None
            key.verify(signature, time.encode("ascii"), ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, TypeError, UnicodeError, binascii.Error, OverflowError, InvalidSignature):
            return None
        return name

    def _refresh(self) -> None:
        try:
            stamp = self._path.stat().st_mtime_ns
            if stamp != self._stamp:
                self._keys = _keys_of(self._path)
                self._stamp = stamp
        except (OSError, ConfigError):
            # an update that is being unpacked: to answer 401 meanwhile would make every SuperNode end itself
            log.warning("%s cannot be read now: the nodes that were in it stay", self._path.name)


def _keys_of(path: Path) -> dict[bytes, tuple[str, ec.EllipticCurvePublicKey]]:
    """PEM, as Flower sends it -> name and key."""
    found: dict[bytes, tuple[str, ec.EllipticCurvePublicKey]] = {}
    for name, text in load(path, NodesFile).all.items():
        key = public_key(text)
        if key is None:
            raise ConfigError(f"{path}: the key of {name} is no OpenSSH key on P-384", "Unpack the kit again")
        found[key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)] = (name, key)
    return found
