"""Strangers, slow peers and greedy nodes at the gateway: each attack against the gateway as it was, and as it is."""

from __future__ import annotations

import contextlib
import random
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from consilium.coordinator.deploy import front
from consilium.coordinator.deploy.front import Connection, ConnectionPlaces, Timing, group_of
from consilium.coordinator.deploy.gateway import MOST_CALL_BYTES, MOST_OBJECT_BYTES, PREFIX, REFUSED_BYTES, Quota
from consilium.coordinator.rosters import NodeKeys
from consilium.protocol.errors import ConfigError
from tests.deploy.edge import WAIT, Site, connected, is_closed, sent_until_stopped, until
from tests.deploy.kits import edit

MB = 1024 * 1024


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def big_body(site: Site, old: bool) -> tuple[int, int]:
    """What the gateway takes of 24 MB without a signature, and what of it reaches the SuperLink."""
    with site.serving(old=old) as address:
        with contextlib.closing(site.begin(address, 24 * MB, {})) as stranger:
            sent = sent_until_stopped(stranger, 24 * MB, WAIT)
            if old:
                until(lambda: site.superlink.bytes == 24 * MB)
        assert site.ask(address, "ward-a").status_code == 200
    return sent, site.superlink.bytes - 1


def test_a_body_without_a_signature_is_not_taken(site: Site) -> None:
    sent, arrived = big_body(site, old=False)
    assert sent < 16 * MB  # what the kernel's buffers hold; the gateway closes
    assert arrived == 0


def test_control_the_old_gateway_took_it(site: Site) -> None:
    assert big_body(site, old=True) == (24 * MB, 24 * MB)


def buffered(site: Site, old: bool) -> int:
    """What is taken of an object of 32 MB of a registered node while the SuperLink reads nothing."""
    with site.serving(old=old) as address:
        site.superlink.hold.set()
        try:
            with contextlib.closing(site.begin(address, MOST_OBJECT_BYTES, site.signed("ward-a"))) as node:
                return sent_until_stopped(node, MOST_OBJECT_BYTES, WAIT if old else 2)
        finally:
            site.superlink.hold.clear()


@pytest.mark.slow
def test_a_body_is_passed_on_and_not_held(site: Site) -> None:
    assert buffered(site, old=False) < 26 * MB  # the kernel's buffers on two connections, and none of the gateway's


def test_control_the_old_gateway_held_it(site: Site) -> None:
    assert buffered(site, old=True) == MOST_OBJECT_BYTES


def crowd(site: Site, old: bool) -> tuple[int, int]:
    """Of 60 peers that connect and say nothing, how many are dropped while a node is answered; its status."""
    with site.serving(old=old, places=ConnectionPlaces(strangers=30, of_address=10)) as address:
        peers = [connected(address, f"127.0.0.{2 + number % 2}") for number in range(60)]
        status = site.ask(address, "ward-a").status_code
        with contextlib.suppress(AssertionError):
            until(lambda: sum(map(is_closed, peers)) >= 40, 2 if old else WAIT)
        dropped = sum(map(is_closed, peers))
        for peer in peers:
            peer.close()
    return dropped, status


def test_peers_that_only_connect_hold_few_places(site: Site) -> None:
    assert crowd(site, old=False) == (40, 200)


@pytest.mark.slow
def test_control_the_old_gateway_kept_all(site: Site) -> None:
    assert crowd(site, old=True) == (0, 200)


def answered(site: Site, address: tuple[str, int]) -> bool:
    """Whether a node is answered; on a busy machine even its handshake may come too late."""
    try:
        return site.ask(address, "ward-a").status_code == 200
    except httpx.TransportError:
        return False


def silent_peers(site: Site, old: bool) -> list[bool]:
    """Which of four slow peers the gateway closes: no handshake, no head, half a head, no body."""
    fast = Timing(handshake=2, head=2)  # and enough for the handshakes of this test on a busy machine
    with site.serving(old=old, timing=fast, quota=Quota(stall=0.3)) as address:
        bare, quiet = connected(address), site.context.wrap_socket(connected(address), server_hostname="127.0.0.1")
        half = site.context.wrap_socket(connected(address), server_hostname="127.0.0.1")
        half.sendall(b"POST /v1/fleet/get-run HTTP/1.1\r\nhost:")
        body = site.begin(address, 100, site.signed("ward-a"))
        body.sendall(b"x")
        peers = [bare, quiet, half, body]
        if old:
            time.sleep(2.5)
        else:
            body.settimeout(WAIT)
            assert b"408" in body.recv(4096)
            until(lambda: all(map(is_closed, peers)))
        found = list(map(is_closed, peers))
        until(lambda: answered(site, address))
        for peer in peers:
            peer.close()
    return found


@pytest.mark.slow
def test_slow_peers_are_closed(site: Site) -> None:
    assert silent_peers(site, old=False) == [True] * 4


@pytest.mark.slow
def test_control_the_old_gateway_waited_for_them(site: Site) -> None:
    assert silent_peers(site, old=True) == [False] * 4


