"""A small federation, made by the commands that people type, with rows that a linear model can learn.

Nodes' folders lie beside each other: site/coordinator, site/ward-a, ..., site/university; site/out is the operator's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from tests.command_line import Done, consilium
from tests.coordinator.provision import desk
from tests.federation import CLASSES, FEATURES, make_rows

PARTIES, STUDENT, SECOND = desk.PARTIES, desk.STUDENT, desk.SECOND
NOISY: dict[str, Any] = {
    "collection": "secure",
    "mechanism": {"name": "gnmax", "sigma": 60.0},
    "query_budget": {"queries": 100, "answers": 100},
}
"""Sums with noise in them: they go on with whoever is left."""
LIMITS: dict[str, Any] = {
    "allowed_classes": list(CLASSES),
    "allowed_columns": list(FEATURES),
    "least_rows_per_teacher": 5,
    "most_teachers": 10,
    "most_queries": 10_000,
    "unit": "record",
    "neighbouring": "replace",
    "most_epsilon": 1e6,
    "delta": 1e-5,
    "collection": "plaintext",
    "least_parties": 2,
}
"""A policy.toml within which all lies that these federations ask: no yes is needed."""
OF_AGGREGATOR = ("most_queries", "unit", "neighbouring", "most_epsilon", "delta", "least_parties")

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


def command(*arguments: object) -> Done:
    """One command that must succeed; in this process, since half of its time would go into its imports."""
    done = consilium(*arguments)
    assert done.exit_code == 0, f"consilium {' '.join(map(str, arguments))}\n{done.output}"
    return done


def plan_table(parties: Iterable[str] = PARTIES, listen: str = "127.0.0.1", **changes: Any) -> dict[str, Any]:
    """federation.toml as a table; of `changes`, keys of `[federation]` go there. listen: where the coordinator does."""
    node_port, label_port = free_ports(2)
    collection = changes.get("collection", "plaintext")
    queries = {"queries": "public.npz"} if collection != "plaintext" else {}
    second = [SECOND] if collection == "verified" else []
    place = {"hosts": ["127.0.0.1", "localhost"], "listen": listen, "node_port": node_port, "label_port": label_port}
    ours = {
        "ends": datetime.now(UTC).date() + timedelta(days=365),
        "enrolments": [f"{name}/{name}.enrol.json" for name in ("coordinator", *parties, *second, STUDENT)],
        "mechanism": {"name": "confident", "threshold": 7, "sigma1": 3.0, "sigma2": 3.0},
        "query_budget": {"queries": 100, "answers": 80},
        "timeouts": {"enrol": 250, "train": 250, "vote": 250, "secure": 250, "student": 1400},
        "rows": {"public": "public.csv", "classes": list(CLASSES), **queries},
        "coordinator": place,
    }
    return desk.plan_table(**{**ours, **changes})


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


def make_site(folder: Path, parties: Sequence[str] = PARTIES, accepted: bool = True, **changes: Any) -> Path:
    """Folders of all nodes, which have joined. accepted: everybody has written a policy that allows what is asked."""
    site = folder / "site"
    plan = write_plan(site, parties=parties, **changes)
    second = [SECOND] if changes.get("collection") == "verified" else []
    keys(site, "coordinator")
    for name in parties:
        keys(site, name)
    for name in second:
        keys(site, name, "--kind", "aggregator")
    keys(site, STUDENT, "--kind", "student")
    command("provision", plan, "--out", site / "out")
    for number, name in enumerate(parties):
        write_rows(site / name, number)
    join_all(site, ("coordinator", *parties, *second, STUDENT))
    if accepted:
        for name in (*parties, *second):
            allow(site / name)
    return site


def keys(site: Path, name: str, *more: str) -> Path:
    """Make a node's folder. Returns what is sent to the operator."""
    command("node", "keys", name, *more, "--folder", site / name)
    return site / name / f"{name}.enrol.json"


def join_all(site: Path, names: Iterable[str]) -> None:
    """The operator's folder, as it is now, at each of these nodes."""
    for name in names:
        data = ["--data", site / name / "data.npz"] if (site / name / "data.npz").exists() else []
        command("node", "join", site / "out" / "federation", "--node", site / name, *data)


def allow(node: Path, **changes: Any) -> None:
    """A party's or second aggregator's people write a whole policy, as a script does."""
    limits = {**LIMITS, **changes}
    if node.name == SECOND:
        limits = {key: limits[key] for key in OF_AGGREGATOR}
    (node / "policy.toml").write_text(tomli_w.dumps(limits))


def write_rows(node: Path, seed: int) -> None:
    """A party's own rows."""
    x, y = make_rows(240, seed)
    np.savez(node / "data.npz", x=x, y=y, features=np.array(FEATURES), classes=np.array(CLASSES))


def write_public(path: Path, first: int = 0, count: int = 40) -> Path:
    """Public rows `first`, `first` + 1, ... of those that may be asked, and test rows."""
    queries, _ = make_rows(400, 1000)
    x, y = make_rows(200, 1001)
    np.savez(path, features=np.array(FEATURES), queries=queries[first : first + count], test_x=x, test_y=y)
    return path


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that must be there."""
    text = path.read_text()
    assert old in text, f"{old!r} not in {path}"
    path.write_text(text.replace(old, new))
