"""Parties that lie about shares or votes: lies about shares are found, and no wrong sum comes out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from consilium.sums.errors import BadShare, BadSum, StageOrder
from consilium.sums.masks.machine import drive
from consilium.sums.masks.messages import Stage
from consilium.sums.masks.unmasking import clip
from tests.coordinator.secagg.bad_party import BAD, from_bad
from tests.secagg.network import Federation, Network, altered, flipped_cell, make_queries

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("any_set")]


def votes_of_teachers(rows: list[list[int]], queries: int = 4):
    """`checked_votes` of software that checks nothing: each party in turn gives one of the rows to every query."""
    given = iter(rows)
    return lambda votes, terms: np.tile(next(given), (queries, 1))


def old_check_sum(sums: np.ndarray, votes: int) -> bool:
    """Whether a sum passed before cells were clipped."""
    return not (sums < 0).any() and not (sums.sum(axis=1) != votes).any()


class TestShares:
    """Parties that lie about shares."""

    @pytest.mark.parametrize("rows", [slice(0, 1), slice(None)], ids=["one share", "all shares"])
    @pytest.mark.parametrize("mute", [[], ["party-005"]], ids=["all there", "one dropped"])
    def test_a_lying_shareholder_is_found_and_named(self, tmp_path: Path, rows: slice, mute: list[str]) -> None:
        """n = 7, t = 5: with seven or six shares, one wrong one is found."""
        federation = Federation(tmp_path, 7)

        def change(reply):
            shares = reply.shares.copy()
            shares[rows, 0] ^= 1
            return altered(reply, shares=shares)

        network = Network(federation, lost={Stage.MASKED: mute}, on_reply=from_bad(Stage.UNMASK, change))
        result = drive(federation.machine(), network.send)
        assert result.dropped[Stage.UNMASK] == {BAD: "gave a share that does not fit the others"}
        assert np.array_equal(result.sums, federation.total(result.survivors))
        assert BAD in result.survivors

    def test_shares_of_two_owners_swapped(self, federation: Federation) -> None:
        """With t + 1 shareholders the liar is found by the commitments alone."""

        def change(reply):
            return altered(reply, shares=reply.shares[[1, 0, 2, 3, 4, 5]])

        result = drive(federation.machine(), Network(federation, on_reply=from_bad(Stage.UNMASK, change)).send)
        assert list(result.dropped[Stage.UNMASK]) == [BAD]
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_no_slack_no_sum(self, tmp_path: Path) -> None:
        """n = t = 3: a wrong share cannot be told from others; an error that names the candidates, and no output."""
        federation = Federation(tmp_path, 3)
        change = from_bad(Stage.UNMASK, lambda r: altered(r, shares=flipped_cell(r.shares, 0, 0)))  # type: ignore[attr-defined]
        machine = federation.machine()
        with pytest.raises(BadShare, match=r"share of party-000: .*party-000, party-001, party-002") as caught:
            drive(machine, Network(federation, on_reply=change).send)
        assert caught.value.party == "party-000" and caught.value.parties == ()
        with pytest.raises(StageOrder):
            machine.result()


class TestSums:
    """Votes that cannot be."""

    @pytest.mark.parametrize("row", [[1, 1, 1], [20, 0, 0], [-2, 0, 0], [2**15, 0, 0]])
    def test_another_number_of_votes_is_seen_without_noise(
        self, federation: Federation, monkeypatch, row: list[int]
    ) -> None:
        """One party's software does not check its voting rule; the others vote [1, 1, 0]."""
        monkeypatch.setattr("consilium.party.masked_session.checked_votes", votes_of_teachers([[1, 1, 0]] * 5 + [row]))
        machine = federation.machine()
        with pytest.raises(BadSum, match="number of votes"):
            drive(machine, Network(federation).send)
        with pytest.raises(StageOrder):
            machine.result()

    @pytest.mark.parametrize("honest", [19, 20])
    def test_a_liar_sets_no_threshold_on_honest_votes(self, tmp_path: Path, monkeypatch, honest: int) -> None:
        """29 parties of one vote each, `honest` of them for class 0, and a liar that takes 20 away from it and is
        itself one of thirty: whether the sum came to an end told whether honest >= 20."""
        federation = Federation(tmp_path, 30, teachers=1, queries=make_queries(1))
        rows = [[1, 0, 0]] * honest + [[0, 1, 0]] * (29 - honest) + [[-20, 0, 21]]
        monkeypatch.setattr("consilium.party.masked_session.checked_votes", votes_of_teachers(rows, 1))
        machine = federation.machine()
        result = drive(machine, Network(federation).send)
        assert result.sums.tolist() == [[max(honest - 20, 0), 29 - honest, 21]]
        assert result.clipped.tolist() == [honest < 20]
        # the control: what the sum was held against before
        raw = machine._state.sums
        assert raw is not None
        assert old_check_sum(raw, 30) == (honest >= 20)

    def test_a_liar_within_range_decides_a_label(self, tmp_path: Path, monkeypatch) -> None:
        """Masks hide it: 29 honest votes [20, 9, 0], and one party that may give one vote. Documented, not prevented
        (docs/secure-aggregation.md, false votes)."""
        federation = Federation(tmp_path, 30, teachers=1, queries=make_queries(1))
        rows = [[1, 0, 0]] * 20 + [[0, 1, 0]] * 9 + [[-20, 0, 21]]
        monkeypatch.setattr("consilium.party.masked_session.checked_votes", votes_of_teachers(rows, 1))
        result = drive(federation.machine(), Network(federation).send)
        assert result.sums.tolist() == [[0, 9, 21]] and not result.clipped.any()

    def test_noisy_sums_pass(self, federation: Federation) -> None:
        federation.noise = lambda sigma, shape: np.full(shape, -7, dtype=np.int64)
        terms = federation.terms(sigma=10.0, noise_shares=4)
        result = drive(federation.machine(terms), Network(federation).send)
        assert np.array_equal(result.sums, federation.total(federation.names) - 42)


