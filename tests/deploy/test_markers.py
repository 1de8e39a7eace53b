"""Nothing private is on the wire, or at rest where it should not be: planted markers are looked for everywhere.

A recorder stands between the nodes and the coordinator's two ports and ends their TLS with the coordinator's own key:
what it keeps is what goes through the encryption, as a run without TLS would show it. (Flower checks no node
keys without TLS, so that `--insecure` would be a run of something else.) Everything else is what a deployment has:
kits, `start` commands, gateway, SuperLink, SuperNodes, a student over mutual TLS.

The same federation with plaintext votes is the control: what is not found with secure or verified votes is found there,
by the same search. Takes about three minutes: `make test ARGS='-m proofs'`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import csv
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.provision import kits
from consilium.node.kit import open_kit
from consilium.party.store import Store
from consilium.protocol.choices import counted
from consilium.protocol.config_files import load
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.tls import TlsFiles
from tests.deploy.kits import SECOND, STUDENT, accept_all, free_ports, write_plan, write_pool
from tests.federation import CLASSES, FEATURES, make_rows

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.proofs, pytest.mark.timeout(580)]

ROOT = Path(__file__).resolve().parents[2]
WARDS = ("ward-a", "ward-b", "ward-c", "ward-d")
BROKEN = "ward-d"
"""Its file has a text where a number must be: its errors, too, must not quote it."""
TEXT = "PLANTED-patient"
PLANTED = (61.80339887, 141.42135624, 1.61803398)
"""Values of one row in every party's file, with the party's number added."""
QUERIES = 30


class Recorder:
    """Passes connections on to a port of this machine, and keeps what went through, without its encryption.

    client: certificate to show there, for mutual TLS.
    """

    def __init__(self, target: int, server: TlsFiles, client: TlsFiles | None = None, protocol: str = "") -> None:
        self.streams: list[bytearray] = []
        self._inner = ssl.create_default_context(cafile=server.authority)
        self._outer = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._outer.load_cert_chain(server.certificate, server.key)
        if client is not None:
            self._inner.load_cert_chain(client.certificate, client.key)
        if protocol:
            self._inner.set_alpn_protocols([protocol])
            self._outer.set_alpn_protocols([protocol])
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = free_ports(1)[0]

    def __enter__(self) -> Recorder:
        self._thread.start()
        serving = asyncio.start_server(self._pass, "127.0.0.1", self.port, ssl=self._outer)
        asyncio.run_coroutine_threadsafe(serving, self._loop).result(250)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(250)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(
                "127.0.0.1", self._target, ssl=self._inner, server_hostname="127.0.0.1"
            )
        except OSError:  # not listening yet
            writer.close()
            return
        await asyncio.gather(self._copy(reader, there[1]), self._copy(there[0], writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = bytearray()
        self.streams.append(stream)
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await reader.read(65536):
                stream += data
                writer.write(data)
                await writer.drain()
        writer.close()


def write_rows(kit: Path, number: int) -> None:
    """A party's own CSV: rows that can be learned, one of them planted, with a column that nobody maps."""
    x, y = make_rows(240, number)
    x[7] = planted(number)
    rows = [[str(value) for value in row] for row in x.tolist()]
    if kit.name == f"party-{BROKEN}":
        rows[9][1] = f"{TEXT}-instead-of-a-number"
    with open(kit / "data.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*FEATURES, "label", "note"])
        table.writerows([*row, CLASSES[label], f"{TEXT}-{number}"] for row, label in zip(rows, y, strict=True))
    rules = {
        "columns": {name: name for name in FEATURES},
        "label": {"column": "label", "classes": {name: name for name in CLASSES}},
    }
    text = (kit / "party.toml").read_text().replace('data = "data.npz"', 'data = "data.csv"')
    (kit / "party.toml").write_text(f"{text}\n{tomli_w.dumps(rules)}")


def planted(number: int) -> np.ndarray:
    return (np.array(PLANTED) + number).astype(np.float32)


def row_markers(kit: Path, number: int) -> list[bytes]:
    """The planted row as text, as numbers, and as numbers after the standardisation that a party does.

    Numbers are looked for eight bytes at least at a time: shorter ones would be found by chance.
    """
    schema = load(kit / "federation.json", FederationConfig).rows
    row = planted(number)
    standardised = np.asarray(schema.standardise(row[None]))[0]
    found = [TEXT.encode(), *(str(value)[:9].encode() for value in row.tolist() if value > 10)]
    for values in (row, standardised):
        found += [values.astype("<f4")[start : start + 2].tobytes() for start in (0, 1)]
        found += [value.tobytes() for value in values.astype("<f8")]
    return found


def vote_markers(votes: np.ndarray) -> list[bytes]:
    """A party's exact votes, in any plausible layout: all of them, and by halves."""
    half = len(votes) // 2
    parts = [part for whole in (votes, votes.T.copy()) for part in (whole, whole[:, :half] if half > 2 else whole)]
    parts += [votes[:half], votes[half:], votes[:, 0], votes[:, 1]]
    return [part.astype(kind).tobytes() for part in parts for kind in ("u1", "<u2", "<u4", "<u8", "<f4", "<f8")]


def forms(secret: bytes) -> list[bytes]:
    """A secret as bytes, in hex, and in base64 wherever it may begin: so also inside PEM."""
    found = [secret, secret[::-1], secret.hex().encode(), secret.hex().upper().encode()]
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + secret)
        found.append(text[4:-4] if shift else text[:-4])
    return found


