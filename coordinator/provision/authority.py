"""The federation's certificate authority and the certificates that it makes: X.509, ECDSA on P-256."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from consilium.node.folder import AUTHORITY_FILE, THE_COORDINATOR
from consilium.node.keys import public_key
from consilium.node.signed import ALGORITHM, signed_bytes
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private
from consilium.protocol.tls import load_certificate

KEY_FILE = "ca.key"
EARLY = timedelta(minutes=10)
"""Certificates start so much before now: a node's clock may be a little behind the operator's."""
LATE = timedelta(days=366)
"""They end so much after the federation's stated end."""
USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
"""Of a key, in X.509."""
_BACKUP = "Restore the operator's folder from its backup"


@dataclass(frozen=True)
class Authority:
    """Its key never leaves the operator's folder. What it certifies is valid as long as it is itself."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, federation: str, ends: date, now: datetime) -> Authority:
        """A new authority of a federation that ends on this day, UTC."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = datetime.combine(ends, time(), UTC) + LATE
        certificate = (
            _builder(f"{federation[:40]} authority", None, key.public_key(), now - EARLY, until)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage("key_cert_sign"), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """The one in an operator's folder. Raises PathError, ConfigError."""
        content = read_private(folder / KEY_FILE)
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{folder / KEY_FILE}: not an EC key", _BACKUP)
        certificate = load_certificate(folder / AUTHORITY_FILE)
        if certificate.public_key() != key.public_key():
            raise ConfigError(f"{folder / KEY_FILE} is not the key of {AUTHORITY_FILE}", _BACKUP)
        return cls(certificate, key)

    def save(self, folder: Path) -> None:
        """Write ca.crt and ca.key (0600)."""
        (folder / AUTHORITY_FILE).write_text(pem(self.certificate), encoding="utf-8")
        secret = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(folder / KEY_FILE, secret)

    def sign(self, files: dict[str, str]) -> str:
        """Signature of a signed folder, DER in hex. files: SHA-256, hex, by name."""
        return self.key.sign(signed_bytes(files), ALGORITHM).hex()

    def certify_server(self, key: str, hosts: Sequence[str]) -> str:
        """PEM, for the coordinator's public key, at these names and addresses and on loopback."""
        names = dict.fromkeys([*hosts, "localhost", "127.0.0.1"])
        return self._certify(THE_COORDINATOR, key, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def certify_student(self, name: str, key: str) -> str:
        """PEM, for a student's public key."""
        return self._certify(name, key, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _certify(self, name: str, line: str, purpose: x509.ObjectIdentifier, hosts: Iterable[str] = ()) -> str:
        key, own = public_key(line), self.certificate
        if key is None:
            raise ConfigError(f"{name}: not the OpenSSH line of a key on P-384", "Ask for its enrolment again")
        builder = (
            _builder(name, own.subject, key, own.not_valid_before_utc, own.not_valid_after_utc)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature"), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if names := [_alternative(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return pem(builder.sign(self.key, hashes.SHA256()))


def pem(certificate: x509.Certificate) -> str:
    """As text."""
    return certificate.public_bytes(Encoding.PEM).decode()


def _builder(
    subject: str, issuer: x509.Name | None, key: ec.EllipticCurvePublicKey, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    """issuer: None for a certificate of its own."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(only: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use == only for use in USES})


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
