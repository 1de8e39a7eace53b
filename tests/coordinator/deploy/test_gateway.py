"""The gateway: what a listed node needs passes, and nothing else; slow peers, greedy nodes and crowds harm nobody."""

from __future__ import annotations

import contextlib
import resource
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.supernode.fleet_http_client import FleetHttpClient
from starlette.testclient import TestClient

from consilium.coordinator.deploy import gateway, serving
from consilium.coordinator.deploy.gateway import (
    ALLOWED,
    MOST_CALL_BYTES,
    MOST_OBJECT_BYTES,
    PREFIX,
    REFUSED_BYTES,
    NodeKeys,
    NotLetIn,
)
from consilium.node.checks import STANDING, signed_headers
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.node.signed import join
from consilium.protocol.files import more_descriptors
from tests.deploy.edge import WAIT, Site, connected, sent_until_stopped, until
from tests.node.folders import PARTIES, SECOND, Made, make_nodes, make_small

MB = 1024 * 1024
FIRST, OTHER = PARTIES[:2]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_small(tmp_path_factory.mktemp("sound"), "verified")


@pytest.fixture
def site(sound: Made) -> Site:
    return Site(sound)


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
        "/v1/control/start-run", "/v1/control/register-node", "/v1/control/list-nodes", "/v1/runtime/acquire-task",
        "/v1/runtime/pull-messages", "/v1/fleet/register-node", "/v1/fleet/unregister-node", "/v1/fleet/",
        "/v1/fleet/pull-messages/", "/v1/fleet/../control/start-run", "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/pull-messages%2f..%2f..%2fcontrol%2fstart-run", "/v1/fleet/pull-messages?x=1",
        "//v1/fleet/pull-messages", "/health", "/docs", "/",
    ],
)  # fmt: skip
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
    assert {PREFIX + name for name in ALLOWED} == recorder.paths - itself | {STANDING}


def test_who_may_not_connect_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoked, unknown and a wrong clock are three answers, to a request and to whoever asks how it stands."""
    site = Site(make_small(tmp_path))
    revoked = {FIRST: site.made.file.nodes[FIRST]}
    others = {name: keys for name, keys in site.made.file.nodes.items() if name != FIRST}
    join(site.made.again(nodes=others, revoked=revoked).out, site.folder)
    client = TestClient(site.gateway())
    stranger = make_nodes(site.made.out.parent / "elsewhere", ("x",))["x"]
    strange = signed_headers(NodeKey.load(stranger.keys / NODE_KEY))
    for headers, state, status in (
        (site.signed(FIRST), "revoked", 401),
        (strange, "unknown", 401),
        ({}, "unknown", 401),
    ):
        for path in (STANDING, PREFIX + "pull-messages"):
            reply = client.post(path, headers=headers)
            assert (reply.status_code, reply.text.partition(":")[0]) == (status, state)
        activate = client.post(PREFIX + "activate-node", content=b"x", headers=headers)  # as the SuperLink says it
        assert (activate.status_code, activate.json()["code"]) == (412, 2004)
    late = site.signed(OTHER)
    real, hours = gateway.datetime, timedelta(hours=2)
    for shift, words in ((hours, "7200 s behind"), (-hours, "7200 s ahead of")):

        class Clock(real):
            @classmethod
            def now(cls, zone, shift=shift):
                return real.now(zone) + shift

        with monkeypatch.context() as patch:
            patch.setattr(gateway, "datetime", Clock)
            for path in (STANDING, PREFIX + "pull-messages"):
                reply = client.post(path, headers=late)  # to 401 a SuperNode ends
                assert (reply.status_code, words in reply.text, "NTP" in reply.text) == (503, True, True)
    assert client.post(STANDING, headers=site.signed(OTHER)).status_code == 200
    assert site.superlink.paths == []


def test_a_refused_request_is_answered_before_it_is_closed_and_a_large_one_reaches_nobody(site: Site) -> None:
    """An honest node with a wrong clock must learn that, and not meet a reset."""
    with site.serving() as address:
        for size in (0, 1, REFUSED_BYTES):
            assert site.ask(address, None, bytes(size)).status_code == 401
        with contextlib.closing(site.begin(address, 6 * MB, {})) as stranger:
            sent_until_stopped(stranger, 6 * MB, WAIT)
        assert site.ask(address, FIRST).status_code == 200
    assert site.superlink.bytes == 1


def test_a_node_has_no_more_under_way_than_its_quota(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the SuperLink reads nothing: one request, and none of another's."""
    monkeypatch.setattr(gateway, "MOST_REQUESTS", 1)
    with site.serving() as address:
        site.superlink.hold.set()
        with contextlib.closing(site.begin(address, MB, site.signed(FIRST))) as node:
            assert sent_until_stopped(node, MB, WAIT) == MB
            until(lambda: len(site.superlink.paths) == 1)
            with contextlib.closing(site.begin(address, 1, site.signed(FIRST))) as waiting:
                waiting.sendall(b"x")
                with contextlib.closing(site.begin(address, 1, site.signed(OTHER))) as other:
                    other.sendall(b"x")
                    until(lambda: len(site.superlink.paths) == 2)
                site.superlink.hold.clear()
                assert waiting.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "limit", "status"), [(b"", "STALL_SECONDS", b"408"), (b"x", "REQUEST_SECONDS", b"200")]
)
def test_a_body_that_stalls_and_an_answer_that_is_not_taken_are_broken_off(
    site: Site, monkeypatch: pytest.MonkeyPatch, sent: bytes, limit: str, status: bytes
) -> None:
    """However slowly the node writes or reads; its place is free again."""

    async def large(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"20000000")]})
        for _ in range(200):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})

    monkeypatch.setattr(gateway, "MOST_REQUESTS", 1)
    monkeypatch.setattr(gateway, limit, 0.5)
    monkeypatch.setattr(type(site.superlink), "__call__", staticmethod(large))
    with site.serving() as address, contextlib.closing(site.begin(address, 1, site.signed(FIRST))) as node:
        node.sendall(sent)
        time.sleep(1)
        answer = b"".join(iter(lambda: node.recv(65536), b""))
        assert answer.split()[1] == status and len(answer) < 20_000_000
        monkeypatch.undo()
        assert site.ask(address, FIRST).status_code == 200


