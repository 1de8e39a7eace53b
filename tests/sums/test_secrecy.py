"""What the coordinator and its colluders see is uniform, and what is secret is nowhere in print.

Keys come from the operating system's entropy, so the statistical tests cannot fix a seed: each states how often it
fails by chance.
"""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from consilium.party.sum_store import Sessions
from consilium.protocol.identity import Identity
from consilium.protocol.messages import WireModel
from consilium.sums.errors import BadShare, ThresholdNotMet
from consilium.sums.packing import unpack
from consilium.sums.secure.machine import drive
from consilium.sums.secure.messages import STAGES, Stage
from consilium.sums.secure.party import matrix, secret
from consilium.sums.secure.ring import MaskAdder, pair_key, self_key
from tests.sums.network import OTHER_FEDERATION, Federation, Network, altered, flipped_cell, make_queries, run_until

FALSE_ALARM = 1e-9
"""Of each uniformity test below."""


def check_uniform(values: np.ndarray) -> None:
    """Chi-square of the low and the high bytes, 256 cells each."""
    for part in (values & 0xFF, values >> 8):
        seen = np.bincount(part.ravel(), minlength=256)
        expected = values.size / 256
        statistic = float(((seen - expected) ** 2 / expected).sum())
        assert chi2.ppf(FALSE_ALARM / 4, 255) < statistic < chi2.ppf(1 - FALSE_ALARM / 4, 255)


def masked_votes(federation: Federation, machine, name: str) -> np.ndarray:
    """y of one party, stage MASKED being due."""
    return federation.serve(name, Stage.MASKED, machine.requests()[name]).y  # type: ignore[attr-defined]


def memory_of(federation: Federation, name: str, sid: bytes) -> dict:
    """What a colluder knows: its own file."""
    session = Sessions(federation.store(name)).session(sid)
    assert session is not None
    return session.memory


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Five parties, 2,000 queries, 10 classes: 20,000 cells."""
    return Federation(tmp_path, 5, classes=10, queries=make_queries(2000))


def test_masked_votes_are_uniform(federation: Federation) -> None:
    machine = run_until(federation, Stage.MASKED)
    check_uniform(masked_votes(federation, machine, "party-000"))


def test_two_sessions_do_not_share_masks(federation: Federation) -> None:
    """The same votes in two sessions: their difference would be zero under one mask."""
    first = masked_votes(federation, run_until(federation, Stage.MASKED), "party-000")
    queries = make_queries(2000, seed=1)
    machine = run_until(federation, Stage.MASKED, terms=federation.terms(queries=queries), queries=queries)
    check_uniform(masked_votes(federation, machine, "party-000") - first)


@pytest.mark.parametrize("label", [0, 9])
def test_all_but_two_colluders_learn_nothing_of_one_vote(federation: Federation, label: int) -> None:
    """Three of five take their masks off y: what is left is uniform, whatever was voted, and does not go with it.

    The correlation of 20,000 uniform cells with the votes stays below 6 standard deviations but once in 5e8.
    """
    votes = np.zeros((2000, 10), dtype=np.uint16)
    votes[:, label] = federation.teachers
    federation.votes["party-000"] = votes
    machine = run_until(federation, Stage.MASKED)
    ctx, sid = machine.terms.ctx, machine.terms.sid_bytes
    left = masked_votes(federation, machine, "party-000").copy()
    adder = MaskAdder(machine.terms.shape, machine.terms.ring)
    for colluder in (1, 2, 3):
        memory = memory_of(federation, f"party-{colluder:03d}", sid)
        agreed = matrix(memory, "mask_secrets")[0].tobytes()  # its first peer is party-000
        adder.remove_pair(left, pair_key(agreed, ctx, 0, colluder), 0, colluder)
    check_uniform(left)
    centred = left.astype(np.float64) - 2**15
    score = (centred * (votes - votes.mean())).sum() / (centred.std() * votes.std() * np.sqrt(votes.size))
    assert abs(score) < 6


def test_with_all_masks_known_the_votes_are_bare(federation: Federation) -> None:
    """The test above takes off what it says: with the fourth peer's masks and b as well, the votes are left."""
    machine = run_until(federation, Stage.MASKED)
    ctx, sid = machine.terms.ctx, machine.terms.sid_bytes
    b = secret(memory_of(federation, "party-000", sid), "b")
    left = masked_votes(federation, machine, "party-000").copy()
    adder = MaskAdder(machine.terms.shape, machine.terms.ring)
    for peer in range(1, 5):
        agreed = matrix(memory_of(federation, f"party-{peer:03d}", sid), "mask_secrets")[0].tobytes()
        adder.remove_pair(left, pair_key(agreed, ctx, 0, peer), 0, peer)
    adder.subtract(left, self_key(b, ctx, 0))
    assert np.array_equal(left, federation.votes["party-000"])


