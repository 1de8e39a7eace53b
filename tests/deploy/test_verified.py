"""A federation with a second aggregator as processes: it comes last, is stopped, and is killed while it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from consilium.aggregator.store import GivenStore
from tests.deploy.recorder import Recorder, files, found_in, key_markers
from tests.deploy.site import PARTIES, SECOND, SERVES, command, make_site, running

pytestmark = [pytest.mark.deploy, pytest.mark.nightly, pytest.mark.timeout(1500)]
HOST, EACH, AWAY = "127.0.0.2", 8, "the second aggregator does not answer"
KILLED = ["", "node.supernode", "node.apps"]
"""What is in the command line of the process; none: the one that systemd watches."""


def test_the_second_aggregator_comes_last_is_stopped_and_is_killed(tmp_path: Path) -> None:
    site = make_site(tmp_path, collection="verified", minimum_parties=3, listen=HOST)
    with Recorder(site, HOST) as recorder, running(site, ["coordinator", *PARTIES]) as federation:
        said = federation.coordinator
        federation.wait(lambda: AWAY in said.said, "it is awaited")  # before anybody trains
        assert SERVES not in said.said
        federation.start(SECOND)
        federation.serving()
        assert federation.asked("student-1", 0)["asked"] == EACH
        for name in ("coordinator", PARTIES[0], SECOND):
            command("doctor", site / name)
        given = command("status", site / SECOND, "--format", "json").json()["given"]
        assert given["queries"] == EACH

        federation[SECOND].stop()
        federation.wait(lambda: federation.status()["aggregators"] == {SECOND: "away"}, "status says that it is away")
        student = federation.asks("student-2", EACH)  # it asks again until there are answers
        federation.wait(lambda: "questions were not answered" in said.said, "it is said")
        federation.start(SECOND)
        assert federation.answer(student)["asked"] == EACH

        events = federation.run_folder() / "events.jsonl"
        for number, text in enumerate(KILLED, 3):
            begun = events.read_text().count('"stage"')
            student = federation.asks(f"student-{number}", EACH * (number - 1))
            federation.wait(lambda begun=begun: events.read_text().count('"stage"') > begun, "the question has begun")
            federation[SECOND].kill(text)
            assert federation.answer(student)["asked"] == EACH
        wire = recorder.recorded()
        federation.close("student-1")

    labels = federation.labels()
    assert len(labels) == len(set(labels)) == EACH * (2 + len(KILLED))
    with GivenStore(site / SECOND / "state" / "given.db").transaction() as given:
        assert given.ever() == len(labels)
    places = {"wire": wire, **files((site, "*/state/**/*"), (site, "*.log"))}
    assert found_in(places, key_markers(site)) == []
