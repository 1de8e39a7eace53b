"""Faults that are planted by one function that is replaced in this process, and small federations to plant them in.

The federations are those hospitals of `stroke` with most patients, with ridge teachers, four to a hospital.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator import conclusion, label_service
from consilium.coordinator.collection.clear import Histogram
from consilium.coordinator.conclusion import Participation, conclude
from consilium.coordinator.distinguish import GameSetup, audit_mechanism
from consilium.coordinator.events import EventLog
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import GNMax
from consilium.coordinator.memory_ledger import MemoryLedger
from consilium.party import node
from consilium.protocol.errors import BudgetExceeded
from consilium.protocol.noise import SeededNoise
from consilium.simulations import release, teach
from consilium.simulations.attack import faults
from consilium.simulations.attack.faults import DEPENDENT, FED_BACK, LESS, RESET, REUSED, SHARED
from consilium.simulations.attack.membership import OnRows
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.audit import audit_path
from consilium.simulations.audit_teachers import AuditEffort, audit_teachers, subject_of_scenario
from consilium.simulations.divide import divide
from consilium.simulations.release import RecordedVotes
from consilium.simulations.scenario import load_scenario

SMALL = (
    "data.least_rows=200",
    "federation.minimum_parties=5",
    "federation.teachers_per_party=4",
    'federation.teacher={model="ridge"}',
    "federation.query_budget.queries=80",
    "federation.query_budget.answers=80",
)
RELEASES = ('federation.mechanism={name="histogram",sigma=20.0}', 'federation.mechanism={name="gnmax",sigma=20.0}')

LITTLE_NOISE = ('federation.mechanism={name="gnmax",sigma=5.0}',)


def votes_of(seed: int, mechanism: str) -> Shadows:
    """The votes of one small federation on its whole pool."""
    case = divide(load_scenario("stroke", [*SMALL, mechanism], seed), seed)
    return Shadows(case, np.arange(len(case.pool_x)), seed, halves=0)


@contextmanager
def shared_rows() -> Iterator[None]:
    """Each teacher also gets a tenth of the rows of its party, by lot."""
    split = teach.split

    def overlapping(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
        parts, rows = split(identities, count, secret), len(identities)
        # by each row's own identity, as the shards are: only the overlap is wrong
        drawn = identities[:, :count].astype(int) < 26
        return [np.union1d(part, np.flatnonzero(drawn[:, index])) if rows else part for index, part in enumerate(parts)]

    with mock.patch.object(teach, "split", overlapping), mock.patch.object(node, "split", overlapping):
        yield


@contextmanager
def reset_budget() -> Iterator[None]:
    """The ledger forgets what was asked before each batch."""
    nothing: Callable[..., tuple[int, int]] = lambda self, phase=None: (0, 0)  # noqa: E731
    with mock.patch.object(MemoryLedger, "spent", nothing), mock.patch.object(Ledger, "spent", nothing):
        yield


@contextmanager
def reused_across_batches() -> Iterator[None]:
    """Every batch begins with the same seed."""
    noise_for = label_service.noise_for
    same: Callable[[Any], Any] = lambda config: lambda batch: noise_for(config)(1)  # noqa: E731
    with (
        mock.patch.object(faults, "noise_for", same),
        mock.patch.object(release, "noise_for", same),
        mock.patch.object(label_service, "noise_for", same),
    ):
        yield


@contextmanager
def reused_within_a_batch() -> Iterator[None]:
    """One draw for all queries of a batch."""
    gaussian = SeededNoise.gaussian

    def once(self: SeededNoise, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(gaussian(self, sigma, (1, *shape[1:])), shape).copy()

    with mock.patch.object(SeededNoise, "gaussian", once):
        yield


@contextmanager
def half_the_noise() -> Iterator[None]:
    """Sigma is divided by two where it is drawn."""
    gaussian = SeededNoise.gaussian
    with mock.patch.object(SeededNoise, "gaussian", lambda self, sigma, shape: gaussian(self, sigma / 2, shape)):
        yield


@contextmanager
def fed_back() -> Iterator[None]:
    """Parties train again on what was released: on each later query one vote goes to the label of one before."""
    collect, labels = release.RecordedVotes.__call__, list[int]()

    def committing(kind: type) -> Callable[..., None]:
        commit = kind.commit

        def committed(self: Any, batch: Any, *words: Any) -> None:
            labels[:] = batch.labels.tolist()
            commit(self, batch, *words)

        return committed

    def trained_again(self: Any, queries: np.ndarray, *words: Any, **more: Any) -> Histogram:
        histogram = collect(self, queries, *words, **more)
        if len(self.rows) < 2 or not labels:
            return histogram
        votes = histogram.votes.copy()
        for place in range(len(votes)):
            label = labels[place % len(labels)]
            loser = int(np.argmax(np.where(np.arange(votes.shape[1]) == label, -1, votes[place])))
            if votes[place, loser]:
                votes[place, loser], votes[place, label] = votes[place, loser] - 1, votes[place, label] + 1
        return replace(histogram, votes=votes)

    with (
        mock.patch.object(release.RecordedVotes, "__call__", trained_again),
        mock.patch.object(MemoryLedger, "commit", committing(MemoryLedger)),
        mock.patch.object(Ledger, "commit", committing(Ledger)),
    ):
        yield


@contextmanager
def printed_by_the_data() -> Iterator[None]:
    """What is promised is what the votes at hand cost."""
    play = faults.replay

    def wrong(*words: Any, **more: Any) -> Any:
        replayed = play(*words, **more)
        return replace(replayed, promised=replayed.spent["data_dependent"])

    spent, promises, last = conclusion.spent, conclusion.promises, dict[str, Any]()

    def remembered(*words: Any, **more: Any) -> Any:
        last.update(spent(*words, **more))
        return {}

    def printed(config: Any) -> Any:
        return {**promises(config), **last, "guarantee": last["data_dependent"]}

    with (
        mock.patch.object(faults, "replay", wrong),
        mock.patch.object(conclusion, "spent", remembered),
        mock.patch.object(conclusion, "promises", printed),
    ):
        yield


SHARED_ROWS = "each teacher gets a tenth of its party's rows more"
PLANTED: dict[str, tuple[str, Callable[[], Any], tuple[str, ...]]] = {
    SHARED_ROWS: (SHARED, shared_rows, RELEASES),
    "the ledger forgets what was asked": (RESET, reset_budget, RELEASES),
    "every batch has the same noise": (REUSED, reused_across_batches, RELEASES),
    "all queries of a batch have the same noise": (REUSED, reused_within_a_batch, RELEASES),
    "half the noise": (LESS, half_the_noise, RELEASES),
    "teachers learn from released labels": (FED_BACK, fed_back, RELEASES),
    # only labels, and votes that are clear beside the noise, have another epsilon than the worst case
    "epsilon of the votes at hand is printed": (DEPENDENT, printed_by_the_data, LITTLE_NOISE),
}


MANY_TEACHERS = ("federation.teachers_per_party=20",)
"""Of few rows each, so that one row decides votes."""


def audit_of_run(seed: int, mechanism: str, plant: Callable[[], Any]) -> list[str]:
    """What `consilium audit` says does not hold of a coordinator's run whose student asks for more than it may."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with plant():
            everything = votes_of(seed, mechanism)
            case = everything.case
            config = case.config.model_copy(update={"noise_seed": seed})
            votes = OnRows(everything.rows, everything.whole.sum(axis=0, dtype=np.int64))
            with (
                closing(EventLog(folder / "events.jsonl")) as log,
                closing(
                    Ledger(folder / "ledger.db", config.digest(), config.model_dump_json(exclude={"noise_seed"}))
                ) as ledger,
            ):
                noise, parties = label_service.noise_for(config), case.parties
                service = LabelService(config, ledger, noise, RecordedVotes(case, votes), len(parties), log)
                log.write("promised", **service.promised.to_json())
                step = config.query_budget.queries // 2
                with suppress(BudgetExceeded):
                    for start in range(0, 4 * step, step):
                        service.ask(case.pool_x[start : start + step])
                part = Participation(weights=dict.fromkeys(parties, 1), counted=[len(parties)])
                conclude(config, folder, ledger, log, part)
        return [finding.check for finding in audit_path(folder).findings if not finding.holds]


def audit_of_mechanism(seed: int, plant: Callable[[], Any]) -> bool:
    """Whether `consilium audit mechanism` refutes what it claims."""
    with plant():
        return audit_mechanism(GNMax(sigma=5), SeededNoise(seed), GameSetup(queries=10, runs=4000)).violated


def audit_of_teachers(seed: int, plant: Callable[[], Any]) -> bool:
    """Whether `consilium audit teachers` finds a record that moves more votes than it may."""
    overrides = [*SMALL, RELEASES[1], *MANY_TEACHERS]
    with tempfile.TemporaryDirectory() as name, plant():
        home, config, rows = subject_of_scenario("stroke", overrides, None, seed, Path(name))
        plan = AuditEffort(Unit.RECORD, Neighbouring.ADD_OR_REMOVE, changes=60, queries=20, runs=1000, seed=seed)
        return audit_teachers(home, config, rows, plan, SeededNoise(seed)).violated
