"""The audit of a run, simulated or of separate nodes, says yes to a sound one, and no to every kind of tampering; the
report of one that is deployed, going on, or damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.verify import Verdict
from consilium.protocol.errors import DataError
from consilium.simulations.audit import audit_path
from consilium.simulations.folder import SUMS, renew_sum, write_sums
from tests.command_line import consilium
from tests.coordinator.verify.runs import Tamper, edit, flip_label, node_run, run_of, sql
from tests.marks import some, third
from tests.simulations.report.cases import Page

LEDGER, FILES_CHECK = "ledger.db: structure, hash chain and counts", f"{SUMS}: every file"


def change_votes(run: Path) -> None:
    """One party votes for the other class everywhere."""
    path = sorted((run / "private").glob("votes-*.npz"))[0]
    with np.load(path) as file:
        content = dict(file)
    content["choices"][0] = 1 - content["choices"][0]
    np.savez_compressed(path, **content)


TAMPERING: dict[str, tuple[Tamper, str]] = {
    "a label in the ledger": (sql("UPDATE releases SET label = 1 - label WHERE outcome = 1"), LEDGER),
    "evidence": (sql("UPDATE releases SET histogram = probabilities"), LEDGER),
    "promised epsilon": (
        edit("coordinator.json", lambda c: c["privacy"]["guarantee"].update(epsilon=0.1)),
        "coordinator.json: counts and epsilon",
    ),
    "worst case, slightly": (
        edit("summary.json", lambda c: c["privacy"].update(epsilon_spent=c["privacy"]["epsilon_guaranteed"] - 1e-4)),
        "summary.json: epsilon",
    ),
    "the report": (
        edit("private/report.json", lambda c: c["guarantees"]["data_dependent"].update(epsilon=0.2)),
        "private/report.json: epsilon",
    ),
    "the student's card": (
        edit("student/student.json", lambda c: c["privacy"].update(epsilon=0.3)),
        "student/student.json: federation and epsilon",
    ),
    "a label of the student": (flip_label, "labels.parquet: those of the ledger"),
    "votes": (change_votes, "private/votes-*.npz: votes of the evidence"),
}


def reclosed(change: Callable[[dict], object]) -> Tamper:
    """Another closing, with the right hash: what a coordinator that cheats would write."""

    def apply(run: Path) -> None:
        with sqlite3.connect(run / "ledger.db") as ledger:
            at, result, previous = ledger.execute("SELECT at, result, previous FROM closing").fetchone()
            content = json.loads(result)
            change(content)
            text = json.dumps(content, sort_keys=True)
            link = hashlib.sha256(json.dumps([previous, "closing", at, text], separators=(",", ":")).encode())
            ledger.execute("UPDATE closing SET result = ?, hash = ?", (text, link.hexdigest()))

    return apply


CLOSINGS: dict[str, Tamper] = {
    "another curve": reclosed(
        lambda c: (c.update(released_rdp=c["released_rdp"] - 50), c["guarantee"].update(epsilon=-50))
    ),
    "another epsilon": reclosed(lambda c: c["guarantee"].update(epsilon=1.0)),
    "no cost": reclosed(lambda c: c.update(release_cost=0.0)),
    "another plan": reclosed(lambda c: c["event"].update(sigma_ss=100.0)),
    "no guarantee": reclosed(lambda c: c.pop("guarantee")),
}


def failed(run: Path) -> list[str]:
    """Checks that speak against the run."""
    return [finding.check for finding in audit_path(run).findings if not finding.holds]


@pytest.fixture
def copied(small_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run, tmp_path / "run"))


def test_a_sound_run_passes_and_its_log_has_what_could_be_warned_of_before_the_first_query(small_run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in small_run.rglob("*")}
    assert failed(small_run) == []
    assert {path: path.stat().st_mtime_ns for path in small_run.rglob("*")} == before  # it changes nothing
    events = [json.loads(line) for line in (small_run / "events.jsonl").read_text().splitlines()]
    names = [event["event"] for event in events]
    warned = [{"code": event["code"], "text": event["text"]} for event in events if event["event"] == "warned"]
    assert [each["code"] for each in warned] == ["large-epsilon", "halves-not-classes"]
    assert names.index("warned") < names.index("released")
    summary = json.loads((small_run / "summary.json").read_text())
    assert summary["warnings"][-len(warned) :] == warned
    assert summary["privacy"]["epsilon_sanitised"] > 0
    assert summary["privacy"]["epsilon_spent"] <= summary["privacy"]["epsilon_guaranteed"]
    assert "Estimate released with noise" in (small_run / "report.html").read_text()


@pytest.mark.parametrize("case", third(list(CLOSINGS)))
def test_a_closing_that_does_not_follow_from_the_ledger_is_found(copied: Path, case: str) -> None:
    CLOSINGS[case](copied)
    assert "ledger.db: sanitised epsilon released once and as planned" in failed(copied)


@pytest.mark.parametrize("case", TAMPERING)
def test_tampering_is_found(copied: Path, case: str) -> None:
    """By whoever does not mind the sums, and by whoever computes them anew."""
    tamper, expected = TAMPERING[case]
    tamper(copied)
    assert FILES_CHECK in failed(copied)
    write_sums(copied)
    assert expected in failed(copied)


def test_a_run_that_says_that_it_goes_on_is_unfinished_and_no_proof(copied: Path) -> None:
    edit("manifest.json", lambda c: c.update(status="running"))(copied)
    assert FILES_CHECK in failed(copied)  # it has its sums, so it was complete
    for name in (SUMS, "summary.json", "report.html", "coordinator.json"):
        (copied / name).unlink()
    (copied / "events.jsonl").write_text("")
    audited = audit_path(copied)
    assert not audited.finished and failed(copied) == []
    told = {finding.check: finding.verdict for finding in audited.findings}
    assert told["manifest.json: status"] is told["summary.json: epsilon"] is Verdict.UNFINISHED
    sql("UPDATE releases SET histogram = probabilities")(copied)
    assert failed(copied) == [LEDGER]  # what is there must hold


def test_a_page_that_somebody_changed_is_found_by_its_sum(copied: Path) -> None:
    page = copied / "report.html"
    page.write_text(page.read_text().replace("hospitals", "clinics"))
    assert failed(copied) == [FILES_CHECK]
    renew_sum(copied, "report.html")  # as `consilium report` does when it draws the page again
    assert failed(copied) == []


def one_bit(content: bytes) -> bytes:
    at = len(content) // 3
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "deep": lambda _: b"[" * 100_000,
    "one bit": one_bit,
    "removed": lambda _: None,
}
FILES = (
    "coordinator.json", "events.jsonl", "labels.parquet", "ledger.db", "manifest.json", "private/report.json",
    "private/votes-*.npz", "report.html", SUMS, "student/MODEL_CARD.md", "student/model.safetensors",
    "student/plan.json", "student/student.json", "summary.json",
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(small_run: Path, tmp_path: Path, name: str) -> None:
    """One test for each file, as copying and auditing a run for each damage takes longer than either."""
    found = {path.relative_to(small_run) for path in small_run.rglob("*") if path.is_file()}
    listed = {path.relative_to(small_run) for each in FILES for path in small_run.glob(each)}
    assert {path.as_posix() for path in found - listed} == {"ledger.db.lock"}
    damages = third(list(DAMAGES), FILES.index(name))
    for damage in [*damages, *({"removed"} - set(damages) if name == SUMS else ())]:
        run = Path(shutil.copytree(small_run, tmp_path / damage))
        path = sorted(run.glob(name))[0]
        content = DAMAGES[damage](path.read_bytes())
        path.unlink() if content is None else path.write_bytes(content)
        wrong = [f"{finding.check}: {finding.found}" for finding in audit_path(run).findings if not finding.holds]
        assert any(name.split("*")[0] in finding for finding in wrong), (damage, wrong)
        shutil.rmtree(run)


def test_labels_with_any_byte_changed_are_findings(copied: Path) -> None:
    """The parser of a foreign format meets what nobody wrote."""
    content, generator = (copied / "labels.parquet").read_bytes(), np.random.default_rng(5)
    for _ in range(some(30)):
        changed = np.frombuffer(content, dtype=np.uint8).copy()
        changed[generator.integers(4, len(content) - 4, size=3)] = generator.integers(0, 256, size=3)
        (copied / "labels.parquet").write_bytes(changed.tobytes())
        audit_path(copied)  # nothing is raised


def test_the_command(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run here"):
        audit_path(tmp_path)
    edit("summary.json", lambda c: c.update(teachers=1))(copied)
    done = consilium("audit", copied, "--format", "json")
    told = done.json()
    assert (done.exit_code, told["holds"], told["kind"], told["finished"]) == (1, False, "simulation", True)
    assert {tuple(sorted(finding)) for finding in told["findings"]} == {("check", "found", "verdict")}
    assert {finding["verdict"] for finding in told["findings"]} <= {verdict.value for verdict in Verdict}


@pytest.mark.parametrize(
    ("key", "value"),
    [("parties", "many"), ("guarantees", []), ("answered", {}), ("quality", [1]), ("open_figures", {"test": [3]})],
)
def test_a_report_of_damaged_data_is_a_line_and_no_traceback(copied: Path, key: str, value: object) -> None:
    edit("private/report.json", lambda c: c.update({key: value}))(copied)
    before = (copied / "report.html").read_bytes()
    done = consilium("report", copied)
    assert (done.exit_code, "Traceback" in done.stderr) == (3, False), done.stderr
    assert (copied / "report.html").read_bytes() == before


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return node_run(tmp_path_factory.mktemp("deployed"))


@pytest.fixture
def deployed(nodes: Path, tmp_path: Path) -> Path:
    """A run of separate nodes."""
    return Path(shutil.copytree(nodes, tmp_path / "copy"))


def drawn(folder: Path, *options: object) -> Page:
    done = consilium("report", folder / "coordinator", "--out", folder / "page.html", *options)
    assert done.exit_code == 0, done.stderr
    page = Page((folder / "page.html").read_text())
    assert page.tags["script"] == page.tags["img"] == 0
    assert not any("://" in value for _, _, value in page.attributes)  # opens without a network
    assert "nan" not in page.text.split() and "None" not in page.text.split()
    return page


def test_a_deployed_run_holds_and_has_a_report(deployed: Path) -> None:
    coordinator, student = deployed / "coordinator", deployed / "student"
    for path in (coordinator, run_of(deployed)):
        done = consilium("audit", path, "--student", student)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        assert done.stdout.splitlines()[-1] == "the run is what it claims to be"
        assert f"{student}/labels.parquet: those of the ledger: 20 outcomes" in done.stdout
    told = consilium("audit", coordinator, "--student", student, "--format", "json").json()
    assert (told["kind"], told["finished"], told["holds"]) == ("deployed", True, True)
    said = json.loads((run_of(deployed) / "coordinator.json").read_text())
    auc = json.loads((student / "student" / "student.json").read_text())["metrics"]["auc"]
    text = " ".join(drawn(deployed, "--student", student).text.split())
    for part in (
        f"3 parties voted on {said['asked']} public cases; {said['answered']} labels were released.",
        "The run ends when 40 queries are asked or 30 labels are released.", "12 teachers", "deployed nodes",
        f"The student reaches AUC {auc:.3f}", "How many released labels are right, nobody can say.",
        "What this report cannot show", "noise of the operating system",
    ):  # fmt: skip
        assert part in text
    assert "This run is not finished" not in text
    public, secret = drawn(deployed, "--public").text, said["privacy"]["data_dependent"]["epsilon"]
    assert "p00" not in public and "secret: do not publish" not in public
    assert secret == said["privacy"]["spent"]["epsilon"] or f"{secret:.3f}" not in public


def test_one_change_in_a_deployed_run_is_found(deployed: Path) -> None:
    flip_label(deployed / "student")
    arguments = deployed / "coordinator", "--student", deployed / "student"
    done = consilium("audit", *arguments)
    assert (done.exit_code, done.stderr) == (1, "")
    assert "does not hold  " in done.stdout and done.stdout.splitlines()[-1] == "THE RUN IS NOT WHAT IT CLAIMS TO BE"
    done = consilium("report", *arguments)
    assert done.exit_code == 3 and "does not hold" in done.stderr
    assert not (run_of(deployed) / "report.html").exists()


def test_one_that_crashed_holds_so_far_and_says_so(deployed: Path) -> None:
    """As if the coordinator had died before it closed."""
    run = run_of(deployed)
    (run / "coordinator.json").unlink()
    lines = [line for line in (run / "events.jsonl").read_text().splitlines(True) if '"closed"' not in line]
    (run / "events.jsonl").write_text("".join(lines))
    done = consilium("audit", deployed / "coordinator")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "the run is not finished; its ledger so far holds"
    assert f"{'unfinished':21}  run: finished" in done.stdout and "give a student's folder" in done.stdout
    text = drawn(deployed).text
    assert text.index("This run is not finished.") < text.index("In plain words") and "3 parties voted" in text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("audit", "homes"), 3),
        (("audit", "coordinator", "--student", "homes"), 3),
        (("audit", "coordinator", "--student", "absent"), 2),
        (("report", "coordinator", "--student", "absent"), 2),
    ],
)
def test_exit_codes_where_there_is_none(
    nodes: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int
) -> None:
    monkeypatch.chdir(nodes)
    done = consilium(*words)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
