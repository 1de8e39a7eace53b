"""Stands between the nodes and the coordinator's two ports, and ends their TLS with the coordinator's own key: what it
keeps is what goes through the encryption."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path

from consilium.node.folder import open_folder
from consilium.node.join import joined
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