class TestAtRest:
    """Secrets in the party's file."""

    def held(self, federation: Federation, name: str, sid: bytes) -> list[bytes]:
        memory = memory_of(federation, name, sid)
        found = [value for key, value in memory.items() if key in ("b", "cipher", "mask_seed", "own_share")]
        for key in ("cipher_secrets", "mask_secrets", "b_shares", "mask_shares"):
            if key in memory:
                found += [row.tobytes() for row in matrix(memory, key) if row.any()]
        return found

    def check_gone(self, federation: Federation, found: list[bytes]) -> None:
        content = b"".join(path.read_bytes() for path in federation.folder.glob("party-000.db*"))
        for value in found:
            assert value not in content and value.hex().encode() not in content

    @pytest.mark.parametrize("stage", STAGES[1:])
    def test_each_stage_overwrites_what_is_no_longer_needed(self, tmp_path: Path, stage: Stage) -> None:
        federation = Federation(tmp_path, 5)
        machine = run_until(federation, stage)
        sid = machine.terms.sid_bytes
        before = self.held(federation, "party-000", sid)
        assert before
        federation.serve("party-000", stage, machine.requests()["party-000"])
        after = self.held(federation, "party-000", sid)
        if stage is Stage.UNMASK:
            assert memory_of(federation, "party-000", sid) == {}
            federation.party("party-000").abort(sid)  # the answer itself holds shares until then
        self.check_gone(federation, [value for value in before if not any(value in kept for kept in after)])

    def test_what_is_kept_after_each_stage(self, tmp_path: Path) -> None:
        """And nothing else: no private key after its agreements, no b after y."""
        kept = {
            Stage.ADVERTISE: {"b", "cipher", "mask_seed", "keys"},
            Stage.SHARE: {"b", "u1", "advertised", "cipher_secrets", "mask_secrets", "own_share"},
            Stage.MASKED: {"u1", "u2", "sharers", "b_shares", "mask_shares", "queries"},
            Stage.CONSISTENCY: {"u1", "u2", "sharers", "b_shares", "mask_shares", "queries", "survivors", "u3"},
            Stage.UNMASK: set(),
        }
        federation = Federation(tmp_path, 3)
        machine, network = federation.machine(), Network(federation)
        for stage, names in kept.items():
            machine.take(network.send(stage, machine.requests()))
            assert set(memory_of(federation, "party-000", machine.terms.sid_bytes)) == names

    @pytest.mark.parametrize("stage", STAGES[1:])
    @pytest.mark.parametrize("way", ["abort", "supersede", "expire"])
    def test_a_session_that_ends_early_is_overwritten(self, tmp_path: Path, stage: Stage, way: str) -> None:
        federation = Federation(tmp_path, 5)
        machine = run_until(federation, stage)
        sid = machine.terms.sid_bytes
        before = self.held(federation, "party-000", sid)
        if way == "abort":
            federation.party("party-000").abort(sid)
        elif way == "expire":
            federation.party("party-000", clock=lambda: 4e12).sweep()
        else:
            queries = make_queries(seed=4)
            run_until(federation, Stage.SHARE, terms=federation.terms(queries=queries), queries=queries)
        assert memory_of(federation, "party-000", sid) == {}
        self.check_gone(federation, before)

    def test_a_sweep_leaves_what_is_still_alive(self, tmp_path: Path) -> None:
        federation = Federation(tmp_path, 3)
        machine = run_until(federation, Stage.SHARE)
        federation.party("party-000").sweep()
        assert memory_of(federation, "party-000", machine.terms.sid_bytes)

    def test_the_file_is_for_its_owner_only(self, tmp_path: Path) -> None:
        federation = Federation(tmp_path, 3)
        (tmp_path / "party-000.db").touch(mode=0o644)
        run_until(federation, Stage.SHARE)
        for path in tmp_path.glob("party-*.db"):
            assert path.stat().st_mode & 0o777 == 0o600


