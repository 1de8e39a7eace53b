"""The coordinator's own keys change: after a handover the former operator may have those that it made.

Played is a former operator who has a copy of the coordinator's kit: before the new keys it can speak for the
coordinator (the control), after them it cannot.
"""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from pathlib import Path

import pytest

from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.runs import begin, to_serve
from consilium.coordinator.deploy.start import start
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node import keys as own_keys
from consilium.node.checks import hold
from consilium.node.kit import open_kit
from consilium.node.manifest import check_signed
from consilium.node.signed_statement import key_of_coordinator
from consilium.protocol.errors import ConfigError, FederationOpen
from consilium.protocol.identity import Identity, SealingKey
from consilium.sums.roster import load_roster
from tests.command_line import consilium
from tests.coordinator.provision.test_handover import greets, handed, joined, student
from tests.deploy.kits import NOISY, make_kits, plan_table, write_plan

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


def renew(out: Path, enrolment: Path) -> list[Path]:
    """The operator takes the keys, and every node its update, but for the keys themselves; the nodes' kits."""
    read_out = own_keys.read_enrolment(enrolment, NAME, NAME).fingerprint
    given = ("--keys", enrolment, "--lost", read_out, "--format", "json")
    done = consilium("provision", "renew", out, NAME, *given)
    assert done.exit_code == 0, done.stderr
    updates = [Path(path) for path in done.json()["updates"]]
    joined(out, updates)
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
        start(kit, lambda *_: None, threading.Event())
    assert "consilium node join" in refused.value.action
    found = {name: check for name, check in COORDINATOR.set_up(kit)}
    with pytest.raises(ConfigError) as said:
        found["certificate"]()
    assert said.value.action == refused.value.action  # not: unpack the kit again, which brings the old keys back
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


def test_keys_that_nobody_read_out_are_refused(out: Path) -> None:
    """Also where the old key signed them: a former operator has it."""
    enrolment, registry = new_keys(out, "--replaces", out / NAME), load_registry(out)
    for options in ((), ("--lost", "0000 1111")):
        done = consilium("provision", "renew", out, NAME, "--keys", enrolment, *options)
        assert done.exit_code == ConfigError.exit_code and "--lost" in done.stderr
    assert load_registry(out) == registry
    with pytest.raises(ConfigError, match="makes no keys") as refused:
        kits.renew(out, NAME, lost="0")
    assert "--keys" in refused.value.action


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


def test_lost_keys_and_keys_that_were_never_put_in(out: Path) -> None:
    first = new_keys(out)
    renew(out, first)
    (out / NAME / "identity.pem").unlink()
    shutil.move(first.parent, out.parent / "first")
    second = new_keys(out, "--replaces", out.parent / "first")
    update = kits.renew(out, NAME, second, own_keys.read_enrolment(second, NAME, NAME).fingerprint).updates
    mine = next(path for path in update if path.name == f"{NAME}.tar.gz")
    done = consilium("node", "join", mine, "--into", out / NAME, "--keys", second.parent)
    assert done.exit_code == 0, done.stderr
    hold(COORDINATOR.set_up(open_kit(out / NAME)), lambda *_: None)


@pytest.mark.parametrize("between", [True, False])
def test_only_new_keys_before_its_end_make_a_handover_whole(tmp_path: Path, between: bool) -> None:
    """Else the new authority certifies the key that the former operator has a copy of: the control."""
    out = make_kits(tmp_path, minimum_parties=2)
    stolen = Path(shutil.copytree(out / NAME, tmp_path / "stolen"))
    joined(out, handed(out))
    if between:
        enrolment = new_keys(out)
        renew(out, enrolment)
        put_in(out, enrolment)
    joined(out, handed(out, "--finish"))
    client = out / student(out)
    assert greets(out / NAME, client)
    (stolen / "ca.crt").write_bytes((out / NAME / "ca.crt").read_bytes())
    own = greets(stolen, client)
    (stolen / "server.crt").write_bytes((out / NAME / "server.crt").read_bytes())  # which is shown to anybody
    try:
        shown = greets(stolen, client)
    except ssl.SSLError:  # it is of another key
        shown = False
    assert not own and shown is not between


def test_an_open_federation_is_closed_before_its_coordinator_signs_with_another_key(tmp_path: Path) -> None:
    out = make_kits(tmp_path, minimum_parties=2, **NOISY)
    kit = open_kit(out / NAME)
    begin(kit)
    enrolment = new_keys(out)
    renew(out, enrolment)
    with pytest.raises(FederationOpen) as refused:
        to_serve(kit)
    assert "--go-on" not in str(refused.value) and "node close" in str(refused.value)
    done = consilium("node", "join", kit.folder, "--keys", enrolment.parent)
    assert done.exit_code == ConfigError.exit_code and "node close" in done.stderr
    done = consilium("node", "close", kit.folder)
    assert done.exit_code == 0, done.stderr
    put_in(out, enrolment)


def test_an_enrolment_that_is_a_partys_is_refused(tmp_path: Path) -> None:
    """As the program before this one makes it under that name."""
    path = tmp_path / "coordinator.enrol.json"
    own_keys.OwnKeys.generate("party").enrolment(NAME).save(path)
    with pytest.raises(ConfigError, match="no key to seal with"):
        own_keys.read_enrolment(path, NAME, NAME)


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
