"""What the coordinator and its colluders see is uniform, the noise in a sum has its law, and secrets are nowhere in
print or left behind.

Keys come from the operating system's entropy, so the statistical tests cannot fix a seed: each fails by chance once in
10^9 times."""

from __future__ import annotations

import logging
import pickle
import traceback
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from consilium.protocol.identity import Identity
from consilium.protocol.noise import SystemNoise
from consilium.sums.errors import BadShare
from consilium.sums.secure.coordinator import SecureSession, drive
from consilium.sums.secure.masks import Masks
from consilium.sums.secure.messages import STAGES, Stage
from consilium.sums.secure.party import LIFETIME, Session
from tests.sums.secure.network import (
    FEDERATION,
    Federation,
    Network,
    altered,
    at,
    flipped_cell,
    make_queries,
    play,
    run_until,
)

VICTIM = "party-000"
FALSE_ALARM = 1e-9


def check_uniform(values: np.ndarray) -> None:
    """Chi-square of the lowest and the highest bytes, 256 cells each."""
    for part in (values & 0xFF, values >> 24):
        seen, expected = np.bincount(part.ravel(), minlength=256), values.size / 256
        statistic = float(((seen - expected) ** 2 / expected).sum())
        assert chi2.ppf(FALSE_ALARM / 4, 255) < statistic < chi2.ppf(1 - FALSE_ALARM / 4, 255)


