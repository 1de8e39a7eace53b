"""Every command of the pages is run as it is printed, or stands in a table that says why not.

Blocks are found, not listed: a page may be written anew without a change here, as long as its commands work.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from click import Command as ClickCommand
from click import Group

import consilium.cli
from consilium.node.acceptance import read_policy
from consilium.node.kit import POLICY_FILE
from consilium.party.home import LIMITS, Policy
from tests.deploy.kits import request_of_kit
from tests.deploy.terminal import typed
from tests.docs.conftest import OWN_KEYS, SHORTER, Desk
from tests.docs.conftest import consilium as in_a_folder
from tests.docs.pages import ROOT, Command, commands

ONLY_PARSED = {
    r"run --engine ray": "half a minute for Ray to start: tests/simulations/engines/test_engines_agree.py",
    r"run (pate-2017|pate-2018|near-zero)": "needs MNIST: tests/simulations/test_papers.py",
    r"run mnist-250": "needs MNIST, two minutes: tests/simulations/test_small_scenarios.py",
    r"run --format json": "as `consilium run`; what it prints: tests/test_every_command.py",
    r"run .*--engine ray --address": "a cluster: tests/simulations/engines/cluster/test_two_machines.py",
    r"run --resume": "needs a run that was killed: tests/simulations/test_resume.py",
    r"audit (kits|runs)/.*": "a deployed run: tests/simulations/test_deployed.py; a simulated one is audited below",
    r"attack ": "minutes: tests/simulations/attack/test_command.py",
    r"audit teachers": "minutes: tests/simulations/teacher_audit/test_teacher_audit.py",
    r"(audit|report) \.": "a deployed run: tests/coordinator/deploy/test_runs.py, tests/deploy/test_kits_loopback.py",
    r"node close": "a federation that was begun: tests/coordinator/deploy/test_runs.py",
    r"node join (?!\.)": "kits on their way: tests/coordinator/provision/test_signed.py",
    r"node (keys .*--replaces|join . --keys ../new)": "new keys: tests/coordinator/provision/test_key_rotation.py",
    r"provision renew kits cleveland": "new keys: tests/coordinator/provision/test_key_rotation.py",
    r"provision (escrow|recover)": "tests/coordinator/provision/test_escrow.py",
    r"provision handover": "tests/coordinator/provision/test_handover.py",
    r"node accept": "a person answers: tests/deploy/test_acceptance.py",
    r"provision (add --kind aggregator|revoke kits board)": "see tests/coordinator/provision/test_second_aggregator.py",
    r"(node start|student run \.)": "serves until it is stopped: tests/deploy/test_kits_loopback.py",
    r"party improve": "needs a party and its federation's student: tests/party/test_improve.py",
    r"study (hospitals|skewed|cite|cache)": "minutes, and needs what it left: tests/simulations/study/test_command.py",
    r"watch (kits/|.*--wait)": "a coordinator, and a run that is killed: tests/simulations/test_watching.py",
    r"student run --coordinator": "needs a coordinator that serves: tests/deploy/test_kits_loopback.py",
}
"""Beginning of a `consilium` command -> why it is not run here, and where it is."""

SIMULATES = r"(run|prepare)\b"
WHOLE = r"run(?! heart\.toml)\b"
"""A whole run, as in tests/simulations/test_cli.py, with another option each: `make proofs`."""
MORE = {r"audit mechanism": ["--runs", "400", "--queries", "10"]}
"""What is added to a command to make it short; an option that is there twice counts the second time."""
EXIT_CODES = {
    r"doctor": {0, 1},  # 1 where nothing listens yet
    r"audit mechanism immutable": {1},  # it is not private, and is found out
    r"audit mechanism gnmax .*--claim": {0, 1},  # of so few runs it is chance
}

ELSEWHERE = {
    "cat": "into folders of the system",
    "chown": "root: the service's files",
    "cp": "root: into /etc/systemd/system",
    "curl": "a node that serves: tests/node/test_monitor.py",
    "docker": "no daemon here; what goes into the image: tests/packaging/test_bundle.py",
    "export": "of the reader's shell",
    "flwr": "needs a free port and half a minute: tests/packaging/test_flwr_run.py",
    "journalctl": "systemd",
    "make": "network: the wheelhouse, tests/packaging/test_wheelhouse.py",
    "mkdir": "a folder of the system",
    "mv": "a node's kit, in folders of the system",
    "openssl": "a program of the system; such a certificate may look: tests/node/test_monitor.py",
    "pip": "network",
    "python3": "network: installs afterwards",
    "ray": "starts a cluster: tests/simulations/engines/cluster/two_machines.py",
    "runuser": "root: as the service's user, benchmarks/deployment/services.py",
    "ssh": "another machine",
    "systemctl": "systemd: benchmarks/deployment/services.py",
    "systemd-run": "systemd: benchmarks/deployment/services.py",
    "tar": "into folders of the system; what is packed: tests/coordinator/provision/test_provision.py",
    "useradd": "root",
}
"""Other programs, and why their lines are not run."""


def of_consilium() -> list[Command]:
    """Each `consilium` command once, with the folder that a `cd` before it on the page has gone to."""
    ours = [command for command in commands() if command.text.startswith("consilium ")]
    ours.sort(key=lambda command: not command.place.startswith("docs/tutorial-"))  # elsewhere too: run there
    return list({command.text: command for command in ours}.values())


def matching(table: dict[str, Any], command: str) -> Any:
    """What a table has for a command; None if nothing."""
    told = command.removeprefix("consilium ")
    return next((value for pattern, value in table.items() if re.match(pattern, told)), None)


ALL = of_consilium()
TUTORIAL = "docs/tutorial-"
"""Pages whose commands go on from each other: test_tutorials runs them."""
TO_RUN = [each for each in ALL if matching(ONLY_PARSED, each.text) is None and not each.place.startswith(TUTORIAL)]


def marked(command: Command) -> Any:
    """With its text as the test's name; what is a simulation, or works on one, is slow."""
    on_a_run = {word.split("/")[0] for word in command.words[2:]} & {"out1", "student"}
    told = command.text.removeprefix("consilium ")
    slow = on_a_run or re.match(SIMULATES, told)
    marks = [pytest.mark.proofs] if re.match(WHOLE, told) else [pytest.mark.slow] if slow else []
    return pytest.param(command, id=command.text, marks=marks)


