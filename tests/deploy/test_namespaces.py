"""The four hospitals of the UCI heart disease data, each on a machine of its own: a whole secure federation from kits.

A machine is a network namespace with its own address. It takes about two minutes: `make test ARGS='-m proofs'`.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision import kits
from consilium.node.kit import open_kit
from consilium.protocol.config_files import load
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.queries import canonical_queries, query_ids
from tests.deploy import netns
from tests.deploy.kits import accept_all

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.proofs,
    pytest.mark.timeout(580),
    pytest.mark.skipif(bool(netns.why_not()), reason=netns.why_not() or "can be made"),
]

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
CLASSES = ("no disease", "disease")
TEACHERS = 3
PUBLIC_ROWS, QUERIES = 20, 40
ADDRESS = "10.77.0.1"


def write_federation(heart: dict[str, np.ndarray], folder: Path) -> Path:
    """Kits of the federation, every hospital's own file, and the student's pool.

    The first rows of each hospital are public: the pool, and means and spreads of the columns, come from them.
    """
    names = [str(name) for name in heart["feature_names"]]
    rank = np.array([np.sum(heart["hospital"][:index] == at) for index, at in enumerate(heart["hospital"])])
    open_rows = rank < PUBLIC_ROWS
    public = heart["X"][open_rows].astype(np.float64)
    public = np.where(np.isnan(public), np.nanmean(public, axis=0), public)
    with open(folder / "public.csv", "w", newline="") as file:
        csv.writer(file).writerows([names, *public.tolist()])
    target = (heart["num"][open_rows] > 0).astype(np.int64)
    np.savez(
        folder / "public.npz", features=np.array(names), queries=public[::2].astype(np.float32),
        test_x=public[1::2].astype(np.float32), test_y=target[1::2],
    )  # fmt: skip
    plan = {
        "federation": {
            "name": "Heart disease",
            "collection": "secure",
            "teachers_per_party": TEACHERS,
            "minimum_parties": len(HOSPITALS),
            "mechanism": {"name": "confident", "threshold": 7, "sigma1": 1.0, "sigma2": 0.5},
            "privacy": {"unit": "record", "delta": 1e-5},
            "query_budget": {"queries": QUERIES, "answers": QUERIES},
            "timeouts": {"enrol": 90, "train": 60, "vote": 60, "secure": 60, "student": 500},
        },
        "rows": {"public": "public.csv", "classes": list(CLASSES)},
        "coordinator": {"hosts": [ADDRESS]},  # and the ports of docs/deploy.md: each machine has its own
        "party": [{"name": name} for name in HOSPITALS],
        "student": [{"name": "university"}],
    }
    (folder / "federation.toml").write_text(tomli_w.dumps(plan))
    out = folder / "kits"
    kits.make(folder / "federation.toml", out)
    for at, name in enumerate(HOSPITALS):
        write_hospital(heart, (heart["hospital"] == at) & ~open_rows, out / f"party-{name}")
    accept_all(out)
    return out


def write_hospital(heart: dict[str, np.ndarray], mine: np.ndarray, kit: Path) -> None:
    """Rows as a hospital exports them, and what its party.toml says of them."""
    names = [str(name) for name in heart["feature_names"]]
    with open(kit / "patients.csv", "w", newline="") as file:
        rows = [["?" if np.isnan(value) else str(value) for value in row] for row in heart["X"][mine]]
        csv.writer(file).writerows(
            [[*names, "num"], *([*row, str(grade)] for row, grade in zip(rows, heart["num"][mine], strict=True))]
        )
    rules = {
        "columns": {name: name for name in names},
        "label": {"column": "num", "classes": {str(grade): CLASSES[grade > 0] for grade in range(5)}},
        "missing": {"rule": "mean", "codes": ["?"]},
    }
    settings = kit / "party.toml"
    text = settings.read_text().replace('data = "data.npz"', 'data = "patients.csv"')
    settings.write_text(text + "\n" + tomli_w.dumps(rules))


def reached_from(pid: int, port: int) -> set[str]:
    """Addresses that have, or had a moment ago, a connection to this port, as the kernel of the process's host says."""
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        local, remote = line.split()[1:3]
        if int(local.split(":")[1], 16) == port and not remote.startswith("00000000"):
            found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(remote.split(":")[0]))))
    return found


def wait_for(true: Callable[[], bool], seconds: float, logs: Path) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "\n".join(f"== {log.name}\n{log.read_text()}" for log in logs.iterdir())
        time.sleep(0.2)


