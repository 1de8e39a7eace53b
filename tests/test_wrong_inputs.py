"""Wrong inputs to every command: one message, the nearest key, the exit code, no traceback, and nothing is overwritten.

Each row is tried with `--format json`, where the error is the one object on stdout, and every third in text, too.

A full disk, likewise: the system itself refuses. No file of the process may grow beyond a limit (RLIMIT_FSIZE), which
ends a write as a full disk does, in the middle.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import consilium as public
from consilium.coordinator.events import EventLog
from consilium.models.published.model import publish
from consilium.protocol.files import write_private
from tests.command_line import consilium
from tests.deploy.site import edit, keys, make_site
from tests.marks import third
from tests.models.published.models import case
from tests.simulations.small import SMALL

IN = "federation."
"""Before a key of the federation in a scenario."""
MINIMUM = "federation.minimum_parties"

Change = Callable[[Path], object]


@dataclass(frozen=True)
class Wrong:
    """A command line in a folder of good files, the exit code, and parts of the message.

    change: what is wrong with the files, if that is it.
    """

    line: str
    code: int
    told: str
    near: str = ""
    change: Change | None = None


def put(name: str, content: bytes | str) -> Change:
    data = content if isinstance(content, bytes) else content.encode()

    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)

    return change


def cut(name: str) -> Change:
    """Half of a file."""

    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


def lacks(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def says(name: str, old: str, new: str) -> Change:
    return lambda folder: edit(folder / name, old, new)


PARTY, COORDINATOR, STUDENT = "site/ward-a", "site/coordinator", "site/university"
PLAN, FOLDER = "site/federation.toml", "site/out/federation"
EPSILON = "accounting epsilon --mechanism gnmax --votes votes.npz --delta 1e-5"
CALIBRATE = "accounting calibrate --mechanism gnmax --sigma 1 --epsilon 1 --delta 1e-5 --queries 1000"
FORGED = says(f"{FOLDER}/signed.json", '"signature": "', '"signature": "00')
ASK = f"student run {STUDENT} --wait 0.1 --out new"
CHECK = f"party rows {PARTY}"

ROWS = [
    # the command line itself
    Wrong("rnu", 2, "no such command 'rnu'", near="'run'"),
    Wrong("--verson", 2, "no such option '--verson'", near="'--version'"),
    Wrong("run --engin x", 2, "no such option '--engin'", near="'--engine'"),
    Wrong("run --seed -1", 2, "-1"),
    # scenarios
    Wrong("run absent", 2, "no scenario 'absent': neither a file nor one that ships"),
    Wrong(f"run --set {IN}mechanism.sigma3=1", 2, "unknown key of mechanism confident", near=f"{IN}mechanism.sigma1"),
    Wrong(f"run --set {IN}query_budget.querys=9", 2, "budget.querys: unknown key", near=f"{IN}query_budget.queries"),
    Wrong(f"run --set {IN}query_budget.queries=many", 2, f"{IN}query_budget.queries: must be a whole number"),
    Wrong(f"run --set {IN}mechanism.sigma2=inf", 2, f"{IN}mechanism.sigma2: must be a finite number, got infinity"),
    Wrong(f"run --set {IN}collection=secret", 2, '"secure" or "verified", got', near='"secure"'),
    Wrong(f"run --set {IN}teacher.model=ridge --set {IN}teacher.alpha=1e300", 2, "alpha: must be at most 10000000000"),
    Wrong(f"run --set {IN}query_budget", 2, "is not key=value"),
    Wrong("run --set data.set=strok", 2, "data.set: not a known data set"),
    Wrong("""run --set "data.classes=['well','ill']" """, 2, "do not match data set"),
    Wrong(f"run stroke --set {IN}mechanism.threshold=372", 2, "above the 371 votes"),
    Wrong(f"run stroke --set {MINIMUM}=400", 4, "371 hospitals are left"),
    Wrong("run wrong.toml", 2, "wrong.toml is not valid TOML", change=put("wrong.toml", "title = [")),
    Wrong("run wrong.toml", 2, "data: is required", change=put("wrong.toml", "")),
    Wrong("run .", 2, "cannot read .: Is a directory"),
    Wrong("run --out home", 6, "output folder home exists already"),
    # runs
    Wrong("report absent", 2, "absent is not there"),
    Wrong("report home", 3, "there is no run here"),
    Wrong("audit absent", 2, "absent is not there"),
    Wrong(f"audit {PARTY}", 2, "is the folder of a party, not of a coordinator"),
    Wrong("audit mechanism gnmaxx", 2, "gnmaxx", near="gnmax"),
    Wrong("audit mechanism gnmax --set sigma=4 --claim=-1", 2, "is not in the range x>=0"),
    Wrong("attack rows.csv", 3, "is not that of a simulated run"),
    Wrong("audit mechanism gnmax --set sigma=0", 2, "sigma: must be at least 0.01, got 0"),
    # accounting
    Wrong("accounting epsilon --mechanism gnmax --sigma 9 --votes votes.npz", 2, "missing option '--delta'"),
    Wrong(EPSILON, 2, "gnmax takes sigma, got nothing"),
    Wrong(f"{EPSILON} --sigma 0", 2, "sigma"),
    Wrong(f"{EPSILON} --sigma 9", 3, "is not a readable NumPy file", change=cut("votes.npz")),
    Wrong(f"{EPSILON} --sigma 9", 2, "there is no file votes.npz", change=lacks("votes.npz")),
    Wrong(f"{CALIBRATE} --queries 0", 2, "queries"),
    # nodes
    Wrong("party rows absent", 2, "absent is no node's folder"),
    Wrong(
        CHECK, 2, "most_teacher: unknown key",
        change=says(f"{PARTY}/policy.toml", "most_teachers", "most_teacher"),
    ),
    Wrong(CHECK, 3, "the data do not fit: 1 problem", change=cut(f"{PARTY}/data.npz")),
    Wrong(CHECK, 2, "data.npz is not there", change=lacks(f"{PARTY}/data.npz")),
    Wrong(CHECK, 2, "is not as the federation's authority signed", change=cut(f"{PARTY}/federation/federation.json")),
    Wrong(f"node keys ward-a --folder {PARTY}", 6, "ward-a is already there"),
    Wrong("node keys a/b --folder new", 2, "'a/b' is no name"),
    Wrong(f"node join home --node {PARTY}", 2, "home is no signed folder"),
    Wrong(f"node join {FOLDER}", 2, "has not the folder of one node", change=put("ward-y/node.json", "{}")),
    Wrong(f"node join {FOLDER} --node {PARTY}", 2, "is not signed by the authority in", change=FORGED),
    Wrong("node start home", 2, "home is no node's folder"),
    Wrong(f"node start {STUDENT}", 2, "student's folder"),
    Wrong(f"status {STUDENT}", 2, "student's folder"),
    Wrong(f"node close {PARTY}", 2, "is the folder of a party, not of a coordinator"),
    Wrong("status absent", 2, "absent is no node's folder"),
    Wrong(f"status {COORDINATOR}", 2, "federation.json", change=cut(f"{COORDINATOR}/federation/federation.json")),
    Wrong("doctor absent", 2, "absent is no node's folder"),
    Wrong(f"doctor {STUDENT}", 2, "node.json is not valid JSON", change=put(f"{STUDENT}/node.json", b"")),
    # the operator
    Wrong("provision absent.toml --out new", 2, "cannot read absent.toml: No such file"),
    Wrong(f"provision {PLAN} --out home", 6, "home is already there"),
    Wrong(
        f"provision {PLAN} --out new", 2, "minimum_partys: unknown key", near="minimum_parties",
        change=says(PLAN, "minimum_parties", "minimum_partys"),
    ),
    Wrong(f"provision add site/out {PARTY}/ward-a.enrol.json", 2, "the name 'ward-a' is taken"),
    Wrong(f"provision add home {PARTY}/ward-a.enrol.json", 2, "home has no folder operator"),
    Wrong("provision revoke site/out ward-a", 2, "ca.key", change=cut("site/out/operator/ca.key")),
    Wrong("provision revoke site/out nobody", 2, "no party, student or second aggregator 'nobody'"),
    # students
    Wrong("student run --out new", 2, "missing argument 'DIR'"),
    Wrong(f"student run {PARTY} --out new", 2, "is the folder of a party, not of a student"),
    Wrong(f"{ASK} --public absent.npz", 2, "cannot read absent.npz: No such file"),
    Wrong(f"{ASK} --public public.npz", 3, "cannot read public rows public.npz", change=cut("public.npz")),
    Wrong(f"{ASK} --public public.npz --config s.toml", 2, "trainr: unknown", "trainer", put("s.toml", "trainr = 1")),
    Wrong(f"{ASK} --public rows.csv --test rows.csv", 2, "nothing says in which column"),
    Wrong(f"{ASK} --public public.npz --out home", 6, "output folder home exists already"),
    Wrong(f"{ASK} --public public.npz --resume", 2, "there is no folder new: nothing to resume"),
    Wrong(f"{ASK} --public public.npz --out home --resume", 2, "finished", change=put("home/student/student.json", "")),
    Wrong(f"{ASK} --public public.npz", 9, "no label service at"),
    Wrong(f"{ASK} --public public.npz", 2, "not a PEM certificate", change=cut(f"{STUDENT}/keys/client.crt")),
    Wrong(
        f"{ASK} --public public.npz", 2, "is not as the federation's authority signed it",
        change=cut(f"{STUDENT}/federation/federation.json"),
    ),
    Wrong("predict absent rows.csv", 2, "absent is not there"),
    Wrong("predict home rows.csv", 3, "has no model.safetensors"),
    Wrong("predict student absent.csv", 2, "cannot read absent.csv: No such file"),
    Wrong("predict student rows.csv", 3, "is no safetensors file", change=cut("student/model.safetensors")),
    Wrong("predict student rows.csv", 3, "rows.csv", change=put("rows.csv", "a,b\n1,2\n")),
    Wrong("predict student rows.csv --out rows.csv", 6, "rows.csv is already there"),
    Wrong("predict student rows.csv --out no/out.csv", 2, "cannot write no/out.csv"),
]  # fmt: skip
TEXT = third(ROWS)


def make_student(folder: Path) -> None:
    """A folder `student` with a model, and `rows.csv`, of which it can say the class."""
    (folder / "student").mkdir()
    known = case("table logistic_regression")
    publish(folder / "student" / "model.safetensors", known.model, known.schema, known.pool)
    lines = [",".join(known.schema.features), ",".join(map(str, known.rows[0]))]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good files for every command."""
    folder = tmp_path_factory.mktemp("wrong") / "good"
    make_site(folder)
    keys(folder, "ward-z")
    (folder / "home").mkdir()
    shutil.copy(folder / PLAN, folder)
    shutil.copy(folder / "site" / "public.npz", folder)
    votes = np.random.default_rng(2).multinomial(100, [0.8, 0.15, 0.05], size=60)
    np.savez(folder / "votes.npz", votes=votes)
    make_student(folder)
    return folder


def sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.line}: {row.told}"[:90])
def test_wrong_input(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Wrong) -> None:
    folder = good
    if row.change is not None:
        folder = tmp_path / "changed"
        shutil.copytree(good, folder)
        row.change(folder)
    monkeypatch.chdir(folder)
    before = sums(folder)

    known = consilium(*shlex.split(row.line), "--format", "json")
    error = known.json()["error"]
    assert set(error) == {"type", "what", "action", "exit_code"}
    assert (known.exit_code, error["exit_code"]) == (row.code, row.code)
    assert row.told in error["what"] and row.near in error["what"]
    told = known.output
    if row in TEXT:
        text = consilium(*shlex.split(row.line))
        assert (text.exit_code, row.told in text.stderr, row.near in text.stderr) == (row.code, True, True), text.output
        assert row.near == "" or "did you mean" in text.stderr
        assert text.stderr.startswith("consilium: ") or "\nconsilium: " in text.stderr
        told += text.output
    assert all(word not in told for word in ("Traceback", "internal error", "Input should", "pydantic"))
    assert sums(folder) == before


ROOT = Path(__file__).resolve().parents[1]
CHANGES = [part for item in SMALL for part in ("--set", item)]


@contextmanager
def files_end_at(most: int) -> Iterator[None]:
    """No file of this process grows beyond `most` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.startswith("__"))


WRITERS = {
    "provision": "provision site/federation.toml --out new",
    "add a party": "provision add site/out ward-z/ward-z.enrol.json",
    "keys": "node keys p --folder new",
    "predict": "predict student rows.csv --out new",
    "run": "run stroke --out new " + shlex.join(CHANGES),
}


@pytest.mark.parametrize("what", WRITERS)
def test_nothing_half_made_stays(good: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(good)
    before = names(good)
    with files_end_at(50):
        done = consilium(*shlex.split(WRITERS[what]), "--format", "json")
    error = done.json()["error"]
    assert (done.exit_code, error["type"], error["exit_code"]) == (12, "StorageError", 12), done.stderr
    assert "File too large" in str(error["what"]) and "cannot write " in str(error["what"])
    assert names(good) == before


def test_a_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "consilium", "scenarios"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert done.returncode == 12
    assert done.stderr.startswith("consilium: cannot write ") and "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_half_a_key_does_not_stay(tmp_path: Path) -> None:
    with files_end_at(3), pytest.raises(OSError, match="File too large"):
        write_private(tmp_path / "key", b"secret")
    assert list(tmp_path.iterdir()) == []


def test_a_torn_event_is_cut_off_before_others_follow(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "one"}\n{"event": "tw')
    log = EventLog(path)
    log.write("promised", epsilon=np.inf, delta=1e-5, unit="party")
    log.close()
    events = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events] == ["one", "promised"]
    assert (events[1]["epsilon"], events[1]["infinite"]) == (None, ["epsilon"])


@pytest.mark.parametrize("opened", ["load_model", "load_run", "verify_run"])
def test_a_path_may_be_text(tmp_path: Path, opened: str) -> None:
    with pytest.raises(public.ConsiliumError, match="nowhere"):
        getattr(public, opened)(str(tmp_path / "nowhere"))
