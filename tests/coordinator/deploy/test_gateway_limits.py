"""Slow peers, greedy nodes and crowds of connections at the gateway."""

from __future__ import annotations

import contextlib
import time

import pytest

from consilium.coordinator.deploy import gateway
from consilium.coordinator.deploy.gateway import MOST_CALL_BYTES, MOST_OBJECT_BYTES
from tests.deploy.edge import WAIT, Site, sent_until_stopped, until
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
    """While the SuperLink reads nothing: one request, and none of another's; and for so long only."""
    monkeypatch.setattr(gateway, "MOST_REQUESTS", 1)
    monkeypatch.setattr(gateway, "REQUEST_SECONDS", 2.0)
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


@pytest.mark.parametrize("sent", [b"", b"x"])
def test_a_body_that_stalls_and_an_answer_that_is_not_taken_are_broken_off(
    site: Site, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """However slowly the node writes or reads; its place is free again."""

    async def large(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"20000000")]})
        for _ in range(200):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})

    monkeypatch.setattr(gateway, "MOST_REQUESTS", 1)
    monkeypatch.setattr(gateway, "REQUEST_SECONDS", 0.5)
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
