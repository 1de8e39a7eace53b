"""A federation with masked votes as processes: nothing private is on the wire or at rest, and a revocation, which makes
a new federation, needs no hand at the coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger, stored_config
from consilium.node.folder import open_folder
from consilium.node.join import joined
from consilium.party.store import Store
from consilium.protocol.choices import counted
from consilium.protocol.queries import canonical_queries, query_ids
from tests.deploy.markers import files, found_in, key_markers, row_markers, vote_markers
from tests.deploy.processes import Federation, running
from tests.deploy.recorder import Recorder
from tests.deploy.site import NOISY, PARTIES, STUDENT, command, join_all, make_site
from tests.federation import CLASSES, FEATURES, make_rows

pytestmark = [pytest.mark.deploy, pytest.mark.slow, pytest.mark.timeout(1500)]
WARDS = (*PARTIES, "ward-d")
ASKED = 12


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Federation, Recorder]]:
    """It serves, a student has its labels, and all that the nodes said to the coordinator was written down: the
    recorder stands at the public address, and the coordinator listens at another."""
    site = make_site(tmp_path_factory.mktemp("masked"), WARDS, listen="127.0.0.2", minimum_parties=3, **NOISY)
    with Recorder(site, "127.0.0.2") as recorder, running(site, ["coordinator", *WARDS]) as federation:
        federation.serving()
        assert federation.asked("student-1", 0, ASKED)["asked"] == ASKED
        yield federation, recorder


def exact_votes(federation: Federation, name: str) -> np.ndarray:
    """What a party's teachers, from its own disk, vote on the queries, in the order in which they were asked."""
    run = federation.run_folder()
    config = FederationConfig.model_validate_json(stored_config(run / "ledger.db")[1])
    ledger = Ledger(run / "ledger.db", config.digest(), "", read_only=True)
    try:
        asked = [query for batch in ledger.batches() for query in batch.query_ids]
    finally:
        ledger.close()
    queries = canonical_queries(make_rows(400, 1000)[0][:ASKED], len(FEATURES))
    where = {query_id: at for at, query_id in enumerate(query_ids(queries))}
    trained = Store(federation.site / name / "state" / "party.db").teachers(config.digest())
    rows = trained.schema.standardise(queries[[where[query_id] for query_id in asked]])
    return counted(np.array([teacher.predict(rows) for teacher in trained.teachers]).T, len(CLASSES))


def test_nothing_private_is_on_the_wire_or_at_rest_elsewhere(recorded: tuple[Federation, Recorder]) -> None:
    federation, recorder = recorded
    site = federation.site
    wire = recorder.recorded()
    assert b"/v1/fleet/push-object" in wire and b"PRI * HTTP/2" in wire
    schema = joined(open_folder(site / "coordinator")).config.rows
    logs = files((site, "*.log"))
    for number, name in enumerate(WARDS):
        others = [path for path in site.iterdir() if path.is_dir() and path.name != name]
        places = {"wire": wire, **logs, **files(*((path, "**/*") for path in others))}
        rows = make_rows(240, number)[0][:3]
        markers = row_markers(rows, np.asarray(schema.standardise(rows)))
        assert found_in(files((site / name, "data.npz")), markers) != []  # the search would find it
        assert found_in(places, markers) == []
        votes = exact_votes(federation, name)
        assert votes.shape == (ASKED, len(CLASSES)) and votes.sum() == 4 * ASKED
        assert found_in(places, vote_markers(votes)) == []
    everything = {"wire": wire, **files((site, "**/*"))}
    at_rest = {at: content for at, content in everything.items() if "/keys/" not in at and "/operator/" not in at}
    assert found_in(at_rest, key_markers(site)) == []


def test_a_revocation_and_a_reboot_behind_it_need_no_hand_at_the_coordinator(
    recorded: tuple[Federation, Recorder],
) -> None:
    federation, _ = recorded
    site, left = federation.site, WARDS[1:]
    first = federation.run_folder()
    command("provision", "revoke", site / "out", WARDS[0])
    join_all(site, ["coordinator", *left])
    federation.serving(2)  # it ended, was started again, closed the earlier federation, and serves the new one
    assert federation.run_folder() != first
    assert federation[WARDS[0]].said.count("revoked") > 0
    for service in federation.services.values():
        service.power_off()
    federation.start("coordinator", *left)
    federation.serving(3)
    join_all(site, [STUDENT])
    assert federation.asked("student-2", 100)["asked"] == 8
    federation.close("student-2")
    labels = federation.labels()
    assert len(labels) == len(set(labels)) == ASKED + 8
