"""The kit of the second aggregator: made, refused, changed, its own keys, and what doctors say of it."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from consilium import cli
from consilium.aggregator.deployed import AGGREGATOR
from consilium.aggregator.home import open_home
from consilium.aggregator.policy import check_terms
from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.provision import kits
from consilium.coordinator.provision.registry import load_registry
from consilium.coordinator.rosters import NodesFile, RegisteredNodes
from consilium.node import keys as own_keys
from consilium.node.checks import CheckResult, examine
from consilium.node.keys import OwnKeys, read_enrolment
from consilium.node.kit import open_kit
from consilium.node.manifest import check_signed
from consilium.party.deployed import PARTY
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.identity import Identity
from consilium.sums.roster import VerifiedRoster, least_sum
from tests.deploy.kits import PARTIES, SECOND, accept_all, accept_kit, make_kits, plan_table, write_plan

KIT = f"aggregator-{SECOND}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kits of verified votes, all keys of which the operator made; not to be changed."""
    return make_kits(tmp_path_factory.mktemp("second"), collection="verified", minimum_parties=3)


@pytest.fixture(scope="module")
def own_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a second aggregator that made its own; beside them its folder of keys."""
    return make_kits(tmp_path_factory.mktemp("own"), own=[SECOND], collection="verified", minimum_parties=3)


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "kits"))


@pytest.fixture
def own(own_made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(own_made.parent, tmp_path / "copy")) / "kits"


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def findings(kit: Path) -> dict[str, CheckResult]:
    """Of the kit's doctor, without what needs a coordinator."""
    module: Any = {"aggregator": AGGREGATOR, "party": PARTY, "coordinator": COORDINATOR}[open_kit(kit).kind]
    return {found.name: found for found in examine(module.checks(open_kit(kit), False)) if found.name != "coordinator"}


def test_its_kit_is_all_that_it_needs_and_nothing_of_another(made: Path) -> None:
    kit = open_kit(made / KIT, "aggregator")
    assert check_signed(kit) is not None
    assert {"aggregator.toml", "terms.json", "roster.json", "sealing.pem", "consilium-aggregator.service"} <= {
        path.name for path in kit.folder.iterdir()
    }
    home = open_home(kit.folder)
    roster, terms = home.roster(), home.pinned_terms()
    assert terms is not None and terms.roster == roster.digest
    check_terms(home.policy, terms, roster, [])
    registry = load_registry(made)
    assert registry.aggregator is not None
    assert registry.aggregator.made_by == "operator"
    assert home.policy.most_queries == registry.federation().query_budget.queries
    assert roster.least == least_sum(roster.n, 0)
    coordinator = OwnKeys.load("aggregator", made / KIT)
    assert (roster.helper.ed25519_pk, roster.helper.x25519_pk) == (coordinator.identity, coordinator.sealing)
    assert roster.leader.ed25519_pk == Identity.load(made / "coordinator" / "identity.pem").public.hex()
    with tarfile.open(made / f"{KIT}.tar.gz") as archive:
        assert f"{KIT}/sealing.pem" in archive.getnames()
    secret = (made / KIT / "sealing.pem").read_bytes()
    assert not [
        path for path in made.glob("*/*") if path.parent.name != KIT and path.is_file() and path.read_bytes() == secret
    ]


def test_the_coordinator_lets_it_in_and_awaits_parties_only(out: Path) -> None:
    nodes = load(out / "coordinator" / "nodes.json", NodesFile)
    assert sorted(nodes.nodes) == sorted(PARTIES)
    assert list(nodes.aggregators) == [SECOND]
    state = out / "coordinator" / "state"
    state.mkdir()
    ids = {key: number for number, key in enumerate(nodes.all.values(), 1)}
    (state / "registered.json").write_text(json.dumps({"nodes": ids}))
    known = RegisteredNodes(out / "coordinator")
    assert set(known.names()) == set(PARTIES)
    assert known.name(ids[nodes.aggregators[SECOND]]) == f"aggregator {SECOND}"
    assert {known.name(ids[nodes.nodes[name]]) for name in PARTIES} == set(PARTIES)


