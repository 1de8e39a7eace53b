"""Released histograms, from the mechanism over ledger and socket to the student: the noisy counts and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax, Histogram
from consilium.coordinator.collection.base import Counts
from consilium.coordinator.config import QueryBudget
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.verify.findings import Contradiction
from consilium.coordinator.verify.ledger import read_ledger
from consilium.protocol.errors import MalformedMessage
from consilium.protocol.label_source import Answers, Histograms, Outcome
from consilium.protocol.label_wire import answers_from_wire, answers_to_wire
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.noise import SeededNoise
from consilium.protocol.releases import ReleaseKind
from consilium.student.channel import OPTIONS
from tests.federation import make_config, make_rows

PARTIES = 10
MECHANISM = Histogram(sigma=3.0)


def exact(queries: np.ndarray) -> np.ndarray:
    """The votes of 10 parties with 2 teachers each."""
    ones = (np.abs(queries[:, 0]) * 7).astype(np.int64) % (2 * PARTIES + 1)
    return np.column_stack([2 * PARTIES - ones, ones])


class Votes:
    """A collector of those votes."""

    def settle(self) -> None:
        pass

    def collect(self, queries, sigma, progress=None):
        names = tuple(f"p{i}" for i in range(PARTIES))
        return Counts(exact(queries.rows), names, 2 * PARTIES)


@pytest.fixture
def make(tmp_path: Path, log):
    def build(name: str = "ledger.db", most_votes: int | None = None, **changes):
        config = make_config(
            **{
                "mechanism": MECHANISM,
                "query_budget": QueryBudget(queries=100, answers=100),
                "teachers_per_party": 2,
                **changes,
            }
        )
        ledger = Ledger.of(tmp_path / name, config)
        return LabelService(config, ledger, Votes(), SeededNoise, PARTIES, log, most_votes=most_votes), ledger, config

    return build


def test_the_student_gets_votes_with_the_noise_that_is_charged(site, make) -> None:
    service, ledger, config = make()
    x, _ = make_rows(40, 3)
    with site.serving(service, 40) as address, site.channel(address) as channel:
        assert channel.describe().count_sigma == 3.0
        answers = channel.ask(x)
    noise = SeededNoise(1).gaussian(3.0, (40, 2))
    assert answers.histograms is not None
    assert answers.histograms.counts.tolist() == (exact(x) + noise).tolist()
    assert answers.histograms.votes.tolist() == [2 * PARTIES] * 40
    assert answers.histograms.sigmas.tolist() == [3.0] * 40
    assert answers.labels.tolist() == answers.histograms.counts.argmax(axis=1).tolist()
    [batch] = ledger.batches()
    assert (
        batch.event
        == MECHANISM.event(
            asked=40,
            answered=40,
            unit=config.privacy.unit,
            neighbouring=config.privacy.neighbouring,
            teachers_per_party=2,
        ).to_json()
    )


@pytest.mark.parametrize(("mechanism", "count_sigma"), [(MECHANISM, 0.0), (GNMax(sigma=3.0), 3.0)])
def test_a_coordinator_that_does_not_give_what_its_terms_say_is_refused(
    site, make, monkeypatch, mechanism, count_sigma
):
    """Histograms where labels alone were announced, or none where they were: else a later request could lack them."""
    service, _, _ = make(mechanism=mechanism)
    kind = ReleaseKind.COUNTS if count_sigma else ReleaseKind.WINNER
    told = replace(service.describe(), count_sigma=count_sigma, release=kind)
    monkeypatch.setattr(service, "describe", lambda: told)
    x, _ = make_rows(10, 3)
    with (
        site.serving(service, 100) as address,
        site.channel(address) as channel,
        pytest.raises(MalformedMessage, match="unlike its terms"),
    ):
        channel.ask(x)


def test_as_many_as_may_ever_be_asked_come_in_one_message() -> None:
    counts = np.arange(800_000).reshape(-1, 2) - 400_000
    labels = counts.argmax(axis=1)
    histograms = Histograms(counts, np.full(len(counts), 7), np.full(len(counts), 2.5))
    message = answers_to_wire(Answers(np.ones_like(labels), labels, histograms))
    assert 10_000_000 < message.ByteSize() < OPTIONS["grpc.max_receive_message_length"]
    read = answers_from_wire(message, len(counts), 2).histograms
    assert read is not None and (read.counts == counts).all()


def labelled(*answers: tuple[int, int]) -> pb.Answers:
    """Without histograms."""
    outcomes, labels = zip(*answers, strict=True)
    return pb.Answers(outcomes=bytes(outcomes), labels=np.array(labels, "<i4").tobytes())


GOOD = (Outcome.ANSWERED, 1), (Outcome.ABSTAINED, 7)


def sent(**changed: object) -> pb.Answers:
    fields = {
        "outcomes": np.ones(2, "u1"),
        "labels": np.array([1, 0], "<i4"),
        "counts": np.array([[1, 5], [3, -2]], dtype="<i8"),
        "votes": np.array([4, 4], dtype="<i8"),
        "sigmas": np.array([2.0, 2.0]),
        **changed,
    }
    return pb.Answers(**{name: np.asarray(value).tobytes() for name, value in fields.items()})


@pytest.mark.parametrize(
    "message",
    [
        pb.Answers(),
        labelled(GOOD[0]),
        labelled(*GOOD, GOOD[0]),
        labelled((Outcome.ANSWERED, 2), GOOD[1]),
        labelled((Outcome.ANSWERED, -1), GOOD[1]),
        labelled((0, 0), (0, 0)),
        sent(counts=np.zeros(3, "<i8")),
        sent(counts=np.zeros(0, "<i8")),
        sent(votes=np.zeros(1, "<i8")),
        sent(sigmas=np.zeros(3)),
        sent(counts=np.zeros((3, 2), "<i8"), votes=np.zeros(3, "<i8"), sigmas=np.zeros(3)),
        sent(votes=np.array([-1, 4], "<i8")),
        sent(counts=np.array([[2**60, 0], [0, 0]], "<i8")),
        sent(counts=np.array([[-(2**63), 5], [3, -2]], "<i8")),
        sent(sigmas=np.array([np.nan, 1.0])),
        sent(sigmas=np.array([np.inf, 1.0])),
        sent(sigmas=np.array([-1.0, 1.0])),
        sent(labels=np.array([0, 0], "<i4")),
        sent(votes=np.array([0, 4], "<i8")),
        sent(sigmas=np.array([0.0, 2.0])),
    ],
)
def test_what_a_hostile_coordinator_sends_is_refused(message: pb.Answers) -> None:
    assert answers_from_wire(sent(), 2, 2).histograms is not None
    assert answers_from_wire(labelled(*GOOD), 2, 2).labels.tolist() == [1, -1]
    with pytest.raises(MalformedMessage):
        answers_from_wire(message, 2, 2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda drawn: {"counts": None}, "has no histograms"),
        (lambda drawn: {"counts": drawn.counts[:, :1]}, "histograms of 1 classes"),
        (lambda drawn: {"labels": 1 - drawn.labels}, "is not the largest count"),
    ],
)
def test_a_ledger_that_contradicts_its_mechanism_is_found(make, tmp_path: Path, monkeypatch, change, told) -> None:
    """Written by the coordinator itself, chain and all."""
    service, ledger, _ = make()
    commit = Ledger.commit
    monkeypatch.setattr(
        Ledger,
        "commit",
        lambda self, batch, *query_budget: commit(self, replace(batch, **change(batch)), *query_budget),
    )
    x, _ = make_rows(5, 3)
    service.ask(x)
    ledger.close()
    with pytest.raises(Contradiction, match=told):
        read_ledger(tmp_path / "ledger.db")


def test_counts_are_in_no_text(make) -> None:
    service, ledger, _ = make()
    x, _ = make_rows(3, 3)
    answers = service.ask(x)
    [batch] = ledger.batches()
    numbers = json.dumps(answers.histograms.counts.tolist())[2:-2].split("], [")
    assert not any(number in text for number in numbers for text in (repr(answers), repr(batch), repr(service)))
