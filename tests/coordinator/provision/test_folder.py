"""The operator's folder: what is in it, what a plan may not say, who comes and goes; changes are whole or nothing."""

from __future__ import annotations

import functools
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from consilium.coordinator.privacy import promised, towards_coordinator
from consilium.coordinator.provision import folder
from consilium.coordinator.provision.folder import add, provision, revoke
from consilium.node.folder import open_folder
from consilium.node.keys import OwnKeys, public_key
from consilium.node.signed import join
from consilium.protocol.errors import ConfigError
from consilium.protocol.tls import load_certificate
from consilium.report.disclosure import epsilon_text
from tests.command_line import consilium
from tests.coordinator.provision.desk import (
    ENDS,
    HIDDEN,
    NODES,
    PARTIES,
    SECOND,
    STUDENT,
    enrol,
    made,
    plan_table,
    read,
    verified,
    write_plan,
)  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a federation with hidden votes; not to be changed."""
    return made(tmp_path_factory.mktemp("hidden"), **HIDDEN).parent


@pytest.fixture(scope="module")
def plain_desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("plain")).parent


@pytest.fixture
def out(desk: Path, tmp_path: Path) -> Path:
    """Votes under masks."""
    return Path(shutil.copytree(desk, tmp_path / "copy")) / "out"


@pytest.fixture
def plain(plain_desk: Path, tmp_path: Path) -> Path:
    """Votes in plaintext."""
    return Path(shutil.copytree(plain_desk, tmp_path / "plain")) / "out"


def pem(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


def names_of(certificate: x509.Certificate) -> set[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in found}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_all_nodes_join_one_folder_without_a_secret(desk: Path, out: Path) -> None:
    signed = {"ca.crt", "federation.json", "policy.toml", "signed.json"}
    assert {path.name for path in (out / "federation").iterdir()} == signed
    assert {path.name for path in (out / "operator").iterdir()} == {"ca.crt", "ca.key", "lock"}
    for path, mode in (("", 0o700), ("operator", 0o700), ("operator/ca.key", 0o600)):
        assert stat.S_IMODE((out / path).stat().st_mode) == mode
    file = read(out)
    for name, kind in NODES.items():
        node = open_folder(shutil.copytree(desk / name, out.parent / "at" / name))
        join(out / "federation", node)
        assert (file.nodes[name].kind, file.nodes[name]) == (kind, OwnKeys.load(node).public)
    roster = file.sum_roster()
    assert roster is not None and [*roster.places] == [*PARTIES]
    assert file.terms == file.config.terms() and file.terms.roster == roster.digest


def test_certificates_are_for_their_node_and_purpose_until_a_year_after_the_end(out: Path) -> None:
    file, authority = read(out), load_certificate(out / "operator" / "ca.crt")
    server, client = pem(file.certificates["coordinator"]), pem(file.certificates[STUDENT])
    assert set(file.certificates) == {"coordinator", STUDENT}
    assert names_of(server) == {"coordinator.example.org", "192.0.2.10", "localhost", "127.0.0.1"}
    for name, certificate, purpose in (
        ("coordinator", server, ExtendedKeyUsageOID.SERVER_AUTH),
        (STUDENT, client, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        certificate.verify_directly_issued_by(authority)
        assert certificate.public_key() == public_key(file.nodes[name].key)
        assert [*certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value] == [purpose]
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    ends = {certificate.not_valid_after_utc for certificate in (authority, server, client)}
    assert [end.date() - ENDS for end in ends] == [timedelta(days=366)]
    assert server.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=5)


def enrolments(*names: str, **changes: Any) -> dict[str, Any]:
    return plan_table(enrolments=[f"{name}/{name}.enrol.json" for name in names], **changes)


CHECKED = HIDDEN | {"collection": "verified"}
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no end": ({key: value for key, value in plan_table().items() if key != "ends"}, "ends: is required"),
    "an end in quotes": (plan_table(ends="2035-06-30"), "ends: must be a day, such as 2028-06-30 without quotes"),
    "an end that is past": (plan_table(ends=datetime(2020, 1, 1).date()), "ends: must be from today"),
    "an end that no certificate has": (plan_table(ends=datetime(9999, 1, 1).date()), "ends: must be from today"),
    "no coordinator": (enrolments(*PARTIES, STUDENT), "enrolments name no coordinator"),
    "one twice": (enrolments(*NODES, "ward-a"), "two are of 'ward-a'"),
    "an enrolment that did not come": (enrolments(*NODES, "ward-z"), "ward-z.enrol.json: No such file"),
    "too few parties": (plan_table(minimum_parties=4), "3 parties, minimum_parties is 4"),
    "a threshold that no votes reach": (
        plan_table(mechanism={"name": "confident", "threshold": 13, "sigma1": 3.0, "sigma2": 3.0}),
        "threshold 13 is above the 12 votes",
    ),
    "a wrong unit, and no noise, which the epsilon decides": (
        plan_table(mechanism={"name": "histogram"}, privacy={"unit": "person", "delta": 1e-5, "epsilon": 1.0}),
        "toml: federation.privacy.unit: must be",
    ),
    "no second aggregator": (plan_table(**CHECKED), "no second aggregator"),
    "one where votes have none": (enrolments(*NODES, SECOND), "plaintext votes have none"),
    "two of them": (
        enrolments(*NODES, SECOND, "third", **CHECKED),
        "third is a second aggregator too many: verified votes have one",
    ),
    "noise that does not fit into the sums": (
        enrolments(*NODES, SECOND, **CHECKED | {"mechanism": {"name": "gnmax", "sigma": 1e5}}),
        "verified sums of 3 parties may reach",
    ),
    "limits, which nodes' people say": (plan_table(policy={"most_epsilon": 1.0}), "policy: unknown key"),
    "too many colluders": (plan_table(**HIDDEN, colluders=2), "least"),
    "no public rows": (plan_table(rows={"features": ["a"], "classes": ["n", "y"]}), "rows"),
}


@pytest.mark.parametrize(("table", "said"), FAULTS.values(), ids=FAULTS.keys())
def test_a_wrong_plan_is_named_and_leaves_nothing(desk: Path, tmp_path: Path, table: dict[str, Any], said: str) -> None:
    for name in NODES:
        shutil.copytree(desk / name, tmp_path / name)
    for name in (SECOND, "third"):
        enrol(tmp_path, name, "aggregator")
    plan = write_plan(tmp_path, table)
    before = contents(tmp_path)
    with pytest.raises(ConfigError) as caught:
        provision(plan, tmp_path / "out")
    assert said in str(caught.value)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("file", "owner"), [("node.key", "ward-b"), ("identity.pem", "ward-b"), ("client.key", STUDENT)]
)
@pytest.mark.parametrize("gone", [False, True], ids=["there", "revoked"])
def test_no_key_comes_twice_or_again(desk: Path, out: Path, file: str, owner: str, gone: bool) -> None:
    """One of another node's keys in a well signed enrolment: of one that is there, and of one that was shut out."""
    enrolment = enrol(out.parent, "ward-d", NODES[owner])
    shutil.copy(desk / owner / "keys" / file, out.parent / "ward-d" / "keys")
    enrolment.write_text(OwnKeys.load(open_folder(out.parent / "ward-d")).enrolment("ward-d").model_dump_json())
    if gone:
        revoke(out, owner)
    before = contents(out)
    with pytest.raises(ConfigError, match=f"ward-d has a key of {owner}"):
        add(out, enrolment, None)
    assert contents(out) == before