def test_a_node_that_stalls_takes_only_its_own_places(site: Site) -> None:
    with site.serving(quota=Quota(requests=2, wait=0.2), places=ConnectionPlaces(of_node=3)) as address:
        stalled = [site.begin(address, 100, site.signed("ward-a")) for _ in range(2)]
        until(lambda: site.superlink.requests == 2)
        assert site.ask(address, "ward-a").status_code == 503  # its third request waits in vain
        fourth = site.begin(address, 0, site.signed("ward-a"))
        fifth = site.begin(address, 0, site.signed("ward-a"))
        assert site.ask(address, "ward-b").status_code == 200
        for connection in (*stalled, fourth, fifth):
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


def test_a_body_of_no_stated_length_is_not_waited_for(site: Site) -> None:
    with site.serving(quota=Quota(stall=0.3)) as address:
        headers = {**site.signed("ward-a"), "transfer-encoding": "chunked"}
        with contextlib.closing(site.begin(address, 0, headers)) as refused:
            refused.settimeout(WAIT)
            assert refused.recv(4096).split()[1].startswith(b"4")
    assert site.superlink.bytes == 0


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


def test_a_request_of_two_lengths_is_answered_400(site: Site) -> None:
    with site.serving() as address:
        for lines in TWO_LENGTHS:
            assert reply_to(site, address, lines).split()[1] == b"400", lines
        assert site.superlink.requests == 0
        assert site.ask(address, "ward-a").status_code == 200


def test_a_second_request_of_two_lengths_on_a_connection_is_answered_400(site: Site) -> None:
    with site.serving() as address:
        first = f"POST {PREFIX}push-object HTTP/1.1\r\nhost: x\r\ncontent-length: 27\r\n"
        first += "".join(f"{name}: {value}\r\n" for name, value in site.signed("ward-a").items())
        body = b"content-length: 1\r\n\r\nabcdef"  # of a body, which may say what it likes
        received = reply_to(site, address, TWO_LENGTHS[0], f"{first}\r\n".encode() + body)
        assert received.startswith(b"HTTP/1.1 200")
        assert b"HTTP/1.1 400" in received
    assert (site.superlink.requests, site.superlink.bytes) == (1, 27)


def test_control_unlooked_at_they_are_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_is_ambiguous", lambda received: False)
    with site.serving() as address:
        taken = [reply_to(site, address, lines).split()[1] for lines in TWO_LENGTHS]
    assert taken == [b"200", b"200", b"200", b"400", b"200", b"200", b"400"]
    assert site.superlink.requests == 5


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


class Peer(Connection):
    dropped = False

    def abort(self) -> None:
        self.dropped = True


def test_places_go_from_those_who_hold_most_to_those_who_come() -> None:
    places = ConnectionPlaces(strangers=8, of_address=4)
    crowd = [Peer("192.0.2.1") for _ in range(20)]
    for peer in crowd:
        places.enter(peer)
    assert [peer.dropped for peer in crowd] == [True] * 16 + [False] * 4
    others = [Peer(f"198.51.100.{number}") for number in range(6)]
    for peer in others:
        places.enter(peer)
    assert places.strangers == 8
    assert not any(peer.dropped for peer in others)
    assert sum(peer.dropped for peer in crowd) == 18


def test_places_stay_within_their_limits_whatever_comes() -> None:
    """2,000 random steps, seed 0."""
    chance, places, there = random.Random(0), ConnectionPlaces(strangers=12, of_address=5, of_node=3), []
    for _ in range(2000):
        step = chance.random()
        if step < 0.6 or not there:
            peer = Peer(f"192.0.2.{chance.randrange(6)}")
            places.enter(peer)
            there.append(peer)
        elif step < 0.8:
            places.know(chance.choice(there), chance.choice("abc"))
        else:
            places.leave(there.pop(chance.randrange(len(there))))
        there = [peer for peer in there if not peer.dropped]
        strangers = [peer for peer in there if peer.node is None]
        assert len(strangers) == places.strangers <= 12
        assert all(sum(peer.group == other.group for other in strangers) <= 5 for peer in strangers)
        assert all(sum(peer.node == name for peer in there) <= 3 for name in "abc")


def test_a_connection_speaks_for_one_node() -> None:
    places, peer = ConnectionPlaces(), Peer("192.0.2.1")
    places.enter(peer)
    assert places.know(peer, "a")
    assert places.know(peer, "a")
    assert not places.know(peer, "b")
    places.leave(peer)
    assert places.strangers == 0


def test_an_ipv6_site_is_one_address() -> None:
    assert group_of("2001:db8:1:2::1") == group_of("2001:db8:1:2:ffff::9") != group_of("2001:db8:1:3::1")
    assert group_of("fe80::1%eth0") == group_of("fe80::2")
    assert group_of("::ffff:192.0.2.1") == group_of("192.0.2.1")
    assert group_of("somewhere") == "somewhere"


def test_a_refused_request_is_answered_before_it_is_closed(site: Site) -> None:
    """An honest node with a wrong clock must learn that, and not meet a reset."""
    with site.serving() as address:
        for size in (0, 1, REFUSED_BYTES):
            assert site.ask(address, None, bytes(size)).status_code == 401
