"""Changes of membership, planned and shown first: what each hospital's epsilon, queries and rows become."""

from __future__ import annotations

import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from consilium.accounting.target import worst_case
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.outlook import outlook
from consilium.coordinator.provision.registry import load_registry
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, HelloRequest, Terms
from consilium.protocol.refusals import Refused, Rule
from tests.command_line import consilium
from tests.deploy.kits import NOISY, PARTIES, make_kits


@pytest.fixture(scope="module")
def secure(tmp_path_factory) -> Path:
    """Kits of a secure federation of three; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("secure"), collection="secure", minimum_parties=2)


def epsilon_of(config: FederationConfig, times: int) -> float:
    return worst_case([event for _ in range(times) for event in config.promised_events()], config.privacy.delta).epsilon


def hello(kit: Path) -> HelloReply:
    """What the party of a kit answers to its own terms."""
    home = open_home(kit)
    terms = home.pinned_terms()
    assert terms is not None
    fields = {"protocol_version": PROTOCOL_VERSION, "ledger": "0" * 64, "batch": 0, "head": "0" * 64, "program": ""}
    return PartyNode(home).hello(HelloRequest(**terms.model_dump(by_alias=False), **fields))


def answer_all(kit: Path) -> None:
    """Charge all queries that the kit's federation may ask."""
    home = open_home(kit)
    terms, count = home.pinned_terms(), home.policy.most_queries
    assert terms is not None
    hello(kit)
    ids = [f"{at:064x}" for at in range(count)]
    PartyNode(home).spend.charge(terms, "t", ids, home.policy)


def allow(kit: Path, **limits: float) -> None:
    """Set limits of the policy in policy.toml."""
    text = (kit / "policy.toml").read_text()
    for key, value in limits.items():
        text, count = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.MULTILINE)
        assert count == 1
    (kit / "policy.toml").write_text(text)


def test_adding_a_party_to_a_secure_federation_adds_a_promise_for_all_others(secure: Path) -> None:
    registry = load_registry(secure)
    shown = outlook(registry, add=["ward-d"], asked=30)
    config = registry.federation()
    assert shown.is_new
    assert shown.least == 3
    assert {party.name: party.federations for party in shown.parties} == {**dict.fromkeys(PARTIES, 2), "ward-d": 1}
    found = {party.name: (party.now, party.epsilon, party.most_queries) for party in shown.parties}
    once, twice = epsilon_of(config, 1), epsilon_of(config, 2)
    assert found == {**dict.fromkeys(PARTIES, (once, twice, 80)), "ward-d": (None, once, 40)}
    pool = config.public
    assert pool is not None
    assert shown.rows_open == pool.size
    text = "\n".join(shown.lines())
    assert "consilium node close" in text
    assert f"{pool.size} rows; all can be asked again, and are charged again" in text
    assert shown.alone == ("ward-d",)
    assert load_registry(secure) == registry  # nothing was made


def test_what_is_said_is_what_the_parties_ask(secure: Path, tmp_path: Path) -> None:
    """With just these limits a party enrols in the next federation, and a little tighter it refuses."""
    out = Path(shutil.copytree(secure, tmp_path / "kits"))
    kit = out / "party-ward-a"
    answer_all(kit)
    shown = kits.add_party(out, "ward-d").outlook
    assert shown is not None
    with tarfile.open(out / "updates" / "0002" / "party-ward-a.tar.gz") as archive:
        archive.extractall(kit, filter="data")
    told = next(party for party in shown.parties if party.name == "ward-a")
    with pytest.raises(Refused) as refused:
        hello(kit)  # nobody has agreed to anything yet
    assert refused.value.refusal.rule is Rule.MOST_QUERIES
    limits = {
        "most_epsilon": told.most_epsilon,
        "most_queries": told.most_queries,
        "least_parties": told.least_parties or 0,
    }
    allow(kit, **limits)
    assert hello(kit).party == "ward-a"
    tighter = {
        Rule.MOST_EPSILON: {"most_epsilon": told.epsilon * 0.98},
        Rule.MOST_QUERIES: {"most_queries": told.most_queries - 1},
        Rule.LEAST_PARTIES: {"least_parties": limits["least_parties"] + 1},
    }
    for rule, change in tighter.items():
        allow(kit, **{**limits, **change})
        with pytest.raises(Refused) as refused:
            hello(kit)
        assert refused.value.refusal.rule is rule


def test_changes_add_up(tmp_path: Path) -> None:
    out = make_kits(tmp_path, **NOISY, minimum_parties=2)
    kits.add_party(out, "ward-d")
    planned = outlook(load_registry(out), revoke=["ward-b"])
    made = kits.revoke(out, "ward-b").outlook
    assert made == planned
    assert {party.name: party.federations for party in planned.parties} == {"ward-a": 3, "ward-c": 3, "ward-d": 2}
    registry = load_registry(out)
    assert [sorted(each.parties) for each in registry.earlier] == [sorted(PARTIES), [*sorted(PARTIES), "ward-d"]]
    assert planned.rows_open is None
    assert replace(planned, pool=200).rows_open == 120  # by the query budgets of two federations


