"""The audit of a run says yes to a sound one, and no to every kind of tampering."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consilium.coordinator.verify import Verdict
from consilium.protocol.errors import DataError
from consilium.simulations.audit import audit_path
from consilium.simulations.checksums import FILE, renew_sum, write_sums
from consilium.simulations.run import run_scenario
from consilium.simulations.scenario import load_scenario
from tests.coordinator.verify.runs import Tamper, edit, sql
from tests.marks import some, third
from tests.simulations.engines.test_engines_agree import quiet
from tests.simulations.small import SMALL
from tests.simulations.tampering import LEDGER, SUMS, TAMPERING, main, reclosed

SANITISED = [f"federation.privacy.sanitised.{key}" for key in ("order=2.5", "beta=0.05", "sigma_ss=6")]


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A small finished run that released a sanitised epsilon."""
    out = tmp_path_factory.mktemp("audit") / "run"
    run_scenario(
        "stroke",
        load_scenario("stroke", [*SMALL, *SANITISED, "student.batch=50", "simulation.manual_labels=none"]),
        "local",
        4,
        out,
        quiet,
    )
    return out


def failed(run: Path) -> list[str]:
    """Checks that speak against the run."""
    return [finding.check for finding in audit_path(run).findings if not finding.holds]


def test_a_sound_run_passes(sound: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sound.rglob("*")}
    assert failed(sound) == []
    assert {path: path.stat().st_mtime_ns for path in sound.rglob("*")} == before  # it changes nothing


def test_the_log_has_what_could_be_warned_of_before_the_first_query(sound: Path) -> None:
    events = [json.loads(line) for line in (sound / "events.jsonl").read_text().splitlines()]
    names = [event["event"] for event in events]
    before = [{"code": event["code"], "text": event["text"]} for event in events if event["event"] == "warned"]
    assert [each["code"] for each in before] == ["large-epsilon", "halves-not-classes"]
    assert names.index("warned") < names.index("released")
    assert json.loads((sound / "summary.json").read_text())["warnings"][-len(before) :] == before


def lower_curve(content: dict) -> None:
    content["released_rdp"] -= 50.0
    content["guarantee"]["epsilon"] -= 50.0


CLOSINGS: dict[str, Tamper] = {
    "another curve": reclosed(lower_curve),
    "another epsilon": reclosed(lambda content: content["guarantee"].update(epsilon=1.0)),
    "no cost": reclosed(lambda content: content.update(release_cost=0.0)),
    "another plan": reclosed(lambda content: content["event"].update(sigma_ss=100.0)),
    "no guarantee": reclosed(lambda content: content.pop("guarantee")),
}


def test_a_closing_that_does_not_follow_from_the_ledger_is_found(sound: Path, tmp_path: Path) -> None:
    summary = json.loads((sound / "summary.json").read_text())["privacy"]
    assert summary["epsilon_sanitised"] > 0
    assert summary["epsilon_spent"] <= summary["epsilon_guaranteed"]
    assert "Estimate released with noise" in (sound / "report.html").read_text()
    for case in third(list(CLOSINGS)):
        shutil.copytree(sound, tmp_path / case)
        CLOSINGS[case](tmp_path / case)
        assert "ledger.db: sanitised epsilon released once and as planned" in failed(tmp_path / case), case


@pytest.mark.parametrize("case", TAMPERING)
def test_tampering_is_found(sound: Path, tmp_path: Path, case: str) -> None:
    """By whoever does not mind the sums, and by whoever computes them anew."""
    tamper, expected = TAMPERING[case]
    shutil.copytree(sound, tmp_path / "run")
    tamper(tmp_path / "run")
    assert SUMS in failed(tmp_path / "run")
    write_sums(tmp_path / "run")
    assert expected in failed(tmp_path / "run")


def test_a_run_that_says_that_it_goes_on_is_unfinished_and_no_proof(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "run")
    edit("manifest.json", lambda c: c.update(status="running"))(tmp_path / "run")
    assert SUMS in failed(tmp_path / "run")  # it has its sums, so it was complete
    (tmp_path / "run" / FILE).unlink()
    for name in ("summary.json", "report.html", "coordinator.json"):
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / "events.jsonl").write_text("")
    audited = audit_path(tmp_path / "run")
    assert not audited.finished and failed(tmp_path / "run") == []
    told = {finding.check: finding.verdict for finding in audited.findings}
    assert told["manifest.json: status"] is told["summary.json: epsilon"] is Verdict.UNFINISHED
    sql("UPDATE releases SET histogram = probabilities")(tmp_path / "run")
    assert failed(tmp_path / "run") == [LEDGER]  # what is there must hold