def test_a_name_is_given_once(out: Path) -> None:
    ours = enrol(out.parent / "anew", "ward-a")
    for change in (lambda: None, lambda: revoke(out, "ward-a")):
        change()
        with pytest.raises(ConfigError, match="'ward-a' is taken, or was by a revoked node"):
            add(out, ours, None)


@pytest.mark.parametrize("name", ["federation.json", "ca.crt", "signed.json"])
def test_a_folder_of_which_a_bit_was_altered_is_not_signed_anew(out: Path, name: str) -> None:
    content = bytearray((out / "federation" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (out / "federation" / name).write_bytes(content)
    with pytest.raises(ConfigError):
        revoke(out, "ward-a")


def test_the_same_plan_again_is_a_new_certificate_and_nothing_else(plain: Path) -> None:
    add(plain, enrol(plain.parent, "ward-d"), None)
    revoke(plain, "ward-a")
    before, authority = read(plain), (plain / "operator" / "ca.key").read_bytes()
    table = plan_table(coordinator={"hosts": ["new.example.org"], "node_port": 443}, timeouts={"vote": 77})
    again = provision(write_plan(plain.parent, table), plain)
    after = read(plain)
    assert (plain / "operator" / "ca.key").read_bytes() == authority
    assert (after.version, after.terms, after.nodes) == (before.version + 1, before.terms, before.nodes)
    assert {**after.certificates, "coordinator": ""} == {**before.certificates, "coordinator": ""}
    assert names_of(pem(after.certificates["coordinator"])) == {"new.example.org", "localhost", "127.0.0.1"}
    assert after.coordinator.nodes == "new.example.org:443" and after.config.timeouts.vote == 77
    assert (again.same_federation, again.who_joins) == (True, "all nodes")  # they must learn the address
    assert provision(plain.parent / "federation.toml", plain).who_joins == "coordinator"


def test_another_plan_is_not_the_same_again(plain: Path) -> None:
    enrol(plain.parent, "ward-d")
    before = contents(plain)
    for changes, said in (
        ({"minimum_parties": 3}, "another federation"),
        ({"ends": datetime(2035, 7, 1).date()}, "another federation"),
        ({"rows": {**plan_table()["rows"], "classes": ["ill", "well"]}}, "another federation"),
        ({"enrolments": [*plan_table()["enrolments"], "ward-d/ward-d.enrol.json"]}, "has no 'ward-d' with these keys"),
    ):
        with pytest.raises(ConfigError, match=said):
            provision(write_plan(plain.parent, plan_table(**changes)), plain)
    assert contents(plain) == before


class Killed(BaseException):
    """As by SIGKILL: nothing that would clean up runs."""


def test_a_crash_leaves_the_old_folder_or_the_new(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before each step of a change in turn; the next command goes on from what is there."""
    steps = [(Path, "rename"), (Path, "replace"), (shutil, "copy"), (shutil, "rmtree"), (folder, "private_folder")]
    outcomes, between = [], 0
    for last in range(30):
        out = Path(shutil.copytree(desk / "out", tmp_path / f"{last}"))
        done = 0

        def step(*arguments: Any, whole: Callable[..., Any], last: int = last, **options: Any) -> Any:
            nonlocal done
            if done >= last:
                raise Killed
            done += 1
            return whole(*arguments, **options)

        with monkeypatch.context() as patch:
            for where, name in steps:
                bound = functools.partialmethod if where is Path else functools.partial
                patch.setattr(where, name, bound(step, whole=getattr(where, name)))
            try:
                revoke(out, "ward-a")
            except Killed:
                between += not (out / "federation").exists()
            else:
                break
        revoke(out, "ward-b")
        file = read(out)
        assert sorted(path.name for path in out.iterdir()) == ["federation", "operator"]
        outcomes.append(sorted(file.revoked))
        assert file.version == len(file.revoked) + 1
    assert {*map(tuple, outcomes)} == {("ward-b",), ("ward-a", "ward-b")} and between == 1


def test_a_new_folder_is_there_whole_or_not_at_all(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "replace_text", full)
    with pytest.raises(OSError, match="No space"):
        provision(desk / "federation.toml", tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_what_is_promised_and_warned_of_is_said(tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path,
        plan_table(
            privacy={"unit": "record", "delta": 1e-5, "epsilon": 6.0}, collection="secure", mechanism={"name": "gnmax"}
        ),
    )
    done = consilium("provision", plan, "--out", tmp_path / "out", "--format", "json")
    said, file = done.json(), read(tmp_path / "out")
    assert said["epsilon"].startswith(f"{epsilon_text(promised(file.config).epsilon)} at delta 1e-05")
    assert (said["epsilon_student"], said["delta"]) == (promised(file.config).epsilon, 1e-5)
    seen = towards_coordinator(file.config)
    assert seen is not None and said["epsilon_nodes"] == seen.epsilon
    assert [warning["code"] for warning in said["warnings"]] == ["large-epsilon", "little-information"]
    assert said["fingerprints"] == {name: keys.fingerprint(name) for name, keys in file.nodes.items()}
    assert said["digest"] == file.terms.federation and said["parties"].startswith("3 of 3")
    lines = consilium("provision", plan, "--out", tmp_path / "out").stdout.splitlines()
    assert (
        lines[0]
        == f"next        send {tmp_path / 'out' / 'federation'} to coordinator; there: consilium node join federation"
    )
    assert f"authority   {said['authority']}: compare by telephone" in lines
    assert said["roster"].replace(" ", "") == file.terms.roster


def test_another_authoritys_folder_is_not_taken_for_ones_own(out: Path, tmp_path: Path) -> None:
    """Whole and well signed, it would be signed anew with this operator's key."""
    other = made(tmp_path / "other", **HIDDEN)
    shutil.rmtree(out / "federation")
    shutil.copytree(other / "federation", out / "federation")
    with pytest.raises(ConfigError, match="another authority"):
        revoke(out, "ward-a")


def test_plaintext_votes_stay_one_federation(plain: Path) -> None:
    first = read(plain)
    added = add(plain, enrol(plain.parent, "ward-d"), None)
    assert (added.same_federation, added.who_joins) == (True, "coordinator and ward-d")
    left = revoke(plain, "ward-a")
    assert (left.same_federation, left.who_joins, left.note) == (True, "coordinator", "")
    file = read(plain)
    assert (file.terms, file.config, file.version) == (first.terms, first.config, 3)
    assert [*file.parties] == ["ward-b", "ward-c", "ward-d"]
    assert file.revoked == {"ward-a": first.nodes["ward-a"]} and file.earlier == ()


def test_hidden_votes_of_others_are_another_federation(out: Path) -> None:
    """Also where the parties are the same again: the first may be closed, and has a ledger of its own."""
    first = read(out)
    assert add(out, enrol(out.parent, "ward-d"), None).who_joins == "all nodes"
    second = read(out)
    revoke(out, "ward-d")
    third = read(out)
    digests = [file.terms.federation for file in (first, second, third)]
    assert len({*digests}) == 3 and third.terms.roster == first.terms.roster != second.terms.roster
    assert {file.config.federation_digest() for file in (first, second, third)} == {first.config.federation_digest()}
    assert [each.digest for each in third.earlier] == digests[:2]
    assert [each.parties for each in third.earlier] == [PARTIES, (*PARTIES, "ward-d")]
    assert [each.promise for each in third.earlier] == [first.terms.promise, second.terms.promise]
    assert {each.queries for each in third.earlier} == {40}


def test_a_party_too_many_for_what_is_stated_is_not_taken_in(tmp_path: Path) -> None:
    """Five parties need sums of four: the federation of four would have to end for nothing."""
    out = made(tmp_path, **HIDDEN, least_survivors=3)
    add(out, enrol(tmp_path, "ward-d"), None)
    before = read(out)
    with pytest.raises(ConfigError, match="least 3 must be at least t = 4"):
        add(out, enrol(tmp_path, "ward-e"), None)
    assert read(out) == before


def test_a_student_changes_nobody_else(out: Path) -> None:
    first = read(out)
    added = add(out, enrol(out.parent, "institute", "student"), None)
    assert (added.same_federation, added.who_joins) == (True, "coordinator and institute")
    second = read(out)
    assert set(second.certificates) == {"coordinator", STUDENT, "institute"}
    assert second.certificates[STUDENT] == first.certificates[STUDENT]
    revoke(out, STUDENT)
    third = read(out)
    assert set(third.certificates) == {"coordinator", "institute"} and set(third.revoked) == {STUDENT}
    assert third.terms == first.terms


@pytest.mark.parametrize("votes", ["plain", "out"])
def test_a_party_can_be_shut_out_although_too_few_are_left(votes: str, request: pytest.FixtureRequest) -> None:
    """The nodes' list is without it; all else stays, until there are enough again."""
    out: Path = request.getfixturevalue(votes)
    revoke(out, "ward-a")
    enough = read(out)
    gone = revoke(out, "ward-b")
    few = read(out)
    assert "1 party, minimum_parties is 2" in gone.note and "consilium provision add" in gone.note
    assert (gone.who_joins, [*few.parties], {*few.revoked}) == ("coordinator", ["ward-c"], {"ward-a", "ward-b"})
    assert (few.terms, few.roster, few.earlier) == (enough.terms, enough.roster, enough.earlier)
    revoke(out, "ward-c")
    assert "1 party" in add(out, enrol(out.parent, "ward-d"), None).note
    assert not add(out, enrol(out.parent, "ward-e"), None).note
    file, roster = read(out), read(out).sum_roster()
    assert [*file.parties] == ["ward-d", "ward-e"] and (roster is None or [*roster.places] == ["ward-d", "ward-e"])
    assert [each.parties for each in file.earlier] == ([] if votes == "plain" else [PARTIES, ("ward-b", "ward-c")])


def test_a_second_aggregator_is_shut_out_and_another_takes_its_place(tmp_path: Path) -> None:
    out = verified(tmp_path)
    with pytest.raises(ConfigError, match="is a second aggregator too many"):
        add(out, enrol(tmp_path, "registry", "aggregator"), None)
    first = read(out)
    assert "no second aggregator" in revoke(out, SECOND).note
    few = read(out)
    assert (few.aggregator, few.terms) == (None, first.terms)
    assert "no second aggregator" in revoke(out, "ward-c").note
    assert not add(out, tmp_path / "registry" / "registry.enrol.json", None).note
    file = read(out)
    assert file.aggregator == "registry" and file.terms.federation != first.terms.federation
    assert file.roster is not None and file.roster["helper"]["ed25519_pk"] == file.nodes["registry"].identity
    assert [(each.digest, each.parties) for each in file.earlier] == [(first.terms.federation, PARTIES)]


def test_the_account_of_a_party_that_left_goes_with_its_patients(out: Path) -> None:
    """Through all names that they had, each federation once."""
    first = read(out)
    revoke(out, "ward-a")
    assert read(out).former == ("ward-a",)
    add(out, enrol(out.parent, "ward-a2"), "ward-a")
    second = read(out)
    assert (second.names_before("ward-a2"), second.former) == (("ward-a",), ())
    assert [(each.digest, each.promise, each.queries) for each in second.inherited("ward-a2")] == [
        (first.terms.federation, first.terms.promise, 40)
    ]
    assert second.inherited("ward-b") == ()
    revoke(out, "ward-a2")
    add(out, enrol(out.parent, "ward-a3"), "ward-a2")
    third = read(out)
    assert third.names_before("ward-a3") == ("ward-a2", "ward-a")
    assert [each.digest for each in third.inherited("ward-a3")] == [first.terms.federation, second.terms.federation]


def test_whom_nobody_can_succeed(out: Path) -> None:
    party, student = enrol(out.parent, "ward-d"), enrol(out.parent, "institute", "student")
    revoke(out, "ward-a")
    for enrolment, old in ((party, "ward-b"), (party, "nobody"), (student, "ward-a")):
        with pytest.raises(ConfigError, match=f"--succeeds {old}.*"):
            add(out, enrolment, old)
    add(out, party, "ward-a")
    with pytest.raises(ConfigError, match="Parties that left: none"):
        add(out, enrol(out.parent, "ward-e"), "ward-a")