OF_THE_PAGE = "19b8ff58a5c1"
"""The federation of docs/deploy.md; another's name stands in the kits of these tests."""


def test_the_page_shows_what_accept_shows(kits: Path, tmp_path: Path) -> None:
    """docs/deploy.md has all of it, on a terminal, of the federation on that page; but for digests, time and place."""
    kit = Path(shutil.copytree(kits / f"party-{OWN_KEYS}", tmp_path / "kit"))
    (kit / POLICY_FILE).unlink()
    asked = request_of_kit(kit)
    code, said = typed(["node", "accept", "."], ["yes\n"] * len(asked.looser), "Type yes to allow it: ", kit)
    assert code == 0, said
    accepted = read_policy(kit, Policy, LIMITS).accepted
    assert accepted is not None
    shown = {
        asked.terms.federation[:12]: OF_THE_PAGE,
        accepted.terms[:12]: "5d0c2f9e7a14",
        accepted.at: "2026-11-24T09:30:12+00:00",
        str(kit): f"/srv/consilium/party-{OWN_KEYS}",
    }
    for there, here in shown.items():
        said = said.replace(there, here)
    assert f"```text\n{said.strip()}\n```" in (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"), said


@pytest.mark.parametrize("command", [marked(command) for command in TO_RUN])
def test_it_runs(
    command: Command,
    desk: Desk,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command.words[1:]
    cwd = desk.folder
    if "." in words:  # in the kit of a node: which, the words tell
        kits = request.getfixturevalue("kits")
        node = "student-university" if words[0] == "student" or "--public" in words else f"party-{OWN_KEYS}"
        cwd = desk.kit(kits, kits.parent / "keys", node, joined=words[:2] != ["node", "join"])
    elif words[0] == "provision":
        desk.lay_out([*words, "public.csv", "public.npz", f"{OWN_KEYS}.enrol.json"])
        if any(OF_THE_PAGE in word for word in words):
            party = request_of_kit(request.getfixturevalue("kits") / f"party-{OWN_KEYS}")
            words = [word.replace(OF_THE_PAGE, party.terms.federation[:12]) for word in words]
    else:
        desk.lay_out([*words, *(["heart.csv"] if "heart.toml" in words else [])])
    words += matching(MORE, command.text) or []
    if re.match(SIMULATES, " ".join(words)):
        named = words[1:2] if words[1:2] and words[1] in SHORTER else []
        # what is printed comes last, and so wins
        shorter = SHORTER[named[0] if named else "stroke"]
        done = in_a_folder(words[0], *named, *shorter, *words[1 + len(named) :], cwd=cwd)
        code, said = done.exit_code, done.output
    else:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["consilium", *words])
        with pytest.raises(SystemExit) as ended:
            consilium.cli.main()
        code, said = ended.value.code or 0, "".join(capsys.readouterr())
    assert code in (matching(EXIT_CODES, command.text) or {0}), f"{command.place}: {said}"


def unparsed(of: list[Command]) -> dict[str, str]:
    """Place and text of commands that do not parse, and why."""
    root, wrong = typer.main.get_command(consilium.cli.app), {}
    without_effect(root)
    for command in of:
        try:
            root.main(command.words[1:], prog_name="consilium", standalone_mode=False)
        except Exception as error:
            wrong[f"{command.place}: {command.text}"] = str(error)
    return wrong


def test_all_parse() -> None:
    """Commands, options and arguments are those that there are; whether values make sense only running tells."""
    assert unparsed(ALL) == {}


def without_effect(command: ClickCommand) -> None:
    """Keep the parser of a command and its sub-commands, and nothing of what they do."""
    if isinstance(command, Group):
        for part in command.commands.values():
            without_effect(part)
    else:
        command.callback = None


def test_an_unknown_option_does_not_parse() -> None:
    """The control of the test above."""
    (error,) = unparsed([Command("here", "consilium run --sed 3")]).values()
    assert "No such option" in error


def test_other_programs_are_accounted_for() -> None:
    """What is neither ours, nor a target of make, nor a change of folder, stands in a table with its reason."""
    first = {command.text.split()[0] for command in commands()}
    first = {word.rsplit("/", 1)[-1] for word in first if not word.startswith(".venv/bin/")}
    assert first - {"consilium", "make", "cd", *ELSEWHERE} == set()


def test_where_else_it_is_tested() -> None:
    reasons = " ".join([*ONLY_PARSED.values(), *ELSEWHERE.values()])
    assert [path for path in re.findall(r"tests/[\w/]+(?:\.py)?", reasons) if not (ROOT / path).exists()] == []


def test_no_table_names_what_is_gone() -> None:
    """Reasons outlive their commands otherwise."""
    texts = [command.text.removeprefix("consilium ") for command in ALL]
    gone = [pattern for pattern in (*ONLY_PARSED, *MORE, *EXIT_CODES) if not any(re.match(pattern, t) for t in texts)]
    assert gone == []
