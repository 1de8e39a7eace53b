"""A small proxy that knows CONNECT only, as those of hospitals do for TLS."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Mapping
from typing import Self

PATIENCE_SECONDS = 250.0


class ConnectProxy:
    """Listens on loopback while the context is open. asked: each host:port that somebody wanted, in order.

    places: where a host:port really is; anything else gets `status`.
    """

    def __init__(self, places: Mapping[str, str], status: str = "403 Forbidden") -> None:
        self._places, self._status = places, status
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.asked: queue.Queue[str] = queue.Queue()

    @property
    def url(self) -> str:
        """For the variables of the environment."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, IndexError), client:
            client.settimeout(PATIENCE_SECONDS)
            head = b""
            while b"\r\n\r\n" not in head:
                part = client.recv(4096)
                if not part:
                    return
                head += part
            method, wanted, _ = head.decode().split("\r\n")[0].split(" ")
            self.asked.put(wanted if method == "CONNECT" else f"{method} {wanted}")
            place = self._places.get(wanted)
            if method != "CONNECT" or place is None:
                client.sendall(f"HTTP/1.1 {self._status}\r\n\r\n".encode())
                return
            host, _, port = place.rpartition(":")
            with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
                back.start()
                _pass_on(client, server)
                back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Until the source ends."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
