"""Who gets an answer: names, methods, origins and paths decide, in this order, and nothing of a request comes back."""

from __future__ import annotations

import pytest

from consilium.protocol.monitor.answers import Answer, answer, as_json
from consilium.protocol.monitor.lasting import FRESH_SECONDS, Lasting

NAMES = frozenset({"localhost", "localhost:9464", "127.0.0.1:9464"})
HOST = {"host": "127.0.0.1:9464"}


def broken() -> Answer:
    raise ValueError("votes [3, 1, 0]")


PAGES = {"/": lambda: as_json({"a": 1}), "/broken": broken}

FROM_ELSEWHERE = {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
CASES: dict[str, tuple[str, str, dict[str, str], int]] = {
    "plain": ("GET", "/", HOST, 200),
    "head": ("HEAD", "/", HOST, 200),
    "localhost": ("GET", "/", {"host": "LocalHost"}, 200),
    "query": ("GET", "/?x=1", HOST, 200),
    "own origin": ("GET", "/", {**HOST, "origin": "http://127.0.0.1:9464"}, 200),
    "typed in": ("GET", "/", {**HOST, "sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
    "link followed": (
        "GET", "/", {**FROM_ELSEWHERE, "sec-fetch-dest": "document"}, 200,
    ),
    "no host": ("GET", "/", {}, 421),
    "rebound name": ("GET", "/", {"host": "evil.example.org:9464"}, 421),
    "rebound, own name inside": ("GET", "/", {"host": "127.0.0.1:9464.evil.example.org"}, 421),
    "other port": ("GET", "/", {"host": "127.0.0.1:80"}, 421),
    "post": ("POST", "/", HOST, 405),
    "put": ("PUT", "/", HOST, 405),
    "delete": ("DELETE", "/", HOST, 405),
    "preflight": ("OPTIONS", "/", {**HOST, "origin": "https://evil.example.org"}, 405),
    "other origin": ("GET", "/", {**HOST, "origin": "https://evil.example.org"}, 403),
    "null origin": ("GET", "/", {**HOST, "origin": "null"}, 403),
    "other port's origin": ("GET", "/", {**HOST, "origin": "http://127.0.0.1:8080"}, 403),
    "script of another site": ("GET", "/", {**HOST, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
    "image of another site": ("GET", "/", {**HOST, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
    "frame of another site": (
        "GET", "/", {**FROM_ELSEWHERE, "sec-fetch-dest": "iframe"}, 403,
    ),
    "no such path": ("GET", "/state/ledger.db", HOST, 404),
    "path upwards": ("GET", "/../ledger.db", HOST, 404),
    "markup in the path": ("GET", "/<script>alert(1)</script>", HOST, 404),
    "page that breaks": ("GET", "/broken", HOST, 500),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_gets_an_answer(case: str) -> None:
    method, target, headers, status = CASES[case]
    found = answer(method, target, headers, NAMES, PAGES)
    assert found.status == status
    assert b"evil" not in found.body and b"<script>" not in found.body and b"votes" not in found.body
    sent = found.all_headers()
    assert sent["X-Content-Type-Options"] == "nosniff"
    assert sent["Content-Security-Policy"].startswith("default-src 'none'")
    assert sent["Cache-Control"] == "no-store"
    assert ("Allow" in sent) == (status == 405)
    assert not any(name.lower().startswith("access-control") for name in sent)


def test_a_value_lasts_for_a_moment() -> None:
    now, made = [0.0], []
    lasting = Lasting(lambda: made.append(now[0]) or len(made), clock=lambda: now[0])
    seen = [lasting(), lasting()]
    now[0] = FRESH_SECONDS
    assert [*seen, lasting(), lasting()] == [1, 1, 2, 2]


def test_a_value_that_could_not_be_made_is_tried_again() -> None:
    ends = iter([ValueError("x"), 5])

    def make() -> int:
        end = next(ends)
        if isinstance(end, ValueError):
            raise end
        return end

    lasting = Lasting(make)
    with pytest.raises(ValueError, match="x"):
        lasting()
    assert lasting() == 5
