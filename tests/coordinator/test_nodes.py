"""Which node a request comes from, and which nodes a federation that runs knows."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from consilium.coordinator.nodes import NodeKeys, NotLetIn, RegisteredNodes, number_of
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.node.standing import signed_headers
from tests.node.folders import PARTIES, SECOND, Made, make_small

FIRST, OTHER = PARTIES[:2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_small(tmp_path_factory.mktemp("made"), "verified")


def headers(made: Made, name: str) -> dict[str, str]:
    return signed_headers(NodeKey.load(made.nodes[name].keys / NODE_KEY))


def test_what_a_wrong_signature_is(made: Made) -> None:
    keys = NodeKeys(made.file)
    good, other = headers(made, FIRST), headers(made, OTHER)
    assert (keys.sender(good), keys.sender(headers(made, SECOND))) == (FIRST, f"aggregator {SECOND}")

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
    made: Made, monkeypatch: pytest.MonkeyPatch, seconds: int, passes: bool
) -> None:
    """As Flower's own SuperNode signs."""
    import httpx
    from flwr.supercore.protobuf.client import ProtobufRequestContext
    from flwr.supernode import node_auth_http_interceptor as flower
    from google.protobuf.empty_pb2 import Empty

    now = flower.now
    monkeypatch.setattr(flower, "now", lambda: now() + timedelta(seconds=seconds))
    key = load_ssh_private_key((made.nodes[FIRST].keys / NODE_KEY).read_bytes(), None)
    request = httpx.Request("POST", "https://somewhere")
    flower.NodeAuthHttpInterceptor(key, key.public_key()).intercept(  # type: ignore[arg-type]
        ProtobufRequestContext("", Empty(), request), lambda _: httpx.Response(200)
    )
    found = NodeKeys(made.file).sender(request.headers)
    assert (found == FIRST) is passes
    assert passes or (isinstance(found, NotLetIn) and found.why == "wrong clock")


def test_nodes_are_known_by_their_keys(tmp_path: Path) -> None:
    made = make_small(tmp_path, "verified", parties=(*PARTIES, "p03"))
    keys = made.file.nodes
    without = {name: each for name, each in keys.items() if name != "p03"}
    # a roster may list who was shut out, and nobody who is not known
    nodes = RegisteredNodes(made.again(nodes=without, revoked={"p03": keys["p03"]}).file)
    assert sorted(nodes.names()) == list(PARTIES)
    numbers = [number_of(keys[name].key) for name in (FIRST, SECOND, "p03")]
    assert [nodes.name(number) for number in numbers] == [FIRST, f"aggregator {SECOND}", None]
