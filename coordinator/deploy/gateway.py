"""What parties reach: TLS, and of the SuperLink only what a SuperNode with a registered key needs.

Flower 1.41 serves everything on one port: with it whoever can connect may also submit runs, register nodes and take the
ServerApp's work, since there is no account login. So the SuperLink listens on loopback only, and this passes on the
paths of registered nodes, which the SuperLink checks for a signature.
"""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from protocol.deploy.kit import Kit, open_kit

PREFIX = "/v1/fleet/"
ALLOWED = frozenset(
    {
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "get-run",
        "get-fab",
        "push-object",
        "pull-object",
        "confirm-message-received",
    }
)
"""All that a registered SuperNode calls. Self-registration and removal are not among them."""
MOST_BYTES = 128 * 1024 * 1024
"""Of one request: Flower sends objects one by one, and a vote matrix of 10,000 queries is far smaller."""
DROPPED = frozenset({"host", "connection", "transfer-encoding", "content-length", "keep-alive", "upgrade"})
"""Headers of one connection, which do not travel on."""

log = logging.getLogger("consilium.gateway")


class Gateway:
    """Passes allowed requests on to the SuperLink at `internal` (host:port, TLS with the same authority)."""

    def __init__(self, internal: str, authority: Path) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"https://{internal}",
            verify=ssl.create_default_context(cafile=str(authority)),
            timeout=httpx.Timeout(120, connect=5),
            limits=httpx.Limits(max_connections=200, max_keepalive_connections=100),
            trust_env=False,  # a proxy of the environment has no business on loopback
        )

    def app(self) -> Starlette:
        """As an ASGI application."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await self._client.aclose()

        return Starlette(routes=[Route("/{path:path}", self.handle, methods=["POST"])], lifespan=lifespan)

    async def handle(self, request: Request) -> Response:
        """One request."""
        path = request.url.path
        if not path.startswith(PREFIX) or path.removeprefix(PREFIX) not in ALLOWED or request.url.query:
            log.warning("refused %s from %s", path[:80], request.client.host if request.client else "?")
            return Response(status_code=403)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return Response(status_code=413)
        headers = [(name, value) for name, value in request.headers.raw if name.decode().lower() not in DROPPED]
        try:
            reply = await self._client.post(path, content=bytes(body), headers=headers)
        except httpx.HTTPError as error:
            log.warning("the SuperLink does not answer: %s", type(error).__name__)
            return Response(status_code=503)
        kept = {
            name: value for name, value in reply.headers.items() if name.lower() not in DROPPED | {"date", "server"}
        }
        return Response(reply.content, status_code=reply.status_code, headers=kept)


def serve(kit: Kit) -> None:
    """Serve at the kit's public port until SIGTERM."""
    files = kit.server_tls
    uvicorn.run(
        Gateway(kit.coordinator.internal, kit.authority).app(),
        host=kit.coordinator.listen,
        port=kit.coordinator.superlink_port,
        ssl_certfile=str(files.certificate),
        ssl_keyfile=str(files.key),
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    serve(open_kit(Path(sys.argv[1]), "coordinator"))
