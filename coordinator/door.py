"""Who may come in at the label service. Apart from the service, which needs gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.protocol.tls import TlsFiles


@dataclass(frozen=True)
class Door:
    """Who may come in, and until when.

    tls, allowed: mutual TLS, and the file with the students whose certificates are accepted (`labels.tls.AllowList`).
        Without them everyone who can connect may ask: on loopback only.
    close_file: with it the service stays open for the next student when one has finished, until this file is there.
    address: host:port that it is at; empty for the one of the federation's configuration.
    """

    tls: TlsFiles | None = None
    allowed: Path | None = None
    close_file: Path | None = None
    address: str = ""

    def closing(self) -> bool:
        """Whether the service is to be closed."""
        return self.close_file is not None and self.close_file.exists()


OPEN_DOOR = Door()
