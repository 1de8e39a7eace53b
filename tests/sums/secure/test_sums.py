"""Sums under masks are the plain sums, whoever drops, dies or is asked twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.sums.errors import InconsistentView, RosterMismatch, ThresholdNotMet
from consilium.sums.secure.coordinator import SecureSession, drive
from consilium.sums.secure.masks import clip
from consilium.sums.secure.messages import STAGES, Stage
from consilium.sums.secure.party import pack
from tests.sums.secure.network import Federation, Network, at, make_queries, play, run_until


@pytest.mark.parametrize("n", [3, 10, 50])
def test_sums_are_the_plain_ones(tmp_path: Path, n: int) -> None:
    """Every message twice, to parties of which nothing lives on but their files."""
    federation = Federation(tmp_path, n, in_memory=n > 10)
    result = play(federation, Network(federation, twice=n <= 10))
    assert np.array_equal(result.sums, federation.total(federation.names))
    assert result.survivors == tuple(federation.names) and not result.clipped.any()
    assert federation.charged == [(name, 1) for name in federation.names]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("mute", [False, True], ids=["not asked", "not heard"])
def test_one_drops_at_any_stage_and_the_sum_is_there(tmp_path: Path, stage: Stage, mute: bool) -> None:
    """Who is gone before its y is heard is in no sum. Who drops later is, and its masks come off all the same."""
    federation, unheard = Federation(tmp_path, 10), at(stage, "party-003", lambda _: None)
    network = Network(federation, on_reply=unheard) if mute else Network(federation, on_request=unheard)
    in_time = stage in (Stage.CONSISTENCY, Stage.UNMASK)
    survivors = tuple(name for name in federation.names if name != "party-003" or in_time)
    result = play(federation, network)
    assert result.survivors == survivors and np.array_equal(result.sums, federation.total(survivors))


@pytest.mark.parametrize("stage", STAGES[2:])
def test_exactly_t_are_enough_and_one_less_gives_nothing(tmp_path: Path, stage: Stage) -> None:
    federation = Federation(tmp_path, 9)
    t = federation.roster.t
    network = Network(federation, lost={stage: federation.names[t:]})
    summed = federation.names[:t] if stage is Stage.MASKED else federation.names
    assert np.array_equal(drive(federation.session(), network.send).sums, federation.total(summed))
    federation = Federation(tmp_path, 9, in_memory=True)
    network, session = Network(federation, lost={stage: federation.names[t - 1 :]}), federation.session()
    with pytest.raises(ThresholdNotMet, match=f"stage {stage}: {t - 1} parties are left, {t} are needed"):
        drive(session, network.send)
    assert session.state.result is None
    network.lost = {}
    assert len(drive(session, network.send).survivors) == 9, "the stage is sent again, and nothing was lost"


def test_least_above_t_is_enforced_until_the_set_is_fixed(tmp_path: Path) -> None:
    """By the coordinator, and by each party itself: it gives nothing to a set of fewer."""
    federation = Federation(tmp_path, 6, colluders=1, least=6)
    for stage in STAGES[:3]:
        with pytest.raises(ThresholdNotMet, match="5 parties are left, 6 are needed"):
            drive(federation.session(), Network(federation, lost={stage: ["party-005"]}).send)
    for stage, name in ((Stage.MASKED, "sharers"), (Stage.CONSISTENCY, "survivors")):
        session = run_until(federation, stage)
        request = session.requests()["party-000"]
        fewer = {name: np.arange(5, dtype=np.uint16)}
        fewer |= {"ciphertexts": request.ciphertexts[:4]} if stage is Stage.MASKED else {}  # type: ignore[attr-defined]
        with pytest.raises(InconsistentView, match="has 5 parties, 6 are needed"):
            federation.serve("party-000", request.model_copy(update=fewer))
    assert {round_ for _, round_ in federation.charged} == {1}, "of the session that came further"


@pytest.mark.parametrize("deviation", [0.4, 3.0, 3000.0])
def test_a_false_vote_moves_a_cell_by_no_more_than_an_honest_one(deviation: float) -> None:
    """The map is the identity on what honest votes give, and one for one around the whole ring."""
    half, votes = 2**31, 250
    reach = min(int(np.ceil(9 * deviation)), (half - votes) // 2)
    around = np.concatenate([np.arange(-3000, 3000), np.arange(half - 3000, half), np.arange(-half, 3000 - half)])
    cells, out = clip(np.stack([around, votes - around], axis=1), votes, deviation)
    following = clip(np.stack([(around + 1 + half) % (2 * half) - half, around], axis=1), votes, deviation)[0]
    assert (np.abs(following[:, 0] - cells[:, 0]) <= 1).all()
    honest = (around >= -reach) & (around <= votes + reach)
    assert (cells[honest, 0] == around[honest]).all() and (cells[:, 0] >= -reach).all()
    assert (cells[:, 0] <= votes + reach).all() and out[np.abs(around) > votes + 10 * deviation].all()


def test_what_does_not_belong_together(tmp_path: Path) -> None:
    one, other = Federation(tmp_path, 3), Federation(tmp_path, 3)
    state = one.session().state
    for roster, signer in ((other.roster, one.coordinator), (one.roster, Identity.generate())):
        with pytest.raises(RosterMismatch):
            SecureSession(roster, signer, state, one.queries)
    with pytest.raises(ConfigError, match="queries"):
        SecureSession(one.roster, one.coordinator, state, make_queries(seed=1))


class TestAPartyDies:
    """At any statement, or is served by two processes."""

    @pytest.mark.parametrize("stage", STAGES)
    def test_at_each_statement_it_has_done_nothing_or_all(self, tmp_path: Path, stage: Stage, monkeypatch) -> None:
        """Each statement of the stage fails in turn, the last COMMIT too: no reply, the state of before."""
        federation = Federation(tmp_path, 3)
        session = run_until(federation, stage)
        request, before = session.requests()["party-000"], list(federation.store("party-000")._connection.iterdump())
        for deadly in range(100):
            voter = federation.voter("party-000")
            execute, left = voter.store.execute, iter(range(deadly))

            def dying(statement: str, *values: object, execute=execute, left=left) -> list[tuple]:
                if next(left, None) is None and statement != "ROLLBACK":
                    raise KeyboardInterrupt
                return execute(statement, *values)

            with monkeypatch.context() as patch:
                patch.setattr(voter.store, "execute", dying)
                try:
                    federation.serve("party-000", request, voter)
                    break
                except KeyboardInterrupt:
                    voter.store.close()
                    assert list(federation.store("party-000")._connection.iterdump()) == before
        else:
            raise AssertionError("it never came through")
        assert 3 < deadly < 20
        result = drive(session, Network(federation).send)
        assert np.array_equal(result.sums, federation.total(federation.names))

    def test_two_processes_serve_the_same_request(self, tmp_path: Path) -> None:
        """One asks the teachers and charges, both give the same bytes."""
        federation = Federation(tmp_path, 3)
        request = run_until(federation, Stage.MASKED).requests()["party-000"]
        with ThreadPoolExecutor(4) as pool:
            replies = {pack(reply) for reply in pool.map(federation.serve, ["party-000"] * 4, [request] * 4)}
        assert len(replies) == 1 and federation.charged == [("party-000", 1)]
