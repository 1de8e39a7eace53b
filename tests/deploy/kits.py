"""Kits of a small federation on loopback, with rows that a linear model can learn."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from cryptography.hazmat.primitives.asymmetric import ec

from consilium.aggregator.deployed import AGGREGATOR
from consilium.aggregator.home import open_home as open_second
from consilium.aggregator.home import policy_request as policy_request_of_second
from consilium.coordinator.config import Federation
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.authority import Authority, Issued
from consilium.node import keys as own_keys
from consilium.node.acceptance import PolicyRequest, accept
from consilium.node.kit import open_kit
from consilium.party.deployed import PARTY
from consilium.party.expectation import policy_request
from consilium.party.home import open_home
from tests.federation import CLASSES, FEATURES, make_rows

PARTIES = ("ward-a", "ward-b", "ward-c")
STUDENT = "university"
SECOND = "board"


FIRST_PORT, PORTS = 12_000, 2_000
"""Below those that Linux gives to outgoing connections (32768 on), so that nobody takes one before it is listened on:
of each worker of xdist a range of its own."""
_turn = itertools.count(os.getpid())


def free_ports(count: int) -> list[int]:
    """Different TCP ports that are free now, none of which another test was given lately."""
    first = FIRST_PORT + PORTS * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports: list[int] = []
    for place in itertools.islice(_turn, PORTS):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", first + place % PORTS))
            ports.append(first + place % PORTS)
        if len(ports) == count:
            return ports
    raise OSError(f"no {count} free ports from {first} on")


def server_of(authority: Authority, hosts: Sequence[str], **dates: Any) -> Issued:
    """A new key for a server of these names, and its certificate. dates: of `Authority.certify_server`."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Issued(authority.certify_server(key.public_key(), hosts, **dates), key)


def plan_table(**changes: Any) -> dict[str, Any]:
    """federation.toml as a table; of `changes`, keys of `[federation]` go there."""
    ports = free_ports(4 + len(PARTIES))
    federation = {
        "name": "three wards",
        "collection": "plaintext",
        "teachers_per_party": 4,
        "minimum_parties": 2,
        "mechanism": {"name": "confident", "threshold": 7, "sigma1": 3.0, "sigma2": 3.0},
        "privacy": {"unit": "record", "delta": 1e-5},
        "query_budget": {"queries": 40, "answers": 30},
        "timeouts": {"enrol": 250, "train": 250, "vote": 250, "secure": 250, "student": 250},
        **{key: value for key, value in changes.items() if key in Federation.model_fields},
    }
    pool = {"queries": "public.npz"} if federation["collection"] != "plaintext" else {}
    second = {"aggregator": {"name": SECOND, "port": ports[-1]}} if federation["collection"] == "verified" else {}
    return {
        "federation": federation,
        "rows": {"public": "public.csv", "classes": list(CLASSES), **pool},
        "coordinator": {
            "hosts": ["127.0.0.1", "localhost"],
            "listen": "127.0.0.1",
            "superlink_port": ports[0],
            "label_port": ports[1],
            "internal_port": ports[2],
        },
        "party": [{"name": name, "port": port} for name, port in zip(PARTIES, ports[3:-1], strict=True)],
        "student": [{"name": STUDENT}],
        **second,
        **{key: value for key, value in changes.items() if key not in Federation.model_fields},
    }


def write_plan(folder: Path, **changes: Any) -> Path:
    """federation.toml and its public rows."""
    folder.mkdir(parents=True, exist_ok=True)
    x, _ = make_rows(100, 999)
    lines = [",".join(FEATURES), *(",".join(map(str, row)) for row in x)]
    (folder / "public.csv").write_text("\n".join(lines) + "\n")
    np.savez(folder / "public.npz", features=np.array(FEATURES), queries=make_rows(400, 1000)[0])
    path = folder / "federation.toml"
    path.write_text(tomli_w.dumps(plan_table(**changes)))
    return path


NOISY: dict[str, Any] = {
    "collection": "secure",
    "mechanism": {"name": "gnmax", "sigma": 60.0},
    "query_budget": {"queries": 40, "answers": 40},
}
"""Sums with noise in them: they go on with whoever is left."""


def make_kits(folder: Path, own: Sequence[str] = (), accepted: bool = True, **changes: Any) -> Path:
    """Kits of the three wards, each with data. own: the parties, and the second aggregator, that make
    their own keys, and put them in. accepted: everybody has allowed what is asked."""
    out, plan = folder / "kits", plan_table(**changes)
    wards = [name for name in own if name != SECOND]
    plan["party"] = [
        {**party, "keys": f"{party['name']}.enrol.json"} if party["name"] in own else party for party in plan["party"]
    ]
    for name in wards:
        own_keys.make("party", name, folder / f"keys-{name}").save(folder / f"{name}.enrol.json")
    if SECOND in own:
        own_keys.make("aggregator", SECOND, folder / f"keys-{SECOND}").save(folder / f"{SECOND}.enrol.json")
        plan["aggregator"] = {**plan["aggregator"], "keys": f"{SECOND}.enrol.json"}
    kits.make(write_plan(folder, **plan), out)
    for name in wards:
        PARTY.join(open_kit(out / f"party-{name}"), folder / f"keys-{name}")
    if SECOND in own:
        AGGREGATOR.join(open_kit(out / f"aggregator-{SECOND}"), folder / f"keys-{SECOND}")
    for seed, name in enumerate(PARTIES):
        write_data(out / f"party-{name}", seed)
    if accepted:
        accept_all(out)
    return out


def accept_all(kits: Path) -> None:
    """Every party and second aggregator allows what is asked of it, line by line, as a script does."""
    for folder in sorted(kits.glob("party-*/kit.json")) + sorted(kits.glob("aggregator-*/kit.json")):
        accept_kit(folder.parent)


def accept_kit(folder: Path) -> None:
    """One of them."""
    kit = open_kit(folder)
    asked = request_of_kit(kit.folder)
    accept(kit.folder, asked, [line.key for line in asked.looser], lambda _: None)


def request_of_kit(folder: Path) -> PolicyRequest:
    """What its people are shown."""
    if open_kit(folder).kind == "party":
        home = open_home(folder)
        return policy_request(home, PARTY.terms_of(home))
    second = open_second(folder)
    return policy_request_of_second(second, AGGREGATOR.terms_of(second))


def write_data(kit: Path, seed: int, rows: int = 240, label: int | None = None) -> None:
    """A party's own rows. label: of all of them; None for labels that can be learnt."""
    x, y = make_rows(rows, seed)
    if label is not None:
        y = np.full_like(y, label)
    np.savez(kit / "data.npz", x=x, y=y, features=np.array(FEATURES), classes=np.array(CLASSES))


def write_pool(path: Path, first: int = 0, count: int = 40) -> Path:
    """Public rows `first`, `first` + 1, ... of the student's pool, and test rows."""
    queries, _ = make_rows(400, 1000)
    x, y = make_rows(200, 1001)
    np.savez(path, features=np.array(FEATURES), queries=queries[first : first + count], test_x=x, test_y=y)
    return path


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that must be there."""
    text = path.read_text()
    assert old in text, f"{old!r} not in {path}"
    path.write_text(text.replace(old, new))
