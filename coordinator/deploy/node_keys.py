"""Which registered node a request comes from, by its headers alone: Flower's signed time, checked before any body.

Flower 1.41: each request of a SuperNode carries its public key (PEM, base64), the time (ISO 8601) and an ECDSA
signature of the time. The SuperLink checks the same, but only after it has read and decoded the whole body.
"""

from __future__ import annotations

import binascii
import datetime
import logging
from base64 import b64decode
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from consilium.coordinator.deploy.flower import NodesFile
from consilium.node.flower import require_flower
from consilium.node.keys import public_key
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError

NAMES = {
    "flwr.common.constant": ("TIMESTAMP_HEADER", "TIMESTAMP_TOLERANCE", "SYSTEM_TIME_TOLERANCE"),
    "flwr.supercore.constant": ("FLEET_HTTP_PUBLIC_KEY_HEADER", "FLEET_HTTP_SIGNATURE_HEADER"),
}
"""Names that are not Flower's public API: of the scheme by which nodes sign."""

log = logging.getLogger("consilium.gateway")


class NodeKeys:
    """The nodes of `nodes.json`. The file is read again whenever it changes, so that a revoked node is out at once.

    Raises
    ------
    ConfigError : the file cannot be read at the start. Later the last good list stays until the file can be read.
    EngineError : this Flower signs in another way, or is another version.
    """

    def __init__(self, path: Path) -> None:
        require_flower(NAMES)
        common: Any = import_module("flwr.common.constant")
        fleet: Any = import_module("flwr.supercore.constant")
        self._key_header: str = fleet.FLEET_HTTP_PUBLIC_KEY_HEADER
        self._signature_header: str = fleet.FLEET_HTTP_SIGNATURE_HEADER
        self._time_header: str = common.TIMESTAMP_HEADER
        self._ahead: float = common.SYSTEM_TIME_TOLERANCE
        self._behind: float = common.TIMESTAMP_TOLERANCE + common.SYSTEM_TIME_TOLERANCE
        self._path = path
        self._stamp = path.stat().st_mtime_ns if path.exists() else -1
        self._keys = _read(path)

    def name(self, headers: Mapping[str, str]) -> str | None:
        """The node that signed these headers within Flower's window of time, or None.

        An unknown key costs a look-up; only for a key of the list is a signature checked.
        """
        self._refresh()
        try:
            name, key = self._keys[b64decode(headers[self._key_header], validate=True)]
            signature = b64decode(headers[self._signature_header], validate=True)
            time = headers[self._time_header]
            age = (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(time)).total_seconds()
            if not -self._ahead < age < self._behind:
                return None
            key.verify(signature, time.encode("ascii"), ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, TypeError, UnicodeError, binascii.Error, OverflowError, InvalidSignature):
            return None
        return name

    def _refresh(self) -> None:
        try:
            stamp = self._path.stat().st_mtime_ns
            if stamp != self._stamp:
                self._keys = _read(self._path)
                self._stamp = stamp
        except (OSError, ConfigError):
            # an update that is being unpacked: to answer 401 meanwhile would make every SuperNode end itself
            log.warning("%s cannot be read now: the nodes that were in it stay", self._path.name)


def _read(path: Path) -> dict[bytes, tuple[str, ec.EllipticCurvePublicKey]]:
    """PEM, as Flower sends it -> name and key."""
    found: dict[bytes, tuple[str, ec.EllipticCurvePublicKey]] = {}
    for name, text in load(path, NodesFile).all.items():
        key = public_key(text)
        if key is None:
            raise ConfigError(f"{path}: the key of {name} is no OpenSSH key on P-384", "Unpack the kit again")
        found[key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)] = (name, key)
    return found
