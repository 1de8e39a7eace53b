"""Schedules whose votes are masked sums: signed sessions name their release, and each release draws its own noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from consilium.coordinator.collection.admission import enrol, train
from consilium.coordinator.collection.secure import SecureCollector, SecureKeys
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import promised
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.label_source import no_progress
from consilium.protocol.messages import MOST_RELEASES
from consilium.protocol.queries import canonical_queries, query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import AlreadyAnswered, ThresholdNotMet
from consilium.sums.masks.messages import AdvertiseRequest
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.terms import NO_LEDGER
from tests.federation import FakeTransport, drop, make_homes, make_rows, make_secure, standing
from tests.schedule.small import Broken, by_parties, findings, run, scheduled

PARTIES = 5  # four honest ones are sure to be in a sum
ROWS = canonical_queries(make_rows(80, 11)[0], 3)


def made(folder: Path, make=scheduled, **changes) -> tuple[FederationConfig, SecureKeys]:
    """Homes and keys in `folder`, and a federation of them; votes are secure, unless `make` says otherwise."""
    keys = make_secure(make_homes(folder / "homes", PARTIES), folder)
    votes = {"collection": "secure"} if make is scheduled else {}
    return make(**{"roster": keys.roster.digest, "minimum_parties": 4, **votes, **changes}), keys


class Site:
    """Enrolled parties with teachers, and the collectors of each phase."""

    def __init__(self, folder: Path, log, make=scheduled, faults=None) -> None:
        self.config, self.keys = made(folder, make)
        self.transport = FakeTransport(sorted((folder / "homes").iterdir()), faults)
        joined = enrol(self.transport, self.config, NO_LEDGER.ledger, log)
        self.members = train(self.transport, self.config, joined, log).members
        self.folder, self.log = folder / "sessions", log

    def collect(self, rows: np.ndarray, number: int, phase: int = 1):
        collector = SecureCollector(
            self.transport, self.config, self.members, self.keys, self.folder, standing(), self.log, number
        )
        return collector(rows, query_set_hash(rows), no_progress, phase)

    def advertise(self, rows: np.ndarray, **changes):
        """What a party says to the descriptor of a session that its coordinator has signed."""
        digest, agreed = self.config.digest(), self.config.terms().digest()
        terms = MaskedTerms.create(self.keys.roster, digest, rows, 2, 1, agreed=agreed, **changes)
        request = AdvertiseRequest(descriptor=terms.canonical(), signature=terms.sign(self.keys.signer))
        return self.transport.parties[0].secure.advertise(request)


class TestDescriptor:
    @pytest.mark.parametrize("release", [0, -1, 1.5, "2", MOST_RELEASES + 1])
    def test_forms_that_are_none(self, tmp_path: Path, release) -> None:
        keys = make_secure(make_homes(tmp_path, 3), tmp_path)
        plain = json.loads(MaskedTerms.create(keys.roster, "f" * 64, ROWS[:3], 2, 1).canonical())
        content = json.dumps({**plain, "release": release}, sort_keys=True, separators=(",", ":")).encode()
        with pytest.raises(MalformedMessage):
            MaskedTerms.parse(content)


class TestParties:
    @pytest.mark.parametrize(
        ("make", "changes", "limit"),
        [
            (scheduled, {"release": 3}, 2),  # there is no such release
            (scheduled, {"release": 2, "sigma": 4.0, "noise_shares": 4}, None),  # its noise is the coordinator's
            (by_parties, {"release": 1, "sigma": 5.0, "noise_shares": 4}, None),  # the noise of another release
            (by_parties, {"release": 2, "sigma": 4.0, "noise_shares": 4}, None),
            (by_parties, {"release": 1, "sigma": 3.0, "noise_shares": 4, "phase": 2}, None),
            (by_parties, {"release": 2, "sigma": 5.0, "noise_shares": 4, "phase": 2}, None),
            (by_parties, {"release": 2}, None),  # an exact sum
        ],
    )
    def test_a_session_that_is_not_of_its_release(self, tmp_path: Path, log, make, changes, limit) -> None:
        site = Site(tmp_path, log, make)
        with pytest.raises(Refused) as refused:
            site.advertise(ROWS[:5], **changes)
        assert (refused.value.refusal.rule, refused.value.refusal.limit) == (Rule.PROMISE, limit)

    @pytest.mark.parametrize(
        ("release", "rows", "rule"),
        [(1, 20, None), (1, 21, Rule.MOST_QUERIES), (2, 30, None), (2, 31, Rule.MOST_QUERIES)],
    )
    def test_each_release_has_its_own_cap(self, tmp_path: Path, log, release: int, rows: int, rule) -> None:
        site = Site(tmp_path, log)
        if rule is None:
            assert site.advertise(ROWS[:rows], release=release).party == 0
            return
        with pytest.raises(Refused) as refused:
            site.advertise(ROWS[:rows], release=release)
        assert refused.value.refusal.rule is rule

    @pytest.mark.slow
    def test_the_second_phase_first_ends_the_first(self, tmp_path: Path, log) -> None:
        site = Site(tmp_path, log)
        assert len(site.collect(ROWS[:10], 2).votes) == 10
        with pytest.raises(ThresholdNotMet, match="masked"):  # where votes are counted, before any leaves
            site.collect(ROWS[10:20], 1)
        assert len(site.collect(ROWS[10:30], 2).votes) == 20

    @pytest.mark.slow
    def test_a_query_is_in_one_noisy_sum_in_whatever_phase(self, tmp_path: Path, log) -> None:
        site = Site(tmp_path, log, by_parties)
        site.collect(ROWS[:5], 1)
        with pytest.raises(ThresholdNotMet):
            site.collect(ROWS[4:8], 2)
        with pytest.raises(AlreadyAnswered):  # each party says so itself
            site.advertise(ROWS[:5], release=2, sigma=5.0, noise_shares=4)

    @pytest.mark.slow
    def test_a_session_that_the_first_phase_left_unfinished_is_not_taken_up_in_the_second(
        self, tmp_path: Path, log
    ) -> None:
        """It was signed for the first release, and would be charged there."""
        away = {(index, "query.sa_consistency"): drop for index in (0, 1, 2)}
        site = Site(tmp_path, log, faults=away)
        with pytest.raises(ThresholdNotMet):
            site.collect(ROWS[:5], 1)
        site.transport.faults.clear()
        assert len(site.collect(ROWS[:5], 2).votes) == 5
        assert sorted(path.name[-12:] for path in site.folder.glob("*.session")) == ["of-1.session", "of-2.session"]


class TestKeys:
    def test_noise_in_too_many_shares_in_any_phase(self, tmp_path: Path) -> None:
        config, keys = made(tmp_path, by_parties)
        keys.check(config)
        later = config.schedule[0]
        wide = later.model_copy(update={"mechanism": later.mechanism.model_copy(update={"noise_shares": 5})})
        with pytest.raises(ConfigError, match=r"stage 2: noise_shares 5 is above the 4 honest parties"):
            keys.check(config.model_copy(update={"schedule": (wide,)}))


@pytest.mark.slow
class TestRuns:
    def test_secure_phases_give_the_labels_of_clear_ones_and_go_on_after_a_crash_between(self, tmp_path: Path) -> None:
        clear, secure = tmp_path / "plaintext", tmp_path / "secure"
        make_homes(clear / "homes", PARTIES)
        in_clear = run(clear, scheduled(minimum_parties=4))
        config, keys = made(secure)
        with pytest.raises(Broken):
            run(secure, config, keys=keys, dies_in=2, dies_after=0)
        charged = _spent(secure / "run", config)
        assert charged[0] > 0 and charged[1] == 0
        out = run(secure, config, keys=keys)
        assert _spent(out, config)[0] == charged[0], "the first phase is not charged again"
        assert pl.read_parquet(out / "labels.parquet").equals(pl.read_parquet(in_clear / "labels.parquet"))
        assert findings(out) == {}
        told = json.loads((out / "coordinator.json").read_text())
        assert [phase["asked"] > 0 for phase in told["stages"]] == [True, True]

    def test_phases_of_which_the_parties_add_the_noise(self, tmp_path: Path) -> None:
        config, keys = made(tmp_path, by_parties)
        out = run(tmp_path, config, keys=keys)
        assert findings(out) == {}
        told = json.loads((out / "coordinator.json").read_text())
        assert [phase["asked"] for phase in told["stages"]] == [12, 8]
        assert told["privacy"]["guarantee"]["epsilon"] == promised(config).epsilon
        assert [event.to_json()["type"] for event in config.promised_events()] == [
            "distributed",
            "distributed_two_phase",
        ]


def _spent(out: Path, config: FederationConfig) -> list[int]:
    """Queries that each phase was charged for."""
    ledger = Ledger(out / "ledger.db", config.digest(), "", read_only=True)
    try:
        return [ledger.spent(number)[0] for number in (1, 2)]
    finally:
        ledger.close()
