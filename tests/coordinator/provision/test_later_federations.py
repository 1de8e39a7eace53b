"""A change of membership makes another federation, which each party allows anew: what it gave before counts."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest

from consilium.accounting.target import worst_case
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.node.limits import events_of
from consilium.party.home import open_home
from consilium.protocol.config_files import load
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, HelloRequest, Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.terms import NO_LEDGER
from tests.deploy.kits import make_kits
from tests.federation import UNTOLD, node_at


@pytest.fixture(scope="module")
def secure(tmp_path_factory) -> Path:
    """Kits of a secure federation of three; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("secure"), collection="secure", minimum_parties=2)


def epsilon_of(config: FederationConfig, times: int) -> float:
    return worst_case(events_of(config.terms().promise) * times, config.privacy.delta).epsilon


def hello(kit: Path) -> HelloReply:
    """What the party of a kit answers to its own terms."""
    home = open_home(kit)
    terms = home.pinned_terms()
    assert terms is not None
    fields = {"protocol_version": PROTOCOL_VERSION, "ledger": "0" * 64, "batch": 0, "head": "0" * 64, **UNTOLD}
    return node_at(home).hello(HelloRequest(**terms.model_dump(by_alias=False), **fields))


def answer_all(kit: Path) -> None:
    """Charge all queries that the kit's federation may ask."""
    hello(kit)
    node = node_at(kit)
    policy, pinned = node.settings.policy, node.settings.pinned
    assert pinned is not None
    ids = [f"{at:064x}" for at in range(policy.most_queries)]
    node.account.charge(node.agreed(pinned.federation), "t", ids, policy, 1, NO_LEDGER)


def allow(kit: Path, **limits: float) -> None:
    """Set limits of the policy in policy.toml."""
    text = (kit / "policy.toml").read_text()
    for key, value in limits.items():
        text, count = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.MULTILINE)
        assert count == 1
    (kit / "policy.toml").write_text(text)


def test_a_party_allows_a_second_federation_only_with_the_first(secure: Path, tmp_path: Path) -> None:
    """With just these limits a party enrols in the next federation, and a little tighter it refuses."""
    out = Path(shutil.copytree(secure, tmp_path / "kits"))
    kit = out / "party-ward-a"
    answer_all(kit)
    kits.add_party(out, "ward-d")
    registry = load_registry(out)
    twice, roster = epsilon_of(registry.federation(), 2), registry.roster()
    assert roster is not None
    with tarfile.open(out / "updates" / "0002" / "party-ward-a.tar.gz") as archive:
        archive.extractall(kit)
    with pytest.raises(Refused) as refused:
        hello(kit)  # nobody has agreed to anything yet
    assert refused.value.refusal.rule is Rule.MOST_QUERIES
    limits = {"most_epsilon": 1.01 * twice, "most_queries": 80, "least_parties": roster.least - roster.c}
    allow(kit, **limits)
    assert hello(kit).party == "ward-a"
    tighter = {
        Rule.MOST_EPSILON: {"most_epsilon": 0.98 * twice},
        Rule.MOST_QUERIES: {"most_queries": 79},
        Rule.LEAST_PARTIES: {"least_parties": limits["least_parties"] + 1},
    }
    for rule, change in tighter.items():
        allow(kit, **{**limits, **change})
        with pytest.raises(Refused) as refused:
            hello(kit)
        assert refused.value.refusal.rule is rule


def test_the_same_parties_again_are_another_federation(secure: Path, tmp_path: Path) -> None:
    """The first one may be closed: a coordinator that took the second for it would serve nobody ever again."""
    out = Path(shutil.copytree(secure, tmp_path / "kits"))
    first = load_registry(out).federation()
    kits.add_party(out, "ward-d")
    made = kits.revoke(out, "ward-d")
    again = load_registry(out).federation()
    assert (again.roster, again.federation_digest()) == (first.roster, first.federation_digest())
    assert again.digest() != first.digest()
    for update in made.updates:
        folder = update.with_name(update.name.removesuffix(".tar.gz"))
        held = load(folder / "federation.json", FederationConfig)
        assert held.digest() == again.digest()
        if folder.name != "coordinator":
            assert load(folder / "terms.json", Terms).federation == again.digest()