def plan_of(folder: Path, **changes: Any) -> Path:
    table = plan_table(**{"collection": "verified", "minimum_parties": 3, **changes})
    return write_plan(folder, **{key: value for key, value in table.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"collection": "secure", "aggregator": {"name": SECOND}}, "secure votes have no second aggregator: remove"),
        ({"aggregator": {"name": PARTIES[0]}}, "name of another node"),
        ({"aggregator": {"name": SECOND, "keys": "nobody.enrol.json"}}, "nobody.enrol.json"),
        ({"least_survivors": 1}, "least_survivors"),
        ({"colluders": 2, "minimum_parties": 2}, "least"),
    ],
)
def test_a_wrong_plan_says_what_to_do(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConsiliumError, match=said):
        kits.make(plan_of(tmp_path, **changes), tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_verified_votes_without_a_second_aggregator_are_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    text = plan.read_text()
    start_of, end = text.index("[aggregator]"), text.find("\n[", text.index("[aggregator]"))
    plan.write_text(text[:start_of] + (text[end:] if end > 0 else ""))
    with pytest.raises(ConfigError, match=r"needs a second aggregator: add the table \[aggregator\]"):
        kits.make(plan, tmp_path / "kits")


# keys of its own


def test_from_its_keys_to_the_operator_and_back(tmp_path: Path) -> None:
    keys, out = tmp_path / "keys", tmp_path / "kits"
    said = run("node", "keys", "--kind", "aggregator", SECOND, "--out", keys)
    fingerprint = next(line for line in said.splitlines() if line.startswith("fingerprint")).split(maxsplit=1)[1]
    assert {path.name for path in keys.iterdir()} == {
        "identity.pem", "node.key", "node.pub", "sealing.pem", f"{SECOND}.enrol.json",
    }  # fmt: skip
    plan = plan_of(tmp_path, aggregator={"name": SECOND, "keys": f"keys/{SECOND}.enrol.json"})
    assert fingerprint in run("provision", plan, "--out", out)
    kit = out / KIT
    assert not {"identity.pem", "node.key", "sealing.pem"} & {path.name for path in kit.iterdir()}
    with pytest.raises(ConfigError, match=r"no identity.pem and no node.key and no sealing.pem.*node join"):
        AGGREGATOR.start(open_kit(kit), lambda *_: None, stop=None)  # type: ignore[arg-type]
    assert findings(kit)["own keys"].level == "wrong"
    run("node", "join", kit, "--keys", keys)
    run("node", "join", kit, "--keys", keys)
    accept_all(out)
    told, of_party = run("node", "fingerprint", kit), run("node", "fingerprint", out / "party-ward-a")
    assert "made by this aggregator" in told
    assert fingerprint in told
    shown = next(line for line in told.splitlines() if line.startswith("in rosters")).split(maxsplit=2)[2]
    assert f"aggregator   {shown}" in of_party
    levels = {name: found.level for name, found in findings(kit).items()}
    assert set(levels.values()) == {"ok"}, levels
    for name in ("coordinator", "party-ward-a"):
        assert shown in findings(out / name)["second"].what


@pytest.mark.parametrize("kit", ["coordinator", "party-ward-a"])
def test_a_doctor_warns_where_the_operator_made_both_keys(made: Path, own: Path, kit: str) -> None:
    found = findings(made / kit)["second"]
    assert found.level == "advice"
    assert "the operator made its keys: with the coordinator's it could open every vote" in found.what
    assert "consilium node keys --kind aggregator" in found.action
    assert findings(own / kit)["second"].level == "ok"
    assert findings(made / KIT)["own keys"].level == "advice"
    assert findings(own / KIT)["own keys"].level == "ok"


def test_other_keys_than_the_roster_has_are_refused(own: Path, tmp_path: Path) -> None:
    kit = open_kit(own / KIT)
    with pytest.raises(ConfigError, match="the kit lists keys"):
        own_keys.make("aggregator", SECOND, tmp_path / "others")
        AGGREGATOR.join(kit, tmp_path / "others")
    others = own_keys.make("aggregator", SECOND, tmp_path / "again")
    others.save(kit / "enrolment.json")  # an operator who lists them, and a roster that does not
    with pytest.raises(ConfigError, match="the roster has other keys"):
        AGGREGATOR.join(kit, tmp_path / "again")
    shutil.copy(own.parent / f"keys-{SECOND}" / f"{SECOND}.enrol.json", kit / "enrolment.json")
    AGGREGATOR.join(kit, own.parent / f"keys-{SECOND}")
    (kit / "sealing.pem").unlink()
    OwnKeys.generate("aggregator").keys["sealing.pem"].save(kit / "sealing.pem")
    assert {findings(kit.folder)[name].level for name in ("own keys", "policy", "roster")} == {"wrong"}
    (kit / "sealing.pem").unlink()
    AGGREGATOR.join(kit, own.parent / f"keys-{SECOND}")
    assert findings(kit.folder)["own keys"].level == "ok"


def test_an_aggregators_enrolment_is_no_partys(tmp_path: Path) -> None:
    own_keys.make("aggregator", SECOND, tmp_path / "keys")
    with pytest.raises(ConfigError, match="enrols an aggregator, not a party"):
        read_enrolment(tmp_path / "keys" / f"{SECOND}.enrol.json", SECOND)
    made = own_keys.make("party", "ward-a", tmp_path / "party")
    assert "sealing" not in (tmp_path / "party" / "ward-a.enrol.json").read_text()  # as earlier versions wrote it
    assert read_enrolment(tmp_path / "party" / "ward-a.enrol.json", "ward-a") == made


# changes


def test_a_new_party_changes_its_roster_and_terms_too(out: Path) -> None:
    made = kits.add_party(out, "ward-d")
    nodes = {path.name.removesuffix(".tar.gz") for path in made.updates}
    assert nodes == {"coordinator", KIT, *(f"party-{name}" for name in PARTIES)}
    run("node", "join", out / "updates" / "0002" / f"{KIT}.tar.gz", "--into", out / KIT)
    home = open_home(out / KIT)
    terms = home.pinned_terms()
    assert terms is not None and home.roster().digest == terms.roster == load_registry(out).federation().roster
    assert home.roster().n == 4
    assert findings(out / KIT)["roster"].level == "ok"
    assert VerifiedRoster.load(out / "party-ward-d" / "roster.json") == home.roster()


def test_it_is_shut_out_and_another_takes_its_place(out: Path, tmp_path: Path) -> None:
    before = load_registry(out)
    gone = kits.revoke(out, SECOND)
    assert [path.name for path in gone.updates] == ["coordinator.tar.gz"]
    assert "no second aggregator any more" in gone.note
    nodes = load(out / "updates" / "0002" / "coordinator" / "nodes.json", NodesFile)
    assert nodes.aggregators == {}
    run("node", "join", out / "updates" / "0002" / "coordinator.tar.gz", "--into", out / "coordinator")
    found = findings(out / "coordinator")["second"]
    assert (found.level, "no second aggregator" in found.what) == ("wrong", True)
    with pytest.raises(ConfigError, match="taken, or was by a revoked node"):
        kits.add_aggregator(out, SECOND)
    own_keys.make("aggregator", "registry", tmp_path / "keys")
    said = run(
        "provision", "add", "--kind", "aggregator", out, "registry", "--keys", tmp_path / "keys" / "registry.enrol.json"
    )
    assert "party-ward-a" in said
    after = load_registry(out)
    assert after.federation().digest() != before.federation().digest()
    AGGREGATOR.join(open_kit(out / "aggregator-registry"), tmp_path / "keys")
    accept_kit(out / "aggregator-registry")
    assert findings(out / "aggregator-registry")["roster"].level == "ok"
    with pytest.raises(ConfigError, match="the second aggregator is registry"):
        kits.add_aggregator(out, "third")


# at the node
