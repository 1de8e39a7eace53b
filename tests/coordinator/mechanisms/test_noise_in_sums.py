"""Noise in the sums, by brute force: laws of shares and top-ups, and what students and nodes learn from small cases.

Every law is computed and none is drawn: a sum of shares is convolved, and delta(epsilon) is summed over all outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.curves.discrete import NO_SLACK
from consilium.accounting.errors import NoiseError
from consilium.accounting.events import Mechanism, ReleaseEvent
from consilium.accounting.mechanisms import Confident, GNMax, Histogram, Interactive, event_from_json
from consilium.accounting.target import worst_case
from consilium.accounting.units import Towards, Unit
from consilium.coordinator.collection.base import Counts, Queries
from consilium.coordinator.config import FederationConfig, QueryBudget
from consilium.coordinator.draw import projected
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.mechanisms import BY_MASKED_PARTIES, BY_TWO_AGGREGATORS, SumNoise
from consilium.coordinator.parts import Privacy
from tests.coordinator.mechanisms.drawing import NoNoise
from tests.coordinator.mechanisms.test_mechanisms import law_of_argmax
from tests.federation import make_config, make_rows

REACH = 120
AT = np.arange(-REACH, REACH + 1)


@lru_cache
def gaussian(variance: float) -> np.ndarray:
    """Probabilities of a discrete Gaussian at `AT`."""
    weights = np.exp(-(AT.astype(np.float64) ** 2) / (2 * variance))
    return weights / weights.sum()


def total(*laws: np.ndarray) -> np.ndarray:
    out = laws[0]
    for law in laws[1:]:
        out = np.convolve(out, law)[REACH : 3 * REACH + 1]
    return out


def of_shares(noise: SumNoise, honest: int, top_up: bool = True) -> np.ndarray:
    """What so many honest givers and the coordinator add to one count."""
    share = noise.drawn.sigma**2 / noise.shares
    topped = noise.top_up(honest + noise.colluders) if top_up else 0.0
    return total(*[gaussian(share)] * honest, *([gaussian(topped**2)] if topped else []))


NOISES = [
    SumNoise(6.0, BY_MASKED_PARTIES, 8, 0),
    SumNoise(6.0, BY_MASKED_PARTIES, 20, 2),
    SumNoise(5.0, BY_MASKED_PARTIES, 3, 1),
    SumNoise(2.5, BY_MASKED_PARTIES, 4, 0),
    SumNoise(4.0, BY_TWO_AGGREGATORS, 1, 0),
    SumNoise(1.5, BY_TWO_AGGREGATORS, 1, 0),
]


class TestTheLaw:
    @pytest.mark.parametrize("noise", NOISES, ids=str)
    def test_it_is_within_the_slack_of_one_discrete_gaussian_of_at_least_the_variance(self, noise: SumNoise) -> None:
        share = noise.drawn.sigma**2 / noise.shares
        enough = int(np.ceil(noise.sigma**2 / share))
        for honest in range(2 if noise.part == BY_TWO_AGGREGATORS else noise.shares, enough + 3):
            counted = min(honest, enough)  # the shares of the others are independent of all that is told
            topped = noise.top_up(honest + noise.colluders)
            variance = counted * share + topped**2
            assert variance >= noise.sigma**2
            assert topped == 0 or topped >= 2
            law = total(*[gaussian(share)] * counted, *([gaussian(topped**2)] if topped else []))
            seen = law > 1e-200
            seen[: REACH // 3] = seen[-REACH // 3 :] = False  # where the window cuts sums off
            off = np.abs(np.log(law[seen] / gaussian(variance)[seen]))
            assert off.max() <= noise.slack + 1e-9
        assert noise.slack < 0.1

    def test_the_slack_is_not_much_more_than_what_there_is(self) -> None:
        """The control of the test above: fine shares are told apart from one Gaussian, and wide ones are not."""
        fine, wide = SumNoise(2.5, BY_MASKED_PARTIES, 4, 0), SumNoise(60.0, BY_MASKED_PARTIES, 4, 0)
        share = fine.drawn.sigma**2 / fine.shares
        law = total(*[gaussian(share)] * 6)
        off = np.abs(np.log(law / gaussian(6 * share)))[REACH - 6 : REACH + 7].max()
        assert 1e-8 < off < fine.slack
        assert wide.slack < NO_SLACK

    def test_noise_that_is_too_fine_to_be_shared_is_refused(self) -> None:
        with pytest.raises(NoiseError, match=r"raise sigma to 26"):
            SumNoise(12.0, BY_MASKED_PARTIES, 100, 0).check()
        SumNoise(13.0, BY_MASKED_PARTIES, 100, 0).check()
        assert SumNoise(26.0, BY_MASKED_PARTIES, 100, 0).slack < NO_SLACK < SumNoise(25, BY_MASKED_PARTIES, 100).slack


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float, queries: int = 1) -> float:
    """Exact delta at this epsilon of so many queries with the same two laws, float64 of the same shape."""
    p, q = p.ravel(), q.ravel()
    whole_p, whole_q = np.ones(1), np.ones(1)
    for _ in range(queries):
        whole_p, whole_q = np.outer(whole_p, p).ravel(), np.outer(whole_q, q).ravel()
    return float(np.maximum(0.0, whole_p - np.exp(epsilon) * whole_q).sum())


def confident(mechanism: Confident, first: np.ndarray, second: np.ndarray, votes: np.ndarray) -> np.ndarray:
    """Probability of no label, then of each class, of two classes. first, second: laws of the noise in the sums."""
    near = np.flatnonzero(first > 1e-14)
    z = np.array(np.meshgrid(AT[near], AT[near], indexing="ij")).reshape(2, -1).T
    weight = np.outer(first[near], first[near]).ravel()
    largest = projected(votes + z, int(votes.sum())).max(axis=1)
    own = np.cumsum(gaussian(mechanism.sigma1**2)[::-1])[::-1]  # Pr[noise >= AT]
    at = np.clip(int(mechanism.threshold) - largest + REACH, 0, 2 * REACH)
    passes = float((weight * own[at]).sum() / weight.sum())
    return np.array([1 - passes, *(passes * law_of_argmax(votes, second))])


def federation(mechanism: Mechanism, votes: str, shares: int, queries: int = 1, **changes: Any) -> FederationConfig:
    return make_config(
        mechanism=mechanism,
        collection=votes,
        roster="0" * 64,
        noise_shares=shares,
        query_budget=QueryBudget(queries=queries, answers=queries),
        privacy=Privacy(unit=Unit.PARTY, delta=1e-3),
        **changes,
    )


def claimed(events: list[ReleaseEvent], delta: float = 1e-3) -> float:
    return worst_case(events, delta).epsilon


def pairs(classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Votes of a few teachers, and the same with one moved, in both orders."""
    for before in ([4, 0], [3, 1], [2, 2], [1, 3]) if classes == 2 else ([4, 0, 0], [2, 2, 0], [2, 1, 1], [1, 2, 1]):
        votes = np.array(before)
        moved = votes + np.eye(classes, dtype=int)[1] - np.eye(classes, dtype=int)[0]
        yield votes, moved
        yield moved, votes


