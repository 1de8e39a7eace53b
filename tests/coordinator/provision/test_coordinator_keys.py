"""The coordinator's own keys change: after a handover the former operator may have those that it made.

Played is a former operator who has a copy of the coordinator's kit: before the new keys it can speak for the
coordinator (the control), after them it cannot.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node import keys as own_keys
from consilium.node.checks import hold
from consilium.node.kit import open_kit
from consilium.node.manifest import check_signed
from consilium.node.signed_statement import key_of_coordinator
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity, SealingKey
from consilium.sums.roster import load_roster
from tests.command_line import consilium
from tests.deploy.kits import NOISY, make_kits

NAME = "coordinator"
FORMS = {"plaintext": {}, "distributed": NOISY, "verified": {"collection": "verified"}}


@pytest.fixture(params=list(FORMS))
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Kits of three parties, whose coordinator has the keys that the operator made."""
    return make_kits(tmp_path, minimum_parties=2, **FORMS[request.param])


def new_keys(out: Path, *options: object) -> Path:
    """Made at the coordinator; the file for the operator."""
    folder = out.parent / "new"
    done = consilium("node", "keys", NAME, "--kind", NAME, "--out", folder, *options)
    assert done.exit_code == 0, done.stderr
    return own_keys.enrolment_file(NAME, folder)


def renew(out: Path, enrolment: Path, *options: str) -> list[Path]:
    """The operator takes the keys, and every node its update, but for the keys themselves; the nodes' kits."""
    done = consilium("provision", "renew", out, NAME, "--keys", enrolment, *options)
    assert done.exit_code == 0, done.stderr
    updates = sorted((out / "updates" / "0002").glob("*.tar.gz"))
    for update in updates:
        done = consilium("node", "join", update, "--into", out / update.name.removesuffix(".tar.gz"))
        assert done.exit_code == 0, done.stderr
    return [out / update.name.removesuffix(".tar.gz") for update in updates]


def put_in(out: Path, enrolment: Path) -> None:
    """At the coordinator."""
    done = consilium("node", "join", out / NAME, "--keys", enrolment.parent)
    assert done.exit_code == 0, done.stderr
    assert "consilium doctor" in done.stdout


def known(kit: Path) -> set[str]:
    """Keys of the coordinator by which a node knows it."""
    collection = (
        json.loads((kit / "federation.json").read_text())["collection"] if (kit / "federation.json").exists() else ""
    )
    roster = load_roster(collection, kit / "roster.json") if collection else None
    return {key_of_coordinator(kit), *([roster.coordinator_key.hex()] if roster else [])}


def test_every_node_knows_the_new_keys_and_the_former_operator_has_none_of_them(out: Path) -> None:
    stolen = Identity.load(out / NAME / "identity.pem").public.hex()
    members = [path for path in out.iterdir() if path.is_dir() and path.name not in (NAME, "operator", "updates")]
    assert len(members) >= 4 and all(known(kit) == {stolen} for kit in members)  # the control
    enrolment = new_keys(out, "--replaces", out / NAME)
    told = renew(out, enrolment)
    put_in(out, enrolment)
    assert {kit.name for kit in told} == {NAME, *(kit.name for kit in members)}
    new = Identity.load(out / NAME / "identity.pem").public.hex()
    assert new != stolen and all(known(kit) == {new} for kit in members)
    for kit in told:
        check_signed(open_kit(kit))
    registry = load_registry(out)
    assert stolen in registry.revoked_keys and registry.coordinator_identity == new


def test_the_coordinator_starts_with_the_new_keys_alone(out: Path) -> None:
    enrolment = new_keys(out, "--replaces", out / NAME)
    old = (out / NAME / "server.key").read_bytes()
    renew(out, enrolment)
    kit = open_kit(out / NAME)
    with pytest.raises(ConfigError, match=r"these are|holds no sealing") as refused:
        hold(COORDINATOR.set_up(kit), lambda *_: None)
    assert "consilium node join" in refused.value.action
    put_in(out, enrolment)
    hold(COORDINATOR.set_up(kit), lambda *_: None)
    hold(COORDINATOR.kit_checks(kit), lambda *_: None)
    key, _, _ = kit.server_tls.read()  # which holds it against the certificate
    assert key != old and (out / NAME / "server.key.replaced").read_bytes() == old
    assert (out / NAME / "server.key").stat().st_mode & 0o77 == 0
    sealing = load_registry(out).coordinator_sealing
    assert sealing in ("", SealingKey.load(out / NAME / "sealing.pem").public.hex())


def test_again_changes_nothing_and_a_second_change_is_another_one(out: Path) -> None:
    enrolment = new_keys(out, "--replaces", out / NAME)
    renew(out, enrolment)
    put_in(out, enrolment)
    first = Identity.load(out / NAME / "identity.pem").public
    put_in(out, enrolment)
    assert Identity.load(out / NAME / "identity.pem").public == first
    with pytest.raises(ConfigError, match="has the key of a node that was"):
        kits.renew(out, NAME, enrolment, own_keys.read_enrolment(enrolment, NAME, NAME).fingerprint)


def test_control_keys_that_the_coordinator_did_not_sign_are_refused(out: Path) -> None:
    enrolment, registry = new_keys(out), load_registry(out)
    for options in ((), ("--lost", "0000 1111")):
        done = consilium("provision", "renew", out, NAME, "--keys", enrolment, *options)
        assert done.exit_code == ConfigError.exit_code and "--lost" in done.stderr
    assert load_registry(out) == registry
    with pytest.raises(ConfigError, match="makes no keys"):
        kits.renew(out, NAME, lost="0")


def test_no_update_of_a_later_change_undoes_it(out: Path) -> None:
    enrolment = new_keys(out, "--replaces", out / NAME)
    renew(out, enrolment)
    put_in(out, enrolment)
    update = next(path for path in kits.renew(out, NAME).updates)  # a new certificate, for the new key
    done = consilium("node", "join", update, "--into", out / NAME)
    assert done.exit_code == 0, done.stderr
    kit = open_kit(out / NAME)
    check_signed(kit)
    hold(COORDINATOR.set_up(kit), lambda *_: None)


def test_the_name_is_the_coordinators_alone(tmp_path: Path) -> None:
    for kind, name in (("party", NAME), (NAME, "ward-a")):
        done = consilium("node", "keys", name, "--kind", kind, "--out", tmp_path / "keys")
        assert done.exit_code == ConfigError.exit_code and "only one" in done.stderr
    assert not (tmp_path / "keys").exists()
