"""Mutual TLS of the label service: credentials from files, and who is at the other end."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.request import getproxies_environment, proxy_bypass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, unreadable

AGAIN = "Join the folder that the operator sent once more: consilium node join FOLDER"
BACKUP = "Restore it from the node's newest backup"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""No program of a node goes to these by way of a proxy."""


def host_of(address: str) -> str:
    """Of host:port.

    >>> host_of("[::1]:8443")
    '::1'
    """
    return address.rpartition(":")[0].strip("[]")


def by_proxy(host: str) -> bool:
    """Whether `https_proxy` and `no_proxy` of the environment lead there by way of a proxy."""
    return "https" in getproxies_environment() and host not in LOOPBACK and not proxy_bypass(host)


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of one node: its certificate, the private key of it, and the authority that everyone trusts."""

    certificate: Path
    key: Path
    authority: Path

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Key, certificate, authority. gRPC ends the whole process over a file that holds none, so that all three are
        looked at first. Raises ConfigError: one is damaged, others can read the key, or it is of another."""
        key = read_private(self.key)
        try:
            private = load_pem_private_key(key, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ConfigError(f"{self.key}: not an unencrypted key in PEM form", BACKUP) from None
        load_certificate(self.authority)
        if load_certificate(self.certificate).public_key() != private.public_key():
            raise ConfigError(f"{self.key} is not the key of {self.certificate.name}", AGAIN)
        return key, _public(self.certificate), _public(self.authority)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def load_certificate(path: Path) -> x509.Certificate:
    """One PEM certificate. Raises ConfigError."""
    try:
        return x509.load_pem_x509_certificate(_public(path))
    except ValueError:
        raise ConfigError(f"{path}: not a PEM certificate", AGAIN) from None


CURES = {
    9: "set this machine's clock by NTP: by it the certificate is not valid yet",
    10: "check this machine's clock; if it is right, ask the operator for a folder with a new one",
    **dict.fromkeys(
        (18, 19, 20, 21),
        "ca.crt is of another federation, or something on the way reads the traffic (TLS inspection): compare the"
        " authority's fingerprint with the operator, and ask the network team",
    ),
    **dict.fromkeys(
        (62, 64), "the operator puts the name or address into coordinator.hosts, and runs consilium provision again"
    ),
}
"""By OpenSSL's code of why a certificate is not accepted."""
_REFUSED = "the server does not accept this node's certificate"


def tls_cure(error: ssl.SSLCertVerificationError) -> str:
    """What to do about a certificate that is not accepted, as the end of a sentence."""
    return CURES.get(error.verify_code, "check this machine's clock; else ask the operator whether ca.crt is right")


def why_no_connection(address: str, files: TlsFiles, seconds: float = 5) -> str:
    """In words, why the server at host:port does not answer as expected, by Python's own TLS: gRPC only says that it is
    not available. Empty where nothing is wrong with TLS, and where a proxy leads there."""
    host = host_of(address)
    if by_proxy(host):
        return ""
    try:
        with socket.create_connection((host, int(address.rpartition(":")[2])), timeout=seconds) as plain:
            context = ssl.create_default_context(cafile=str(files.authority))
            context.load_cert_chain(files.certificate, files.key)
            context.set_alpn_protocols(["h2"])
            with context.wrap_socket(plain, server_hostname=host) as secured:
                # under TLS 1.3 a server refuses a client's certificate only after the handshake, by closing; one that
                # takes it speaks first
                secured.settimeout(2)
                if not secured.recv(1):
                    return f"{_REFUSED}: it is not one of its federation's, or a clock is wrong there"
    except TimeoutError:
        return ""
    except ssl.SSLCertVerificationError as error:
        return f"the server's certificate is not accepted: {error.verify_message} ({tls_cure(error)})"
    except ssl.SSLError as error:
        return f"TLS failed: {error.reason or 'the connection was closed'}"
    except OSError as error:
        return error.strerror or "no connection"
    return ""


def _public(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, AGAIN) from None
