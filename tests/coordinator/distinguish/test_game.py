"""The game against mechanisms: what is private holds up, what is not is refuted, and a true claim is refuted as rarely
as stated. All seeds are fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from consilium.accounting.events import Mechanism
from consilium.accounting.mechanisms import (
    Confident,
    Difference,
    GNMax,
    Histogram,
    Immutable,
    ImmutableGaussian,
    Interactive,
    LNMax,
)
from consilium.coordinator.cli import audit_app
from consilium.coordinator.distinguish import (
    GameSetup,
    LowerBound,
    Pair,
    Scores,
    audit_mechanism,
    build_mechanism,
    proved,
)
from consilium.coordinator.draw import Collect, Drawn, draw
from consilium.protocol.errors import ConfigError
from consilium.protocol.noise import NoiseSource, SeededNoise

SMALL = GameSetup(queries=20, runs=2_000)
COIN = GameSetup(queries=1, runs=2_000, delta=1e-9, classes=2)
TIE = Pair("tie", np.array([[5, 4]]), np.array([[4, 5]]))


@dataclass(frozen=True)
class Leaks(Mechanism):
    """Says 0 under (5, 4) with probability `high`, under (4, 5) with probability `low`; else 1."""

    title = "a coin"

    high: float = 0.0
    low: float = 0.0

    def __post_init__(self) -> None:
        """Its parameters are no scales of noise."""


@draw.register
def _(mechanism: Leaks, collect: Collect, noise: NoiseSource, **_: object) -> Drawn:
    votes = collect(1, None).votes
    uniform = stats.norm.cdf(noise.gaussian(1e5, (len(votes),)) / 1e5)
    said = uniform >= np.where(votes[:, 0] > 4, mechanism.high, mechanism.low)
    return Drawn(said.astype(np.int64), np.zeros(len(votes), dtype=bool))


class HalfTheNoise(SeededNoise):
    def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return super().gaussian(sigma / 2, shape)


def test_a_claim_without_slack_is_refuted_no_more_often_than_stated() -> None:
    """Epsilon is log 19 exactly. At confidence 0.6 each of two bounds may fail with 0.2; that on 0.05 decides, so by
    normal approximation 19 % of the audits refute the claim, a little less on whole counts. Of 100 audits more than 30
    or fewer than 8 do so by chance once in 100."""
    setup = replace(COIN, confidence=0.6)
    refuted = sum(
        audit_mechanism(Leaks(0.95, 0.05), SeededNoise(seed), setup, math.log(19), [TIE]).violated
        for seed in range(100)
    )
    assert 8 <= refuted <= 30


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (GNMax(sigma=10.0), 2.0),
        (Difference(sigma=14.0), 2.0),
        (Histogram(sigma=10.0), 2.0),
        (LNMax(gamma=0.2), 3.0),
        (Confident(threshold=300, sigma1=20.0, sigma2=40.0), 2.0),
        (Interactive(threshold=300, sigma1=20.0, sigma2=40.0, confidence=0.5), 2.0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_private_mechanism_keeps_a_true_claim(mechanism: Mechanism, epsilon: float) -> None:
    """The claims are above the worst cases of 20 queries. One of the six fails by chance once in 200 at most."""
    audit = audit_mechanism(mechanism, SeededNoise(1), SMALL, epsilon)
    assert not audit.violated


@pytest.mark.parametrize("mechanism", [GNMax(sigma=10.0), LNMax(gamma=0.2)], ids=lambda each: each.name)
def test_a_private_mechanism_with_a_falsely_claimed_epsilon_is_refuted(mechanism: Mechanism) -> None:
    audit = audit_mechanism(mechanism, SeededNoise(1), GameSetup(queries=100, runs=4_000), 0.1)
    assert audit.violated and audit.epsilon_at_least > 0.5


def test_half_the_noise_is_refuted() -> None:
    """Held to the event of the whole noise, with 3 teachers in a party so that few runs show it."""
    setup = GameSetup(queries=100, runs=4_000, teachers_per_party=3)
    mechanism = Histogram(sigma=40.0)
    assert audit_mechanism(mechanism, HalfTheNoise(2), setup).violated
    assert not audit_mechanism(mechanism, SeededNoise(2), setup).violated


@pytest.mark.parametrize(
    "mechanism",
    [
        Immutable(gamma=1e-3, constant=2_000),
        Immutable(gamma=1e-10, constant=10**12),
        ImmutableGaussian(sigma=40.0, constant=216),
    ],
    ids=lambda each: each.describe(),
)
def test_the_immutable_argmax_is_refuted(mechanism: Immutable | ImmutableGaussian) -> None:
    audit = audit_mechanism(mechanism, SeededNoise(1), GameSetup(queries=1, runs=4_000))
    assert audit.violated
    assert audit.epsilon_at_least > 10 * audit.epsilon_claimed


def test_after_the_last_answer_nothing_is_seen() -> None:
    """With one answer allowed only the first query tells anything, and it tells epsilon log 19."""
    votes = Pair("tie", np.tile(TIE.there, (5, 1)), np.tile(TIE.away, (5, 1)))
    lower = [
        audit_mechanism(Leaks(0.95, 0.05), SeededNoise(1), COIN, 9.0, [replace(votes, answers=most)]).epsilon_at_least
        for most in (None, 1)
    ]
    assert lower[1] < math.log(19) < lower[0]


def test_the_bound_by_mu_is_close_to_the_truth_and_not_above() -> None:
    """mu is 1, so epsilon at 1e-5 is 4.38. Wrong with probability 0.05 at most."""
    generator = np.random.default_rng(1)
    scores = Scores(generator.normal(1, 1, 20_000), generator.normal(0, 1, 20_000))
    assert 3.8 < proved(scores, LowerBound(1e-5, 0.05, gaussian=True)) < 4.38
    assert proved(scores, LowerBound(1e-5, 0.05)) < 4.38


def test_the_command_tells_what_holds_what_does_not_and_what_cannot_be_said() -> None:
    def run(*words: str):
        return CliRunner().invoke(audit_app, ["mechanism", *words, "--seed", "1"])

    sound = run("histogram", "--set", "sigma=40", "--queries", "10", "--runs", "1000")
    assert sound.exit_code == 0, sound.output
    assert "Holds up, which is no proof" in sound.output
    assert "refuted with probability 0.001 at most" in sound.output
    words = ("--set", "gamma=0.001", "--set", "constant=2000", "--set", "unsafe_not_private=true", "--queries", "2")
    broken = run("immutable", *words, "--runs", "1000")
    assert broken.exit_code == 1 and "VIOLATED: epsilon is at least" in broken.output
    few = run("gnmax", "--set", "sigma=10", "--claim", "9", "--queries", "5", "--runs", "200")
    assert few.exit_code == 0 and "Too few runs to refute so large a claim" in few.output
    assert "Holds up" not in few.output


@pytest.mark.parametrize(
    ("name", "settings", "fault"),
    [
        ("gnmax", ["sigma=0"], "at least 0.01"),
        ("gnmax", ["sigma"], "is not key=value"),
        ("gnmax", ["sigma=1", "sigma=2"], "each once"),
        ("gnmax", ["sigma=1", "gamma=2"], "gamma"),
        ("nomax", [], "^audit mechanism: NAME: must be .* got 'nomax'"),
        ("gnmax", [], "^audit mechanism: --set sigma: is required$"),
        ("immutable", ["gamma=0.1", "constant=3"], "unsafe_not_private"),
    ],
)
def test_mistakes_are_typed_errors(name: str, settings: list[str], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        build_mechanism(name, settings)
