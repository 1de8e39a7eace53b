"""What a party of secure votes does not take, whatever the coordinator says.

Two decisions about a masked session, at their borders: whom accusers are believed about, and when it is given up.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.collection.secure import SecureKeys, believed, can_be_unmasked
from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.protocol.identity import Identity
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import ThresholdNotMet
from consilium.sums.roster import least_rebuilders
from consilium.sums.secure.messages import AdvertiseRequest
from consilium.sums.secure.terms import MaskedTerms
from tests.coordinator.collection.cluster import PARTIES, Cluster, ask, queries
from tests.deploy.kits import edit
from tests.federation import FakeTransport, counts_over, hello_of, make_config, make_homes, make_secure, vote_request

pytestmark = pytest.mark.slow


def hello(made: Cluster, index: int = 0):
    return made.transport.parties[index].hello(hello_of(made.config))


def test_a_policy_that_asks_for_more_secrecy_is_kept(cluster) -> None:
    made = cluster(policy={"collection": "verified"})
    with pytest.raises(Refused) as refused:
        hello(made)
    assert refused.value.refusal.rule is Rule.VOTES


def test_clear_votes_are_refused_in_a_federation_of_secret_ones(cluster) -> None:
    made = cluster()
    members = made.ready()
    with pytest.raises(NotEnoughParties, match="7 x refused: votes"):
        counts_over(made.transport, made.config, members, queries(), made.log)


def test_clear_votes_are_refused_by_a_policy_that_asks_for_secret_ones(cluster) -> None:
    made = cluster(policy={"collection": "secure"})
    made.ready()
    other = make_config(seed=8)
    party = made.transport.parties[0]
    with pytest.raises(Refused) as refused:
        party.hello(hello_of(other))
    assert refused.value.refusal.rule is Rule.VOTES
    with pytest.raises(Refused) as refused:
        party.vote(vote_request(other, queries()))
    assert refused.value.refusal.rule is Rule.PROMISE  # it never enrolled


def test_too_few_parties_in_a_sum_are_refused(cluster) -> None:
    made = cluster(policy={"least_parties": 6})
    with pytest.raises(Refused) as refused:
        hello(made)
    assert (refused.value.refusal.rule, refused.value.refusal.limit) == (Rule.LEAST_PARTIES, 6)


def test_another_roster_is_refused(cluster) -> None:
    made = cluster()
    (made.homes[1] / "roster.json").unlink()
    make_secure_elsewhere(made).roster.save(made.homes[1] / "roster.json")
    made.transport = FakeTransport(made.homes)
    with pytest.raises(Refused) as refused:
        hello(made, 1)
    assert refused.value.refusal.rule is Rule.ROSTER_MISMATCH


def make_secure_elsewhere(made: Cluster) -> SecureKeys:
    other = made.root / "other"
    other.mkdir()
    return make_secure(make_homes(other / "parties", PARTIES), other)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"sigma": 3.0}, Rule.PROMISE),  # less noise than was promised
        ({"noise_shares": 4}, Rule.PROMISE),
        ({"round": 2}, Rule.PROMISE),
        ({"teachers": 2}, Rule.PROMISE),
        ({"federation": "0" * 64}, Rule.PROMISE),
    ],
)
def test_the_terms_of_a_session_must_be_those_of_the_promise(cluster, changes, rule) -> None:
    made = cluster()
    made.ready()
    x, noise = queries(), made.config.sum_noises[0].drawn
    values = {"sigma": noise.sigma, "noise_shares": noise.shares, "round": 1, "teachers": 1, **changes}
    terms = MaskedTerms.of_queries(
        made.keys.roster, values.pop("federation", made.config.digest()), x, 2, values.pop("teachers"), **values
    )
    request = AdvertiseRequest(descriptor=terms.canonical(), signature=terms.sign(made.keys.signer))
    with pytest.raises(Refused) as refused:
        made.transport.parties[0].secure.advertise(request)
    assert refused.value.refusal.rule is rule


def test_secure_votes_are_counted_once_against_the_parties_own_limit(cluster) -> None:
    """Which they lowered since they enrolled: there, a federation that may ask more than it allows is refused."""
    made = cluster(policy={"most_queries": 1000})
    members = made.ready()
    for home in made.homes:
        edit(home / "party.toml", "most_queries = 1000", "most_queries = 50")
    made.transport = FakeTransport(made.homes)
    collector = made.collector(members)
    ask(collector, queries(40))
    with pytest.raises(ThresholdNotMet, match="masked"):
        ask(collector, queries(11, 9))
    ask(collector, queries(10, 10))


def test_another_promise_than_at_the_first_hello_is_refused(cluster) -> None:
    made = cluster()
    hello(made)
    made.config = made.config.model_copy(update={"mechanism": GNMax(sigma=5.0)})
    object.__setattr__(made.config, "digest", make_config(collection="secure", roster=made.keys.roster.digest).digest)
    with pytest.raises(Refused) as refused:
        hello(made)
    assert refused.value.refusal.rule is Rule.PROMISE


def test_keys_must_be_those_of_the_federation(cluster) -> None:
    made = cluster()
    with pytest.raises(ConfigError, match="the federation asks for"):
        make_secure_elsewhere(made).check(made.config)
    wide = made.config.model_copy(update={"noise_shares": 6})
    with pytest.raises(ConfigError, match="noise_shares 6 is above the 5 honest parties"):
        made.keys.check(wide)


def test_a_key_that_the_roster_does_not_list_is_refused(cluster) -> None:
    """It would sign under the roster of an open federation after the coordinator's keys changed."""
    made = cluster()
    made.keys.check(made.config)
    with pytest.raises(ConfigError, match="another key"):
        replace(made.keys, signer=Identity.generate()).check(made.config)


@pytest.mark.parametrize("colluders", [0, 1, 3])
def test_colluders_and_one_more_are_not_believed(colluders: int) -> None:
    """One more than collude may be a liar among them and an honest party that was lied to."""
    names = [f"p{place:02d}" for place in range(9)]
    accusers = {"few": {*names[: colluders + 1]}, "enough": {*names[: colluders + 2]}, "all": {*names}}
    assert believed(accusers, colluders) == ["enough", "all"]


@pytest.mark.parametrize("parties", [4, 9, 20])
def test_a_session_is_kept_as_long_as_as_many_remember_it_as_rebuild_a_secret(parties: int) -> None:
    least = least_rebuilders(parties, 0)
    kept = [over for over in range(parties + 1) if can_be_unmasked(parties, over, least)]
    assert kept == list(range(parties - least + 1))
