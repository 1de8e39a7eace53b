"""The coordinator makes its own keys: then the operator has none of them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.start import start
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node import keys as own_keys
from consilium.node.checks import hold
from consilium.node.kit import open_kit
from consilium.protocol.errors import ConfigError, OutputExists
from consilium.protocol.identity import Identity, SealingKey
from consilium.sums.modes import load_roster
from tests.command_line import consilium
from tests.deploy.kits import plan_table, write_plan

NAME = "coordinator"
FORMS = {"plaintext": {}, "verified": {"collection": "verified"}}


def made_with(folder: Path, enrolment: Path, **changes: object) -> Path:
    """Kits of a plan that names the coordinator's enrolment."""
    table = plan_table(**changes)
    table["coordinator"]["keys"] = str(enrolment)
    return consilium_made(write_plan(folder, **table), folder / "kits")


def consilium_made(plan: Path, out: Path) -> Path:
    done = consilium("provision", plan, "--out", out)
    assert done.exit_code == 0, done.stderr
    return out


@pytest.fixture(params=list(FORMS))
def own(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """Kits of three parties, whose coordinator made its own keys, and the folder with these."""
    folder = tmp_path / "own"
    done = consilium("node", "keys", NAME, "--kind", NAME, "--out", folder)
    assert done.exit_code == 0, done.stderr
    return made_with(tmp_path, own_keys.enrolment_file(NAME, folder), minimum_parties=2, **FORMS[request.param]), folder


def test_the_coordinator_starts_with_its_own_keys_alone(own: tuple[Path, Path]) -> None:
    out, folder = own
    kit = open_kit(out / NAME)
    assert not {"identity.pem", "server.key", "sealing.pem"} & {path.name for path in kit.folder.iterdir()}
    with pytest.raises(ConfigError, match="made its own keys") as refused:
        start(kit, lambda *_: None, threading.Event())
    assert "consilium node join" in refused.value.action
    for _ in range(2):  # again changes nothing
        done = consilium("node", "join", kit.folder, "--keys", folder)
        assert done.exit_code == 0, done.stderr
        assert "consilium doctor" in done.stdout
    hold(COORDINATOR.set_up(kit), lambda *_: None)
    hold(COORDINATOR.kit_checks(kit), lambda *_: None)
    kit.server_tls.read()  # which holds the key against the certificate
    registry, public = load_registry(out), Identity.load(kit / "identity.pem").public.hex()
    roster = load_roster(registry.plan.federation.collection, kit / "roster.json")
    assert registry.coordinator_identity == public
    assert roster is None or roster.coordinator_key.hex() == public
    assert registry.coordinator_sealing in ("", SealingKey.load(kit / "sealing.pem").public.hex())


def test_other_keys_are_not_put_in_or_over_these(own: tuple[Path, Path], tmp_path: Path) -> None:
    out, folder = own
    other = tmp_path / "other"
    own_keys.make(NAME, NAME, other)
    done = consilium("node", "join", out / NAME, "--keys", other)
    assert done.exit_code == ConfigError.exit_code and "do not take part" in done.stderr
    (out / NAME / "identity.pem").write_bytes((other / "identity.pem").read_bytes())
    done = consilium("node", "join", out / NAME, "--keys", folder)
    assert done.exit_code == OutputExists.exit_code and "identity.pem is already there" in done.stderr


def test_no_other_node_has_its_name(tmp_path: Path) -> None:
    for what in ("party", "student", "aggregator"):
        plan = plan_table(collection="verified")
        node = plan[what] if what == "aggregator" else plan[what][0]
        node["name"] = NAME
        with pytest.raises(ConfigError, match="is the coordinator's name"):
            kits.make(write_plan(tmp_path, **plan), tmp_path / "kits")


def test_the_name_is_the_coordinators_alone(tmp_path: Path) -> None:
    for kind, name in (("party", NAME), (NAME, "ward-a")):
        done = consilium("node", "keys", name, "--kind", kind, "--out", tmp_path / "keys")
        assert done.exit_code == ConfigError.exit_code and "only one" in done.stderr
    assert not (tmp_path / "keys").exists()