def colluders_take_off(federation: Federation, session: SecureSession, y: np.ndarray, places: range) -> np.ndarray:
    """The victim's y without its masks with these, whose memory is known."""
    left, ctx = y.copy(), session.terms.ctx
    for place in places:
        seed = federation.memory(federation.names[place], session)["seeds"][0]
        Masks(left, ctx).add_pair(seed.tobytes(), place, 0)
    return left


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Five parties, 2,000 queries, 10 classes: 20,000 cells."""
    return Federation(tmp_path, 5, classes=10, queries=make_queries(2000))


class TestMasks:
    @pytest.mark.parametrize("label", [0, 9])
    def test_y_is_uniform_given_the_keys_of_n_minus_2_colluders(self, federation: Federation, label: int) -> None:
        """Whatever was voted, and without going with it; the control knows the fourth and b, and the votes are left."""
        votes = np.zeros((2000, 10), dtype=np.uint16)
        votes[:, label] = federation.teachers
        federation.votes[VICTIM] = votes
        session = run_until(federation, Stage.MASKED)
        b = federation.memory(VICTIM, session)["b"]
        y = Network(federation).send(Stage.MASKED, session.requests())[VICTIM].y
        check_uniform(y)
        left = colluders_take_off(federation, session, y, range(1, 4))
        check_uniform(left)
        score = ((left - 2.0**31) * (votes - votes.mean())).sum() / (left.std() * votes.std() * np.sqrt(votes.size))
        assert abs(score) < 6.2
        bare = colluders_take_off(federation, session, left, range(4, 5))
        Masks(bare, session.terms.ctx).subtract(b)
        assert np.array_equal(bare, votes)

    def test_sessions_do_not_share_masks(self, federation: Federation) -> None:
        """The same votes on the same queries: under one mask their difference would be zero."""
        network = Network(federation)
        for _ in range(3):
            play(federation, network)
        ys = [reply.y for stage, name, reply in network.seen if (stage, name) == (Stage.MASKED, VICTIM)]
        for one, other in combinations(ys, 2):
            check_uniform(one - other)

    def test_what_is_rebuilt_for_a_lost_party_opens_its_pairs_masks_and_no_share(self, federation: Federation) -> None:
        """The victim's y comes too late: K is rebuilt, and its list read. Its y stays under b; the keys that seal what
        was sent to it are not among what was opened."""
        session, seen = run_until(federation, Stage.MASKED), list[Any]()
        private, opened = federation.memory(VICTIM, session)["keys"], session._seeds_of
        network = Network(federation, on_reply=at(Stage.MASKED, VICTIM, lambda _: None))
        session._seeds_of = lambda gone, k: seen.append(opened(gone, k)) or seen[-1]
        drive(session, network.send)
        left = federation.serve(VICTIM, network.requests[Stage.MASKED, VICTIM]).y.copy()
        for peer, seed in seen[0].items():
            Masks(left, session.terms.ctx).add_pair(seed, peer, 0)
        check_uniform(left)
        assert len(seen) == 1 and [*seen[0].values()] == [row.tobytes() for row in private[1:, 1]]
        assert not {row.tobytes() for row in private[1:, 0]} & {*seen[0].values()}


@pytest.mark.parametrize("lost", [0, 3])
def test_the_law_of_the_noise_with_drop_outs_and_colluders(tmp_path: Path, lost: int) -> None:
    """Without the shares that c colluders know, at least the promised variance is left, with `least` exactly it: a
    discrete Gaussian of each honest survivor's share. 5,000 cells: variance within 6.2 deviations, tails by law."""
    federation = Federation(tmp_path, 10, colluders=2, least=7, sigma=20.0, classes=10,
                            queries=make_queries(500), in_memory=True)  # fmt: skip
    drawn: dict[str, np.ndarray] = {}

    class Noted(SystemNoise):
        def gaussian(self, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
            name = federation.charged[-1][0]
            drawn[name] = super().gaussian(sigma, shape)
            return drawn[name]

    federation.noise = Noted()
    result = play(federation, Network(federation, lost={Stage.MASKED: federation.names[10 - lost :]}))
    noise = result.sums - federation.total(result.survivors) - drawn["party-000"] - drawn["party-001"]
    honest, sure = len(result.survivors) - 2, federation.roster.sure
    assert sure == 5 and honest == 8 - lost >= sure
    expected = 400.0 * honest / sure
    assert abs(noise.var() / expected - 1) < 6.2 * np.sqrt(2 / noise.size)
    assert abs(noise.mean()) < 6.2 * np.sqrt(expected / noise.size)
    beyond = (np.abs(noise) > np.sqrt(expected)).mean()  # of a Gaussian, with half a step for whole numbers
    assert abs(beyond - 0.3173) < 0.4 / np.sqrt(expected) + 6.2 * np.sqrt(0.22 / noise.size)


class TestAtRest:
    """Secrets in the party's file are overwritten when they are no longer needed."""

    KEPT = (
        {"private", "seeds", "advert"},
        {"u1", "advertised", "keys", "own", "b"},
        {"view", "sharers", "seeds", "shares"},
        {"view", "survivors", "seeds", "shares"},
        set[str](),
    )

    def secrets(self, federation: Federation, session: SecureSession) -> set[bytes]:
        """As bytes of 32 or more."""
        found = set()
        for name, value in federation.memory(VICTIM, session).items():
            if name in ("private", "seeds", "keys", "own", "b", "shares"):
                rows = [value] if isinstance(value, bytes) else value.reshape(-1, value.shape[-1])
                found |= {bytes(row) for row in rows if any(row)}
        return found

    def check_gone(self, federation: Federation, secrets: set[bytes]) -> None:
        content = b"".join(path.read_bytes() for path in federation.folder.glob(f"{VICTIM}.db*"))
        assert not [value for value in secrets if value in content]

    def test_each_stage(self, tmp_path: Path) -> None:
        """No private key after its agreements, no b after y, one kind of share after U3 is signed."""
        federation = Federation(tmp_path, 5)
        session, network = federation.session(), Network(federation, {Stage.MASKED: ["party-004"]})
        before = set[bytes]()
        for stage, kept in zip(STAGES, self.KEPT, strict=True):
            session.take(network.send(stage, session.requests()))
            assert {*federation.memory(VICTIM, session)} == kept
            after = self.secrets(federation, session)
            if stage is not Stage.UNMASK:  # whose answer holds shares until the session is over
                self.check_gone(federation, before - after)
            before = after

    @pytest.mark.parametrize("stage", STAGES[1:])
    @pytest.mark.parametrize("way", ["superseded", "over"])
    def test_a_session_that_ends_early(self, tmp_path: Path, stage: Stage, way: str, monkeypatch) -> None:
        """By a new one of its federation, or by any, once its lifetime is over; one of another federation lives on."""
        federation = Federation(tmp_path, 5)
        session = run_until(federation, stage)
        before = self.secrets(federation, session)
        other = federation.session(federation="e" * 64)
        federation.serve(VICTIM, other.requests()[VICTIM])
        assert self.secrets(federation, session) == before
        if way == "over":
            monkeypatch.setattr("consilium.sums.secure.party.time.time", lambda: 2e9 + 2 * LIFETIME)
        other = federation.session(federation="d" * 64 if way == "over" else FEDERATION)
        federation.serve(VICTIM, other.requests()[VICTIM])
        assert federation.memory(VICTIM, session) == {}
        self.check_gone(federation, before)


class TestNothingInPrint:
    """Keys, shares, b, masked votes and sums never reach repr, logs or exception text."""

    def check(self, text: str, secrets: list[bytes]) -> None:
        text = " ".join(text.split())  # numpy pads and breaks its rows
        for value in secrets:
            forms = value.hex(), repr(value)[2:-1], str(list(value))[1:-1], " ".join(map(str, value))
            assert not any(form in text for form in forms)

    def test_of_a_whole_session_with_a_lie_at_its_end(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        federation = Federation(tmp_path, 5)

        lie = at(Stage.UNMASK, VICTIM, lambda reply: altered(reply, shares=flipped_cell(reply.shares, 0, 0)))
        session, network, texts, secrets = federation.session(), Network(federation, on_reply=lie), [], list[bytes]()

        def send(stage: Stage, requests: Any) -> Any:
            replies = network.send(stage, requests)
            texts.extend(map(repr, [*requests.values(), *replies.values(), session, session.state]))
            texts.append(repr(Session.find(federation.store(VICTIM), session.terms.sid_bytes)))
            for value in federation.memory(VICTIM, session).values():
                secrets.extend([value] if isinstance(value, bytes) else map(bytes, value.reshape(-1, value.shape[-1])))
            for name in ("shares", "ciphertexts", "y", "seeds"):
                found = [getattr(reply, name, b"") for reply in replies.values()]
                secrets.extend(
                    row for each in found for row in ([each] if isinstance(each, bytes) else map(bytes, each))
                )
            return replies

        with pytest.raises(BadShare) as caught:
            drive(session, send)
        texts += [*traceback.format_exception(caught.value), repr(caught.value), caplog.text]
        result = play(Federation(tmp_path / "..", 3, in_memory=True))
        texts.append(repr(result))
        assert len(secrets) > 50 and "array(" not in repr(result) + repr(session.state)
        self.check("\n".join(texts), [value for value in secrets if len(value) > 8 and any(value)])

    def test_a_bad_value_is_not_quoted(self, tmp_path: Path) -> None:
        """pydantic would show the input that it refuses."""
        network = Network(Federation(tmp_path, 3))
        run_until(network.federation, None, network)
        for stage, _, reply in network.seen:
            for name in type(reply).model_fields:
                secret = b"\x07secret" * 5000
                with pytest.raises(ValueError) as caught:
                    type(reply)(**{**dict(reply), name: secret})
                self.check(str(caught.value), [secret])
                assert "input" not in str(caught.value) and stage

    def test_an_identity_is_not_pickled(self) -> None:
        identity = Identity.generate()
        self.check(repr(identity) + str(vars(identity)), [identity.secret])
        with pytest.raises(TypeError):
            pickle.dumps(identity)