def test_a_whole_object_arrives_unchanged_in_length(site: Site) -> None:
    with site.serving() as address:
        assert site.ask(address, FIRST, bytes(6 * MB)).content == b"done"
        assert site.ask(address, FIRST, bytes(MOST_CALL_BYTES), "pull-messages").content == b"done"
        signed = site.signed(FIRST)
        for path, length, status in [
            ("push-object", MOST_OBJECT_BYTES + 1, b"413"),
            ("push-object", 500 * MB, b"413"),
            ("pull-messages", MOST_CALL_BYTES + 1, b"413"),
            ("push-object", 10**20, b"4"),  # no number that could be meant
        ]:
            with contextlib.closing(site.begin(address, length, signed, path)) as refused:
                refused.settimeout(WAIT)
                assert refused.recv(4096).split()[1].startswith(status)
    assert site.superlink.bytes == 7 * MB


def test_whoever_shows_no_whole_head_is_closed_and_a_crowd_of_them_keeps_nobody_out(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.3)
    more_descriptors()
    crowd = min(600, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3)
    with site.serving() as address, contextlib.ExitStack() as open_:
        for number in range(crowd):
            open_.enter_context(contextlib.closing(connected(address, f"127.0.0.{2 + number % 200}")))
        for begun in (b"", b"POST / HTTP/1.1\r\nhost: x\r\n", b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET"):
            plain = open_.enter_context(contextlib.closing(connected(address)))
            slow = site.context.wrap_socket(plain, server_hostname="127.0.0.1")
            slow.settimeout(20)
            slow.sendall(begun)
            while slow.recv(4096):
                pass
        assert site.ask(address, FIRST).status_code == 200


def test_what_a_wrong_signature_is(site: Site) -> None:
    keys = NodeKeys(site.made.file)
    good, other = site.signed(FIRST), site.signed(OTHER)
    assert (keys.sender(good), keys.sender(site.signed(SECOND))) == (FIRST, SECOND)

    def at(seconds: float) -> str:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()

    for wrong in [
        {},
        {name: value for name, value in good.items() if "timestamp" not in name},
        {**good, "flwr-public-key": other["flwr-public-key"]},
        {**good, "flwr-signature": other["flwr-signature"]},
        {**good, "flwr-timestamp": at(0)},
        {**good, "flwr-timestamp": at(0)[:19]},  # without a zone
        {**good, "flwr-timestamp": "yesterday"},
        {**good, "flwr-timestamp": "9999-12-31T23:59:59-23:59"},
        {**good, "flwr-signature": "%%%"},
        {**good, "flwr-signature": ""},
        {**good, "flwr-public-key": b64encode(b"x" * 200).decode()},
        {**good, "flwr-public-key": "\u00e9"},
    ]:
        found = keys.sender(wrong)
        assert isinstance(found, NotLetIn) and found.why == "unknown", wrong


@pytest.mark.parametrize(("seconds", "passes"), [(0, True), (-280, True), (-400, False), (30, False)])
def test_signatures_hold_in_flowers_window(
    site: Site, monkeypatch: pytest.MonkeyPatch, seconds: int, passes: bool
) -> None:
    """As Flower's own SuperNode signs."""
    import httpx
    from flwr.supercore.protobuf.client import ProtobufRequestContext
    from flwr.supernode import node_auth_http_interceptor as flower
    from google.protobuf.empty_pb2 import Empty

    now = flower.now
    monkeypatch.setattr(flower, "now", lambda: now() + timedelta(seconds=seconds))
    key = load_ssh_private_key((site.made.nodes[FIRST].keys / NODE_KEY).read_bytes(), None)
    request = httpx.Request("POST", "https://somewhere")
    flower.NodeAuthHttpInterceptor(key, key.public_key()).intercept(  # type: ignore[arg-type]
        ProtobufRequestContext("", Empty(), request), lambda _: httpx.Response(200)
    )
    found = NodeKeys(site.made.file).sender(request.headers)
    assert (found == FIRST) is passes
    assert passes or (isinstance(found, NotLetIn) and found.why == "wrong clock")
