"""The account follows the patients: a hospital that comes back under a new name begins with what its rows have cost.

The control is the advice of before, a new name and nothing else: the same rows begin at nothing, and nobody is asked.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node.kit import open_kit
from consilium.node.manifest import check_signed
from consilium.party.account import Account
from consilium.party.home import open_home
from consilium.protocol.errors import ConfigError
from consilium.protocol.inheritance import ACCOUNT_FILE, Inheritance
from consilium.protocol.refusals import Refused, Rule
from tests.command_line import consilium
from tests.coordinator.provision.test_later_federations import allow, answer_all, hello
from tests.deploy.kits import NOISY, accept_kit, make_kits, request_of_kit

OLD, NEW = "ward-a", "ward-a-again"


@pytest.fixture(scope="module")
def revoked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits of three parties, all of whose questions were answered; then one lost its keys, and was revoked."""
    out = make_kits(tmp_path_factory.mktemp("revoked"), **NOISY, minimum_parties=2)
    answer_all(out / f"party-{OLD}")
    kits.revoke(out, OLD)
    return out


@pytest.fixture
def out(revoked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(revoked, tmp_path / "kits"))


def come_back(out: Path, *options: str) -> Path:
    """The new name's kit, whose people accept what is asked."""
    done = consilium("provision", "add", out, NEW, *options)
    assert done.exit_code == 0, done.stderr
    kit = out / f"party-{NEW}"
    accept_kit(kit)
    return kit


def spent(kit: Path) -> tuple[int, int]:
    """Other federations that count at a party, and all queries that it has answered."""
    home = open_home(kit)
    terms = home.pinned_terms()
    assert terms is not None
    account = Account(home.remembered())
    return len(account.past(terms.federation).promises), account.store.answered()


def asked(kit: Path) -> float:
    """The epsilon over all federations that acceptance asks for."""
    return next(line.value for line in request_of_kit(kit).lines if line.key == "most_epsilon")


def test_a_new_name_takes_the_account_of_the_old_one_along(out: Path) -> None:
    once = asked(out / "party-ward-b")
    kit = come_back(out, "--succeeds", OLD)
    assert spent(kit) == (1, 40)
    assert asked(kit) > once
    page = consilium("node", "accept", kit, "--print").stdout
    assert f"names before**: {OLD}" in page and "earlier federations**: 1; 40 questions answered, epsilon" in page
    hello(kit)
    allow(kit, most_epsilon=once)
    with pytest.raises(Refused) as caught:
        hello(kit)
    assert caught.value.refusal.rule is Rule.MOST_EPSILON


def test_control_a_new_name_alone_begins_at_nothing(out: Path) -> None:
    """As the advice was after a loss of keys or state."""
    once = asked(out / "party-ward-b")
    kit = come_back(out, "--new-patients")
    (kit / ACCOUNT_FILE).unlink()
    assert spent(kit) == (0, 0)
    assert asked(kit) == once
    allow(kit, most_epsilon=once)
    hello(kit)


def test_nobody_comes_after_a_loss_without_being_asked_whose_rows_these_are(out: Path) -> None:
    done = consilium("provision", "add", out, NEW)
    assert done.exit_code == ConfigError.exit_code
    assert f"{OLD} left this federation: are patients of '{NEW}' among theirs?" in done.stderr
    assert "--succeeds NAME" in done.stderr and not (out / f"party-{NEW}").exists()
    with pytest.raises(ConfigError, match="is no party that left"):
        kits.add_party(out, NEW, succeeds=["ward-b"])


def test_and_the_hospital_says_yes_to_it_itself(out: Path) -> None:
    kits.add_party(out, NEW, new_patients=True)
    kit = out / f"party-{NEW}"
    (line,) = [line for line in request_of_kit(kit).looser if line.key == "new_patients"]
    assert line.value == (OLD,) and f"no row here is of a patient of {OLD}" in line.risk
    others = [word for line in request_of_kit(kit).looser if line.key != "new_patients" for word in ("--yes", line.key)]
    done = consilium("node", "accept", kit, *others)
    assert done.exit_code != 0 and "new_patients is not named" in done.stderr
    done = consilium("node", "accept", kit, *others, "--yes", "new_patients")
    assert done.exit_code == 0, done.stderr
    assert [line.key for line in request_of_kit(kit).looser] == []


def test_the_account_outlives_the_state_and_cannot_be_taken_out_of_the_kit(out: Path) -> None:
    kit = come_back(out, "--succeeds", OLD)
    hello(kit)
    (kit / "state" / "party.db").unlink()
    assert spent(kit) == (1, 40)
    for spoil in (
        lambda: (kit / ACCOUNT_FILE).write_text(Inheritance().model_dump_json()),
        (kit / ACCOUNT_FILE).unlink,
    ):
        spoil()
        with pytest.raises(ConfigError, match=ACCOUNT_FILE):
            check_signed(open_kit(kit))


def test_it_goes_on_to_a_third_name_and_counts_once(out: Path) -> None:
    kits.add_party(out, NEW, succeeds=[OLD])
    kits.revoke(out, NEW)
    kits.add_party(out, "third", succeeds=[NEW])
    registry = load_registry(out)
    assert registry.names_of("third") == ["third", NEW, OLD]
    found = json.loads((out / "party-third" / ACCOUNT_FILE).read_text())
    assert found["succeeds"] == [NEW, OLD]
    digests = [each["federation"] for each in found["federations"]]
    assert len(digests) == len(set(digests)) == 2
    assert registry.former == []


def test_plaintext_votes_are_the_same_federation_still(tmp_path: Path) -> None:
    out = make_kits(tmp_path, minimum_parties=2)
    kits.revoke(out, OLD)
    kits.add_party(out, NEW, succeeds=[OLD])
    inheritance = open_home(out / f"party-{NEW}").inheritance()
    assert (inheritance.succeeds, inheritance.federations) == ((OLD,), ()), "one promise covers both names"
