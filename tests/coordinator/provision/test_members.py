"""Who takes part later: what changes with it, what does not, and whose account a new party takes over."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from consilium.coordinator.provision.cli import app
from consilium.coordinator.provision.folder import add, revoke
from consilium.protocol.errors import ConfigError
from tests.coordinator.provision.desk import HIDDEN, PARTIES, SECOND, STUDENT, enrol, made, read, verified


@pytest.fixture(scope="module")
def plain_desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("plain")).parent


@pytest.fixture(scope="module")
def hidden_desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("hidden"), **HIDDEN).parent


@pytest.fixture
def plain(plain_desk: Path, tmp_path: Path) -> Path:
    """Votes in plaintext."""
    return Path(shutil.copytree(plain_desk, tmp_path / "desk")) / "out"


@pytest.fixture
def hidden(hidden_desk: Path, tmp_path: Path) -> Path:
    """Votes under masks."""
    return Path(shutil.copytree(hidden_desk, tmp_path / "desk")) / "out"


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


def test_hidden_votes_of_others_are_another_federation(hidden: Path) -> None:
    """Also where the parties are the same again: the first may be closed, and has a ledger of its own."""
    first = read(hidden)
    assert add(hidden, enrol(hidden.parent, "ward-d"), None).who_joins == "all nodes"
    second = read(hidden)
    revoke(hidden, "ward-d")
    third = read(hidden)
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


def test_a_student_changes_nobody_else(hidden: Path) -> None:
    first = read(hidden)
    added = add(hidden, enrol(hidden.parent, "institute", "student"), None)
    assert (added.same_federation, added.who_joins) == (True, "coordinator and institute")
    second = read(hidden)
    assert set(second.certificates) == {"coordinator", STUDENT, "institute"}
    assert second.certificates[STUDENT] == first.certificates[STUDENT]
    revoke(hidden, STUDENT)
    third = read(hidden)
    assert set(third.certificates) == {"coordinator", "institute"} and set(third.revoked) == {STUDENT}
    assert third.terms == first.terms


@pytest.mark.parametrize("votes", ["plain", "hidden"])
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


def test_the_account_of_a_party_that_left_goes_with_its_patients(hidden: Path) -> None:
    """Through all names that they had, each federation once."""
    first = read(hidden)
    revoke(hidden, "ward-a")
    assert read(hidden).former == ("ward-a",)
    add(hidden, enrol(hidden.parent, "ward-a2"), "ward-a")
    second = read(hidden)
    assert (second.names_before("ward-a2"), second.former) == (("ward-a",), ())
    assert [(each.digest, each.promise, each.queries) for each in second.inherited("ward-a2")] == [
        (first.terms.federation, first.terms.promise, 40)
    ]
    assert second.inherited("ward-b") == ()
    revoke(hidden, "ward-a2")
    add(hidden, enrol(hidden.parent, "ward-a3"), "ward-a2")
    third = read(hidden)
    assert third.names_before("ward-a3") == ("ward-a2", "ward-a")
    assert [each.digest for each in third.inherited("ward-a3")] == [first.terms.federation, second.terms.federation]


def test_whom_nobody_can_succeed(hidden: Path) -> None:
    party, student = enrol(hidden.parent, "ward-d"), enrol(hidden.parent, "institute", "student")
    revoke(hidden, "ward-a")
    for enrolment, old in ((party, "ward-b"), (party, "nobody"), (student, "ward-a")):
        with pytest.raises(ConfigError, match=f"--succeeds {old}.*"):
            add(hidden, enrolment, old)
    add(hidden, party, "ward-a")
    with pytest.raises(ConfigError, match="Parties that left: none"):
        add(hidden, enrol(hidden.parent, "ward-e"), "ward-a")


def test_what_to_do_next_comes_first_and_a_change_takes_five_lines(hidden: Path, capsys: pytest.CaptureFixture) -> None:
    def said(*arguments: object) -> list[str]:
        app([str(argument) for argument in arguments], standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    for lines in (
        said("revoke", hidden, "ward-a"),
        said("add", hidden, enrol(hidden.parent, "ward-d")),
        said("revoke", hidden, "ward-d"),
        said("revoke", hidden, "ward-b"),
        said("add", hidden, enrol(hidden.parent, "ward-e"), "--succeeds", "ward-b"),
    ):
        assert lines[0].startswith(f"next        send {hidden / 'federation'} to ") and len(lines) <= 5
        assert lines[0].endswith("there: consilium node join federation")
