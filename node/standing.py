"""How the coordinator says that a node stands: asked at the gateway, signed as the node's other requests, and kept.

Whoever was revoked, left out or refused learns it there from the one account of the coordinator (`run_state`), in its
words, and so does everybody after a close. What is asked says nothing but the node's own name, and the answer is about
that node alone.
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import Field, ValidationError

from consilium.node.checks import Advice, asked_of_coordinator, check_coordinator
from consilium.node.flower import fleet_scheme
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.node.kit import Kit
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replacing
from consilium.protocol.models import Frozen

PATH, FILE = "/v1/fleet/standing", "standing.json"
REVOKED = "revoked"
WRONG = frozenset({REVOKED, "refused", "left out"})
"""States in which a node's votes are in no sum, and somebody has to do something."""
MOST_BYTES = 16_384


class NodeStanding(Frozen, extra="ignore"):
    """As the coordinator has it. state: a word or two of few; words: with what to do. federation: the one that it
    serves, as far as people compare it. closed: nothing more is asked in it. unanswered: see
    `protocol.label_source.Unanswered`, of the whole federation. moment: when it was said, which a node adds."""

    state: str = Field(max_length=40)
    words: str = Field(max_length=2000)
    federation: str = Field(default="", max_length=64)
    closed: bool = False
    unanswered: int = Field(default=0, ge=0)
    moment: str = Field(default="", max_length=40)

    @property
    def sentence(self) -> str:
        """For people."""
        closed = f"federation {self.federation} is closed: nothing more is asked"
        return closed if self.closed and self.state != REVOKED else self.words


def signed_headers(key: NodeKey) -> dict[str, str]:
    """As a SuperNode signs a request now. Raises EngineError: another Flower."""
    scheme, now = fleet_scheme(), datetime.now(UTC).isoformat()
    public = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = key.private.sign(now.encode("ascii"), ec.ECDSA(hashes.SHA256()))
    return {scheme.key: b64encode(public).decode(), scheme.signature: b64encode(signature).decode(), scheme.moment: now}


def ask_standing(kit: Kit) -> NodeStanding | None:
    """What the coordinator says now; None from one that does not say such things.

    Raises
    ------
    ServiceError : it cannot be reached. ConfigError : the node's key cannot be read.
    """
    headers = signed_headers(NodeKey.load(kit / NODE_KEY))
    answer = asked_of_coordinator(kit, "POST", PATH, {**headers, "Content-Length": "0"}, MOST_BYTES)
    try:
        said = NodeStanding.model_validate_json(answer.body)
    except ValidationError:
        return None
    return said.model_copy(update={"moment": datetime.now(UTC).isoformat(timespec="seconds")})


def check_standing(kit: Kit) -> str:
    """As `check_coordinator`, and how it says that this node stands. Raises ConfigError where it leaves this node out,
    Advice where it has closed."""
    reached, said = check_coordinator(kit), ask_standing(kit)
    if said is None:
        return reached
    if said.state in WRONG:
        raise ConfigError(f"the coordinator says: {said.words}", "Talk to the federation's operator if that is news")
    if said.closed:
        raise Advice(f"the coordinator says: {said.sentence}", "Stop this node, or wait for the next federation")
    return f"{reached}; it says: {said.words}"


def keep_standing(kit: Kit, said: NodeStanding) -> None:
    """Write it down for `status`. A full disk is told of elsewhere."""
    with contextlib.suppress(OSError), replacing(kit.state / FILE, mode=0o600, durable=False) as file:
        file.write(said.model_dump_json().encode())


def last_standing(kit: Kit) -> NodeStanding | None:
    """What the coordinator said last; None where it never did, or the file is damaged."""
    try:
        return NodeStanding.model_validate_json(_path(kit).read_bytes())
    except (OSError, ValidationError):
        return None


def _path(kit: Kit) -> Path:
    return kit.folder / "state" / FILE