class TestNoisySums:
    """In `distributed` nobody checks a vote. What the coordinator makes of it is a function of the noisy sum."""

    def summed(self, folder: Path, monkeypatch, lie: list[int], noise: int = 0):
        """29 honest parties, 15 for class 0, each with noise of that size (a share has deviation 3), and a liar."""
        federation = Federation(folder, 30, teachers=1, queries=make_queries(1))
        federation.noise = lambda sigma, shape: np.full(shape, noise, dtype=np.int64)
        rows = [[1, 0, 0]] * 15 + [[0, 1, 0]] * 14 + [lie]
        monkeypatch.setattr("consilium.party.masked_session.checked_votes", votes_of_teachers(rows, 1))
        machine = federation.machine(federation.terms(sigma=12.0, noise_shares=16))
        return machine, drive(machine, Network(federation).send)

    @pytest.mark.parametrize(
        ("lie", "out"),
        [
            ([1, 0, 0], False),
            ([-20, 20, 1], False),  # decides the label, and is within what noise explains: documented
            ([-200, 200, 1], True),  # a cell beyond nine deviations, 9 * 3 * sqrt(30) = 148
            ([140, 140, 0], True),  # the total beyond nine of its own, 256
            ([120, 120, 0], False),
        ],
    )
    def test_what_noise_cannot_explain_is_seen(self, tmp_path: Path, monkeypatch, lie: list[int], out: bool) -> None:
        _, result = self.summed(tmp_path, monkeypatch, lie)
        assert result.clipped.tolist() == [out]
        assert result.sums.min() >= -148 and result.sums.max() <= 30 + 148

    def test_it_follows_from_the_noisy_sum_alone(self, tmp_path: Path, monkeypatch) -> None:
        """Other honest votes, and noise that makes up for them: the same warning, and the same cells."""
        (tmp_path / "other").mkdir()
        machine, result = self.summed(tmp_path, monkeypatch, [-20, 164, 1])
        _, other = self.summed(tmp_path / "other", monkeypatch, [-20 - 30, 164 - 30, 1 - 30], noise=1)
        assert other.sums.tolist() == result.sums.tolist() and other.clipped.tolist() == result.clipped.tolist()
        raw = machine._state.sums
        assert raw is not None
        assert clip(raw, machine.terms.ring, 30, 3 * math.sqrt(30))[1].tolist() == result.clipped.tolist()

    def test_a_wrong_sum_of_noise_is_a_sum(self, tmp_path: Path, monkeypatch) -> None:
        """It neither ends the session nor uses up more than it: whatever was sent, labels come of it."""
        for number, lie in enumerate(([2**15 - 1, 0, 0], [-(2**15), 5, 5], [999, 999, 999])):
            (tmp_path / str(number)).mkdir()
            machine, result = self.summed(tmp_path / str(number), monkeypatch, lie)
            assert machine.stage is None and result.clipped.all() and np.abs(result.sums).max() <= 178


class TestClip:
    """The map of `clip`, over the whole ring."""

    @pytest.mark.parametrize(("teachers", "survivors", "ring"), [(1, 3, 16), (2, 5, 16), (7, 6, 16), (1000, 6, 32)])
    def test_one_vote_moves_a_cell_by_one_at_most(self, teachers: int, survivors: int, ring: Literal[16, 32]) -> None:
        half, votes = 2 ** (ring - 1), teachers * survivors
        edges = [-half, -votes, -1, 0, 1, votes, 2 * votes, half - votes, half - 1]
        cells = np.arange(-half, half) if ring == 16 else np.unique([e + s for e in edges for s in range(-3, 4)])
        cells = cells[(cells >= -half) & (cells < half)]
        next_cells = (cells + 1 + half) % (2 * half) - half  # one vote more, in the ring
        kept, _ = clip(cells[:, None], ring, votes)
        _, clipped = clip(np.stack([cells, votes - cells], axis=1), ring, votes)
        more, _ = clip(next_cells[:, None], ring, votes)
        assert np.abs(more - kept).max() == 1
        assert kept.min() == 0 and kept.max() == votes
        possible = (cells >= 0) & (cells <= votes)
        assert (kept[possible, 0] == cells[possible]).all() and (clipped == ~possible).all()
        plain, wrapped = np.clip(cells, 0, votes), np.clip(next_cells, 0, votes)
        assert np.abs(wrapped - plain).max() == votes, "the control: plain clipping jumps at the edge of the ring"

    @pytest.mark.parametrize("deviation", [12.0, 3000.0], ids=["room", "a tight ring"])
    def test_nor_where_noise_is_in_them(self, deviation: float) -> None:
        """Identity within what noise gives, and no step at the edge of the ring: what is added after it covers one."""
        votes, half = 12, 2**15
        cells = np.arange(-half, half)
        kept, _ = clip(cells[:, None], 16, votes, deviation)
        more, _ = clip((cells[:, None] + 1 + half) % (2 * half) - half, 16, votes, deviation)
        assert np.abs(more - kept).max() == 1
        room = min(math.ceil(9 * deviation), (half - votes) // 2)
        assert (kept.min(), kept.max()) == (-room, votes + room)
        inside = (cells >= -room) & (cells <= votes + room)
        assert (kept[inside, 0] == cells[inside]).all()