CONFIDENT = Confident(threshold=3, sigma1=3.0, sigma2=2.5)
SETTINGS = [("secure", 4, 0), ("secure", 3, 1), ("verified", 1, 0)]


def honest_givers(config: FederationConfig) -> list[int]:
    """Numbers of honest givers in a sum: as few as are sure, and more."""
    if config.collection == "verified":
        return [2]
    return [config.noise_shares, config.noise_shares + 1, 2 * config.noise_shares]


class TestTowardsTheStudent:
    """The epsilon of exact sums, whatever number of parties is in the sum; it is never below the true one."""

    @pytest.mark.parametrize(("votes", "shares", "colluders"), SETTINGS)
    @pytest.mark.parametrize("queries", [1, 3])
    @pytest.mark.parametrize("mechanism", [GNMax(sigma=2.5), CONFIDENT], ids=lambda each: each.name)
    def test_labels(self, mechanism: Mechanism, votes: str, shares: int, colluders: int, queries: int) -> None:
        config = federation(mechanism, votes, shares, queries, colluders=colluders)
        epsilon = claimed(config.promised_events())
        *screens, label = config.sum_noises
        for honest in honest_givers(config):
            law = of_shares(label, honest)
            first = [of_shares(screen, honest, top_up=False) for screen in screens]
            for classes in (2,) if first else (2, 3):
                for before, after in pairs(classes):
                    p, q = (
                        confident(CONFIDENT, first[0], law, votes) if first else law_of_argmax(votes, law)
                        for votes in (before, after)
                    )
                    assert delta_of(p, q, epsilon, queries) <= 1e-3

    @pytest.mark.parametrize(("votes", "shares", "colluders"), SETTINGS)
    @pytest.mark.parametrize("topped_up", [True, False])
    def test_histograms_and_without_the_top_up_they_cost_more(
        self, votes: str, shares: int, colluders: int, topped_up: bool
    ) -> None:
        config = federation(Histogram(sigma=3.0), votes, shares, colluders=colluders)
        epsilon = claimed(config.promised_events())
        (noise,) = config.sum_noises
        worst = 0.0
        for honest in honest_givers(config):
            law = of_shares(noise, honest, topped_up)
            down, up = np.append(law[1:], 0.0), np.insert(law[:-1], 0, 0.0)
            worst = max(worst, delta_of(np.outer(law, law), np.outer(down, up), epsilon))
        assert (worst <= 1e-3) == (topped_up or votes == "verified")  # two aggregators need none

    def test_the_control_less_noise_than_is_charged_is_found(self) -> None:
        epsilon = claimed(federation(CONFIDENT, "secure", 4, 3).promised_events())
        less = Confident(threshold=3, sigma1=1.0, sigma2=1.0)
        p, q = (confident(less, gaussian(0.5), gaussian(1.0), np.array(votes)) for votes in ([4, 0], [3, 1]))
        assert max(delta_of(p, q, epsilon, 3), delta_of(q, p, epsilon, 3)) > 1e-3


