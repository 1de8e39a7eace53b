"""Who may come in at the label service. Apart from the service, which needs gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from consilium.node.signed import FederationFile
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.tls import TlsFiles, fingerprint


class Students:
    """Who may ask: the students whose certificates are in the federation that the coordinator joined.

    Its file is looked at in every request, and read again once it is another: a student that was revoked is refused at
    once. What cannot be read allows nobody.
    """

    def __init__(self, path: Path) -> None:
        """path: federation.json."""
        self._path = path
        self._read: tuple[tuple[int, ...], Mapping[str, str]] = (), {}

    def name(self, peer: Mapping[str, Any]) -> str | None:
        """The student with the certificate in a gRPC auth context; None where the federation has not this one."""
        try:
            shown = fingerprint(x509.load_pem_x509_certificate(peer["x509_pem_cert"][0]))
            return self._students().get(shown)
        except (ConsiliumError, OSError, ValueError, TypeError, KeyError, IndexError):
            return None

    def _students(self) -> Mapping[str, str]:
        """Names by fingerprint."""
        status = self._path.stat()
        state = status.st_mtime_ns, status.st_ino, status.st_size
        if self._read[0] != state:
            file = load(self._path, FederationFile)
            listed = {name: file.certificates[name] for name in file.of_kind("student")}
            self._read = (
                state,
                {fingerprint(x509.load_pem_x509_certificate(text.encode())): name for name, text in listed.items()},
            )
        return self._read[1]


@dataclass(frozen=True)
class Door:
    """Who may come in, and until when.

    tls, allowed: mutual TLS, and the federation.json with the students whose certificates are accepted (`Students`).
    close_file: the service is open for one student after another until this file is there.
    address: host:port that it is at; port 0 for any free one.
    """

    tls: TlsFiles
    allowed: Path
    close_file: Path
    address: str

    def closing(self) -> bool:
        """Whether the service is to be closed."""
        return self.close_file.exists()
