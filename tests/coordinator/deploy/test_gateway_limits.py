"""Slow peers and greedy nodes at the gateway, and requests that are none of a registered node's."""

from __future__ import annotations

import contextlib
import shutil
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consilium.coordinator.deploy.gateway import MOST_CALL_BYTES, MOST_OBJECT_BYTES, PREFIX, REFUSED_BYTES, Quota
from consilium.coordinator.rosters import NodeKeys
from consilium.protocol.errors import ConfigError
from tests.deploy.edge import WAIT, Site, connected, is_closed, sent_until_stopped, until
from tests.deploy.kits import edit, make_kits

MB = 1024 * 1024


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def site(sound: Path, tmp_path: Path) -> Site:
    return Site(Path(shutil.copytree(sound, tmp_path / "kits")))


def test_a_body_without_a_signature_reaches_nobody(site: Site) -> None:
    with site.serving() as address:
        with contextlib.closing(site.begin(address, 24 * MB, {})) as stranger:
            sent_until_stopped(stranger, 24 * MB, WAIT)
        assert site.ask(address, "ward-a").status_code == 200
    assert site.superlink.bytes == 1


@pytest.mark.slow
def test_a_body_is_passed_on_and_not_held(site: Site) -> None:
    """Of an object of 32 MB of a registered node while the SuperLink reads nothing."""
    with site.serving() as address:
        site.superlink.hold.set()
        try:
            with contextlib.closing(site.begin(address, MOST_OBJECT_BYTES, site.signed("ward-a"))) as node:
                taken = sent_until_stopped(node, MOST_OBJECT_BYTES, 2)
        finally:
            site.superlink.hold.clear()
    assert taken < 26 * MB  # the kernel's buffers on two connections, and none of the gateway's


def test_a_body_that_stalls_is_not_waited_for(site: Site) -> None:
    with (
        site.serving(quota=Quota(stall=0.3)) as address,
        contextlib.closing(site.begin(address, 100, site.signed("ward-a"))) as body,
    ):
        body.sendall(b"x")
        body.settimeout(WAIT)
        assert b"408" in body.recv(4096)
        until(lambda: is_closed(body))


def test_a_node_that_stalls_takes_only_its_own_places(site: Site) -> None:
    with site.serving(quota=Quota(requests=2, wait=0.2)) as address:
        stalled = [site.begin(address, 100, site.signed("ward-a")) for _ in range(2)]
        until(lambda: site.superlink.requests == 2)
        assert site.ask(address, "ward-a").status_code == 503  # its third request waits in vain
        assert site.ask(address, "ward-b").status_code == 200
        for connection in stalled:
            connection.close()
        until(lambda: site.ask(address, "ward-a").status_code == 200)  # as soon as they are gone


def test_a_whole_object_arrives_unchanged_in_length(site: Site) -> None:
    with site.serving() as address:
        assert site.ask(address, "ward-a", bytes(20 * MB)).content == b"done"
        assert site.superlink.bytes == 20 * MB
        assert site.ask(address, "ward-a", bytes(MOST_CALL_BYTES), "pull-messages").content == b"done"
        passed = site.superlink.bytes
        signed = site.signed("ward-a")
        for path, length, status in [
            ("push-object", MOST_OBJECT_BYTES + 1, b"413"),
            ("pull-messages", MOST_CALL_BYTES + 1, b"413"),
            ("push-object", 10**20, b"4"),  # no number that could be meant
        ]:
            with contextlib.closing(site.begin(address, length, signed, path)) as refused:
                refused.settimeout(WAIT)
                assert refused.recv(4096).split()[1].startswith(status)
    assert passed == site.superlink.bytes == 21 * MB


TWO_LENGTHS = [
    ["content-length: 1", "transfer-encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 1"],
    ["content-length: 1", "content-length: 1"],
    ["content-length: 1", "Content-Length: 6"],
    ["content-length: 1, 1"],
    ["content-length: 1", "transfer-encoding:", " chunked"],  # on two lines
    ["transfer-encoding: chunked", "transfer-encoding: identity"],
]
SMUGGLED = b"1\r\nx\r\n0\r\n\r\n"
"""One byte in chunks; read by a length of 1, what follows it begins the next request."""