def test_a_page_that_somebody_changed_is_found_by_its_sum(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "run")
    page = tmp_path / "run" / "report.html"
    page.write_text(page.read_text().replace("hospitals", "clinics"))
    assert failed(tmp_path / "run") == [SUMS]
    renew_sum(tmp_path / "run", "report.html")  # as `consilium report` does when it draws the page again
    assert failed(tmp_path / "run") == []


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run here"):
        audit_path(tmp_path)


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def one_bit(content: bytes) -> bytes:
    at = len(content) // 3
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "truncated": truncated,
    "deep": lambda _: b"[" * 100_000,
    "one bit": one_bit,
    "removed": lambda _: None,
}
FILES = (
    "coordinator.json", "events.jsonl", "labels.parquet", "ledger.db", "manifest.json", "metrics.parquet",
    "private/report.json", "private/votes-*.npz", "report.html", "SHA256SUMS", "student/MODEL_CARD.md",
    "student/model.safetensors", "student/plan.json", "student/student.json", "summary.json",
)  # fmt: skip


def damaged(run: Path, name: str, damage: str) -> None:
    path = sorted(run.glob(name))[0]
    content = DAMAGES[damage](path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)


def test_every_file_of_a_run_is_listed_above(sound: Path) -> None:
    found = {path.relative_to(sound) for path in sound.rglob("*") if path.is_file()}
    listed = {path.relative_to(sound) for name in FILES for path in sound.glob(name)}
    assert {path.as_posix() for path in found - listed} == {"ledger.db.lock"}


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(sound: Path, tmp_path: Path, name: str) -> None:
    """One test for each file, as copying and auditing a run for each damage takes longer than either."""
    damages = third(list(DAMAGES), FILES.index(name))
    for damage in [*damages, *({"removed"} - set(damages) if name == "SHA256SUMS" else ())]:
        run = tmp_path / damage
        shutil.copytree(sound, run)
        damaged(run, name, damage)
        wrong = [f"{finding.check}: {finding.found}" for finding in audit_path(run).findings if not finding.holds]
        told = name.split("*")[0]
        assert any(told in finding for finding in wrong), (damage, wrong)
        shutil.rmtree(run)


def test_labels_with_any_byte_changed_are_findings(sound: Path, tmp_path: Path) -> None:
    """The parser of a foreign format meets what nobody wrote."""
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    content, generator = (run / "labels.parquet").read_bytes(), np.random.default_rng(5)
    for _ in range(some(30)):
        changed = np.frombuffer(content, dtype=np.uint8).copy()
        changed[generator.integers(4, len(content) - 4, size=3)] = generator.integers(0, 256, size=3)
        (run / "labels.parquet").write_bytes(changed.tobytes())
        audit_path(run)  # nothing is raised


class TestCommandLine:
    def test_the_command_may_be_left_out(self, tmp_path, monkeypatch, capsys) -> None:
        monkeypatch.chdir(tmp_path)
        assert "missing argument" in main(monkeypatch, capsys, "audit", "run")[2]
        code, _, err = main(monkeypatch, capsys, "audit", "absent")
        assert (code, err.count("\n")) == (2, 1) and "no run here" in err

    def test_json_is_one_object(self, sound, tmp_path, monkeypatch, capsys) -> None:
        shutil.copytree(sound, tmp_path / "one")
        edit("summary.json", lambda c: c.update(teachers=1))(tmp_path / "one")
        code, out, _ = main(monkeypatch, capsys, "audit", str(tmp_path / "one"), "--format", "json")
        told = json.loads(out)
        assert code == 1 and told["holds"] is False and told["kind"] == "simulation" and told["finished"] is True
        assert {tuple(sorted(finding)) for finding in told["findings"]} == {("check", "found", "verdict")}
        assert {finding["verdict"] for finding in told["findings"]} <= {verdict.value for verdict in Verdict}


def test_a_report_of_damaged_data_is_a_line_and_no_traceback(sound: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    for key, value in (("parties", "many"), ("guarantees", []), ("answered", {}), ("quality", [1]), ("student", [3])):
        run = tmp_path / key
        shutil.copytree(sound, run)
        edit("private/report.json", lambda c, key=key, value=value: c.update({key: value}))(run)
        before = (run / "report.html").read_bytes()
        code, _, err = main(monkeypatch, capsys, "report", str(run))
        assert (code, "Traceback" in err) == (3, False), (key, err)
        assert (run / "report.html").read_bytes() == before
