"""What a coordinator's doctor advises of a federation that runs, of its list of students, and of addresses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from consilium.coordinator.deploy.deployed import COORDINATOR
from consilium.coordinator.deploy.runs import begin
from consilium.coordinator.deploy.start import close
from consilium.coordinator.events import EventLog
from consilium.coordinator.provision import kits
from consilium.coordinator.server_app import door_of
from consilium.node.checks import CheckResult, examine
from consilium.node.kit import Kit, open_kit
from tests.coordinator.deploy.test_runs import asked, unpack_update
from tests.deploy.kits import edit, make_kits


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory) -> Path:
    """Kits of a federation of verified votes that may ask 390 of 400 rows, and an update that adds ward-d."""
    out = make_kits(
        tmp_path_factory.mktemp("kits"), collection="verified", query_budget={"queries": 390, "answers": 300}
    )
    kits.add_party(out, "ward-d")
    return out


@pytest.fixture
def kit(provisioned: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(provisioned / "coordinator", tmp_path / "coordinator")))


def found(kit: Kit, name: str) -> CheckResult:
    return next(each for each in examine(COORDINATOR.checks(open_kit(kit.folder), running=False)) if each.name == name)


def test_rows_that_an_earlier_federation_used_up_are_missed(kit: Kit, provisioned: Path) -> None:
    assert found(kit, "rows left").what == "400 public rows can still be asked, 390 queries are left"
    asked(kit, begin(kit), 30)
    assert found(kit, "rows left").what == "370 public rows can still be asked, 360 queries are left"
    close(kit, 1)
    unpack_update(kit, provisioned)
    begin(kit)
    advised = found(kit, "rows left")
    assert advised.level == "advice"
    assert advised.what == (
        "370 public rows can still be asked, 390 queries are left, since the second aggregator gave 30 in earlier"
        " federations and gives none twice"
    )


def test_who_is_refused_and_who_runs_another_version_is_said_by_name(kit: Kit) -> None:
    assert found(kit, "parties").what == "not asked yet: start the coordinator"
    log = EventLog(begin(kit).events)
    log.write("version", party="ward-c", theirs="consilium-pate 0.1", ours="consilium-pate 0.7")  # it was mended
    log.write("awaiting", parties=["ward-a", "ward-b", "ward-c"])
    assert found(kit, "parties").level == "ok"
    log.write(
        "left-out",
        stage="enrol",
        party="ward-a",
        reason="refused: most-queries, requested 300, limit 200",
        rule="most-queries",
    )
    log.write("version", party="ward-b", theirs="consilium-pate 0.6", ours="consilium-pate 0.7")
    log.close()
    advised = found(kit, "parties")
    assert (advised.level, advised.what) == (
        "advice",
        "ward-a: refused: most-queries, requested 300, limit 200. Its people allow it with consilium node"
        " accept (without a kit: policy.most_queries), or the party stays out; ward-b runs consilium-pate 0.6, this"
        " coordinator consilium-pate 0.7",
    )


def test_a_list_without_students_is_advised(kit: Kit) -> None:
    assert found(kit, "students").what == "1 may ask: university"
    (kit / "students.json").write_text("{}")
    assert (found(kit, "students").level, found(kit, "students").what) == ("advice", "no student may ask")


def test_kit_json_says_where_students_are_served(kit: Kit, tmp_path: Path) -> None:
    """It is the one file that the coordinator's people change; federation.json has what was provisioned."""
    place = kit.coordinator
    assert door_of(kit, tmp_path).address == f"127.0.0.1:{place.label_port}"
    edit(kit / "kit.json", f'"label_port": {place.label_port}', '"label_port": 8499')
    moved = open_kit(kit.folder)
    assert door_of(moved, tmp_path).address == "127.0.0.1:8499"
    assert found(moved, "signature").level == "ok"
    assert found(moved, "label port").what == "port 8499 is free"
