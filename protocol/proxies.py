"""The way to another node: direct, or by way of the proxy that the environment names, as the node's own programs go.

A SuperNode (httpx) heeds HTTPS_PROXY and ALL_PROXY in capitals or not, gRPC `grpc_proxy`, `https_proxy` and
`http_proxy` in small letters only; both leave out what NO_PROXY or `no_proxy` names. A check that went another way than
the program would find nothing, or what is no fault.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

SUPERNODE = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
LABELS = ("grpc_proxy", "https_proxy", "http_proxy")
"""Variables that the program heeds, the first that is set before the others."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""No program of a node goes to these by way of a proxy: `without_loopback`, and `student.channel`."""
_MOST_ANSWER = 4096


class ProxyRefused(OSError):
    """The proxy was reached, and does not open the way; the text says what it answered."""


@dataclass(frozen=True)
class Proxy:
    """host, port: where it listens. variable: that names it. credentials: name and password, which no text shows."""

    host: str
    port: int
    variable: str
    credentials: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port} ({self.variable})"


def proxy_for(host: str, variables: Sequence[str], environment: Mapping[str, str] | None = None) -> Proxy | None:
    """The proxy by way of which a program that heeds these variables connects to a host; None for a direct way, as
    always to this machine itself.

    >>> names = {"HTTPS_PROXY": "http://proxy.example.org:3128", "NO_PROXY": "example.net"}
    >>> print(proxy_for("coordinator.example.org", SUPERNODE, names))
    proxy.example.org:3128 (HTTPS_PROXY)
    >>> proxy_for("coordinator.example.net", SUPERNODE, names), proxy_for("coordinator.example.org", LABELS, names)
    (None, None)
    """
    values = os.environ if environment is None else environment
    variable = next((name for name in variables if values.get(name)), None)
    left_out = values.get("no_proxy") or values.get("NO_PROXY") or ""
    if variable is None or host in LOOPBACK or _is_left_out(host, left_out):
        return None
    text = values[variable]
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return Proxy("an address that cannot be read", 0, variable)
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Proxy(parts.hostname or "", port, variable, credentials)


def _is_left_out(host: str, names: str) -> bool:
    """Whether NO_PROXY names the host, a domain that it is in, or everything."""
    listed = [name.strip().lstrip(".").lower() for name in names.split(",")]
    return any(name == "*" or host.lower() == name or host.lower().endswith(f".{name}") for name in listed if name)


def connect(address: str, seconds: float, proxy: Proxy | None = None) -> socket.socket:
    """A TCP connection to host:port, by way of the proxy where there is one.

    Raises
    ------
    OSError : as `socket.create_connection`. ProxyRefused : the proxy does not open the way.
    """
    host, _, port = address.rpartition(":")
    if proxy is None:
        return socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
    connection = socket.create_connection((proxy.host, proxy.port), timeout=seconds)
    try:
        head = [f"CONNECT {address} HTTP/1.1", f"Host: {address}"]
        if proxy.credentials:
            head.append(f"Proxy-Authorization: Basic {base64.b64encode(proxy.credentials.encode()).decode()}")
        connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < _MOST_ANSWER:
            part = connection.recv(1)  # what comes after the head is the other end's
            if not part:
                break
            answer += part
        status = answer.split(b"\r\n")[0].decode("ascii", "replace").split(" ", 2)
        if len(status) < 2 or status[1] != "200":
            answer_text = " ".join(status[1:]).strip()[:80]
            raise ProxyRefused(answer_text if status[0].startswith("HTTP/") and answer_text else "no answer of a proxy")
    except BaseException:
        connection.close()
        raise
    return connection


def without_loopback(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which no proxy is asked for this machine itself, in both spellings of the variable."""
    left_out = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = [name.strip() for name in left_out.split(",") if name.strip()]
    text = ",".join([*names, *(name for name in LOOPBACK if name not in names)])
    return {**environment, "NO_PROXY": text, "no_proxy": text}