def test_four_hospitals_on_machines_of_their_own(heart: dict[str, np.ndarray], tmp_path: Path) -> None:
    out = write_federation(heart, tmp_path)
    logs = tmp_path / "logs"
    logs.mkdir()
    place = open_kit(out / "coordinator").coordinator
    with netns.Network() as network, contextlib.ExitStack() as stack:
        hosts = {name: network.add(name) for name in ("coordinator", *HOSPITALS, "university")}
        assert hosts["coordinator"].address == ADDRESS

        def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
            output = stack.enter_context(open(logs / name, "wb"))
            return hosts[name].start(output, *arguments)

        def said(name: str) -> str:
            return (logs / name).read_text()

        nodes = {"coordinator": start("coordinator", "node", "start", str(out / "coordinator"))}
        wait_for(lambda: said("coordinator").count("may connect") == len(HOSPITALS), 150, logs)
        nodes |= {name: start(name, "node", "start", str(out / f"party-{name}")) for name in HOSPITALS}
        student = start(
            "university", "student", "run", str(out / "student-university"), "--wait", "200", "--format", "json",
            "--public", str(tmp_path / "public.npz"), "--out", str(tmp_path / "student"),
        )  # fmt: skip

        wait_for(lambda: all("connected to the coordinator" in said(name) for name in HOSPITALS), 90, logs)

        # every process of a node is in that node's namespace, and the coordinator sees them under different addresses
        namespaces = {name: os.stat(f"/proc/{process.pid}/ns/net").st_ino for name, process in nodes.items()}
        assert namespaces == {name: hosts[name].inode for name in nodes}
        assert len(set(namespaces.values()) | {os.stat("/proc/self/ns/net").st_ino}) == len(nodes) + 1
        for name in HOSPITALS:
            commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in hosts[name].pids()]
            assert any(b"flower-supernode" in command for command in commands), name
        seen: set[str] = set()
        expected = {hosts[name].address for name in HOSPITALS}

        def all_seen() -> bool:
            seen.update(reached_from(nodes["coordinator"].pid, place.superlink_port))
            return seen == expected

        wait_for(all_seen, 150, logs)

        # what a hospital reaches of the coordinator's machine
        reached = {}
        for port in (place.superlink_port, place.internal_port):
            probe = f"import socket; s = socket.socket(); s.settimeout(5); print(s.connect_ex(('{ADDRESS}', {port})))"
            reached[port] = os.strerror(int(hosts["va"].run("python3", "-c", probe).stdout))
        assert reached == {place.superlink_port: "Success", place.internal_port: "Connection refused"}
        assert network.hosts["coordinator"].run("python3", "-c", probe.replace(ADDRESS, "127.0.0.1")).stdout == "0\n"

        assert student.wait(400) == 0, said("university") + said("coordinator")
        result = json.loads(said("university").splitlines()[-1])
        assert result["asked"] == QUERIES
        assert result["answered"] > 10

        closed = hosts["coordinator"].command("node", "close", str(out / "coordinator"), "--format", "json")
        assert closed.returncode == 0, closed.stderr
        assert json.loads(closed.stdout)["parties"] == sorted(HOSPITALS)
        for name in HOSPITALS:
            nodes[name].send_signal(signal.SIGTERM)
        assert {name: process.wait(250) for name, process in nodes.items()} == dict.fromkeys(nodes, 0)
        assert {name: host.pids() for name, host in hosts.items()} == {name: [] for name in hosts}
    left = [name for name in os.listdir("/run/netns") if f"-{os.getpid()}-" in name]
    assert left == []

    config = load(out / "coordinator" / "federation.json", FederationConfig)
    run = out / "coordinator" / "state" / f"run-{config.digest()[:12]}"
    ledger = Ledger(run / "ledger.db", config.digest(), "", read_only=True)
    try:
        batches = ledger.batches()  # raises unless the hash chain is whole
    finally:
        ledger.close()
    labels = {
        query: int(label) for batch in batches for query, label in zip(batch.query_ids, batch.labels, strict=True)
    }
    assert sum(len(batch.query_ids) for batch in batches) == QUERIES
    assert sum(int(batch.answered.sum()) for batch in batches) == result["answered"]
    assert {batch.parties for batch in batches} == {len(HOSPITALS)}
    with np.load(tmp_path / "public.npz") as pool:
        asked = query_ids(canonical_queries(pool["queries"], len(pool["features"])))
    open_rows = np.concatenate([heart["num"][heart["hospital"] == at][:PUBLIC_ROWS] for at in range(len(HOSPITALS))])
    right = [
        labels[query] == disease
        for query, disease in zip(asked, open_rows[::2] > 0, strict=True)
        if labels[query] != NO_LABEL
    ]
    assert len(right) == result["answered"]
    assert np.mean(right) > 0.6  # the hospitals' teachers know something
    summary = json.loads((run / "coordinator.json").read_text())
    assert (summary["collection"], summary["parties_counted"], summary["teachers"]) == ("secure", [4], 4 * TEACHERS)
    assert not (run / "sessions").exists() or not list((run / "sessions").glob("*.session"))
    assert not list(run.glob("private/*"))
