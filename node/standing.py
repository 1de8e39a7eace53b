"""Whether the coordinator lets a node in, asked at its gateway, signed as the node's other requests.

Whoever was revoked, is not listed or has a wrong clock learns it there. What is asked says nothing but who asks."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from consilium.node.checks import asked_of_coordinator
from consilium.node.flower import fleet_scheme
from consilium.node.folder import NodeFolder
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.protocol.errors import ConfigError

PATH, MOST_BYTES, OK = "/v1/fleet/standing", 4096, 200


def signed_headers(key: NodeKey) -> dict[str, str]:
    """As a SuperNode signs a request now. Raises EngineError: another Flower."""
    scheme, now = fleet_scheme(), datetime.now(UTC).isoformat()
    public = key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = key.private.sign(now.encode("ascii"), ec.ECDSA(hashes.SHA256()))
    return {scheme.key: b64encode(public).decode(), scheme.signature: b64encode(signature).decode(), scheme.moment: now}


def standing(folder: NodeFolder) -> str:
    """What the coordinator says now. Raises ConfigError: it does not let this node in, or the key cannot be read;
    ServiceError, Advice: it cannot be reached."""
    headers = signed_headers(NodeKey.load(folder.keys / NODE_KEY))
    answer = asked_of_coordinator(folder, "POST", PATH, {**headers, "Content-Length": "0"}, MOST_BYTES)
    words = answer.body.decode("utf-8", "replace")
    if answer.status != OK:
        raise ConfigError(f"says: {words}", "Talk to the federation's operator if that is news")
    return f"says: {words}"
