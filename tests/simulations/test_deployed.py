"""`audit` and `report` of a run of separate nodes, by the command line: closed, going on, lied about, and not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.coordinator.verify.runs import flip_label, node_run, rechained, run_of
from tests.simulations.report.cases import Page
from tests.simulations.tampering import main


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return node_run(tmp_path_factory.mktemp("deployed"))


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "copy")
    return tmp_path / "copy"


def crash(folder: Path) -> None:
    """As if the coordinator had died before it closed."""
    run = run_of(folder)
    (run / "coordinator.json").unlink()
    lines = [line for line in (run / "events.jsonl").read_text().splitlines(True) if '"closed"' not in line]
    (run / "events.jsonl").write_text("".join(lines))


def test_a_sound_one_holds(copied: Path, monkeypatch, capsys) -> None:
    coordinator, student = str(copied / "coordinator"), str(copied / "student")
    for path in (coordinator, str(run_of(copied))):
        code, out, err = main(monkeypatch, capsys, "audit", path, "--student", student)
        assert (code, err) == (0, ""), out
        assert out.splitlines()[-1] == "the run is what it claims to be"
        assert f"{student}/labels.parquet: those of the ledger: 20 outcomes" in out
    code, out, _ = main(monkeypatch, capsys, "audit", coordinator, "--student", student, "--format", "json")
    told = json.loads(out)
    assert (told["kind"], told["finished"], told["holds"]) == ("deployed", True, True)


ONE_CHANGE = {
    "one label": lambda folder: flip_label(folder / "student"),
    "one event, with its hashes": rechained(
        "UPDATE batches SET event = replace(event, '\"sigma2\":3.0', '\"sigma2\":9.0') WHERE seq = 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_CHANGE)
def test_one_change_is_found(copied: Path, monkeypatch, capsys, case: str) -> None:
    ONE_CHANGE[case](copied)
    coordinator, student = str(copied / "coordinator"), str(copied / "student")
    code, out, err = main(monkeypatch, capsys, "audit", coordinator, "--student", student)
    assert (code, err) == (1, "")
    assert "FAILED" in out and out.splitlines()[-1] == "THE RUN IS NOT WHAT IT CLAIMS TO BE"
    code, _, err = main(monkeypatch, capsys, "report", coordinator, "--student", student)
    assert code == 3 and "does not hold" in err
    assert not (run_of(copied) / "report.html").exists()


def test_one_that_crashed_holds_so_far_and_says_so(copied: Path, monkeypatch, capsys) -> None:
    crash(copied)
    code, out, _ = main(monkeypatch, capsys, "audit", str(copied / "coordinator"))
    assert code == 0
    assert out.splitlines()[-1] == "the run is not finished; its ledger so far holds"
    assert "unfinished  run: finished" in out and "give a student's folder" in out


def test_exit_codes_where_there_is_none(copied: Path, monkeypatch, capsys) -> None:
    cases = {
        ("audit", str(copied / "absent")): 2,
        ("audit", str(copied / "homes")): 3,
        ("audit", str(copied / "p00")): 2,
        ("audit", str(copied / "coordinator"), "--student", str(copied / "homes")): 3,
        ("audit", str(copied / "coordinator"), "--student", str(copied / "absent")): 2,
        ("report", str(copied / "coordinator"), "--student", str(copied / "absent")): 2,
    }
    for words, expected in cases.items():
        code, out, err = main(monkeypatch, capsys, *words)
        assert (code, out, err.count("\n")) == (expected, "", 1), (words, err)


class TestReport:
    def drawn(self, folder: Path, monkeypatch, capsys, *options: str) -> Page:
        out = folder / "page.html"
        words = ("report", str(folder / "coordinator"), "--out", str(out), *options)
        code, _, err = main(monkeypatch, capsys, *words)
        assert code == 0, err
        page = Page(out.read_text())
        assert page.tags["script"] == page.tags["img"] == 0
        assert not any("://" in value for _, _, value in page.attributes)  # opens without a network
        assert "nan" not in page.text.split() and "None" not in page.text.split()
        return page

    def test_of_a_closed_run_with_its_student(self, copied: Path, monkeypatch, capsys) -> None:
        coordinator = json.loads((run_of(copied) / "coordinator.json").read_text())
        card = json.loads((copied / "student" / "student" / "student.json").read_text())
        page = self.drawn(copied, monkeypatch, capsys, "--student", str(copied / "student"))
        answered, asked = coordinator["answered"], coordinator["asked"]
        text = " ".join(page.text.split())
        assert f"3 parties voted on {asked} public cases; {answered} labels were released." in text
        assert "The run ends when 40 queries are asked or 30 labels are released." in text and "12 teachers" in text
        assert f"The student reaches AUC {card['metrics']['auc']:.3f}" in text
        assert "How many released labels are right, nobody can say." in text
        assert "deployed nodes" in page.text and "What this report cannot show" in page.text
        assert "noise of the operating system" in text
        assert "This run is not finished" not in page.text

    def test_public_has_no_names_and_no_secret_epsilon(self, copied: Path, monkeypatch, capsys) -> None:
        coordinator = json.loads((run_of(copied) / "coordinator.json").read_text())
        page = self.drawn(copied, monkeypatch, capsys, "--public")
        assert "p00" not in page.text and "secret: do not publish" not in page.text
        secret = coordinator["privacy"]["data_dependent"]["epsilon"]
        if secret != coordinator["privacy"]["spent"]["epsilon"]:
            assert f"{secret:.3f}" not in page.text

    def test_of_an_unfinished_run_says_so_first(self, copied: Path, monkeypatch, capsys) -> None:
        crash(copied)
        page = self.drawn(copied, monkeypatch, capsys)
        assert page.text.index("This run is not finished.") < page.text.index("In plain words")
        assert "3 parties voted" in page.text
