"""What the drill and the soak rest on: exports that fit once they are mapped, a judge that can fail, trends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from benchmarks import nightly
from benchmarks.deployment import drill, kills, other_votes, pages
from benchmarks.deployment import site as site_module
from benchmarks.deployment.drill import FIRST, FORGOTTEN
from benchmarks.deployment.exports import EXPORTS
from benchmarks.deployment.interrupted import Answered
from benchmarks.deployment.machines import Machine, machines
from benchmarks.deployment.record import DrillEnded, Record
from benchmarks.deployment.site import ROWS, Site
from benchmarks.deployment.soak import trend
from consilium.coordinator.provision import kits
from consilium.party.dry_run import check, load_federation, usable
from consilium.party.home import read_party
from tests.deploy import netns


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Kits of all five hospitals, each with its export."""
    folder = tmp_path_factory.mktemp("site")
    with machines(folder, loopback=True) as made:
        site = Site(made, Record(folder / "transcript.txt"), tuple(EXPORTS))
        site.write_plan(tuple(EXPORTS), [])
        kits.make(site.operator.folder / "federation.toml", site.kits)
        for name in EXPORTS:
            (site.kits / f"party-{name}").rename(site.kit(site.party(name)))
            site.export(name)
    return site


def told(site: Site, name: str) -> tuple[int, list[str]]:
    """Rows that can be used, 0 where something is wrong, and what is told."""
    kit = site.kit(site.party(name))
    rows, found = check(read_party(kit), kit, load_federation(kit / "federation.json"))
    said = [str(problem) for problem in (*found.report.problems, *found.report.doubts, *found.report.remarks)]
    return (0 if found.faults else len(usable(rows, found).y)), said


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_fits_once_it_is_mapped(site: Site, name: str) -> None:
    with site.without(name, ""):
        used, said = told(site, name)
    assert said == []
    assert used >= ROWS - ROWS // 40 - 1  # where the label is missing, the row is dropped


@pytest.mark.parametrize(("name", "left_out"), [(name, case[0]) for name, cases in FORGOTTEN.items() for case in cases])
def test_what_is_forgotten_is_told(site: Site, name: str, left_out: str) -> None:
    with site.without(name, left_out):
        _, said = told(site, name)
    assert len(said) == 1


class Answering:
    """A machine whose every command ends so."""

    def __init__(self, code: int, output: str) -> None:
        self.name, self._done = "ward-a", subprocess.CompletedProcess([], code, output)

    def consilium(self, *_: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self._done


@pytest.mark.parametrize(
    ("code", "output", "right", "outcome"),
    [
        (0, "a\nall is  well\n", True, "exit 0: all is well"),
        (1, "all is well", False, "exit 1: all is well"),
        (0, "a\nb\n", False, "exit 0: b"),
        (0, "all is well\nTraceback", False, "exit 0: all is well"),
        (0, "", False, "exit 0: printed nothing"),
    ],
)
def test_a_step_is_judged(tmp_path: Path, code: int, output: str, right: bool, outcome: str) -> None:
    record = Record(tmp_path / "transcript.txt", [str(tmp_path)])
    machine = cast(Machine, Answering(code, output))
    record.run(machine, "doctor .", says="is +well", never="Traceback")
    assert (record.steps[0].right, record.steps[0].outcome) == (right, outcome)
    assert record.failed == (not right)
    if not right:
        with pytest.raises(DrillEnded):
            record.run(machine, "doctor .", says="is +well", never="Traceback", needed=True)


def test_what_does_not_come_is_a_failure_and_ends_what_rests_on_it(tmp_path: Path) -> None:
    record = Record(tmp_path / "transcript.txt")
    assert record.wait("ward-a", "until it is there", lambda: "there", 1) == "there"
    assert record.wait("ward-a", "until it is there", lambda: "", 0, needed=False) == ""
    with pytest.raises(DrillEnded, match="not within 0 s"):
        record.wait("ward-a", "until it is there", lambda: "", 0)
    assert record.failed == 2


def test_without_root_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "why_not", lambda: "network namespaces need root")
    monkeypatch.setattr(sys, "argv", ["drill"])
    with pytest.raises(SystemExit, match=r"need root\. Run it as root, or with --loopback"):
        drill.main()


