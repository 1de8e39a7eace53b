"""Keys change under one name, so that the account goes on: old and new sign, or operator and hospital together.

The control: keys that neither the old one signed nor a hospital read out are nobody's.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from consilium.aggregator.deployed import AGGREGATOR
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node import keys as own_keys
from consilium.node.kit import Kit, open_kit
from consilium.node.manifest import check_signed
from consilium.party.deployed import PARTY
from consilium.party.home import open_home
from consilium.party.spend import SpendStore
from consilium.protocol.errors import ConfigError
from consilium.sums.roster import Roster
from tests.command_line import consilium
from tests.coordinator.provision.test_outlook import answer_all
from tests.deploy.kits import NOISY, SECOND, make_kits

NAME = "ward-b"


@pytest.fixture(params=["plaintext", "distributed"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Kits of three parties, of which one has made its own keys, and has answered all that was asked."""
    changes = NOISY if request.param == "distributed" else {}
    out = make_kits(tmp_path, own=[NAME], minimum_parties=2, **changes)
    answer_all(out / f"party-{NAME}")
    return out


def new_keys(out: Path, *options: object) -> Path:
    """Made at the party; the file for the operator."""
    folder = out.parent / "new"
    done = consilium("node", "keys", NAME, "--out", folder, *options)
    assert done.exit_code == 0, done.stderr
    return own_keys.enrolment_file(NAME, folder)


def renewed(out: Path, enrolment: Path, *options: str) -> Kit:
    """The party's kit, once the operator took the keys and the party put them in."""
    done = consilium("provision", "renew", out, NAME, "--keys", enrolment, *options)
    assert done.exit_code == 0, done.stderr
    kit = out / f"party-{NAME}"
    update = out / "updates" / "0002" / f"party-{NAME}.tar.gz"
    done = consilium("node", "join", update, "--into", kit)
    assert done.exit_code == 0, done.stderr
    done = consilium("node", "join", kit, "--keys", enrolment.parent)
    assert done.exit_code == 0, done.stderr
    return open_kit(kit)


def listed(out: Path) -> str:
    """The key with which the party may connect, by the coordinator's update."""
    path = out / "updates" / "0002" / "coordinator" / "nodes.json"
    return json.loads(path.read_text())["nodes"][NAME]


def test_both_keys_sign_and_the_account_goes_on(out: Path) -> None:
    old = open_home(out / f"party-{NAME}").identity()
    spent = SpendStore(open_home(out / f"party-{NAME}").spend_file).answered()
    kit = renewed(out, new_keys(out, "--replaces", out.parent / f"keys-{NAME}"))
    home = open_home(kit.folder)
    assert home.identity().public != old.public
    assert SpendStore(home.spend_file).answered() == spent == 40
    check_signed(kit)
    prints = PARTY.fingerprints(kit)
    assert prints.made_here and listed(out) == PARTY.keys_of(kit).node
    registry = load_registry(out)
    assert old.public.hex() in registry.revoked_keys and NAME not in registry.revoked
    terms = home.pinned_terms()
    assert terms is not None
    if terms.collection != "plaintext":  # a new roster, and so a new federation, on the same account
        assert Roster.load(home.roster_file).keys[NAME] == home.identity().public.hex()
        assert SpendStore(home.spend_file).past(terms.federation).federations == 1
    assert (kit / "identity.pem.replaced").exists()


def test_keys_that_the_operator_made_give_way_to_a_partys_own(tmp_path: Path) -> None:
    out = make_kits(tmp_path, minimum_parties=2)
    kit = renewed(out, new_keys(out, "--replaces", out / f"party-{NAME}"))
    check_signed(kit)
    assert PARTY.fingerprints(kit).made_here


def test_keys_that_the_operator_made_give_way_to_a_second_aggregators_own(tmp_path: Path) -> None:
    """Which has one key more than a party."""
    out, new = make_kits(tmp_path, collection="verified"), tmp_path / "new"
    kit = open_kit(out / f"aggregator-{SECOND}")
    own_keys.make("aggregator", SECOND, new, kit.folder)
    kits.renew(out, SECOND, own_keys.enrolment_file(SECOND, new))
    update = out / "updates" / "0002" / f"{kit.folder.name}.tar.gz"
    for arguments in ((update, "--into", kit.folder), (kit.folder, "--keys", new)):
        done = consilium("node", "join", *arguments)
        assert done.exit_code == 0, done.stderr
    check_signed(kit)
    assert AGGREGATOR.fingerprints(kit).made_here


def test_lost_keys_are_replaced_by_operator_and_hospital_together(out: Path) -> None:
    enrolment = new_keys(out)
    kit = out / f"party-{NAME}"
    for name in ("identity.pem", "node.key"):
        (kit / name).unlink()
    fingerprint = own_keys.read_enrolment(enrolment, NAME).fingerprint
    renewed(out, enrolment, "--lost", fingerprint)
    assert SpendStore(open_home(kit).spend_file).answered() == 40


def test_control_keys_that_nobody_vouches_for_are_refused(out: Path) -> None:
    enrolment = new_keys(out)
    registry = load_registry(out)
    for options in ((), ("--lost", "0000 1111"), ("--lost", "")):
        done = consilium("provision", "renew", out, NAME, "--keys", enrolment, *options)
        assert done.exit_code == ConfigError.exit_code, options
        assert "--lost" in done.stderr
    assert load_registry(out) == registry


def test_another_partys_old_key_vouches_for_nothing(out: Path) -> None:
    enrolment = new_keys(out, "--replaces", out / "party-ward-a")
    done = consilium("provision", "renew", out, NAME, "--keys", enrolment)
    assert done.exit_code == ConfigError.exit_code and f"the key of {NAME!r} that is known did not sign" in done.stderr


def test_a_file_that_was_changed_on_its_way_is_refused(out: Path) -> None:
    enrolment = new_keys(out, "--replaces", out.parent / f"keys-{NAME}")
    table = json.loads(enrolment.read_text())
    other = own_keys.make("party", NAME, out.parent / "thief")
    for change in ({"replaces_signature": "0" * 128}, {"replaces": other.identity}):
        forged = out.parent / "forged.json"
        forged.write_text(json.dumps({**table, **change}))
        with pytest.raises(ConfigError, match="did not sign it"):
            kits.renew(out, NAME, forged)
    thief = json.loads(own_keys.enrolment_file(NAME, out.parent / "thief").read_text())
    names = ("replaces", "replaces_signature")  # a signature of the old key on other new ones
    forged.write_text(json.dumps({**thief, **{name: table[name] for name in names}}))
    with pytest.raises(ConfigError, match="did not sign it"):
        kits.renew(out, NAME, forged)


def test_an_old_key_is_never_enrolled_again(out: Path) -> None:
    renewed(out, new_keys(out, "--replaces", out.parent / f"keys-{NAME}"))
    shutil.rmtree(out.parent / "new")
    with pytest.raises(ConfigError, match="a node that was revoked"):
        kits.renew(out, NAME, out.parent / f"{NAME}.enrol.json", own_keys.read_enrolment(
            out.parent / f"{NAME}.enrol.json", NAME
        ).fingerprint)  # fmt: skip


def test_what_has_a_certificate_is_renewed_as_before(out: Path) -> None:
    with pytest.raises(ConfigError, match="Give --keys"):
        kits.renew(out, NAME)
    with pytest.raises(ConfigError, match="makes no keys"):
        kits.renew(out, "coordinator", lost="0")
    assert [path.parent.name for path in kits.renew(out, "coordinator").updates] == ["0002"]
