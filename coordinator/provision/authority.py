"""The federation's certificate authority and the certificates that it makes: X.509, ECDSA on P-256."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private
from consilium.protocol.tls import load_certificate

CA_DAYS = 3650
NODE_DAYS = 730
EARLY = timedelta(minutes=10)
"""Certificates start so much before now: a node's clock may be a little behind the operator's."""


@dataclass(frozen=True)
class Authority:
    """The authority: its certificate, and its key, which never leaves the operator's folder."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, federation: str, now: datetime | None = None) -> Authority:
        """A new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{federation[:40]} authority")
        certificate = (
            _builder(name, name, key.public_key(), CA_DAYS, now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """The one in an operator's folder. Raises ConfigError."""
        content = read_private(folder / "ca.key")
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{folder / 'ca.key'}: not an EC key", "Restore the operator's folder from its backup")
        certificate = load_certificate(folder / "ca.crt")
        if certificate.public_key() != key.public_key():
            raise ConfigError(f"{folder / 'ca.key'} is not the key of ca.crt", "Restore the operator's folder")
        return cls(certificate, key)

    @property
    def trusted(self) -> str:
        """What nodes have as ca.crt: its certificate, PEM."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def save(self, folder: Path) -> None:
        """Write ca.crt and ca.key (0600)."""
        (folder / "ca.crt").write_text(self.trusted, encoding="utf-8")
        write_private(folder / "ca.key", private_pem(self.key))

    def certify_server(
        self, key: ec.EllipticCurvePublicKey, hosts: Sequence[str], days: int = NODE_DAYS, now: datetime | None = None
    ) -> x509.Certificate:
        """For the coordinator's key: SuperLink, gateway and label service at these names and addresses."""
        # the coordinator's own processes reach the SuperLink on loopback
        names = [_alternative(host) for host in dict.fromkeys([*hosts, "localhost", "127.0.0.1"])]
        return self._certify("coordinator", key, ExtendedKeyUsageOID.SERVER_AUTH, days, now, names)

    def client(self, name: str, days: int = NODE_DAYS, now: datetime | None = None) -> Issued:
        """For a student."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Issued(self._certify(name, key.public_key(), ExtendedKeyUsageOID.CLIENT_AUTH, days, now, []), key)

    @property
    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())

    def _certify(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        purpose: x509.ObjectIdentifier,
        days: int,
        now: datetime | None,
        names: Sequence[x509.GeneralName],
    ) -> x509.Certificate:
        issuer = self.certificate.subject
        builder = (
            _builder(_name(name), issuer, key, days, now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(self._identifier, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def save(self, folder: Path, stem: str) -> None:
        """Write STEM.key (0600) and STEM.crt."""
        write_private(folder / f"{stem}.key", private_pem(self.key))
        (folder / f"{stem}.crt").write_bytes(self.certificate.public_bytes(Encoding.PEM))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """PKCS8 in PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int, now: datetime | None
) -> x509.CertificateBuilder:
    start = (now or datetime.now(UTC)) - EARLY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