def test_whoever_ends_the_script_leaves_nothing_running(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)  # a test before may have brought in a library that has its own
    with pytest.raises(SystemExit) as ended, machines(tmp_path, loopback=True) as made:
        ward = made.add("ward-a")
        ward.start("watch", ".", "--wait", "1000", cwd=tmp_path)  # any command: what runs is known by its mark
        begun = time.monotonic()
        while not ward.processes():  # its environment is not readable for a moment, while it begins
            assert time.monotonic() < begun + 60
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 143
    assert ward.processes() == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_only_commands_of_the_page_are_used() -> None:
    """What the drill and its site write after `consilium`, by their first words, and what the operator's pages have."""
    groups = "provision|node|party|student"
    modules = (drill, site_module, other_votes)
    source = "".join(Path(module.__file__ or "").read_text(encoding="utf-8") for module in modules)
    used = {
        *re.findall(rf'f?"((?:{groups}) [a-z-]+)[ ."]', source),
        *re.findall(r'"(doctor|status|audit|report) \.[ "]', source),
    }
    page = "".join((netns.ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("deploy.md", "for-it.md"))
    assert len(used) > 13
    assert [command for command in sorted(used) if f"consilium {command}" not in page] == []


def test_every_command_of_the_pages_is_run() -> None:
    """By the drill, as its modules write it, or by what a table names; a new one on a page has to come into either."""
    drills = (drill, site_module, other_votes)
    by = pages.run_by(("the drill", text) for module in drills for text in pages.written(module))
    assert [f"{page}: {command}" for (page, command), where in by.items() if not where] == []
    files = {path for where in by.values() for path in re.findall(r"(?:tests|benchmarks)/[\w/]+\.py", where)}
    assert [path for path in sorted(files) if not (netns.ROOT / path).exists()] == []
    assert sum(where == "the drill" for where in by.values()) > 25


@pytest.mark.parametrize(
    ("ran", "covers"),
    [
        ("provision add kits basel --seal kits/operator/passwords.txt", True),
        ("provision add kits basel --keys basel.enrol.json --weight 2", True),
        ("provision add --kind student kits institute", False),  # another kind of node
        ("provision add kits", False),
        ("provision revoke kits basel", False),
    ],
)
def test_which_commands_are_the_same(ran: str, covers: bool) -> None:
    assert pages.shape(ran).covers(pages.shape("provision add kits basel")) == covers


def test_control_a_command_that_nothing_runs_is_named() -> None:
    by = pages.run_by([("distributed", "node join . --keys ../keys"), ("verified", "node join . --keys ../new")])
    assert by["deploy.md", "consilium node join . --keys ../keys"] == "distributed, verified"
    assert by["deploy.md", "consilium provision federation.toml --out kits --seal kits/operator/passwords.txt"] == ""


def test_a_stranger_types_fifteen_commands_at_most() -> None:
    """To the first label, by deploy.md: whoever has most to do, and different ones in all."""
    counts = pages.counts()
    assert max(counts[who] for who in ("operator", "coordinator", "each party", "student", "different ones")) <= 15


def test_victims_are_of_all_kinds_in_turn() -> None:
    parts = kills.shares(50, 3, 60, 0, loopback=True)
    counts = Counter(kind for part in parts for kind, _ in kills.victims(part))
    assert sum(counts.values()) == 50
    assert sorted(counts) == sorted(kills.KINDS) and max(counts.values()) - min(counts.values()) <= 2


def test_a_kill_that_is_not_answered_is_counted_as_such() -> None:
    right, wrong = Answered("votes", True, 20.0, True), Answered("votes", False, 900.0, False)
    rows = dict((row[0], row[1:]) for row in kills.rows_of([kills.Kill("party", right), kills.Kill("party", wrong)]))
    assert rows == {"party": (2, 2, 1, 1, 460, 900), "all": (2, 2, 1, 1, 460, 900)}
    assert right.right and not wrong.right and "NOT ANSWERED" in wrong.words


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("| a |\n50 kills, 2 not as they should be\n", (48, 2, 0)),
        ("130 steps, 0 not as they should be, 584 s\n", (130, 0, 0)),
        ("Traceback", (0, 1, 0)),  # it said nothing at its end
    ],
)
def test_what_the_night_counts_of_a_drill(output: str, counts: tuple[int, int, int]) -> None:
    assert nightly.ended(output) == counts


def test_the_fifth_joins_later() -> None:
    assert [*FIRST, drill.FIFTH] == list(EXPORTS)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([100] * 20, "no trend"),
        ([100, 90, 110, 95, 105, 98, 102, 100], "no trend"),
        ([200 - at for at in range(20)], "no trend"),
        ([1000 + at for at in range(20)], "no trend"),  # in order, but 2 % in all
        ([100 + 3 * at for at in range(20)], "rises by 3.0 each"),
        ([1, 2, 3], "3 are too few to tell"),
    ],
)
def test_what_is_a_trend(values: list[int], said: str) -> None:
    assert trend(values) == said
