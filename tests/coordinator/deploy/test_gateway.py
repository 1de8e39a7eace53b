"""The gateway: what a listed node needs passes, and nothing else of the SuperLink does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from flwr.supernode.fleet_http_client import FleetHttpClient
from starlette.testclient import TestClient

from consilium.coordinator import nodes as listed
from consilium.coordinator.deploy.gateway import ALLOWED, PREFIX, REFUSED_BYTES
from consilium.node import standing
from consilium.node.join import join
from consilium.node.keys import NODE_KEY, NodeKey
from tests.deploy.edge import Site
from tests.node.folders import PARTIES, make_nodes, make_small

FIRST, SECOND = PARTIES[:2]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(make_small(tmp_path))


@pytest.fixture
def client(site: Site):
    with TestClient(site.gateway()) as client:
        yield client


def test_a_node_s_request_passes_unchanged(site: Site, client: TestClient) -> None:
    reply = client.post(PREFIX + "pull-messages", content=b"abc", headers=site.signed(FIRST))
    assert (reply.status_code, reply.content, reply.headers["x-flwr"]) == (200, b"cba", "kept")
    without_length = client.post(PREFIX + "get-run", content=iter([b"x"]), headers=site.signed(FIRST))
    assert without_length.status_code == 411
    two = {"content-length": "1", "transfer-encoding": "chunked", **site.signed(FIRST)}  # a second request would follow
    assert client.post(PREFIX + "get-run", content=b"x", headers=two).status_code == 411
    assert (site.superlink.paths, site.superlink.bodies) == ([PREFIX + "pull-messages"], [b"abc"])


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
        "/docs",
        "/",
    ],
)
def test_everything_else_is_refused(site: Site, client: TestClient, path: str) -> None:
    """Also to a node that is listed."""
    for method in ("POST", "GET", "PUT", "DELETE"):
        assert client.request(method, path, content=b"x", headers=site.signed(FIRST)).status_code == 403
    assert client.get(PREFIX + "pull-messages", headers=site.signed(FIRST)).status_code == 403
    assert site.superlink.paths == []


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
    itself = {PREFIX + "register-node", PREFIX + "unregister-node"}
    assert {PREFIX + name for name in ALLOWED} == recorder.paths - itself | {standing.PATH}


def test_who_may_not_connect_is_told_why(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoked, unknown and a wrong clock are three answers, to a request and to whoever asks how it stands."""
    revoked = {FIRST: site.made.file.nodes[FIRST]}
    others = {name: keys for name, keys in site.made.file.nodes.items() if name != FIRST}
    join(site.made.again(nodes=others, revoked=revoked).out, site.folder)
    client = TestClient(site.gateway())
    stranger = make_nodes(site.made.out.parent / "elsewhere", ("x",))["x"]
    strange = standing.signed_headers(NodeKey.load(stranger.keys / NODE_KEY))
    for headers, state, status in (
        (site.signed(FIRST), "revoked", 401),
        (strange, "unknown", 401),
        ({}, "unknown", 401),
    ):
        for path in (standing.PATH, PREFIX + "pull-messages"):
            reply = client.post(path, headers=headers)
            assert (reply.status_code, reply.text.partition(":")[0]) == (status, state)
        activate = client.post(PREFIX + "activate-node", content=b"x", headers=headers)  # as the SuperLink says it
        assert (activate.status_code, activate.json()["code"]) == (412, 2004)
    late = site.signed(SECOND)
    real, hours = listed.datetime, timedelta(hours=2)
    for shift, words in ((hours, "7200 s behind"), (-hours, "7200 s ahead of")):

        class Clock(real):
            @classmethod
            def now(cls, zone, shift=shift):
                return real.now(zone) + shift

        with monkeypatch.context() as patch:
            patch.setattr(listed, "datetime", Clock)
            for path in (standing.PATH, PREFIX + "pull-messages"):
                reply = client.post(path, headers=late)  # to 401 a SuperNode ends
                assert (reply.status_code, words in reply.text, "NTP" in reply.text) == (503, True, True)
    assert client.post(standing.PATH, headers=site.signed(SECOND)).status_code == 200
    assert site.superlink.paths == []


def test_a_refused_request_is_answered_before_it_is_closed(site: Site) -> None:
    """An honest node with a wrong clock must learn that, and not meet a reset."""
    with site.serving() as address:
        for size in (0, 1, REFUSED_BYTES):
            assert site.ask(address, None, bytes(size)).status_code == 401
