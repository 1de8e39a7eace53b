"""Policies belong to parties: a kit allows nothing, its people allow it line by line, and nothing runs before."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import consilium.aggregator.client_app as second_app
from consilium.coordinator.provision import kits
from consilium.node import acceptance
from consilium.node.acceptance import accept, read_policy
from consilium.node.checks import examine
from consilium.node.kit import POLICY_FILE, open_kit
from consilium.node.manifest import MANIFEST, SignedManifest, check_signed
from consilium.node.sending import open_archive
from consilium.party.deployed import PARTY
from consilium.party.expectation import check_is_accepted
from consilium.party.home import LIMITS as LIMITS_OF_PARTY
from consilium.party.home import Policy, open_home
from consilium.protocol.errors import ConfigError, NotAccepted
from consilium.protocol.messages import PROTOCOL_VERSION, HelloReply, HelloRequest
from consilium.protocol.records import from_record, refusal_from_record, to_record
from consilium.protocol.refusals import Rule
from consilium.sums.terms import NO_LEDGER
from consilium.sums.verified.messages import AggregatorReply, AggregatorRequest
from tests.command_line import Done, consilium
from tests.deploy.kits import PARTIES, SECOND, accept_all, accept_kit, make_kits, request_of_kit, write_plan
from tests.deploy.terminal import END, INTERRUPT, typed
from tests.federation import UNTOLD, node_at
from tests.party.test_client_app import call, context

PROMPT = "Type yes to allow it: "
NAME = "party-ward-a"


@pytest.fixture(scope="module")
def sent(tmp_path_factory) -> Path:
    """Kits of a verified federation, as they come: nobody has said anything. Not to be
    changed."""
    folder = tmp_path_factory.mktemp("sent")
    return make_kits(folder, accepted=False, collection="verified", minimum_parties=3)


@pytest.fixture
def out(sent: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sent, tmp_path / "kits"))


@pytest.fixture
def kit(out: Path) -> Path:
    return out / NAME


def looser(kit: Path) -> list[str]:
    return [line.key for line in request_of_kit(kit).looser]


def by_script(kit: Path, *keys: str, **more: str) -> Done:
    return consilium("node", "accept", kit, *(word for key in keys for word in ("--yes", key)), *more.values())


def policy_of(kit: Path) -> dict[str, Any]:
    return tomllib.loads((kit / POLICY_FILE).read_text())["policy"]


def limit(kit: Path, **limits: Any) -> None:
    """Its people write limits of their own."""
    path = kit / POLICY_FILE
    table = tomllib.loads(path.read_text()) if path.exists() else {}
    path.write_text(tomli_w.dumps({**table, "limits": limits}))


def hello(kit: Path) -> Any:
    """What the installed app of a party answers when the coordinator comes with the kit's own terms."""
    terms = open_home(kit).pinned_terms()
    assert terms is not None
    fields = {**terms.model_dump(), "protocol_version": PROTOCOL_VERSION, **dict(NO_LEDGER), **UNTOLD}
    return call(to_record(HelloRequest(**fields)), context({"home": str(kit)})).content


# A kit allows nothing, and nothing runs before its people have spoken.


def test_a_kit_carries_no_limits(sent: Path) -> None:
    known = set(LIMITS_OF_PARTY) | set(Policy.model_fields) | {"policy", "limits"}
    for archive in sent.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            names = packed.getnames()
            assert not [name for name in names if name.endswith(POLICY_FILE)]
            for name in names:
                if name.endswith(("party.toml", "aggregator.toml")):
                    content = packed.extractfile(name)
                    assert content is not None
                    assert not known & set(tomllib.loads(content.read().decode()))


def started(kit: Path) -> subprocess.CompletedProcess[str]:
    """`consilium node start`, a process of its own; one that stays is stopped after its first words."""
    process = subprocess.Popen(
        [sys.executable, "-m", "consilium", "node", "start", str(kit)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "HTTPS_PROXY": "", "https_proxy": ""},
    )  # fmt: skip
    lines: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if " serves " in line:
            process.terminate()
    return subprocess.CompletedProcess([], process.wait(60), "", "".join(lines))