def key_markers(out: Path) -> list[bytes]:
    """All private keys of all kits."""
    found = []
    for path in [*out.glob("*/*.pem"), *out.glob("*/*.key")]:
        content = path.read_bytes()
        openssh = b"OPENSSH" in content
        key: Any = load_ssh_private_key(content, None) if openssh else load_pem_private_key(content, None)
        if isinstance(key, Ed25519PrivateKey | X25519PrivateKey):
            secret = key.private_bytes_raw()
        else:
            assert isinstance(key, EllipticCurvePrivateKey), path
            # OpenSSH leaves leading zero bytes out, which one key in 256 has
            secret = key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8, "big").lstrip(b"\0")
        markers = forms(secret)
        assert contains(content, markers), path.name  # the search would find it: the key file itself has it
        found += markers
    return found


def contains(content: bytes, markers: Iterable[bytes]) -> bool:
    """Whether any marker is there, also where lines of PEM are broken, really or as an escape."""
    joined = content.replace(b"\r", b"").replace(b"\n", b"").replace(b"\\n", b"")
    return any(marker in content or marker in joined for marker in markers)


def files(*patterns: tuple[Path, str]) -> dict[str, bytes]:
    """Contents by path."""
    return {str(path): path.read_bytes() for root, glob in patterns for path in root.glob(glob) if path.is_file()}


def found_in(places: Mapping[str, bytes], markers: list[bytes]) -> list[str]:
    return sorted(place for place, content in places.items() if contains(content, markers))


def wait_for(true: Callable[[], bool], seconds: float, logs: Path) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "\n".join(f"== {log.name}\n{log.read_text()}" for log in logs.iterdir())
        time.sleep(0.2)


