"""The nodes that may connect: by the federation that is served, and by their signatures.

A request to the gateway is a node's if its key is listed there and signed the request's head just now."""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from consilium.coordinator.run_state import SECOND
from consilium.coordinator.served import ServedFederation
from consilium.node.flower import fleet_scheme
from consilium.node.keys import PublicKeys, public_key


def number_of(text: str) -> int:
    """The number of a node, by its public key, and of a run, by the federation: the same at every start."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) | 2  # 0 and 1 are Flower's own


def pem_of(key: str) -> bytes:
    """A node's key, an OpenSSH line, as a SuperNode sends it."""
    return load_ssh_public_key(key.encode()).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class RegisteredNodes:
    """See `KnownNodes`: those of the federation that is served; the second aggregator as "aggregator NAME"."""

    def __init__(self, file: ServedFederation) -> None:
        self._names = frozenset(file.parties)
        self._by_number = {number_of(keys.key): called(name, keys) for name, keys in file.members.items()}

    def names(self) -> Collection[str]:
        return self._names

    def name(self, node: int) -> str | None:
        return self._by_number.get(node)


def called(name: str, keys: PublicKeys) -> str:
    """What a node is called in logs: no party can be called as the second aggregator is."""
    return f"{SECOND}{name}" if keys.kind == "aggregator" else name


class NotLetIn(NamedTuple):
    """Why a request is not taken: in a word or two, and in words for whoever asked. status: of HTTP."""

    why: str
    words: str
    status: int = 401


class NodeKeys:
    """Which node a request comes from, by its headers alone: Flower's signed time, before any body is read. The
    SuperLink checks the same, but only after it has read the whole body. Raises EngineError : it is another Flower."""

    def __init__(self, file: ServedFederation) -> None:
        self._scheme = fleet_scheme()
        self._keys: dict[bytes, tuple[str, bool, ec.EllipticCurvePublicKey]] = {}  # by what a SuperNode sends
        former = {name: keys for name, keys in file.revoked.items() if keys.kind in ("party", "aggregator")}
        for nodes, revoked in ((former, True), (file.members, False)):
            for name, keys in nodes.items():
                if (key := public_key(keys.key)) is not None:
                    self._keys[pem_of(keys.key)] = (name if revoked else called(name, keys), revoked, key)

    def sender(self, headers: Mapping[str, str]) -> str | NotLetIn:
        """The node that signed these headers within Flower's window of time; or why nobody who may connect did. An
        unknown key costs a look-up; only for a key of the lists is a signature checked."""
        try:
            name, revoked, key = self._keys[b64decode(headers[self._scheme.key], validate=True)]
            signature = b64decode(headers[self._scheme.signature], validate=True)
            time = headers[self._scheme.moment]
            age = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
            key.verify(signature, time.encode("ascii"), ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, TypeError, UnicodeError, binascii.Error, OverflowError, InvalidSignature):
            return NOT_KNOWN
        if revoked:
            return SHUT_OUT
        if not -self._scheme.ahead < age < self._scheme.behind:
            return NotLetIn(
                "wrong clock",
                f"this node's clock is {abs(age):.0f} s {'behind' if age > 0 else 'ahead of'} the coordinator's:"
                " nothing that it sends is taken. Set both by NTP (timedatectl set-ntp true)",
                503,  # to 401 a SuperNode ends; one whose clock is wrong goes on trying until it is set
            )
        return name


NOT_KNOWN = NotLetIn(
    "unknown",
    "unknown: the coordinator's federation lists no node with this key. Send NAME.enrol.json to the operator; if"
    " that was done, the coordinator has yet to join the newest folder",
)
SHUT_OUT = NotLetIn(
    "revoked",
    "revoked: the operator shut this node out. Talk to the operator; to take part again needs new keys and a new name",
)