class TestNothingInPrint:
    """Keys, shares, b, masked votes and sums never reach repr, logs or exception text."""

    def forms(self, value: bytes) -> list[str]:
        """How a secret may look in print: hex, Python bytes, a number, a row of an array."""
        return [
            value.hex(),
            repr(value)[2:-1],
            str(int.from_bytes(value, "big")),
            str(list(value))[1:-1],
            " ".join(map(str, value)),
        ]

    def check(self, text: str, found: list[bytes]) -> None:
        text = " ".join(text.split())  # numpy pads and breaks its rows
        for value in found:
            for form in self.forms(value):
                assert form not in text

    def test_repr_of_messages_and_machines(self, tmp_path: Path) -> None:
        federation = Federation(tmp_path, 5)
        network = Network(federation)
        machine = federation.machine()
        texts: list[str] = []
        found: list[bytes] = []
        while machine.stage is not None:
            requests = machine.requests()
            replies = network.send(machine.stage, requests)
            messages = [repr(message) + str(message) for message in [*requests.values(), *replies.values()]]
            assert not any(
                f" {name}=" in text for text in messages for name in ("shares", "ciphertexts", "y", "queries")
            )
            texts += messages
            texts += [repr(machine), repr(machine._state), repr(federation.party("party-000"))]
            kept = Sessions(federation.store("party-000"))
            session = kept.session(machine.terms.sid_bytes)
            texts += [repr(session), repr(kept), repr(kept.answered(machine.terms.sid_bytes, machine.stage))]
            assert session is not None
            secrets = {name: value for name, value in session.memory.items() if name != "keys"}  # these are public
            for value in secrets.values():
                found += [value] if isinstance(value, bytes) else [row.tobytes() for row in np.atleast_2d(value)]  # type: ignore[arg-type]
            for reply in replies.values():
                assert isinstance(reply, WireModel)
                for name in ("shares", "ciphertexts", "y"):
                    found += [row.tobytes() for row in getattr(reply, name, [])]
            machine.take(replies)
        result = machine.result()
        texts += [repr(result), repr(machine)]
        found += [result.sums.tobytes()]
        assert len(found) > 50
        public = {row.tobytes() for row in np.atleast_2d(np.arange(5, dtype=np.uint16))}
        self.check("\n".join(texts), [value for value in found if any(value) and value not in public])
        assert "array(" not in repr(result) + repr(machine._state)

    def test_identity(self, tmp_path: Path) -> None:
        identity = Identity.generate()
        identity.save(tmp_path / "key")
        pem = (tmp_path / "key").read_text()
        private = identity._key.private_bytes_raw()
        text = repr(identity) + str(identity) + str(vars(identity))
        self.check(text, [private])
        assert pem.splitlines()[1] not in text
        with pytest.raises(TypeError):
            pickle.dumps(identity)

    def test_exceptions_and_logs(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """All that a session with a lying party says, with its whole traceback."""
        caplog.set_level(logging.DEBUG)
        federation = Federation(tmp_path, 3)
        network = Network(
            federation,
            on_reply=lambda stage, name, reply: (
                altered(reply, shares=flipped_cell(reply.shares, 0, 0)) if stage is Stage.UNMASK else reply  # type: ignore[attr-defined]
            ),
        )
        with pytest.raises(BadShare) as caught:
            drive(federation.machine(), network.send)
        shares = [row.tobytes() for _, _, reply in network.seen for row in getattr(reply, "shares", [])]
        assert len(shares) == 9
        text = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
        self.check(text, shares)

    def test_a_bad_value_is_not_quoted(self, tmp_path: Path) -> None:
        """pydantic would show the input that it refuses."""
        federation = Federation(tmp_path, 3)
        network = Network(federation)
        run_until(federation, None, network)
        reply = next(reply for stage, _, reply in network.seen if stage is Stage.UNMASK)
        fields = {name: getattr(reply, name) for name in type(reply).model_fields}
        share = reply.shares[0].tobytes()  # type: ignore[attr-defined]
        for bad in ({"sid": share}, {"shares": [list(share)]}, {"party": share.hex()}):
            with pytest.raises(ValueError) as caught:
                type(reply)(**{**fields, **bad})
            self.check(str(caught.value), [share])
            assert "input" not in str(caught.value), "not even the beginning of it"

    def test_the_saved_state_forgets_shares(self, tmp_path: Path) -> None:
        federation = Federation(tmp_path, 5)
        network = Network(federation)
        machine = run_until(federation, None, network)
        machine.save(tmp_path / "state")
        content = (tmp_path / "state").read_bytes()
        for _, _, reply in network.seen:
            for row in getattr(reply, "shares", []):
                assert row.tobytes() not in content
        assert unpack(content)["stage"] == ""

    def test_threshold_error_names_at_most_ten(self) -> None:
        error = ThresholdNotMet(Stage.SHARE, 1, 20, [f"p{at}" for at in range(19)])
        assert "p9 and 9 more" in str(error) and "p10" not in str(error) and len(error.missing) == 19


def test_sessions_of_two_federations_do_not_share_keys(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 3)
    one, other = (
        run_until(federation, Stage.SHARE, terms=federation.terms(federation=name)).requests()["party-000"]
        for name in ("f" * 64, OTHER_FEDERATION)
    )
    assert not np.isin(one.keys.view("V32"), other.keys.view("V32")).any()  # type: ignore[attr-defined]
