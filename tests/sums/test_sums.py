"""The sum that comes out is the plain sum of the survivors' votes, whatever the network does."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from consilium.sums.secure.machine import drive
from consilium.sums.secure.messages import STAGES, Stage
from tests.sums.network import Federation, Network, make_queries

EDGES = {16: 2**15, 32: 2**31}


@pytest.mark.parametrize("n", [2, 3, 10])
def test_sum_equals_plaintext(tmp_path: Path, n: int) -> None:
    federation = Federation(tmp_path, n)
    result = drive(federation.machine(), Network(federation).send)
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.sums.dtype == np.int64
    assert result.survivors == tuple(federation.names)
    assert result.dropped == {}


@pytest.mark.parametrize(("n", "teachers", "ring"), [(3, 1000, 16), (33, 1000, 32)])
def test_sum_equals_plaintext_in_both_rings(tmp_path: Path, n: int, teachers: int, ring: int) -> None:
    federation = Federation(tmp_path, n, classes=2, teachers=teachers)
    terms = federation.terms()
    assert terms.ring == ring
    result = drive(federation.machine(terms), Network(federation).send)
    assert np.array_equal(result.sums, federation.total(federation.names))


@pytest.mark.parametrize(("sigma", "ring"), [(2900.0, 16), (1e8, 32)])
def test_signed_noise_up_to_the_edges_of_the_ring(tmp_path: Path, sigma: float, ring: int) -> None:
    """Three shares that together reach the smallest and the largest number that the ring holds."""
    federation = Federation(tmp_path, 3, classes=2, teachers=1)
    federation.votes = dict.fromkeys(federation.names, np.tile(np.array([0, 1], dtype=np.uint16), (4, 1)))
    half = EDGES[ring] // 2
    shares = iter([[-half, half], [-half, half - 4], [0, 0]])

    def noise(share: float, shape: tuple[int, int]) -> np.ndarray:
        assert share == pytest.approx(sigma / np.sqrt(2))
        return np.tile(np.array(next(shares), dtype=np.int64), (shape[0], 1))

    federation.noise = noise
    terms = federation.terms(sigma=sigma, noise_shares=2)
    assert terms.ring == ring
    machine = federation.machine(terms)
    assert drive(machine, Network(federation).send).clipped.all(), "no noise of this size reaches so far"
    raw = machine._state.sums
    assert raw is not None and np.array_equal(raw, np.tile([-EDGES[ring], EDGES[ring] - 1], (4, 1)))


def test_repeated_and_reordered_messages(tmp_path: Path) -> None:
    """Every request is delivered twice, in random order, to a new process each time."""
    federation = Federation(tmp_path, 5)
    result = drive(federation.machine(), Network(federation, twice=True, shuffle=random.Random(7)).send)
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert sorted(federation.balloted) == federation.names, "a repeated request asks no teacher again"


@pytest.mark.parametrize("seed", range(2))
def test_a_network_that_drops_delays_and_corrupts_at_random(tmp_path: Path, seed: int) -> None:
    """Of ten parties, three suffer something at some stage. The sum is that of U3, exactly."""
    rng = random.Random(seed)
    federation = Federation(tmp_path, 10, queries=make_queries(seed=seed))
    unlucky = rng.sample(federation.names, 3)
    fate = {name: (rng.choice(STAGES), rng.choice(["lost", "mute", "corrupt"])) for name in unlucky}

    def on_reply(stage, name, reply):
        if fate.get(name) != (stage, "corrupt"):
            return reply
        field = {
            Stage.ADVERTISE: "signature",
            Stage.SHARE: "sid",
            Stage.MASKED: "signature",
            Stage.CONSISTENCY: "signature",
            Stage.UNMASK: "sid",
        }[stage]
        return reply.model_copy(update={field: rng.randbytes(len(getattr(reply, field)))})

    by = {
        kind: {stage: [x for x in unlucky if fate[x] == (stage, kind)] for stage in STAGES} for kind in ("lost", "mute")
    }
    network = Network(federation, lost=by["lost"], mute=by["mute"], on_reply=on_reply, shuffle=rng, twice=True)
    result = drive(federation.machine(), network.send)
    early = {name for name in unlucky if STAGES.index(fate[name][0]) <= STAGES.index(Stage.MASKED)}
    assert set(result.survivors) == set(federation.names) - early
    assert np.array_equal(result.sums, federation.total(result.survivors))
    assert {name for reasons in result.dropped.values() for name in reasons} == set(unlucky)