def reply_to(site: Site, address: tuple[str, int], lines: list[str], before: bytes = b"") -> bytes:
    """All that comes back to a signed head with those lines, in two pieces, and a body, after `before`."""
    head = [f"POST {PREFIX}push-object HTTP/1.1", "host: x", *(f"{n}: {v}" for n, v in site.signed("ward-a").items())]
    whole = before + "\r\n".join([*head, *lines, "", ""]).encode() + SMUGGLED
    with contextlib.closing(site.context.wrap_socket(connected(address), server_hostname="127.0.0.1")) as node:
        node.sendall(whole[:-30])
        time.sleep(0.05)
        node.sendall(whole[-30:])
        node.settimeout(WAIT)
        received = b""
        with contextlib.suppress(OSError):
            while b"HTTP/1.1 " not in received.removeprefix(b"HTTP/1.1 200") and (part := node.recv(65536)):
                received += part
    return received


def test_a_request_of_two_lengths_brings_no_second_one(site: Site) -> None:
    """It is refused, or is one request of its first byte: what follows is never taken for a request of a node's."""
    with site.serving() as address:
        for lines in TWO_LENGTHS:
            answer = reply_to(site, address, lines)
            if answer.split()[1] == b"200":
                assert "transfer-encoding" not in "".join(lines).lower()
        assert site.superlink.requests == site.superlink.bytes <= 2
        assert site.ask(address, "ward-a").status_code == 200


def test_a_node_that_is_taken_from_the_list_is_out_at_the_next_request(site: Site) -> None:
    nodes = site.kit / "nodes.json"
    with site.serving() as address:
        assert site.ask(address, "ward-a").status_code == 200
        nodes.write_text("half an upda")
        assert site.ask(address, "ward-a").status_code == 200  # an update on its way ends nobody
        nodes.write_text('{"nodes": {}}')
        assert site.ask(address, "ward-a").status_code == 401
        answer = site.ask(address, "ward-a", path="activate-node")  # as the SuperLink says it; SuperNodes tell it
        assert (answer.status_code, answer.json()["detail"]) == (412, "Failed to activate SuperNode.")
    assert site.superlink.requests == 2


def test_what_a_wrong_signature_is(site: Site) -> None:
    keys = NodeKeys(site.kit / "nodes.json")
    good = site.signed("ward-a")
    assert keys.name(good) == "ward-a"
    assert keys.name(site.signed("ward-b")) == "ward-b"
    other = site.signed("ward-b")

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
        assert keys.name(wrong) is None, wrong


@pytest.mark.parametrize(("seconds", "passes"), [(0, True), (-280, True), (-400, False), (30, False)])
def test_signatures_hold_in_flowers_window(site: Site, monkeypatch: pytest.MonkeyPatch, seconds, passes) -> None:
    from flwr.supernode import node_auth_http_interceptor as flower

    now = flower.now
    monkeypatch.setattr(flower, "now", lambda: now() + timedelta(seconds=seconds))
    assert (NodeKeys(site.kit / "nodes.json").name(site.signed("ward-a")) == "ward-a") is passes


def test_a_list_that_cannot_be_read_at_the_start_stops_the_gateway(site: Site) -> None:
    edit(site.kit / "nodes.json", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp999")
    with pytest.raises(ConfigError, match="is no OpenSSH key"):
        NodeKeys(site.kit / "nodes.json")


def test_a_refused_request_is_answered_before_it_is_closed(site: Site) -> None:
    """An honest node with a wrong clock must learn that, and not meet a reset."""
    with site.serving() as address:
        for size in (0, 1, REFUSED_BYTES):
            assert site.ask(address, None, bytes(size)).status_code == 401
