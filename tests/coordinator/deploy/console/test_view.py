"""What the console shows of a kit, and that none of it depends on how parties voted."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from consilium.coordinator.deploy.console import (
    ConsoleReader,
    certificate_lines,
    coordinator_metrics,
    page,
    party_lines,
    watched,
)
from consilium.coordinator.deploy.runs import begin, configuration
from consilium.coordinator.deploy.start import close
from consilium.coordinator.deploy.status import status
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import most_so_far, promised
from consilium.coordinator.provision.authority import Authority
from consilium.node.kit import Kit, open_kit
from consilium.node.log import Heard
from consilium.node.metrics import exposition
from consilium.protocol.label_source import NO_LABEL
from tests.coordinator.deploy.console.cases import SECRET, charge, events, half_way
from tests.deploy.kits import PARTIES, make_kits

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    return make_kits(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def kit(sound: Path, tmp_path: Path) -> Kit:
    return open_kit(Path(shutil.copytree(sound / "coordinator", tmp_path / "coordinator")))


def silent() -> Heard:
    return Heard(lambda *_: None)


def test_before_and_in_the_middle_of_a_run(kit: Kit) -> None:
    reader = ConsoleReader(kit, silent())
    before = reader.view(NOW)
    assert (before.kind_of_stage, before.queries_asked, before.queries_most) == ("not started", 0, 40)
    assert (before.epsilon_so_far, before.epsilon_guaranteed) == (0.0, promised(configuration(kit)).epsilon)
    assert [party.name for party in before.parties] == sorted(PARTIES)
    half_way(kit)
    charge(kit, [0, 1, NO_LABEL])
    seen = reader.view(NOW)
    assert (seen.kind_of_stage, seen.done, seen.total) == ("secure sum", 2, 3)
    assert seen.queries_asked == 3
    assert 0 < seen.epsilon_so_far < seen.epsilon_guaranteed
    assert seen.states == {"takes part": 2, "refused": 1}
    assert [party.connected for party in seen.parties] == [False] * 3  # no coordinator runs
    (trouble,) = seen.troubles
    assert "ward-b left out of stage train" in trouble.what
    assert "policy.most_epsilon" in trouble.cure
    assert seen.warnings == ["30 answers are few for a student"]
    assert seen.to_json()["parties"][1]["state"] == "refused"


def shown(kit: Kit) -> tuple[str, str, str]:
    """Page, JSON and metrics at one moment, without what the machine does."""
    view = ConsoleReader(kit, silent()).view(NOW)
    own = {**view.to_json(), "processes": []}
    html = page(type(view)(**{**vars(view), "processes": []})).body.decode()
    return html, str(own), exposition(coordinator_metrics(view, True)).decode()


def test_nothing_that_is_shown_depends_on_votes(sound: Path, tmp_path: Path) -> None:
    """Two runs that asked the same questions, with other votes, labels and numbers of answers."""
    votes = [[SECRET, 0], [0, SECRET], [SECRET, SECRET]]
    seen = []
    for name, labels, histogram in (("one", [0, 1, NO_LABEL], votes), ("other", [NO_LABEL, NO_LABEL, 1], None)):
        kit = open_kit(Path(shutil.copytree(sound / "coordinator", tmp_path / name)))
        charge(kit, labels, histogram)
        seen.append(shown(kit))
    assert seen[0] == seen[1]
    assert all(str(SECRET) not in text for text in seen[0])


def test_the_metrics_of_a_run(kit: Kit) -> None:
    half_way(kit)
    charge(kit, [0, NO_LABEL])
    view = ConsoleReader(kit, silent()).view(NOW)
    text = exposition(coordinator_metrics(view, serves_students=False)).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found[("consilium_queries_asked_total",)] == 2
    assert found[("consilium_party_state", "ward-b", "refused")] == 1
    assert found[("consilium_party_connected", "ward-b")] == 0
    assert found[("consilium_troubles_total", "left-out")] == 1
    assert [name[1] for name, value in found.items() if name[0] == "consilium_stage" and value] == ["secure sum"]
    labels = {key for family in text_string_to_metric_families(text) for each in family.samples for key in each.labels}
    assert labels == {"party", "state", "stage", "kind"}


def test_parties_are_as_status_has_them(kit: Kit) -> None:
    half_way(kit)
    found = status(kit)
    assert [party.told for party in party_lines(found)] == [found.parties[name] for name in sorted(PARTIES)]


def test_an_update_over_an_open_federation_is_told(kit: Kit) -> None:
    half_way(kit)
    update = {**json.loads((kit / "federation.json").read_text()), "name": "four wards"}
    (kit / "federation.json").write_text(json.dumps(update))
    view = ConsoleReader(kit, silent()).view(NOW)
    assert view.kind_of_stage == "secure sum"  # of the one that runs
    assert view.next and view.next != view.run
    assert view.next in page(view).body.decode()


def test_so_far_is_never_more_than_promised_and_grows(kit: Kit) -> None:
    config = configuration(kit)
    costs = [most_so_far(config, asked) for asked in (0, 1, 10, 30, 31, config.query_budget.queries)]
    assert costs == sorted(costs)
    assert costs[0] == 0.0
    assert costs[-1] == pytest.approx(promised(config).epsilon)


def test_a_damaged_ledger_is_a_trouble_on_the_page(kit: Kit) -> None:
    (begin(kit) / "ledger.db").write_bytes(b"no database")
    answered = {path: made() for path, made in watched(kit, silent()).all_pages().items()}
    assert answered["/"].status == 500 or b"ledger" in answered["/"].body
    assert answered["/healthz"].status == 200


def test_a_damaged_configuration_is_a_trouble_on_the_page(kit: Kit) -> None:
    (kit / "federation.json").write_text("{}")
    view = ConsoleReader(kit, silent()).view(NOW)
    assert view.parties == []
    assert "federation.json" in view.troubles[0].what
    assert view.certificates


def test_what_processes_said_is_shown_once(kit: Kit) -> None:
    heard = silent()
    reader = ConsoleReader(kit, heard)
    log = events(kit)
    log.write("failed", error="NotEnoughParties", what="1 parties after stage 'enrol'", action="See events.jsonl")
    log.close()
    heard.tell("run", "failed: 1 parties after stage 'enrol'. See events.jsonl")
    heard.tell("run", "1 parties after stage 'enrol'. See events.jsonl; again in 5 s")
    heard.tell("run", "the run ended without an outcome. See state/logs; again in 5 s, and from then on")
    heard.tell("superlink", "ended (exit code 1); starts again in 1 s; log: x")
    heard.tell("coordinator", "stopped")
    assert sorted(trouble.what for trouble in reader.view(NOW).troubles) == [
        "1 parties after stage 'enrol'",
        "run: the run ended without an outcome. See state/logs; again in 5 s, and from then on",
        "superlink: ended (exit code 1); starts again in 1 s; log: x",
    ]


@pytest.mark.parametrize(("days", "level"), [(400, "ok"), (101, "soon"), (99, "over")])
def test_ages_of_certificates(sound: Path, kit: Kit, days: int, level: str) -> None:
    now = datetime.now(UTC)
    kit.server_tls.key.unlink()
    authority = Authority.load(sound / "operator")
    authority.server(["127.0.0.1"], days=days, now=now - timedelta(days=100)).save(kit.folder, "server")
    server, own = certificate_lines(kit, now)
    assert (server.name, server.age_days, server.level) == ("server.crt", 100, level)
    assert (own.name, own.level) == ("ca.crt", "ok")


def test_a_lost_certificate_is_told(kit: Kit) -> None:
    (kit / "server.crt").unlink()
    server, _ = certificate_lines(kit, NOW)
    assert (server.until, server.days_left, server.level) == ("cannot be read", None, "over")


def test_nothing_listens_before_it_is_started(kit: Kit) -> None:
    assert ConsoleReader(kit, silent()).ready() == ["the SuperLink does not listen", "the gateway does not listen"]


def test_a_revoked_party_is_revoked_everywhere(kit: Kit) -> None:
    """In status, on the page, in JSON and in metrics, whatever it was before."""
    half_way(kit)
    nodes = json.loads((kit / "nodes.json").read_text())
    del nodes["nodes"]["ward-a"]
    (kit / "nodes.json").write_text(json.dumps(nodes))
    view = ConsoleReader(kit, silent()).view(NOW)
    assert status(kit).parties["ward-a"] == "revoked, it is not in nodes.json"
    (line,) = [party for party in view.parties if party.name == "ward-a"]
    assert (line.state, line.connected) == ("revoked", False)
    assert "revoked, it is not in nodes.json" in page(view).body.decode()
    text = exposition(coordinator_metrics(view, serves_students=True)).decode()
    assert 'consilium_party_state{party="ward-a",state="revoked"} 1.0' in text


def test_what_a_failed_question_used_up_is_the_same_at_every_surface(kit: Kit) -> None:
    charge(kit, [0, 1, NO_LABEL])
    run = begin(kit)
    with closing(Ledger(run / "ledger.db", run.config.digest(), "")) as ledger:
        ledger.voted_on(["f" * 64, "e" * 64], ["ward-a", "ward-c"])
    words = "2 questions were put to ward-a, ward-c and not answered"
    found, view = status(kit), ConsoleReader(kit, silent()).view()
    assert (found.queries_asked, found.unanswered, found.queries_left) == (5, 2, 35)
    assert words in "\n".join(found.lines()) and words in found.not_answered
    assert view.epsilon_so_far == most_so_far(run.config, {None: 5}), "those that failed count too"
    assert words in page(view).body.decode()
    numbers = {
        sample.name: sample.value
        for family in text_string_to_metric_families(
            exposition(coordinator_metrics(view, serves_students=True)).decode()
        )
        for sample in family.samples
    }
    assert numbers["consilium_queries_asked_total"] == 5 and numbers["consilium_queries_unanswered"] == 2


def test_a_closed_federation_offers_nothing(kit: Kit) -> None:
    charge(kit, [0, 1, NO_LABEL])
    assert (status(kit).queries_left, status(kit).answers_left) == (37, 28)
    close(kit, 1)
    found, view = status(kit), ConsoleReader(kit, silent()).view()
    assert (found.queries_left, found.answers_left, found.closed) == (0, 0, True)
    assert "left         closed: nothing can be asked" in found.lines()
    assert "Closed: nothing can be asked" in page(view).body.decode()
    assert begin(kit).use().queries_left == 0