@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.parametrize("node", [NAME, pytest.param(f"aggregator-{SECOND}", marks=pytest.mark.proofs)])
def test_a_node_at_epsilon_86_does_not_start_before_its_people_allow_it(out: Path, node: str) -> None:
    kit = out / node
    assert max(line.requested for line in request_of_kit(kit).lines if line.key == "most_epsilon") > 85
    refused = started(kit)
    assert refused.returncode == 2  # of a mistake in the kit: systemd does not try again
    assert "not accepted yet" in refused.stderr
    assert f"consilium node accept {kit}" in refused.stderr
    assert not (kit / "state" / "logs").exists()  # no program of Flower's was ever started
    accept_kit(kit)
    serves = started(kit)  # the control
    assert serves.returncode == 0, serves.stderr
    assert " serves " in serves.stderr


TABLE = {
    "allowed_classes": ["well", "ill"],
    "collection": "verified",
    "most_teachers": 4,
    "most_queries": 40,
    "unit": "record",
    "neighbouring": "replace",
    "most_epsilon": 123.45,
    "delta": 1e-05,
}
"""A table [policy]."""


def written_by_the_operator(kit: Path, **more: Any) -> None:
    path = kit / "party.toml"
    path.write_text(path.read_text() + "\n" + tomli_w.dumps({"policy": {**TABLE, **more}}))


def test_what_the_operator_wrote_counts_for_nothing(kit: Path) -> None:
    """The control is the same file where no kit is."""
    written_by_the_operator(kit, a_key_that_is_none=1)
    refusal = refusal_from_record(hello(kit))
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED
    assert refusal.limit is None and refusal.requested is None
    shown = by_script(kit)
    assert shown.exit_code == 2
    assert "123.45" not in shown.stdout
    assert not (kit / POLICY_FILE).exists()
    table = tomllib.loads((kit / "party.toml").read_text())
    (kit / "party.toml").write_text(tomli_w.dumps({**table, "policy": TABLE}))
    (kit / "kit.json").rename(kit / "no-kit.json")
    assert refusal_from_record(hello(kit)) is None


def test_the_installed_app_answers_once_it_is_accepted(kit: Path) -> None:
    refusal = refusal_from_record(hello(kit))
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED
    assert open_home(kit).store().last_answers()["query.hello"].refused == "refused: not-accepted"
    accept_kit(kit)
    assert from_record(hello(kit), HelloReply).party == "ward-a"
    (kit / POLICY_FILE).unlink()
    refusal = refusal_from_record(hello(kit))
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED


def test_the_second_aggregators_app_too(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = out / f"aggregator-{SECOND}"
    monkeypatch.setattr("tests.party.test_client_app.app", second_app.app)
    terms = open_home(out / NAME).pinned_terms()
    assert terms is not None
    fields = {**terms.model_dump(), "protocol_version": PROTOCOL_VERSION, "program": ""}

    def asked() -> Any:
        return call(to_record(AggregatorRequest(**fields)), context({"home": str(kit)}), "query.va_hello").content

    refusal = refusal_from_record(asked())
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED
    accept_kit(kit)
    assert from_record(asked(), AggregatorReply).name == SECOND
    limit(kit, most_epsilon=5.0)  # stricter than what was accepted
    refusal = refusal_from_record(asked())
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED


def test_doctor_says_that_and_no_more_of_the_policy(kit: Path) -> None:
    found = {each.name: each for each in examine(PARTY.checks(open_kit(kit), running=True))}
    assert found["accepted"].level == "wrong"
    assert found["accepted"].action == f"Run: consilium node accept {kit}"
    assert not {"policy", "promise", "queries", "expectation"} & set(found)
    assert {name for name, each in found.items() if each.level == "wrong"} == {"accepted", "coordinator"}
    status = consilium("status", kit)
    assert (status.exit_code, "not accepted yet" in status.stderr) == (2, True)
    for command in (
        ["dry-run", "--data-only"],
        ["dry-run"],
    ):  # which send nothing, and whoever maps columns need not decide
        assert consilium("party", *command, kit, kit / "federation.json").exit_code == 0
    assert consilium("node", "fingerprint", kit).exit_code == 0


# A yes for each line, and nothing written before the last.


def on_terminal(kit: Path, *answers: str) -> tuple[int, str]:
    return typed(["node", "accept"], answers, PROMPT, kit)


@pytest.mark.parametrize("node", [NAME, f"aggregator-{SECOND}"])
def test_each_looser_line_is_asked_for_by_itself(out: Path, node: str) -> None:
    kit = out / node
    lines = request_of_kit(kit).looser
    assert len(lines) >= 2
    code, shown = on_terminal(kit, *["yes\n"] * len(lines))
    assert code == 0, shown
    assert shown.count(PROMPT) == len(lines)
    for number, line in enumerate(lines, 1):
        assert f"{number} of {len(lines)}  {line.key}: " in shown
        assert " ".join(line.risk.split()) in " ".join(shown.split())
    path = kit / POLICY_FILE
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    table = tomllib.loads(path.read_text())
    assert table["accepted"]["federation"] == "three wards"
    assert re.fullmatch(r"[0-9a-f]{64}", table["accepted"]["terms"])
    assert re.match(r"\d{4}-\d\d-\d\dT", table["accepted"]["at"])


NO_YES = {"another case": "Yes\n", "nothing": "\n", "the end of input": END}


@pytest.mark.parametrize("case", NO_YES)
def test_whatever_is_no_yes_writes_nothing(kit: Path, case: str) -> None:
    keys = looser(kit)
    code, shown = on_terminal(kit, *["yes\n"] * (len(keys) - 1), NO_YES[case])
    assert code == 2, shown
    assert f"{keys[-1]} is not allowed" in shown and "nothing was written" in shown
    assert not (kit / POLICY_FILE).exists()
    assert not list(kit.glob(f"{POLICY_FILE}*"))


def test_ctrl_c_writes_nothing(kit: Path) -> None:
    code, shown = on_terminal(kit, "yes\n", INTERRUPT)
    assert code == 130, shown
    assert "Traceback" not in shown
    assert not (kit / POLICY_FILE).exists()


def test_without_a_terminal_every_line_is_named(kit: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "consilium", "node", "accept"], cwd=kit, input="yes\n" * 20, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no terminal" in done.stderr
    assert " ".join(f"--yes {key}" for key in looser(kit)) in done.stderr
    assert not (kit / POLICY_FILE).exists()


def wrong_scripts(keys: list[str]) -> dict[str, tuple[list[str], str]]:
    return {
        "one is not named": (keys[:-1], f"{keys[-1]} is not named"),
        "one is not looser": ([*keys, "neighbouring"], "neighbouring is not looser"),
        "twice": ([*keys, keys[0]], "one is named twice"),
        "one instead of another": ([*keys[:-1], keys[0]], f"{keys[-1]} is not named"),
    }


@pytest.mark.parametrize("case", wrong_scripts(["a", "b"]))
def test_a_script_names_exactly_the_looser_lines(kit: Path, case: str) -> None:
    keys = looser(kit)
    given, said = wrong_scripts(keys)[case]
    done = by_script(kit, *given)
    assert done.exit_code == 2
    assert said in done.stderr
    assert all(f"--yes {key}" in done.stderr for key in keys)
    assert not (kit / POLICY_FILE).exists()
    assert by_script(kit, *reversed(keys)).exit_code == 0  # the control


def test_the_page_has_the_guarantee_towards_each(sent: Path) -> None:
    """Towards whoever sees noisy sums a number of its own, larger than the student's."""
    for kit in (sent / NAME, sent / f"aggregator-{SECOND}"):
        asked = request_of_kit(kit)
        number = {
            whom: float(re.findall(r"epsilon at most (\S+) at", words)[0]) for whom, words in asked.guarantees.items()
        }
        assert number["the student"] == pytest.approx(39.1, abs=0.1)
        assert number["the student"] < number["the coordinator"] == number["the second aggregator"]
        needed = {line.key: line.requested for line in asked.lines}
        assert needed["most_epsilon"] == pytest.approx(number["the coordinator"], rel=0.01)  # what it is charged


def test_another_users_kit_is_left_alone(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance.os, "geteuid", lambda: 4711)
    with pytest.raises(ConfigError, match="another user's"):
        accept(kit, request_of_kit(kit), looser(kit), print)
    assert not (kit / POLICY_FILE).exists()


# What is written is what is asked, and no more.


def test_what_is_accepted_is_just_enough(out: Path) -> None:
    accept_all(out)
    asked, allowed = request_of_kit(out / NAME), policy_of(out / NAME)
    for line in asked.lines:
        if line.requested is not None and line.key in allowed:
            assert allowed[line.key] == line.requested, line.key
    assert allowed["least_rows_per_teacher"] == 20  # nothing is asked: the default
    assert node_at(out / NAME).settings.policy.most_epsilon == pytest.approx(113.74, abs=0.02)


# The people's own limits.


def test_a_stricter_limit_is_never_passed(kit: Path) -> None:
    for key, value in (("most_epsilon", 3.0), ("most_queries", 39), ("most_teachers", 3), ("least_parties", 9),
                       ("collection", "secure"), ("allowed_classes", ["well", "sick"])):  # fmt: skip
        (kit / POLICY_FILE).unlink(missing_ok=True)
        limit(kit, **{key: value})
        before = (kit / POLICY_FILE).read_bytes()
        refused = by_script(kit, *looser(kit))
        assert refused.exit_code == 2
        assert f"{key}: " in refused.stderr and f"limits.{key}" in refused.stderr
        assert "BEYOND YOUR LIMIT" in refused.stdout
        assert (kit / POLICY_FILE).read_bytes() == before
    (kit / POLICY_FILE).unlink()
    limit(kit, collection="secure")
    assert read_policy(kit, Policy, LIMITS_OF_PARTY).limits == {"collection": "secure"}
    (kit / POLICY_FILE).unlink()
    limit(kit, most_epsilon=114.0, most_queries=40)  # the control
    assert by_script(kit, *looser(kit)).exit_code == 0
    assert tomllib.loads((kit / POLICY_FILE).read_text())["limits"] == {"most_epsilon": 114.0, "most_queries": 40}


def test_a_limit_that_becomes_stricter_stops_the_node(kit: Path) -> None:
    accept_kit(kit)
    limit(kit, most_epsilon=5.0)
    with pytest.raises(NotAccepted, match=r"more was accepted than its own \[limits\] allow: most_epsilon"):
        check_is_accepted(open_home(kit))
    refusal = refusal_from_record(hello(kit))
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no TOML": (lambda kit: (kit / POLICY_FILE).write_text("[policy"), "not valid TOML"),
    "an unknown limit": (lambda kit: limit(kit, most_epsilom=1), "limits.most_epsilom: unknown key"),
    "a policy without a word on it": (
        lambda kit: (kit / POLICY_FILE).write_text(tomli_w.dumps({"policy": TABLE})), r"only one of \[policy\]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_policy_that_cannot_be_read_is_none(kit: Path, case: str) -> None:
    spoil, said = BROKEN[case]
    spoil(kit)
    with pytest.raises(ConfigError, match=said):
        open_home(kit)
    done = by_script(kit, *("collection",))
    assert done.exit_code == 2
    assert "internal error" not in done.stderr
    refusal = refusal_from_record(call(to_record(HelloRequest(**_fields(kit))), context({"home": str(kit)})).content)
    assert refusal is not None and refusal.rule is Rule.POLICY


def _fields(kit: Path) -> dict[str, Any]:
    terms = json.loads((kit / "terms.json").read_text())
    return {**terms, "protocol_version": PROTOCOL_VERSION, **dict(NO_LEDGER), **UNTOLD}


# Later kits and renewed terms.


def answer_all(kit: Path) -> None:
    node = node_at(kit)
    node.hello(HelloRequest(**_fields(kit)))
    policy, pinned = node.settings.policy, node.settings.pinned
    assert pinned is not None
    ids = [f"{at:064x}" for at in range(policy.most_queries)]
    node.account.charge(node.agreed(pinned.federation), "t", ids, policy, 1, NO_LEDGER)


def test_terms_that_ask_for_more_are_not_accepted_any_more(out: Path) -> None:
    kit = out / NAME
    accept_all(out)
    answer_all(kit)
    kept = (kit / POLICY_FILE).read_bytes()
    kits.add_party(out, "ward-d")
    update = (out / "updates" / "0002" / f"{NAME}.tar.gz").read_bytes()
    open_archive(update, "update", kit)
    assert (kit / POLICY_FILE).read_bytes() == kept  # an update never touches it
    with pytest.raises(NotAccepted, match="most_epsilon, most_queries"):
        check_is_accepted(open_home(kit))
    refusal = refusal_from_record(hello(kit))
    assert refusal is not None and refusal.rule is Rule.NOT_ACCEPTED
    page = by_script(kit, "most_epsilon", "most_queries")
    assert page.exit_code == 0, page.stderr
    assert "1; 40 questions answered, epsilon at most 113.7" in page.stdout
    assert from_record(hello(kit), HelloReply).party == "ward-a"
    assert policy_of(kit)["most_queries"] == 80


def test_terms_that_ask_for_no_more_stay_accepted(out: Path) -> None:
    """A fourth party came, and nothing was answered yet: the same epsilon, the same questions, larger sums."""
    kit = out / NAME
    accept_all(out)
    kits.add_party(out, "ward-d")
    open_archive((out / "updates" / "0002" / f"{NAME}.tar.gz").read_bytes(), "update", kit)
    check_is_accepted(open_home(kit))
    assert from_record(hello(kit), HelloReply).party == "ward-a"


def test_other_columns_are_asked_for_anew(kit: Path) -> None:
    accept_kit(kit)
    path = kit / POLICY_FILE
    path.write_text(path.read_text().replace('    "drowsy",\n', ""))
    terms = json.loads((kit / "terms.json").read_text())
    (kit / "terms.json").write_text(json.dumps({**terms, "request": "0" * 64}))
    with pytest.raises(NotAccepted, match="columns"):
        check_is_accepted(open_home(kit))
    assert looser(kit) == ["columns"]
    assert "drowsy" in request_of_kit(kit).looser[0].risk


# Nobody but its people writes it.


def with_policy(out: Path, archive: Path, folder: str) -> bytes:
    """The same archive with one file more."""
    place = out / "forged"
    with tarfile.open(archive) as packed:
        packed.extractall(place)
    accept_kit(out / NAME)
    shutil.move(out / NAME / POLICY_FILE, place / folder / POLICY_FILE)
    forged = out / "forged.tar.gz"
    with tarfile.open(forged, "w:gz") as packed:
        packed.add(place / folder if folder != "." else place, arcname=folder)
    return forged.read_bytes()


def test_a_kit_or_update_that_brings_a_policy_is_refused(out: Path, tmp_path: Path) -> None:
    shutil.rmtree(out / NAME / "state", ignore_errors=True)
    with pytest.raises(ConfigError, match=r"policy\.toml: what a node allows, its own people say"):
        open_archive(with_policy(out, out / f"{NAME}.tar.gz", NAME), "kit", tmp_path / "new")
    kits.add_party(out, "ward-d")
    with pytest.raises(ConfigError, match=r"policy\.toml: what a node allows, its own people say"):
        shutil.rmtree(out / "forged")
        open_archive(with_policy(out, out / "updates" / "0002" / f"{NAME}.tar.gz", "."), "update", out / NAME)
    assert not (out / NAME / POLICY_FILE).exists()


def test_a_signature_over_a_policy_is_refused(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked by hand, of an operator whose authority signs whatever it likes."""
    kit = out / NAME
    accept_kit(kit)
    path = kit / MANIFEST
    content = SignedManifest.model_validate_json(path.read_bytes()).content
    forged = content.model_copy(update={"settings": {**content.settings, POLICY_FILE: "0" * 64}})
    monkeypatch.setattr("consilium.node.manifest.read_manifest", lambda *_: forged)
    with pytest.raises(ConfigError, match="came with the kit"):
        check_signed(open_kit(kit))
    monkeypatch.setattr("consilium.node.manifest.read_manifest", lambda *_: content)
    assert check_signed(open_kit(kit)) is not None  # the control


# The operator's file.


@pytest.mark.parametrize(
    "stated",
    [
        {"limits": {"most_epsilon": 86.33}},
        {"party": [{"name": name, "most_epsilon": 86.33} for name in PARTIES]},
        {"aggregator": {"name": SECOND, "most_queries": 7}},
    ],
)
def test_a_provisioning_file_states_no_limits(tmp_path: Path, stated: dict[str, Any]) -> None:
    plan = write_plan(tmp_path, **{"collection": "verified", "minimum_parties": 3, **stated})
    with pytest.raises(ConfigError, match="those are for each party and second aggregator to say"):
        kits.make(plan, tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


VALUES: dict[str, list[Any]] = {
    "allow_simulation": [False, True],
    "collection": ["plaintext", "secure", "verified"],
    "unit": ["party", "patient", "record"],
    "neighbouring": ["replace", "add_or_remove"],
    "allowed_classes": [["a", "b"], ["a", "b", "c"]],
    "columns": [["a"], ["a", "b"]],
}


@pytest.mark.parametrize("key", LIMITS_OF_PARTY)
def test_a_value_is_never_looser_than_itself(key: str) -> None:
    """And of two different ones just one is looser; but of ways to vote that rest on different people, both."""
    values, looser_than = VALUES.get(key, [1, 2, 7]), LIMITS_OF_PARTY[key].looser
    assert not any(looser_than(value, value) for value in values)
    for at, one in enumerate(values):
        for other in values[at + 1 :]:
            both = looser_than(one, other) + looser_than(other, one)
            assert both == (2 if other == "verified" and one != "plaintext" else 1), (one, other)
