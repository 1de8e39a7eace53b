"""Kits: what is in them, who may read it, keys nowhere else, and later changes that leave them alone."""

from __future__ import annotations

import hashlib
import json
import stat
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner

from consilium import cli
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node.checks import alternative_names, check_certificate
from consilium.node.kit import open_kit
from consilium.node.manifest import MANIFEST
from consilium.party.dry_run import load_federation
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, ConsiliumError, OutputExists, PathError
from consilium.protocol.identity import Identity
from consilium.protocol.queries import canonical_queries, query_ids
from consilium.protocol.tls import load_certificate
from consilium.student.pool import PoolFile
from consilium.sums.roster import Roster
from tests.deploy.kits import NOISY, PARTIES, STUDENT, make_kits, plan_table, write_plan

PRIVATE = {"ca.key", "server.key", "client.key", "node.key", "identity.pem"}


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, by path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def secure(tmp_path_factory) -> Path:
    """Kits of a federation with secure votes; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("secure"), collection="secure")


def test_every_node_has_its_kit_and_its_archive(secure: Path) -> None:
    nodes = ["coordinator", *(f"party-{name}" for name in PARTIES), f"student-{STUDENT}"]
    assert sorted(path.name for path in secure.iterdir() if path.is_dir()) == sorted([*nodes, "operator"])
    for node in nodes:
        kit = open_kit(secure / node)
        assert kit.coordinator.hosts[0] == "127.0.0.1"
        with tarfile.open(secure / f"{node}.tar.gz") as archive:
            packed = {item.name: item for item in archive}
        assert packed[f"{node}/kit.json"].isreg()
        for name in PRIVATE & {path.name for path in (secure / node).iterdir()}:
            assert packed[f"{node}/{name}"].mode == 0o600


def test_private_files_are_private(secure: Path) -> None:
    assert stat.S_IMODE(secure.stat().st_mode) == 0o700
    found = set()
    for path in secure.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert mode == 0o700, path
        elif path.name in PRIVATE or path.name.endswith(".tar.gz"):
            found.add(path.name)
            assert mode == 0o600, path
    assert found >= PRIVATE


def test_no_private_key_is_anywhere_but_in_its_kit(secure: Path) -> None:
    keys: dict[bytes, Path] = {}
    for path in secure.rglob("*"):
        if path.name in PRIVATE:
            body = b"".join(line for line in path.read_bytes().split(b"\n") if not line.startswith(b"-----"))
            assert body not in keys, f"{path} and {keys.get(body)} have one key"
            keys[body] = path
    assert len(keys) == 1 + 2 + 2 * len(PARTIES) + 1
    for path in secure.rglob("*"):
        if path.is_file() and not path.name.endswith(".tar.gz"):
            text = path.read_bytes().replace(b"\n", b"")
            assert all(body not in text for body, owner in keys.items() if owner != path), path


def test_certificates_are_for_their_node_and_purpose(secure: Path) -> None:
    coordinator, student = open_kit(secure / "coordinator"), open_kit(secure / f"student-{STUDENT}")
    check_certificate(coordinator.server_tls, coordinator.coordinator.hosts)
    check_certificate(student.client_tls)
    server, client = (load_certificate(files.certificate) for files in (coordinator.server_tls, student.client_tls))
    assert alternative_names(server) == {"127.0.0.1", "localhost"}
    purposes = [found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value for found in (server, client)]
    assert [list(purpose) for purpose in purposes] == [
        [ExtendedKeyUsageOID.SERVER_AUTH],
        [ExtendedKeyUsageOID.CLIENT_AUTH],
    ]
    authority = load_certificate(student.authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    now = datetime.now(UTC)
    assert timedelta(days=725) < server.not_valid_after_utc - now < timedelta(days=731)
    assert timedelta(days=3640) < authority.not_valid_after_utc - now < timedelta(days=3651)
    assert server.not_valid_before_utc < now - timedelta(minutes=5)


def test_public_and_private_halves_belong_together(secure: Path) -> None:
    roster = Roster.load(secure / "coordinator" / "roster.json")
    nodes = json.loads((secure / "coordinator" / "nodes.json").read_text())["nodes"]
    assert roster.coordinator_pk == Identity.load(secure / "coordinator" / "identity.pem").public.hex()
    for place, name in enumerate(PARTIES):
        kit = secure / f"party-{name}"
        assert roster.key(place) == Identity.load(kit / "identity.pem").public
        assert Roster.load(kit / "roster.json").digest == roster.digest
        private = load_ssh_private_key((kit / "node.key").read_bytes(), password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        assert private.curve.name == "secp384r1"
        public = load_ssh_public_key(nodes[name].encode())
        assert isinstance(public, ec.EllipticCurvePublicKey)
        assert private.public_key().public_numbers() == public.public_numbers()


@pytest.mark.parametrize("votes", ["plaintext", "secure"])
def test_adding_a_party_touches_no_kit(tmp_path: Path, votes: str) -> None:
    out = make_kits(tmp_path, collection=votes)
    nodes = [path for path in out.iterdir() if path.name not in ("operator", "updates")]
    before = {path.name: contents(path) if path.is_dir() else path.read_bytes() for path in nodes}
    made = kits.add_party(out, "ward-d", port=9999)
    assert {path.name: contents(path) if path.is_dir() else path.read_bytes() for path in nodes} == before
    assert open_kit(out / "party-ward-d").node_port == 9999
    names = sorted(path.name.removesuffix(".tar.gz") for path in made.updates)
    known = json.loads((out / "updates" / "0002" / "coordinator" / "nodes.json").read_text())["nodes"]
    assert sorted(known) == [*PARTIES, "ward-d"]
    old = load(out / "coordinator" / "federation.json", FederationConfig)
    new = load(out / "party-ward-d" / "federation.json", FederationConfig)
    if votes == "plaintext":
        assert names == ["coordinator"]
        assert new.digest() == old.digest()  # the same federation, the same ledger
    else:
        assert names == ["coordinator", *(f"party-{name}" for name in PARTIES)]
        assert new.digest() != old.digest()
        digests = {Roster.load(path).digest for path in (out / "updates").rglob("roster.json")}
        assert digests == {Roster.load(out / "party-ward-d" / "roster.json").digest} == {new.roster}
    assert not any(path.name in PRIVATE for path in (out / "updates").rglob("*"))


def test_a_revoked_party_is_in_no_list(tmp_path: Path) -> None:
    out = make_kits(tmp_path, **NOISY, minimum_parties=2)
    made = kits.revoke(out, "ward-b")
    update = out / "updates" / "0002" / "coordinator"
    assert sorted(json.loads((update / "nodes.json").read_text())["nodes"]) == ["ward-a", "ward-c"]
    assert [entry.id for entry in Roster.load(update / "roster.json").parties] == ["ward-a", "ward-c"]
    assert "party-ward-b.tar.gz" not in {path.name for path in made.updates}
    with pytest.raises(ConfigError, match="taken"):
        kits.add_party(out, "ward-b")
    with pytest.raises(ConfigError, match="no party or student"):
        kits.revoke(out, "ward-b")


def test_a_party_can_be_shut_out_even_if_too_few_are_left(tmp_path: Path) -> None:
    out = make_kits(tmp_path, **NOISY, minimum_parties=3)
    made = kits.revoke(out, "ward-b")
    assert "minimum_parties is 3" in made.note
    assert [path.name for path in made.updates] == ["coordinator.tar.gz"]
    brought = sorted(path.name for path in (out / "updates" / "0002" / "coordinator").iterdir())
    assert brought == ["nodes.json", MANIFEST]


def test_nothing_is_left_of_a_plan_that_is_wrong(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, collection="secure", colluders=2)
    with pytest.raises(ConfigError, match="roster"):
        kits.make(plan, tmp_path / "kits")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["federation.toml", "public.csv", "public.npz"]


def test_kits_are_never_overwritten(tmp_path: Path) -> None:
    out = make_kits(tmp_path)
    with pytest.raises(OutputExists):
        kits.make(tmp_path / "federation.toml", out)


SCHEMA = {"features": ["a", "b"], "center": [0.0, 1.0], "scale": [1.0, 2.0], "classes": ["no", "yes"]}


RELATIVE = {"rule": "relative", "reference": 30}


@pytest.mark.parametrize("votes", ["plaintext", "secure"])
def test_reference_rows_come_from_the_public_rows_and_stay_when_parties_come(tmp_path: Path, votes: str) -> None:
    out = make_kits(tmp_path, collection=votes, voting_rule=RELATIVE)
    config = load(out / "coordinator" / "federation.json", FederationConfig)
    rows = config.reference_rows()
    with np.load(tmp_path / "public.npz") as pool:
        asked = canonical_queries(pool["queries"], len(config.rows.features))
    public = PoolFile(tmp_path / "public.csv").load(config.rows).queries
    assert rows.shape == (30, len(config.rows.features))
    assert set(query_ids(rows)) <= set(query_ids(asked if votes == "secure" else public))
    for name in PARTIES:
        assert load_federation(out / f"party-{name}" / "federation.json").reference == config.reference
    kits.add_party(out, "ward-d")
    later = load_registry(out).federation()
    assert (later.reference, later.federation_digest()) == (config.reference, config.federation_digest())


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"rows": {"classes": ["no", "yes"]}}, ConfigError, "either public"),
        ({"rows": {"public": "absent.csv", "classes": ["no", "yes"]}}, PathError, "absent.csv"),
        ({"party": [{"name": "a"}, {"name": "a"}]}, ConfigError, "two parties have one name"),
        ({"minimum_parties": 4}, ConfigError, "minimum_parties 4"),
        ({**NOISY, "mechanism": {"name": "gnmax", "sigma": 1.5}}, ConfigError, "noise of sigma 1.5 in 3 shares"),
        ({"query_budget": {"queries": 1, "answers": 2}}, ConfigError, "answers 2 exceeds"),
        ({"voting_rule": RELATIVE, "rows": SCHEMA}, ConfigError, "relative.*needs public rows"),
    ],
)
def test_a_wrong_plan_is_named(tmp_path: Path, changes: dict, kind: type[ConsiliumError], said: str) -> None:
    plan = write_plan(tmp_path)
    plan.write_text(tomli_w.dumps(plan_table(**changes)))
    with pytest.raises(kind, match=said):
        kits.make(plan, tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["large-epsilon"]),
        (
            {
                "privacy": {"unit": "record", "delta": 1e-5},
                "mechanism": {"name": "confident", "threshold": 7, "sigma1": 80.0, "sigma2": 40.0},
            },
            ["little-information"],
        ),
    ],
)
def test_the_operator_is_warned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict, expected: list[str]
) -> None:
    plan = write_plan(tmp_path, **changes)
    assert [each.code.value for each in kits.make(plan, tmp_path / "kits").warnings] == expected
    done = CliRunner().invoke(cli.app, ["provision", str(plan), "--out", str(tmp_path / "more"), "--format", "json"])
    assert [each["code"] for each in json.loads(done.stdout)["warnings"]] == expected
    assert all(f"({code})" in done.stderr for code in expected)
