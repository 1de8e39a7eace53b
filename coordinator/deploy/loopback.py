"""The certificate of the SuperLink on loopback, made by the coordinator itself at each start.

Only the coordinator's own processes reach the SuperLink, so that the federation's authority need not vouch for it.
Flower reads a certificate once, when it starts: with one of its own, the federation's can be renewed while it runs.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from consilium.node.kit import Kit
from consilium.protocol.files import private_folder, replacing
from consilium.protocol.tls import TlsFiles

DAYS = 3650
EARLY = timedelta(days=1)
"""It starts so much before now: a clock that is set back while the coordinator runs stops nothing."""


def loopback_tls(kit: Kit) -> TlsFiles:
    """Where it is; it is its own authority."""
    folder = kit.state / "loopback"
    return TlsFiles(folder / "superlink.crt", folder / "superlink.key", folder / "superlink.crt")


def make_loopback(kit: Kit) -> TlsFiles:
    """A new one, ECDSA on P-256, for 127.0.0.1 and localhost, in place of the one of the start before."""
    files = loopback_tls(kit)
    private_folder(files.key.parent)
    key = ec.generate_private_key(ec.SECP256R1())
    public, name = key.public_key(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "superlink on loopback")])
    start = datetime.now(UTC) - EARLY
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    ) | dict.fromkeys(("crl_sign", "encipher_only", "decipher_only"), False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, content in ((files.key, secret), (files.certificate, certificate.public_bytes(Encoding.PEM))):
        with replacing(path, 0o600) as file:
            file.write(content)
    return files
