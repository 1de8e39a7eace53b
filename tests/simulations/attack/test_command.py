"""`consilium attack`: a run gets its chapter, which its public report has not; mistakes are told."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from consilium.accounting.units import Unit
from consilium.report.exhibits import as_text
from consilium.simulations.attack import laboratory, shadows
from consilium.simulations.attack.attributes import SUBJECT, Guessed
from consilium.simulations.attack.bounds import Detection, Hits, ProvedEpsilon
from consilium.simulations.attack.differences import Difference
from consilium.simulations.attack.liars import Poisoned
from consilium.simulations.attack.membership import MembershipAttack
from consilium.simulations.report.attacks import PROVES_NOTHING, attacks_part
from tests.command_line import consilium
from tests.simulations.attack.small import SMALL

CHANGES = [word for change in SMALL for word in ("--set", change)]


PLAYED = MembershipAttack(
    "typical",
    Unit.PARTY,
    "what was released",
    "all other rows",
    noise=True,
    promise=0.8,
    games=200,
    detected=(Detection(0.001, Hits(1, 100), Hits(0, 100)), Detection(0.01, Hits(3, 100), Hits(2, 100))),
    proved=ProvedEpsilon(0.1, 0.3, Hits(3, 100), Hits(2, 100)),
    moved=20.0,
    queries=60,
    seconds=1.0,
)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is played stands in test_membership.py; here only where it goes."""
    monkeypatch.setattr(shadows, "HALVES", 1)
    bare = replace(PLAYED, noise=False, promise=None)
    monkeypatch.setattr(laboratory, "membership", lambda *_, **__: [PLAYED, bare])


def test_a_run_gets_a_chapter_that_the_public_report_lacks(tmp_path: Path) -> None:
    run = tmp_path / "run"
    changes = [*CHANGES, "--set", "simulation.hand_labels=none"]
    assert consilium("run", "stroke", *changes, "--out", str(run), "--quiet").exit_code == 0
    assert PROVES_NOTHING not in (run / "report.html").read_text()
    done = consilium("attack", str(run), "--budget", "0.01", "--only", "membership", "--format", "json", "--quiet")
    assert done.exit_code == 0, done.output
    values = json.loads(done.stdout)
    file = run / "private" / "attack.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["membership"] == values["membership"]
    assert PROVES_NOTHING in (run / "report.html").read_text()
    assert consilium("report", str(run), "--public").exit_code == 0
    public = (run / "report-public.html").read_text()
    assert PROVES_NOTHING not in public
    assert "attacker" not in public
    assert consilium("audit", str(run)).exit_code == 0
    file.write_text("[]")
    assert "attack.json is damaged" in consilium("report", str(run)).output


def test_a_scenario_gets_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "attacks"
    done = consilium("attack", "stroke", *CHANGES, "--budget", "0.01", "--only", "membership", "--out", str(folder))
    assert done.exit_code == 0, done.output
    assert PROVES_NOTHING in done.output
    assert {path.name for path in folder.iterdir()} == {"attack.json", "attack.html"}


def test_what_the_guarantee_allows_is_for_the_mistakes_that_may_have_been_made() -> None:
    """2 of 100 accused by mistake, so up to 7.04 of 100: e^.8 times that."""
    values = {"party_label": "hospital", "delta": 1e-5, "membership": [PLAYED.to_json()]}
    line = next(line for line in as_text([attacks_part(values)]).splitlines() if line.strip().startswith("a whole"))
    assert "3.0 (0.6 to 8.5)" in line
    assert "15.7" in line


def test_of_too_few_games_no_bound_is_said() -> None:
    """Two for each false alarm: 200 at one in a hundred. And a guarantee is rounded up."""
    few = replace(PLAYED, games=199, promise=0.79929)
    values = {"party_label": "hospital", "delta": 1e-5, "membership": [few.to_json()]}
    text = as_text([attacks_part(values)])
    line = next(line for line in text.splitlines() if line.strip().startswith("a whole"))
    assert line.split()[-4:] == ["–", "–", "–", "0.800"]
    assert "199 games of 200 needed" in line and "student’s model was not attacked" in text


def test_the_chapter_says_in_short_what_was_found() -> None:
    values = {
        "party_label": "hospital",
        "delta": 1e-5,
        "differences": [
            Difference("whole blocks, for ever", False, 20, 0, 900, 80, 0.5, None).to_json(),
            Difference("a question is summed once", True, 20, 20, 40, 40, 1.0, 0.0).to_json(),
        ],
        "attributes": [
            Guessed(SUBJECT, "age", "released counts", False, 0.7, 0.02, [0.01, 0.03], 900).to_json(),
            Guessed(SUBJECT, "age", "counts without noise", True, 0.9, 0.2, [0.1, 0.3], 900).to_json(),
        ],
        "liars": [
            Poisoned("flip", 37, "auc", 0.76, None, None, None, 0.15).to_json(),
            Poisoned("gain", 37, "auc", 0.77, None, 0.76, 0.75, 0.06).to_json(),
            Poisoned("flip, of unverified votes", 1, "auc", 0.24, None, None, None, 1.0).to_json(),
        ],
    }
    text = as_text([attacks_part(values)])
    assert "No search among 80 exact sums found one hospital's vote." in text
    assert "Of 1 guesses at somebody's attributes, 1 did better" in text
    assert "37 lying hospitals turn 15 of 100 cases. One whose votes nobody checks, as under masks, turns 100." in text
    assert "+0.010 to +0.030" in text
    assert "0.760, honest 0.750" in text
    noisy = {**values, "differences": [Difference("noise in each sum", False, 20, 20, 40, 40, 1.0, 129.0).to_json()]}
    assert "tell one hospital's vote under noise of 129 votes; each is charged." in as_text([attacks_part(noisy)])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["stroke", "--only", "phishing"], "there is no attack 'phishing'"),
        (["stroke", "--budget", "0"], "--budget is 0.0"),
        (["nothing-of-the-kind"], "nothing-of-the-kind"),
    ],
)
def test_mistakes_are_told(words: list[str], reason: str) -> None:
    done = consilium("attack", *words)
    assert done.exit_code == 2
    assert reason in done.output


def test_options_of_a_scenario_are_none_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert "belong to a scenario" in consilium("attack", str(tmp_path), "--set", "data.least_rows=5").output
    assert "is damaged" in consilium("attack", str(tmp_path)).output


def test_a_promise_that_is_refuted_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    false = replace(PLAYED, proved=replace(PLAYED.proved, gaussian=0.9))
    monkeypatch.setattr(laboratory, "membership", lambda *_, **__: [false])
    done = consilium("attack", "stroke", *CHANGES, "--only", "membership", "--out", str(tmp_path / "attacks"))
    assert done.exit_code == 1
    assert "the guarantee is false" in done.output
    assert "0.800 is promised" in done.output
