"""How old a node's certificates are, and how long they are still good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from consilium.protocol.errors import ConsiliumError
from consilium.protocol.labels.tls import load_certificate


@dataclass(frozen=True)
class CertificateAge:
    """One certificate. since, until: UTC; None where the file cannot be read."""

    name: str
    since: datetime | None = None
    until: datetime | None = None

    def age_days(self, now: datetime) -> int | None:
        """Whole days since it became valid."""
        return None if self.since is None else (now - self.since).days

    def days_left(self, now: datetime) -> int | None:
        """Whole days until it expires; negative where it has expired."""
        return None if self.until is None else (self.until - now).days


def ages(paths: Iterable[Path]) -> list[CertificateAge]:
    """Of each file."""
    return [_age(path) for path in paths]


def _age(path: Path) -> CertificateAge:
    try:
        found = load_certificate(path)
    except ConsiliumError:
        return CertificateAge(path.name)
    return CertificateAge(path.name, found.not_valid_before_utc, found.not_valid_after_utc)
