"""The gateway: what a registered node needs passes, and nothing else of the SuperLink does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from flwr.supernode.fleet_http_client import FleetHttpClient
from starlette.testclient import TestClient

from consilium.coordinator.deploy.gateway import ALLOWED, MOST_CALL_BYTES, PREFIX, Gateway
from consilium.coordinator.provision.authority import Authority


class Anybody:
    """Keys that take every request for one of a registered node."""

    def name(self, _) -> str:
        return "ward-a"


@pytest.fixture
def passing(tmp_path: Path):
    """A gateway before a SuperLink that repeats what it gets, and what the SuperLink got."""
    Authority.create("here").save(tmp_path)
    seen: list[httpx.Request] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        await request.aread()
        seen.append(request)
        if request.url.path.endswith("get-run"):
            raise httpx.ConnectError("down")
        return httpx.Response(
            412, stream=httpx.ByteStream(request.content[::-1]), headers={"x-flwr": "kept", "connection": "close"}
        )

    found = Gateway("127.0.0.1:1", tmp_path / "ca.crt", Anybody())
    asyncio.run(found._client.aclose())
    found._client = httpx.AsyncClient(base_url="https://127.0.0.1:1", transport=httpx.MockTransport(answer))
    with TestClient(found.app()) as client:
        yield client, seen


def test_a_node_s_request_passes_unchanged(passing) -> None:
    client, seen = passing
    reply = client.post(PREFIX + "pull-messages", content=b"abc", headers={"x-signature": "s", "content-type": "x/y"})
    assert (reply.status_code, reply.content, reply.headers["x-flwr"]) == (412, b"cba", "kept")
    assert (seen[0].content, seen[0].headers["x-signature"], seen[0].headers["content-type"]) == (b"abc", "s", "x/y")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/start-run",
        "/v1/control/register-node",
        "/v1/control/list-nodes",
        "/v1/runtime/acquire-task",
        "/v1/runtime/pull-messages",
        "/v1/fleet/register-node",
        "/v1/fleet/unregister-node",
        "/v1/fleet/",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/pull-messages%2f..%2f..%2fcontrol%2fstart-run",
        "/v1/fleet/pull-messages?x=1",
        "//v1/fleet/pull-messages",
        "/health",
        "/",
    ],
)
def test_everything_else_is_refused(passing, path: str) -> None:
    client, seen = passing
    assert client.post(path, content=b"x").status_code == 403
    assert client.get(path).status_code in (403, 405)
    assert seen == []


def test_what_is_too_large_is_refused(passing) -> None:
    client, seen = passing
    assert client.post(PREFIX + "get-run", content=b"x" * (MOST_CALL_BYTES + 1)).status_code == 413
    assert client.post(PREFIX + "get-run", content=iter([b"x"])).status_code == 411
    assert seen == []


def test_a_superlink_that_is_away_is_told(passing) -> None:
    client, _ = passing
    assert client.post(PREFIX + "get-run", content=b"x").status_code == 503


def test_all_that_a_supernode_calls_passes() -> None:
    """Against the next version of Flower: a call that it adds would be refused."""

    class Recorder(FleetHttpClient):
        def __init__(self) -> None:
            self.paths: set[str] = set()

        def _unary_unary(self, *_, **call):
            self.paths.add(call["path"])

    recorder = Recorder()
    for name in vars(FleetHttpClient):
        if name[0].isupper():
            getattr(recorder, name)(None)
    assert {PREFIX + name for name in ALLOWED} == recorder.paths - {
        PREFIX + "register-node",
        PREFIX + "unregister-node",
    }