@contextlib.contextmanager
def node(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A `consilium` command, ended with the context."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "consilium", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(250)
            finally:
                process.kill()


def redirect(kit: Path, **ports: int) -> None:
    """Have a node connect to the recorder."""
    content = json.loads((kit / "kit.json").read_text())
    content["coordinator"] |= ports
    (kit / "kit.json").write_text(json.dumps(content))


def run(folder: Path, votes: str, wards: tuple[str, ...]) -> tuple[Path, bytes, dict[str, np.ndarray]]:
    """A whole federation. Returns its kits, what was recorded, and each party's exact votes on what was asked."""
    timeouts = {"enrol": 60, "train": 60, "vote": 60, "secure": 60, "student": 500}
    ports = free_ports(len(wards))
    parties = [{"name": name, "port": port} for name, port in zip(wards, ports, strict=True)]
    changes = {
        "collection": votes,
        "party": parties,
        "timeouts": timeouts,
        "minimum_parties": len(wards) - len(WARDS) + 3,
    }
    mechanism = {"name": "confident", "threshold": 4, "sigma1": 1.0, "sigma2": 0.5}
    out = folder / "kits"
    if votes == "plaintext":
        changes["minimum_parties"] = len(wards)
    kits.make(write_plan(folder, **{**changes, "mechanism": mechanism}), out)
    accept_all(out)
    logs = folder / "logs"
    logs.mkdir()
    coordinator, student = open_kit(out / "coordinator"), open_kit(out / f"student-{STUDENT}")
    pool = write_pool(folder / "public.npz", count=QUERIES)
    with contextlib.ExitStack() as stack:
        place = coordinator.coordinator
        fleet = stack.enter_context(Recorder(place.superlink_port, coordinator.server_tls))
        labels = stack.enter_context(Recorder(place.label_port, coordinator.server_tls, student.client_tls, "h2"))
        redirect(student.folder, label_port=labels.port)
        for number, name in enumerate(wards):
            redirect(out / f"party-{name}", superlink_port=fleet.port)
            write_rows(out / f"party-{name}", number)
        second = [out / f"aggregator-{SECOND}"] if votes == "verified" else []
        for kit in second:
            redirect(kit, superlink_port=fleet.port)
        serving = stack.enter_context(node(logs / "coordinator", "node", "start", str(coordinator.folder)))
        wait_for(lambda: (logs / "coordinator").read_text().count("may connect") == len(wards) + len(second), 150, logs)
        for kit in second:
            stack.enter_context(node(logs / SECOND, "node", "start", str(kit)))
        for name in wards:
            stack.enter_context(node(logs / name, "node", "start", str(out / f"party-{name}")))
        wait_for(lambda: "students may ask" in (logs / "coordinator").read_text(), 150, logs)
        asking = stack.enter_context(
            node(
                logs / "student", "student", "run", str(student.folder), "--public", str(pool),
                "--out", str(folder / "student"),
            )
        )  # fmt: skip
        assert asking.wait(400) == 0, (logs / "student").read_text() + (logs / "coordinator").read_text()
        with node(logs / "close", "node", "close", str(coordinator.folder)) as closing:
            assert closing.wait(250) == 0
        assert serving.wait(250) == 0
    recorded = b"\n".join(bytes(stream) for stream in [*fleet.streams, *labels.streams])
    assert b"/v1/fleet/push-object" in recorded
    assert any(b"consilium.labels" in stream or b"PRI * HTTP/2" in stream for stream in labels.streams)
    trained = [name for name in wards if name != BROKEN]
    return out, recorded, {name: exact_votes(out, name, pool) for name in trained}


def exact_votes(out: Path, name: str, pool: Path) -> np.ndarray:
    """What a party's teachers, from its own disk, vote on the queries, in the order in which they were asked."""
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    run_dir = out / "coordinator" / "state" / f"run-{config.digest()[:12]}"
    ledger = Ledger(run_dir / "ledger.db", config.digest(), "", read_only=True)
    try:
        [batch] = ledger.batches()
    finally:
        ledger.close()
    with np.load(pool) as file:
        queries = canonical_queries(file["queries"], len(FEATURES))
    where = {query_id: index for index, query_id in enumerate(query_ids(queries))}
    trained = Store(out / f"party-{name}" / "state" / "party.db").teachers(config.digest())
    asked = queries[[where[query_id] for query_id in batch.query_ids]]
    said = np.array([teacher.predict(trained.schema.standardise(asked)) for teacher in trained.teachers])
    return counted(said.T, len(CLASSES))


def outside(out: Path, folder: Path, name: str) -> dict[str, bytes]:
    """Everything of everybody but this party's own kit; and of that, its logs."""
    others = [path for path in out.iterdir() if path.is_dir() and path.name != f"party-{name}"]
    return files(
        *((path, "**/*") for path in others),
        (out / f"party-{name}" / "state" / "logs", "*"),
        (folder / "logs", "*"),
        (folder / "student", "**/*"),
    )


def test_control_clear_votes_are_seen_and_found(tmp_path: Path) -> None:
    wards = WARDS[:2]
    out, wire, votes = run(tmp_path, "plaintext", wards)
    database = files((out / "coordinator" / "state", "superlink.db*"))
    assert database
    for number, name in enumerate(wards):
        assert contains(wire, vote_markers(votes[name])), name
        own = files((out / f"party-{name}", "data.csv"))
        assert found_in(own, row_markers(out / f"party-{name}", number)) == list(own)


@pytest.mark.parametrize("mode", ["secure", "verified"])
def test_nothing_private_leaves_in_a_secure_run(tmp_path: Path, mode: str) -> None:
    out, wire, votes = run(tmp_path, mode, WARDS)
    assert len({matrix.tobytes() for matrix in votes.values()}) == len(votes) == 3
    keys = key_markers(out)
    for number, name in enumerate(WARDS):
        kit = out / f"party-{name}"
        places = {"wire": wire, **outside(out, tmp_path, name)}
        assert any("superlink.db" in place for place in places)
        assert any("events.jsonl" in place for place in places)
        assert any("supernode.log" in place for place in places)
        assert any(f"aggregator-{SECOND}/state/given.db" in place for place in places) == (mode == "verified")
        rows = row_markers(kit, number)
        assert found_in(files((kit, "data.csv")), rows) == [str(kit / "data.csv")]
        # TEXT is in every party's file: the other parties' files are theirs
        assert found_in({at: text for at, text in places.items() if not at.endswith("data.csv")}, rows) == []
        if name in votes:
            assert found_in(places, vote_markers(votes[name])) == []
    every = {"wire": wire, **files((out, "*/**/*"), (tmp_path / "logs", "*"), (tmp_path / "student", "**/*"))}
    at_rest = {at: content for at, content in every.items() if not at.endswith((".pem", ".key", ".tar.gz"))}
    assert found_in(at_rest, keys) == []
    said = (tmp_path / "logs" / "coordinator").read_text()
    assert f"{BROKEN} left out of stage train: refused: data" in said
