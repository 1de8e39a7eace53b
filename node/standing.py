"""How the coordinator says that a node stands, asked at its gateway, signed as the node's other requests.

Whoever was revoked, left out or refused learns it there in the coordinator's own words, and so does everybody after a
close. What is asked says nothing but who asks, and the answer is about that node alone.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import Field, ValidationError

from consilium.node.checks import Advice, asked_of_coordinator
from consilium.node.flower import fleet_scheme
from consilium.node.folder import NodeFolder
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.protocol.errors import ConfigError, ServiceError
from consilium.protocol.models import Frozen

PATH, MOST_BYTES = "/v1/fleet/standing", 16_384
REVOKED: Final = "revoked"
UNKNOWN: Final = "unknown"
CLOCK: Final = "wrong clock"
WRONG = frozenset({REVOKED, UNKNOWN, CLOCK, "refused", "left out"})
"""States in which a node's votes are in no sum, and somebody has to do something."""


class NodeStanding(Frozen, extra="ignore"):
    """As the coordinator has it. state: a word or two of few; words: with what to do. federation: the one that it
    serves, as far as people compare it. closed: nothing more is asked in it."""

    state: str = Field(max_length=40)
    words: str = Field(max_length=2000)
    federation: str = Field(default="", max_length=64)
    closed: bool = False

    @property
    def sentence(self) -> str:
        """For people."""
        closed = f"federation {self.federation} is closed: nothing more is asked"
        return closed if self.closed and self.state not in (REVOKED, UNKNOWN, CLOCK) else self.words


def signed_headers(key: NodeKey) -> dict[str, str]:
    """As a SuperNode signs a request now. Raises EngineError: another Flower."""
    scheme, now = fleet_scheme(), datetime.now(UTC).isoformat()
    public = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = key.private.sign(now.encode("ascii"), ec.ECDSA(hashes.SHA256()))
    return {scheme.key: b64encode(public).decode(), scheme.signature: b64encode(signature).decode(), scheme.moment: now}


def ask_standing(folder: NodeFolder) -> NodeStanding:
    """What the coordinator says now.

    Raises
    ------
    ServiceError, Advice : it cannot be reached, or does not say. ConfigError : the node's key cannot be read.
    """
    headers = signed_headers(NodeKey.load(folder.keys / NODE_KEY))
    answer = asked_of_coordinator(folder, "POST", PATH, {**headers, "Content-Length": "0"}, MOST_BYTES)
    try:
        return NodeStanding.model_validate_json(answer.body)
    except ValidationError:
        raise ServiceError("the coordinator does not say how this node stands", "See its log; ask again") from None


def standing(folder: NodeFolder) -> str:
    """How it says that this node stands. Raises ConfigError where it leaves this node out, Advice where it has closed,
    and as `ask_standing`."""
    said = ask_standing(folder)
    if said.state in WRONG:
        raise ConfigError(f"says: {said.words}", "Talk to the federation's operator if that is news")
    if said.closed:
        raise Advice(f"says: {said.sentence}", "Stop this node, or wait for the next federation")
    return f"says: {said.words}"