def test_a_federation_in_which_nothing_was_asked_costs_nobody_anything(tmp_path: Path) -> None:
    """As where a revocation and a new party come together: the federation between was never begun."""
    out = make_kits(tmp_path, **NOISY, minimum_parties=2)
    first = load_registry(out).federation()
    kits.revoke(out, "ward-b")
    between = load_registry(out).federation().digest()[:12]
    begun = {first.digest()[:12]: 24}
    shown = outlook(load_registry(out), add=["ward-d"], asked=begun)
    assert {party.name: party.federations for party in shown.parties} == {"ward-a": 2, "ward-c": 2, "ward-d": 1}
    assert {party.most_queries for party in shown.parties if party.name != "ward-d"} == {80}
    assert (shown.unasked, shown.asked) == ((between,), 24)
    assert f"not counted, as nothing was asked there: {between}" in "\n".join(shown.lines())
    known = outlook(load_registry(out), add=["ward-d"], asked={**begun, between: 5})
    unknown = outlook(load_registry(out), add=["ward-d"], asked=29)
    assert ["give --asked" in "\n".join(each.lines()) for each in (known, unknown)] == [False, True]
    registry = load_registry(out)
    made = kits.add_party(out, "ward-d", new_patients=True, asked=begun).outlook
    assert made is not None and made.parties == shown.parties
    control = outlook(registry, add=["ward-d"], asked=24)  # which, nobody says: each may have cost something
    assert {party.federations for party in control.parties} == {1, 3}
    assert {party.federations for party in outlook(registry, add=["ward-d"], asked=0).parties} == {1}
    with pytest.raises(ConfigError, match=f"no federation of these kits.*There are {first.digest()[:12]}, {between}"):
        outlook(registry, add=["ward-d"], asked={"0" * 12: 1})


def test_what_was_asked_is_no_word_for_the_account_that_is_taken_over(tmp_path: Path) -> None:
    """Whoever follows an earlier party is charged for all that may have been: the operator's word takes nothing off."""
    out = make_kits(tmp_path, **NOISY, minimum_parties=2)
    shutil.copytree(out, tmp_path / "control")
    for folder, asked in ((out, 0), (tmp_path / "control", None)):
        kits.revoke(folder, "ward-b", asked)
        kits.add_party(folder, "ward-d", succeeds=["ward-b"], asked=asked)
    told = [load_registry(folder).inheritance("ward-d").federations for folder in (out, tmp_path / "control")]
    assert told[0] == told[1] and len(told[0]) == 1


def test_the_same_parties_again_are_another_federation(secure: Path, tmp_path: Path) -> None:
    """The first one may be closed: a coordinator that took the second for it would serve nobody ever again."""
    out = Path(shutil.copytree(secure, tmp_path / "kits"))
    first = load_registry(out).federation()
    kits.add_party(out, "ward-d")
    made = kits.revoke(out, "ward-d")
    again = load_registry(out).federation()
    assert made.outlook is not None
    assert made.outlook.is_new
    assert (again.roster, again.federation_digest()) == (first.roster, first.federation_digest())
    assert again.digest() != first.digest()
    for update in made.updates:
        folder = update.with_name(update.name.removesuffix(".tar.gz"))
        held = load(folder / "federation.json", FederationConfig)
        assert held.digest() == again.digest()
        if folder.name != "coordinator":
            assert load(folder / "terms.json", Terms).federation == again.digest()
    assert first.model_dump(mode="json").get("edition") is None  # as it was before there were editions


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"revoke": ["ward-a", "ward-b"]}, "no federation is left"),
        ({"add": {"ward-d": 1}}, "a new federation"),
        ({"add": {"ward-d": 1}}, "ward-d: in no exact sum, since the roster has it in no block"),
        ({"revoke": ["ward-b"]}, "no federation is left: exact sums are over whole blocks"),
    ],
)
def test_what_cannot_be_is_said(secure: Path, changes: dict, said: str) -> None:
    """One block of three: without one of it there are no exact sums, and one that comes alone is in none."""
    assert said in "\n".join(outlook(load_registry(secure), **changes).lines())


def test_clear_votes_stay_one_federation(tmp_path: Path) -> None:
    out = make_kits(tmp_path)
    shown = outlook(load_registry(out), add=["ward-d"])
    assert not shown.is_new
    assert {party.federations for party in shown.parties} == {1}
    assert shown.steps() == []
    assert kits.add_party(out, "ward-d").outlook == shown
    assert load_registry(out).earlier == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--add", "ward-d", "--revoke", "ward-a"], 0, "change      revoke ward-a"),
        ([], 2, "no change is named"),
        (["--add", "ward-a"], 2, "taken"),
        (["--add", "a/b"], 2, "is no name"),
        (["--revoke", "ward-z"], 2, "no party or student 'ward-z'"),
        (["--add", "ward-d", "--asked", "24"], 0, "give --asked"),
        (["--add", "ward-d", "--asked", "0"], 0, "not counted"),
        (["--add", "ward-d", "--asked", "0123456789ab:24"], 2, "no federation of these kits"),
        (["--add", "ward-d", "--asked", "0123456789ab:x"], 2, "is no FEDERATION:ROWS"),
        (["--add", "ward-d", "--asked", "24", "--asked", "12"], 2, "is no FEDERATION:ROWS"),
    ],
)
def test_the_command(secure: Path, arguments: list[str], code: int, said: str) -> None:
    done = consilium("provision", "plan", secure, *arguments)
    assert (done.exit_code, said in done.output) == (code, True), done.output


def test_the_command_as_json_and_what_provisioning_says(secure: Path) -> None:
    told = consilium("provision", "plan", secure, "--add", "ward-d", "--format", "json").json()
    assert told["new_federation"] is True
    assert [party["name"] for party in told["parties"]] == [*PARTIES, "ward-d"]
    assert len(told["steps"]) == 4
