"""Slow peers, greedy nodes and crowds of connections at the gateway."""

from __future__ import annotations

import contextlib
import resource
import time

import pytest

from consilium.coordinator.deploy import gateway, serving
from consilium.coordinator.deploy.gateway import MOST_CALL_BYTES, MOST_OBJECT_BYTES
from consilium.protocol.files import more_descriptors
from tests.deploy.edge import WAIT, Site, connected, sent_until_stopped, until
from tests.node.folders import PARTIES, make_small

MB = 1024 * 1024
FIRST, SECOND = PARTIES[:2]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory):
    return make_small(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def site(sound) -> Site:
    return Site(sound)


def test_a_body_without_a_signature_reaches_nobody(site: Site) -> None:
    with site.serving() as address:
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
                with contextlib.closing(site.begin(address, 1, site.signed(SECOND))) as other:
                    other.sendall(b"x")
                    until(lambda: len(site.superlink.paths) == 2)
                site.superlink.hold.clear()
                assert waiting.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("sent", "limit"), [(b"", "STALL_SECONDS"), (b"x", "REQUEST_SECONDS")])
def test_a_body_that_stalls_and_an_answer_that_is_not_taken_are_broken_off(
    site: Site, monkeypatch: pytest.MonkeyPatch, sent: bytes, limit: str
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
        assert sum(map(len, iter(lambda: node.recv(65536), b""))) < 20_000_000
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