class TestTowardsTheNodes:
    """They see the sums themselves, of both rounds, and know what they added: the honest givers' noise is left."""

    @pytest.mark.parametrize(("votes", "shares", "colluders"), SETTINGS)
    @pytest.mark.parametrize("mechanism", [Histogram(sigma=3.0), CONFIDENT], ids=lambda each: each.name)
    def test_all_rounds(self, mechanism: Mechanism, votes: str, shares: int, colluders: int) -> None:
        config = federation(mechanism, votes, shares, colluders=colluders)
        loss, weight = np.zeros(1), np.ones(1)
        for noise in config.sum_noises:
            law = of_shares(noise, shares, top_up=False)  # of two aggregators one is honest
            down, up = np.append(law[1:], 0.0), np.insert(law[:-1], 0, 0.0)
            near = (law > 1e-9) & (down > 0) & (up > 0)
            mass = np.outer(law[near], law[near])
            loss = np.add.outer(loss, np.log(mass / np.outer(down[near], up[near])).ravel()).ravel()
            weight = np.outer(weight, mass.ravel()).ravel()

        def delta(events: list[ReleaseEvent]) -> float:
            return float((weight * np.maximum(0.0, -np.expm1(claimed(events) - loss))).sum())

        assert 0 < delta(config.held_to()) <= 1e-3
        assert delta(config.promised_events()) > 1e-3  # the student's promise is none to them


MECHANISMS: tuple[Mechanism, ...] = (
    GNMax(sigma=9.0),
    Histogram(sigma=9.0),
    Confident(threshold=3, sigma1=12.0, sigma2=9.0),
    Interactive(threshold=3, sigma1=12.0, sigma2=9.0, confidence=0.9),
)


