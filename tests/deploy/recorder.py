"""Stands between the nodes and the coordinator's two ports, and ends their TLS with the coordinator's own key: what it
keeps is what goes through the encryption. And what must not leave a node, in any form in which it could stand in a file
or on the wire, and the search for it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from consilium.node.folder import open_folder
from consilium.node.signed import joined
from tests.deploy.site import STUDENT


class Recorder:
    """Listens where the federation says that its coordinator is, and passes on to `there`, where it really listens."""

    def __init__(self, site: Path, there: str) -> None:
        self._streams: list[bytearray] = []
        self._site, self._there = site, there
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Recorder:
        coordinator = open_folder(self._site / "coordinator")
        place = joined(coordinator).coordinator
        client = open_folder(self._site / STUDENT).tls
        self._thread.start()
        for port, protocol in ((place.node_port, "http/1.1"), (place.label_port, "h2")):
            inner = ssl.create_default_context(cafile=str(coordinator.authority))
            outer = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            outer.load_cert_chain(coordinator.tls.certificate, coordinator.tls.key)
            if protocol == "h2":  # mutual TLS: what the student shows is shown again
                inner.load_cert_chain(client.certificate, client.key)
            for context in (inner, outer):
                context.set_alpn_protocols([protocol])
            serving = self._serve(port, outer, inner)
            asyncio.run_coroutine_threadsafe(serving, self._loop).result(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def recorded(self) -> bytes:
        """All that went through so far, both ways."""
        return b"\n".join(bytes(stream) for stream in self._streams)

    async def _serve(self, port: int, outer: ssl.SSLContext, inner: ssl.SSLContext) -> None:
        async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                back, out = await asyncio.open_connection(self._there, port, ssl=inner, server_hostname="127.0.0.1")
            except OSError:  # not listening yet
                writer.close()
                return
            await asyncio.gather(self._copy(reader, out), self._copy(back, writer))

        await asyncio.start_server(passed, "127.0.0.1", port, ssl=outer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = bytearray()
        self._streams.append(stream)
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                stream += data
                writer.write(data)
                await writer.drain()
        writer.close()


def forms(secret: bytes) -> list[bytes]:
    """A secret as bytes, in hex, and in base64 wherever it may begin: so also inside PEM."""
    found = [secret, secret[::-1], secret.hex().encode(), secret.hex().upper().encode()]
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + secret)
        found.append(text[4:-4] if shift else text[:-4])
    return found


def key_markers(site: Path) -> list[bytes]:
    """All private keys of all nodes, and the operator's."""
    found = []
    for path in [*site.glob("*/keys/*.pem"), *site.glob("*/keys/*.key")]:
        content = path.read_bytes()
        openssh = b"OPENSSH" in content
        key: Any = load_ssh_private_key(content, None) if openssh else load_pem_private_key(content, None)
        if isinstance(key, Ed25519PrivateKey | X25519PrivateKey):
            secret = key.private_bytes_raw()
        else:
            assert isinstance(key, EllipticCurvePrivateKey), path
            # OpenSSH leaves leading zero bytes out, which one key in 256 has
            secret = key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8, "big").lstrip(b"\0")
        markers = forms(secret)
        assert contains(content, markers), path.name  # the search would find it: the key file itself has it
        found += markers
    assert found
    return found


def vote_markers(votes: np.ndarray) -> list[bytes]:
    """A party's exact votes, in any plausible layout: all of them, and by halves."""
    half = len(votes) // 2
    parts = [part for whole in (votes, votes.T.copy()) for part in (whole, whole[:, :half] if half > 2 else whole)]
    parts += [votes[:half], votes[half:], votes[:, 0], votes[:, 1]]
    return [part.astype(kind).tobytes() for part in parts for kind in ("u1", "<u2", "<u4", "<u8", "<f4", "<f8")]


def row_markers(rows: np.ndarray, standardised: np.ndarray) -> list[bytes]:
    """Rows as numbers, before and after the standardisation that a party does: eight bytes at least at a time, since
    shorter ones would be found by chance."""
    found = []
    for values in (*rows, *standardised):
        found += [values.astype("<f4")[start : start + 2].tobytes() for start in (0, 1)]
        found += [value.tobytes() for value in values.astype("<f8")]
    return found


def contains(content: bytes, markers: Iterable[bytes]) -> bool:
    """Whether any marker is there, also where lines of PEM are broken, really or as an escape."""
    joined = content.replace(b"\r", b"").replace(b"\n", b"").replace(b"\\n", b"")
    return any(marker in content or marker in joined for marker in markers)


def files(*patterns: tuple[Path, str]) -> dict[str, bytes]:
    """Contents by path."""
    return {str(path): path.read_bytes() for root, glob in patterns for path in root.glob(glob) if path.is_file()}


def found_in(places: Mapping[str, bytes], markers: list[bytes]) -> list[str]:
    """Where any of them is."""
    return sorted(place for place, content in places.items() if contains(content, markers))
