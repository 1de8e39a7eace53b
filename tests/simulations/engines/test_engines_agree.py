"""The same seed gives the same votes, labels and student: of nodes in this process, in a study, on the local engine and
on Ray."""

from __future__ import annotations

import contextlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.collection.admission import Greeting
from consilium.coordinator.collection.base import Queries
from consilium.coordinator.collection.means import Standing
from consilium.coordinator.collection.plaintext import kept_votes, vote_request
from consilium.coordinator.ledger import Ledger
from consilium.party.store import Store
from consilium.protocol.queries import query_ids
from consilium.simulations.audit import audit_path
from consilium.simulations.divide import make_case
from consilium.simulations.run import Engine, run_scenario
from consilium.simulations.scenario import load_scenario
from consilium.simulations.simulated import Population
from consilium.simulations.vote import TeacherVotes, train_ensemble


def quiet(_: Path) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


# few hospitals, several teachers each that depend on their seeds, and equal scores that a lot decides
CHANGES = [
    "data.least_rows=180",
    "federation.minimum_parties=10",
    "federation.teachers_per_party=3",
    "federation.teacher={model='random_forest', trees=5}",
    "federation.voting_rule.rule=relative",
    "federation.mechanism={name='confident', threshold=20, sigma1=8.0, sigma2=8.0}",
    "federation.query_budget={queries=60, answers=40}",
    "simulation.manual_labels=none",
]
SEED = 3


def run(out: Path, engine: Engine, *changes: str) -> tuple[dict[str, Any], pl.DataFrame]:
    """All that a run says but where and when; and what was released."""
    summary = run_scenario("stroke", load_scenario("stroke", [*CHANGES, *changes]), engine, SEED, out, quiet)
    told = {key: value for key, value in summary.items() if key not in ("engine", "seconds", "out")}
    return told, pl.read_parquet(out / "labels.parquet")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], pl.DataFrame]:
    out = tmp_path_factory.mktemp("engines") / "local"
    return out, *run(out, "local")


def test_parties_of_a_run_vote_as_those_of_a_study(local: tuple[Path, dict[str, Any], pl.DataFrame]) -> None:
    case = make_case(load_scenario("stroke", CHANGES), SEED, 0.0)
    votes, row = train_ensemble(case).pool, {query: row for row, query in enumerate(case.pool_ids)}
    (path,) = (local[0] / "private").glob("votes-*.npz")
    with kept_votes(path) as kept:
        rows = np.array([row[query] for query in kept.query_ids])
        ids = query_ids(case.pool_x[rows])
        for index, party in enumerate(case.parties):
            mine = np.flatnonzero(votes.tied_party == index)
            ties = (votes.tied_teacher[mine], votes.tied_row[mine], votes.tied[mine])
            alone = TeacherVotes(votes.cast[[index]], np.zeros(len(mine), dtype=np.int32), *ties)
            of_study = alone.totals(rows, [party], case.config.digest(), ids, len(case.classes))
            np.testing.assert_array_equal(kept.votes(party), of_study)


def test_nodes_in_this_process_vote_as_over_flower(local: tuple[Path, dict[str, Any], pl.DataFrame]) -> None:
    case = make_case(load_scenario("stroke", CHANGES), SEED, 0.0)
    population, row = Population.of(case), {query: row for row, query in enumerate(case.pool_ids)}
    with closing(Ledger.in_memory(case.config)) as ledger:
        nodes = {party: population.party(index, Store.in_memory()) for index, party in enumerate(case.parties)}
        for node in nodes.values():
            node.hello(Greeting(ledger.position).request(case.config))
            node.train(case.config.train_request())
        (path,) = (local[0] / "private").glob("votes-*.npz")
        with kept_votes(path) as kept:
            rows = case.pool_x[[row[query] for query in kept.query_ids]]
            request = vote_request(case.config, Queries(rows), Standing(ledger))
            found = {party: node.vote(request).choices for party, node in nodes.items()}
            assert {*found} == {*kept.parties}
            assert all(np.array_equal(choices, kept.choices[party]) for party, choices in found.items())


@pytest.mark.ray
@pytest.mark.timeout(1200)
def test_local_and_ray_agree(tmp_path: Path, local: tuple[Path, dict[str, Any], pl.DataFrame]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    told, labels = run(tmp_path / "ray", "ray")
    assert labels.equals(local[2])
    assert told == local[1]
    assert told["teachers"] == 3 * told["parties"] > 30
    assert json.loads((tmp_path / "ray" / "manifest.json").read_text())["status"] == "complete"
    assert not (tmp_path / "ray" / "private" / "work").exists()


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.nightly])])
def test_hidden_votes_are_collected_on_every_engine(tmp_path: Path, engine: Engine) -> None:
    """The second aggregator, whose state is in files, and parties whose state is not."""
    few = ("federation.mechanism={name='gnmax', sigma=20}", "federation.query_budget={queries=20, answers=20}")
    _, labels = run(tmp_path / engine, engine, "federation.collection=verified", *few)
    assert len(labels) == 20
    assert not list((tmp_path / engine / "private").glob("votes-*.npz"))
    assert [finding for finding in audit_path(tmp_path / engine).findings if not finding.holds] == []