class TestTheEvents:
    @pytest.mark.parametrize(("votes", "shares", "part"), [("secure", 6, 2 / 3), ("verified", 1, 1 / 2)])
    @pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)
    def test_the_student_s_are_those_of_exact_sums_and_the_nodes_are_of_the_sums(
        self, mechanism: Mechanism, votes: str, shares: int, part: float
    ) -> None:
        config = federation(mechanism, votes, shares, 40)
        clear = make_config(mechanism=mechanism, query_budget=config.query_budget, privacy=config.privacy)
        assert config.promised_events() == clear.promised_events() == clear.held_to()
        (held,) = config.held_to()
        assert held.mechanism.noise_by_parties and held.towards is Towards.COORDINATOR
        steps = mechanism.steps(Towards.STUDENT)
        for round_, step in enumerate(steps, 1):
            noise = held.party_noise(round_)
            assert noise is not None and noise.shares == shares
            assert part * step.scale**2 <= noise.sigma**2 <= 1.005 * part * step.scale**2
        assert held.party_noise(len(steps) + 1) is None
        terms = config.terms()
        assert [event_from_json(item) for item in json.loads(terms.promise)] == [held]
        assert [event_from_json(item) for item in json.loads(terms.student)] == config.promised_events()
        assert clear.terms().student == ""
        if mechanism.name == "gnmax":  # the curves of each other one take seconds
            assert claimed([held], 1e-3) > claimed(config.promised_events(), 1e-3)

    def test_what_fine_shares_cost_on_top_is_in_the_student_s_event(self) -> None:
        fine, wide = (federation(GNMax(sigma=2.5), "secure", shares, 40) for shares in (4, 1))
        (charged,), (plain,) = fine.promised_events(), wide.promised_events()
        assert charged.slack == SumNoise(2.5, BY_MASKED_PARTIES, 4, 0).slack > 1e-4
        assert plain.slack < charged.slack / 100
        orders = [2.0, 10.0]
        more = charged.worst_case_rdp(orders) - replace(charged, slack=0.0).worst_case_rdp(orders)
        assert more == pytest.approx([40 * 2 * charged.slack * 3, 40 * 2 * charged.slack * 19 / 9])
        assert event_from_json(charged.to_json()) == charged
        assert not charged.votes_decide
        (both,) = federation(CONFIDENT, "secure", 4).promised_events()
        check, label = both.composed_parts()
        assert (check.slack, label.slack) == (0.0, both.slack), "the check's own noise has none"

    def test_what_colluders_give_counts_for_nothing_and_is_made_up(self) -> None:
        config = federation(GNMax(sigma=9.0), "secure", 6, 40, colluders=2)
        assert config.top_up(8, 1) == SumNoise(9.0, BY_MASKED_PARTIES, 6).top_up(6) > 5


class NoisySums:
    """A collector of sums in which nine parties are, the same in each round."""

    def __init__(self) -> None:
        self.rounds: list[tuple[int, int, float]] = []

    def collect(self, queries: Queries, sigma: float) -> Counts:
        count = len(queries.rows)
        self.rounds.append((queries.round, count, sigma))
        return Counts(np.array([[30, -21]] * count), tuple(f"p{at}" for at in range(9)), 9, sigma=1.0)

    def settle(self) -> None: ...


@pytest.mark.parametrize(("votes", "added"), [("secure", True), ("verified", False)])
@pytest.mark.parametrize("mechanism", MECHANISMS[:3], ids=lambda each: each.name)
def test_the_coordinator_makes_up_what_is_missing(
    tmp_path: Path, log: Any, mechanism: Mechanism, votes: str, added: bool
) -> None:
    """Of nine parties eight are sure: a quarter of the variance is missing. Of two aggregators nothing is. Nothing of
    the votes is kept as evidence."""
    config = federation(mechanism, votes, 1 if votes == "verified" else 8, 40)
    ledger = Ledger.of(tmp_path / "ledger.db", config)
    noise, collector = NoNoise(), NoisySums()
    service = LabelService(config, ledger, collector, lambda _: noise, 9, log)
    rows, _ = make_rows(4, 1)
    assert service.ask(rows).labels.tolist() == [0, 0, 0, 0]
    steps = mechanism.steps(Towards.STUDENT)
    assert collector.rounds == [(round_, 4, step.scale) for round_, step in enumerate(steps, 1)]
    sigma = config.sum_noises[-1].top_up(2 if votes == "verified" else 9)
    own = [("gaussian", mechanism.sigma1, (4,))] if isinstance(mechanism, Confident) else []
    assert noise.drawn == [*own, *([("gaussian", sigma, (4, 2))] if added else [])]
    assert (sigma > 0) == added
    (batch,) = ledger.batches()
    assert batch.histogram is None
    assert event_from_json(batch.event) == config.event(4, 4)
    if isinstance(mechanism, Histogram):
        assert service.describe().count_sigma == pytest.approx(mechanism.sigma, rel=0.03)
    law = service.describe().law
    assert (law is None) == isinstance(mechanism, Histogram)
    if law is not None:  # all noise in the sums
        assert law.deviation == pytest.approx(steps[-1].scale, rel=0.03)
        assert law.cell_deviation == config.sum_noises[0].total(2 if votes == "verified" else 9) * (len(steps) > 1)
    ledger.close()
