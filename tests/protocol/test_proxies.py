"""Which proxy a program would take, and that this machine itself is never behind one."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.node.flower import flower_environment
from consilium.protocol.proxies import LABELS, SUPERNODE, proxy_for, without_loopback

HOST, PROXY = "coordinator.example.org", "proxy.example.org:3128"
CASES = {
    "none": ({}, SUPERNODE, None),
    "of the SuperNode": ({"HTTPS_PROXY": f"http://{PROXY}"}, SUPERNODE, f"{PROXY} (HTTPS_PROXY)"),
    "small letters first": (
        {"https_proxy": f"http://{PROXY}", "HTTPS_PROXY": "http://x:1"}, SUPERNODE, f"{PROXY} (https_proxy)",
    ),
    "for everything": ({"ALL_PROXY": PROXY}, SUPERNODE, f"{PROXY} (ALL_PROXY)"),
    "gRPC reads small letters": ({"HTTPS_PROXY": PROXY}, LABELS, None),
    "gRPC's own first": ({"https_proxy": "x:1", "grpc_proxy": PROXY}, LABELS, f"{PROXY} (grpc_proxy)"),
    "plain HTTP is another matter": ({"http_proxy": PROXY}, SUPERNODE, None),
    "the host is left out": ({"HTTPS_PROXY": PROXY, "NO_PROXY": f"x, {HOST}"}, SUPERNODE, None),
    "its domain is left out": ({"HTTPS_PROXY": PROXY, "no_proxy": ".example.org"}, SUPERNODE, None),
    "all are left out": ({"HTTPS_PROXY": PROXY, "no_proxy": "*"}, SUPERNODE, None),
    "another is left out": ({"HTTPS_PROXY": PROXY, "no_proxy": "org.example"}, SUPERNODE, f"{PROXY} (HTTPS_PROXY)"),
    "half a name is none": ({"HTTPS_PROXY": PROXY, "no_proxy": "ample.org"}, SUPERNODE, f"{PROXY} (HTTPS_PROXY)"),
    "no port is port 80": ({"HTTPS_PROXY": "http://p"}, SUPERNODE, "p:80 (HTTPS_PROXY)"),
    "nonsense": ({"HTTPS_PROXY": "http://p:x"}, SUPERNODE, "an address that cannot be read:0 (HTTPS_PROXY)"),
}  # fmt: skip


@pytest.mark.parametrize(("environment", "variables", "expected"), CASES.values(), ids=CASES.keys())
def test_the_proxy_is_the_programs_own(environment: dict, variables: tuple[str, ...], expected: str | None) -> None:
    found = proxy_for(HOST, variables, environment)
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
@pytest.mark.parametrize("variables", [SUPERNODE, LABELS])
def test_to_itself_the_way_is_direct(host: str, variables: tuple[str, ...]) -> None:
    assert proxy_for(host, variables, {"https_proxy": PROXY}) is None


def test_a_password_is_in_no_text() -> None:
    found = proxy_for(HOST, SUPERNODE, {"HTTPS_PROXY": f"http://u:s%40cret@{PROXY}"})
    assert found is not None and found.credentials == "u:s@cret"
    assert "cret" not in f"{found} {found!r}"


@pytest.mark.parametrize("before", [{}, {"NO_PROXY": "example.net"}, {"no_proxy": "localhost,example.net"}])
def test_this_machine_is_behind_no_proxy(before: dict[str, str]) -> None:
    names = without_loopback(before)["no_proxy"].split(",")
    assert {"127.0.0.1", "localhost", "::1", *("example.net" for _ in before)} == set(names)
    assert len(names) == len(set(names))


def test_programs_of_flower_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{PROXY}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    told = flower_environment(tmp_path / "flower")
    assert (told["HTTPS_PROXY"], "127.0.0.1" in told["NO_PROXY"]) == (f"http://{PROXY}", True)
