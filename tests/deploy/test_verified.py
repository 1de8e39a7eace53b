"""A federation with a second aggregator as processes: it comes last, is stopped, and is killed while it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.aggregator.store import GivenStore
from tests.deploy.markers import files, found_in, key_markers
from tests.deploy.processes import running
from tests.deploy.recorder import Recorder
from tests.deploy.site import PARTIES, SECOND, command, make_site

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.proofs, pytest.mark.timeout(1500)]
AWAY = "the second aggregator does not answer"


def test_the_second_aggregator_comes_last_is_stopped_and_is_killed(tmp_path: Path) -> None:
    site = make_site(tmp_path, collection="verified", minimum_parties=3, listen="127.0.0.2")
    with Recorder(site, "127.0.0.2") as recorder, running(site, ["coordinator", *PARTIES]) as federation:
        federation.wait(lambda: AWAY in federation.coordinator.said, "it is awaited")  # before anybody trains
        assert "students may ask" not in federation.coordinator.said
        federation.start(SECOND)
        federation.serving()
        assert federation.asked("student-1", 0)["asked"] == 8
        for name in ("coordinator", PARTIES[0], SECOND):
            command("doctor", site / name)
        assert federation.status(SECOND)["given"]["queries"] == 8

        federation[SECOND].stop()
        federation.wait(lambda: federation.status()["aggregators"] == {SECOND: "away"}, "status says that it is away")
        student = federation.asks("student-2", 8)  # it asks again until there are answers
        federation.wait(lambda: "questions were not answered" in federation.coordinator.said, "it is said")
        federation.start(SECOND)
        assert federation.answer(student)["asked"] == 8

        for number, text in enumerate(("", "node.supernode", "node.apps")):
            begun = federation.begun()
            student = federation.asks(f"student-{number + 3}", 16 + 8 * number)
            federation.wait(lambda begun=begun: federation.begun() > begun, "the question has begun")
            federation[SECOND].kill(text)
            assert federation.answer(student)["asked"] == 8
        wire = recorder.recorded()
        federation.close("student-1", "student-2", "student-3", "student-4", "student-5")

    labels = federation.labels()
    assert len(labels) == len(set(labels)) == 40
    with GivenStore(site / SECOND / "state" / "given.db").transaction() as given:
        assert given.ever() == 40
    places = {"wire": wire, **files((site, "*/state/**/*"), (site, "*.log"))}
    assert found_in(places, key_markers(site)) == []
